/* placeholder_key.c - makes private keys and certificates. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/scheme_pkey.h"
#include "vault/placeholder.h"

#define CURVE_MAX 64
#define YEARS (10 * 365)                /* days that a certificate lasts */

OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)
OWN_BY(bio_freep, BIO *, BIO_free)

/* Make a key by the name of the algorithm alone.  For all but RSA that is enough, and OpenSSL's key
 * reader takes milliseconds. */
static EVP_PKEY *
same_algorithm(const PKCS8_PRIV_KEY_INFO *real)
{
	const ASN1_OBJECT *algorithm, *curve;
	const X509_ALGOR *both;
	const void *value;
	int kind;

	if (PKCS8_pkey_get0(&algorithm, NULL, NULL, &both, real) != 1)
		return NULL;
	X509_ALGOR_get0(NULL, &kind, &value, both);
	curve = kind == V_ASN1_OBJECT ? value : NULL;
	switch (OBJ_obj2nid(algorithm)) {
	case NID_X9_62_id_ecPublicKey:
		return curve != NULL && OBJ_obj2nid(curve) != NID_undef ?
		       EVP_EC_gen(OBJ_nid2sn(OBJ_obj2nid(curve))) : NULL;
	case NID_ED25519:
	case NID_ED448:
		return EVP_PKEY_Q_keygen(NULL, NULL, OBJ_nid2sn(OBJ_obj2nid(algorithm)));
	default:
		return NULL;
	}
}

static EVP_PKEY *
same_quickly(const struct guard *real)
{
	OWN(bio_freep) BIO *in = BIO_new_mem_buf(real->at, (int)real->len);
	PKCS8_PRIV_KEY_INFO *info = in != NULL ? PEM_read_bio_PKCS8_PRIV_KEY_INFO(in, NULL, scheme_no_passphrase,
	                                                                          NULL) : NULL;
	EVP_PKEY *key = info != NULL ? same_algorithm(info) : NULL;

	PKCS8_PRIV_KEY_INFO_free(info);
	return key;
}

/* Without a digest: the real key's digest matters only to its signer. */
static EVP_PKEY *
pss_key(int bits)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA-PSS", NULL);
	EVP_PKEY *key = NULL;

	if (ctx == NULL || EVP_PKEY_keygen_init(ctx) != 1 ||
	    EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, bits) != 1 || EVP_PKEY_generate(ctx, &key) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *
same_kind(const EVP_PKEY *real)
{
	const char *type = EVP_PKEY_get0_type_name(real);
	char curve[CURVE_MAX];
	size_t len;
	int bits = EVP_PKEY_get_bits(real);

	if (type == NULL)
		return NULL;
	if (EVP_PKEY_is_a(real, "RSA"))
		return bits <= PLACEHOLDER_RSA_MAX ? EVP_RSA_gen((unsigned)bits) : NULL;
	if (EVP_PKEY_is_a(real, "RSA-PSS"))
		return bits <= PLACEHOLDER_RSA_MAX ? pss_key(bits) : NULL;
	if (EVP_PKEY_is_a(real, "EC"))
		return EVP_PKEY_get_group_name(real, curve, sizeof(curve), &len) == 1 ? EVP_EC_gen(curve) :
		       NULL;
	return EVP_PKEY_Q_keygen(NULL, NULL, type);
}

static X509 *
certify(EVP_PKEY *key)
{
	X509 *x = X509_new();
	X509_NAME *name = x != NULL ? X509_get_subject_name(x) : NULL;
	/* Ed25519 and similar keys have a digest of their own. */
	const EVP_MD *digest = EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "EC") ? EVP_sha256() :
	                                                                               NULL;

	if (name != NULL && X509_set_version(x, X509_VERSION_3) == 1 &&
	    ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"placeholder",
	                               -1, -1, 0) == 1 &&
	    X509_set_issuer_name(x, name) == 1 && X509_set_pubkey(x, key) == 1 &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -86400) != NULL &&
	    X509_time_adj_ex(X509_getm_notAfter(x), YEARS, 0, NULL) != NULL &&
	    X509_sign(x, key, digest) > 0)
		return x;
	X509_free(x);
	return NULL;
}

