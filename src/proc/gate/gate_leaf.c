/* gate_leaf.c - makes certificates for the names that the cell connects to, signed by the cell's
 * own authority. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "http/http_head.h"
#include "proc/gate/gate_tls.h"
#include "tls/extension.h"

#define LEAF_BUCKETS 64
#define DAY_SECONDS 86400

struct leaf {
	char *host;
	X509 *certificate;
	time_t until;                   /* after this it is made again */
	struct leaf *next;              /* in its bucket */
	struct leaf *newer;             /* by age */
};

struct gate_leaves {
	X509 *authority;
	EVP_PKEY *authority_key;
	EVP_PKEY *key;                  /* one for all leaves */
	struct leaf *buckets[LEAF_BUCKETS];
	struct leaf *oldest, *newest;
	size_t n;
};

int
gate_leaves_new(X509 *authority, EVP_PKEY *authority_key, struct gate_leaves **ret_leaves,
                struct err *err)
{
	struct gate_leaves *leaves = calloc(1, sizeof(*leaves));

	if (leaves == NULL)
		return err_errno(err, "cannot make certificates");
	leaves->key = EVP_EC_gen("P-256");
	if (leaves->key == NULL) {
		free(leaves);
		return err_set(err, EIO, "cannot make a key");
	}
	X509_up_ref(authority);
	EVP_PKEY_up_ref(authority_key);
	leaves->authority = authority;
	leaves->authority_key = authority_key;
	*ret_leaves = leaves;
	return 0;
}

static void
leaf_free(struct leaf *leaf)
{
	X509_free(leaf->certificate);
	free(leaf->host);
	free(leaf);
}

void
gate_leaves_free(struct gate_leaves *leaves)
{
	struct leaf *leaf, *newer;

	if (leaves == NULL)
		return;
	for (leaf = leaves->oldest; leaf != NULL; leaf = newer) {
		newer = leaf->newer;
		leaf_free(leaf);
	}
	EVP_PKEY_free(leaves->key);
	EVP_PKEY_free(leaves->authority_key);
	X509_free(leaves->authority);
	free(leaves);
}

EVP_PKEY *
gate_leaves_key(const struct gate_leaves *leaves)
{
	return leaves->key;
}

/* ---- making a certificate ---- */

/* RFC 5280, 4.1.2.6 and 4.2.1.6: if a name is too long for a subject, the subject is empty, and the
 * alternative name is critical. */
static bool
leaf_name(X509 *leaf, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	char text[HTTP_HOST_MAX + 32];
	bool is_address = inet_pton(AF_INET, host, address) == 1 ||
	                  inet_pton(AF_INET6, host, address) == 1;
	bool fits = strlen(host) <= 64;

	if (fits && X509_NAME_add_entry_by_txt(X509_get_subject_name(leaf), "CN",
	            MBSTRING_ASC, (const unsigned char *)host, -1, -1, 0) != 1)
		return false;
	snprintf(text, sizeof(text), "%s%s:%s", fits ? "" : "critical,",
	         is_address ? "IP" : "DNS", host);
	return tls_add_extension(leaf, NULL, NID_subject_alt_name, text);
}

static bool
leaf_set_serial(X509 *leaf)
{
	unsigned char random[16];
	BIGNUM *serial;
	bool ok;

	if (RAND_bytes(random, sizeof(random)) != 1)
		return false;
	random[0] = (random[0] & 0x7f) | 0x40;
	serial = BN_bin2bn(random, sizeof(random), NULL);
	ok = serial != NULL && BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(leaf)) != NULL;
	BN_free(serial);
	return ok;
}

