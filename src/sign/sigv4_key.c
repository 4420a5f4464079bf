/* sigv4_key.c - keys derived from a secret and a scope: sign and verify. */
#include <assert.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/scheme_pkey.h"
#include "sign/sigv4.h"

#define PREFIX_MAX 8
#define PEM_MAX (64 * 1024)

int
sigv4_hmac(const void *key, size_t key_len, const void *data, size_t len,
           unsigned char ret_mac[SIGV4_HASH_LEN])
{
	return HMAC(EVP_sha256(), key, (int)key_len, data, len, ret_mac, NULL) != NULL ? 0 : -EIO;
}

/* HMAC-SHA-256, reused with one key after the other: the lookup costs more than a short text. */
static EVP_MAC_CTX *
mac_new(void)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);

	EVP_MAC_free(mac);
	if (ctx != NULL && EVP_MAC_CTX_set_params(ctx, params) != 1) {
		EVP_MAC_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static int
mac_make(EVP_MAC_CTX *mac, const void *key, size_t key_len, const char *text, size_t len,
         unsigned char ret_mac[SIGV4_HASH_LEN])
{
	size_t made;

	return EVP_MAC_init(mac, key, key_len, NULL) == 1 &&
		EVP_MAC_update(mac, (const unsigned char *)text, len) == 1 &&
		EVP_MAC_final(mac, ret_mac, &made, SIGV4_HASH_LEN) == 1 ? 0 : -EIO;
}

/* Put the prefix before the secret, then compute one HMAC for each word of the scope. */
static int
derive(const struct sigv4_row *row, const struct sign_key *key, struct http_text scope,
       struct sigv4_key *ret_key)
{
	char first[PREFIX_MAX + SIGV4_SECRET_MAX];
	size_t prefix = strlen(row->prefix), len = prefix + key->secret.len;
	const char *at = scope.at, *end = at + scope.len, *next;
	const void *with = first;
	int r = 0;

	assert(prefix <= PREFIX_MAX);
	memcpy(first, row->prefix, prefix);
	memcpy(first + prefix, key->secret.at, key->secret.len);
	for (; at < end && r == 0; at = next + 1) {
		next = memchr(at, '/', (size_t)(end - at));
		if (next == NULL)
			next = end;
		r = mac_make(ret_key->mac, with, len, at, (size_t)(next - at), ret_key->hmac);
		with = ret_key->hmac;
		len = SIGV4_HASH_LEN;
	}
	ret_key->hmac_len = SIGV4_HASH_LEN;
	OPENSSL_cleanse(first, sizeof(first));
	return r;
}

static EVP_PKEY *
read_pem(struct http_text pem)
{
	EVP_PKEY *pkey = NULL;
	BIO *bio;

	if (pem.len > PEM_MAX)
		return NULL;
	bio = BIO_new_mem_buf(pem.at, (int)pem.len);
	if (bio != NULL)
		pkey = PEM_read_bio_PrivateKey(bio, NULL, scheme_no_passphrase, NULL);
	BIO_free(bio);
	if (pkey != NULL && !EVP_PKEY_is_a(pkey, "RSA")) {
		EVP_PKEY_free(pkey);
		pkey = NULL;
	}
	return pkey;
}

int
sigv4_key_open(const struct sigv4_row *row, const struct sign_key *key,
               struct http_text scope, struct sigv4_key *ret_key, struct err *err)
{
	struct sigv4_key k = { .crypt = row->crypt, .secret = key->secret };
	int r = 0;

	if (key->secret.len == 0 || (row->crypt != SIGV4_RSA && key->secret.len > SIGV4_SECRET_MAX))
		return err_set(err, EINVAL, "the secret for %s is empty or too long", row->label);
	switch (row->crypt) {
	case SIGV4_HMAC:
		k.mac = mac_new();
		if (k.mac == NULL)
			r = -ENOMEM;
		else if (row->n_scope > 0)
			r = derive(row, key, scope, &k);
		break;
	case SIGV4_P256:
		k.pkey = sigv4a_key(row->label, row->prefix, key);
		r = k.pkey == NULL ? -EIO : 0;
		break;
	case SIGV4_RSA:
		k.pkey = read_pem(key->secret);
		if (k.pkey == NULL)
			return err_set(err, EINVAL, "the secret for %s is not a private RSA key in PEM",
			               row->label);
		break;
	}
	if (r < 0) {
		sigv4_key_close(&k);
		return err_set(err, -r, "cannot make the signing key for %s", row->label);
	}
	*ret_key = k;
	OPENSSL_cleanse(k.hmac, sizeof(k.hmac));
	return 0;
}

void
sigv4_key_close(struct sigv4_key *key)
{
	OPENSSL_cleanse(key->hmac, sizeof(key->hmac));
	EVP_MAC_CTX_free(key->mac);
	EVP_PKEY_free(key->pkey);
	key->mac = NULL;
	key->pkey = NULL;
}

static int
mac_of(const struct sigv4_key *key, const char *text, size_t len,
       unsigned char ret_mac[SIGV4_HASH_LEN])
{
	if (key->hmac_len > 0)
		return mac_make(key->mac, key->hmac, key->hmac_len, text, len, ret_mac);
	return mac_make(key->mac, key->secret.at, key->secret.len, text, len, ret_mac);
}

OWN_BY(md_freep, EVP_MD_CTX *, EVP_MD_CTX_free)

int
sigv4_key_sign(const struct sigv4_key *key, const char *text, size_t len,
               char ret_hex[SIGV4_SIGNATURE_MAX], size_t *ret_len, struct err *err)
{
	OWN(md_freep) EVP_MD_CTX *md = NULL;
	unsigned char made[SIGV4_SIGNATURE_MAX / 2];
	size_t n = sizeof(made);

	if (key->crypt == SIGV4_HMAC) {
		n = SIGV4_HASH_LEN;
		if (mac_of(key, text, len, made) < 0)
			return err_set(err, EIO, "cannot sign the request: HMAC fails");
	} else {
		md = EVP_MD_CTX_new();
		if (md == NULL || EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key->pkey) != 1 ||
		    EVP_DigestSign(md, made, &n, (const unsigned char *)text, len) != 1)
			return err_set(err, EIO, "cannot sign the request: the private key fails");
	}
	codec_hex_digits(made, n, ret_hex);
	*ret_len = 2 * n;
	return 0;
}

bool
sigv4_key_fits(const struct sigv4_key *key, const char *text, size_t len,
               struct http_text signature)
{
	OWN(md_freep) EVP_MD_CTX *md = NULL;
	unsigned char given[SIGV4_SIGNATURE_MAX / 2], mac[SIGV4_HASH_LEN];
	bool fits;

	if (signature.len == 0 || signature.len > SIGV4_SIGNATURE_MAX ||
	    signature.len % 2 != 0 || !codec_unhex(signature.at, given, signature.len / 2))
		return false;
	if (key->crypt == SIGV4_HMAC) {
		fits = signature.len == SIGV4_HEX_LEN && mac_of(key, text, len, mac) == 0 &&
			CRYPTO_memcmp(given, mac, sizeof(mac)) == 0;
		OPENSSL_cleanse(mac, sizeof(mac));
		return fits;
	}
	md = EVP_MD_CTX_new();
	return md != NULL && EVP_DigestVerifyInit(md, NULL, EVP_sha256(), NULL, key->pkey) == 1 &&
		EVP_DigestVerify(md, given, signature.len / 2, (const unsigned char *)text, len) == 1;
}