static int
put_certificate(BIO *out, EVP_PKEY *key)
{
	X509 *x = certify(key);
	int ok = x != NULL && PEM_write_bio_X509(out, x) == 1;

	X509_free(x);
	return ok;
}

static int
text_of(BIO *out, char **ret_text, struct err *err)
{
	char *at;
	long len = BIO_get_mem_data(out, &at);

	*ret_text = len > 0 ? strndup(at, (size_t)len) : NULL;
	return *ret_text != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static bool
has(const struct guard *text, const char *word)
{
	return memmem(text->at, text->len, word, strlen(word)) != NULL;
}

int
placeholder_mint_pem(const struct guard *real, char **ret_text, struct err *err)
{
	OWN(bio_freep) BIO *in = BIO_new_mem_buf(real->at, (int)real->len), *out = BIO_new(BIO_s_mem());
	OWN(pkey_freep) EVP_PKEY *old = NULL, *key = NULL;
	bool old_form = has(real, "-----BEGIN RSA PRIVATE KEY") || has(real, "-----BEGIN EC PRIVATE KEY");
	const char *first = memmem(real->at, real->len, "-----BEGIN ", 11);
	bool certificate = has(real, "-----BEGIN CERTIFICATE-----");
	bool certificate_first = first != NULL && strncmp(first + 11, "CERTIFICATE", 11) == 0;

	if (in == NULL || out == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (has(real, "-----BEGIN OPENSSH PRIVATE KEY"))
		return err_set(err, EINVAL, "a key of OpenSSH's is never in a cell: use the scheme ssh");
	key = same_quickly(real);
	old = key == NULL ? PEM_read_bio_PrivateKey(in, NULL, scheme_no_passphrase, NULL) : NULL;
	if (key == NULL && old == NULL)
		return err_set(err, EINVAL, "the value is not a private key in PEM without a password");
	key = key == NULL ? same_kind(old) : key;
	if (key == NULL)
		return err_set(err, EINVAL, "keys of this kind or size cannot be made here");
	if ((certificate && certificate_first && !put_certificate(out, key)) ||
	    (old_form ? PEM_write_bio_PrivateKey_traditional(out, key, NULL, NULL, 0, NULL, NULL)
	              : PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL)) != 1 ||
	    (certificate && !certificate_first && !put_certificate(out, key)))
		return err_set(err, EIO, "cannot write a key");
	return text_of(out, ret_text, err);
}

int
placeholder_check_pair(const struct guard *real, struct err *err)
{
	OWN(bio_freep) BIO *first = BIO_new_mem_buf(real->at, (int)real->len);
	OWN(bio_freep) BIO *again = BIO_new_mem_buf(real->at, (int)real->len);
	OWN(pkey_freep) EVP_PKEY *key = NULL;
	X509 *certificate;
	int r = 0;

	if (first == NULL || again == NULL)
		return err_set(err, ENOMEM, "out of memory");
	certificate = PEM_read_bio_X509(first, NULL, scheme_no_passphrase, NULL);
	key = PEM_read_bio_PrivateKey(again, NULL, scheme_no_passphrase, NULL);
	if (certificate == NULL || key == NULL)
		r = err_set(err, EINVAL, "the value is not a certificate and its private key in PEM, without "
		            "a password: `cat client.crt client.key`");
	else if (X509_check_private_key(certificate, key) != 1)
		r = err_set(err, EINVAL, "the private key is not that of the first certificate");
	X509_free(certificate);
	return r;
}

int
placeholder_mint_certificate(char **ret_text, struct err *err)
{
	OWN(bio_freep) BIO *out = BIO_new(BIO_s_mem());
	OWN(pkey_freep) EVP_PKEY *key = EVP_EC_gen("P-256");

	if (out == NULL || key == NULL || !put_certificate(out, key))
		return err_set(err, EIO, "cannot make a certificate");
	return text_of(out, ret_text, err);
}