/* Its validity must lie within that of the authority. */
static bool
leaf_set_time(const struct gate_leaves *leaves, X509 *leaf)
{
	const ASN1_TIME *from = X509_get0_notBefore(leaves->authority);
	const ASN1_TIME *until = X509_get0_notAfter(leaves->authority);

	if (X509_time_adj_ex(X509_getm_notBefore(leaf), -GATE_LEAF_BACKDATED_DAYS, 0, NULL) == NULL ||
	    X509_time_adj_ex(X509_getm_notAfter(leaf), GATE_LEAF_DAYS, 0, NULL) == NULL)
		return false;
	if (ASN1_TIME_compare(X509_get0_notBefore(leaf), from) < 0 &&
	    X509_set1_notBefore(leaf, from) != 1)
		return false;
	return ASN1_TIME_compare(X509_get0_notAfter(leaf), until) <= 0 ||
	       X509_set1_notAfter(leaf, until) == 1;
}

static X509 *
leaf_make(const struct gate_leaves *leaves, const char *host)
{
	X509 *leaf = X509_new(), *ca = leaves->authority;

	/* Strict verifiers require the key identifiers. */
	if (leaf != NULL && X509_set_version(leaf, X509_VERSION_3) == 1 && leaf_set_serial(leaf) &&
	    leaf_set_time(leaves, leaf) &&
	    X509_set_issuer_name(leaf, X509_get_subject_name(ca)) == 1 &&
	    X509_set_pubkey(leaf, leaves->key) == 1 && leaf_name(leaf, host) &&
	    tls_add_extension(leaf, ca, NID_basic_constraints, "critical,CA:FALSE") &&
	    tls_add_extension(leaf, ca, NID_key_usage, "critical,digitalSignature") &&
	    tls_add_extension(leaf, ca, NID_ext_key_usage, "serverAuth") &&
	    tls_add_extension(leaf, ca, NID_subject_key_identifier, "hash") &&
	    tls_add_extension(leaf, ca, NID_authority_key_identifier, "keyid:always") &&
	    X509_sign(leaf, leaves->authority_key, EVP_sha256()) != 0)
		return leaf;
	ERR_clear_error();
	X509_free(leaf);
	return NULL;
}

/* ---- the cache ---- */

static struct leaf **
leaves_bucket(struct gate_leaves *leaves, const char *host)
{
	uint32_t h = 2166136261u;       /* FNV-1a */

	for (; *host != '\0'; host++)
		h = (h ^ (unsigned char)*host) * 16777619u;
	return &leaves->buckets[h % LEAF_BUCKETS];
}

static void
leaves_drop_oldest(struct gate_leaves *leaves)
{
	struct leaf *leaf = leaves->oldest, **at = leaves_bucket(leaves, leaf->host);

	while (*at != leaf)
		at = &(*at)->next;
	*at = leaf->next;
	leaves->oldest = leaf->newer;
	if (leaves->oldest == NULL)
		leaves->newest = NULL;
	leaves->n--;
	leaf_free(leaf);
}

static struct leaf *
leaves_add(struct gate_leaves *leaves, const char *host)
{
	struct leaf *leaf = calloc(1, sizeof(*leaf)), **bucket = leaves_bucket(leaves, host);

	if (leaf == NULL)
		return NULL;
	leaf->host = strdup(host);
	leaf->certificate = leaf->host == NULL ? NULL : leaf_make(leaves, host);
	if (leaf->certificate == NULL) {
		leaf_free(leaf);
		return NULL;
	}
	if (leaves->n == GATE_LEAVES_MAX)
		leaves_drop_oldest(leaves);
	leaf->until = time(NULL) + (time_t)GATE_LEAF_DAYS / 2 * DAY_SECONDS;
	leaf->next = *bucket;
	*bucket = leaf;
	if (leaves->newest != NULL)
		leaves->newest->newer = leaf;
	else
		leaves->oldest = leaf;
	leaves->newest = leaf;
	leaves->n++;
	return leaf;
}

X509 *
gate_leaves_get(struct gate_leaves *leaves, const char *host)
{
	struct leaf *leaf = *leaves_bucket(leaves, host);

	/* An expired certificate stays behind its successor until its turn comes. */
	while (leaf != NULL && (strcmp(leaf->host, host) != 0 || leaf->until < time(NULL)))
		leaf = leaf->next;
	if (leaf == NULL)
		leaf = leaves_add(leaves, host);
	return leaf == NULL ? NULL : leaf->certificate;
}
