/* scheme_pkey.c - see scheme_pkey.h. */
#include "sign/scheme_pkey.h"

#include <errno.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/err.h"
#include "base/own.h"

void
scheme_pkey_drop(struct scheme_pkey *key)
{
	EVP_PKEY_free(key->pkey);
	key->pkey = NULL;
	scheme_secret_wipe(&key->secret);
}

static bool
scheme_is_pem(struct http_text text)
{
	return text.len > 0 && memmem(text.at, text.len, "-----BEGIN ", 11) != NULL;
}

int
scheme_no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing, (void)arg;
	return -1;
}

static EVP_PKEY *
read_pem(struct http_text text, bool *ret_private)
{
	BIO *bio = BIO_new_mem_buf(text.at, (int)text.len);
	EVP_PKEY *key = NULL;

	if (bio == NULL)
		return NULL;
	key = PEM_read_bio_PrivateKey(bio, NULL, scheme_no_passphrase, NULL);
	*ret_private = key != NULL;
	if (key == NULL) {
		BIO_reset(bio);
		key = PEM_read_bio_PUBKEY(bio, NULL, scheme_no_passphrase, NULL);
	}
	BIO_free(bio);
	/* Later code must not take these errors for its own. */
	ERR_clear_error();
	return key;
}

static bool
key_fits(const struct scheme_algorithm *algorithm, const EVP_PKEY *key)
{
	char curve[64] = "";

	switch (algorithm->kind) {
	case SCHEME_RSA:
		return EVP_PKEY_is_a(key, "RSA");
	case SCHEME_PSS:
		return EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "RSA-PSS");
	case SCHEME_EC:
		return EVP_PKEY_is_a(key, "EC") &&
		       EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, curve,
		                                      sizeof(curve), NULL) == 1 &&
		       strcmp(curve, algorithm->curve) == 0;
	case SCHEME_ED:
		return EVP_PKEY_is_a(key, algorithm->curve);
	case SCHEME_HMAC:
		break;
	}
	return false;
}

int
scheme_pkey_read(const struct scheme_algorithm *algorithm, struct http_text text,
                 enum sign_coding coding, const char *whose, struct scheme_pkey *ret_key,
                 struct err *err)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};

	if (algorithm->kind == SCHEME_HMAC) {
		if (scheme_is_pem(text))
			return err_set(err, EKEYREJECTED, "%s key is a PEM key, and %s wants a shared "
			               "secret", whose, algorithm->name);
		return scheme_secret_read(text, coding, whose, &ret_key->secret, err);
	}
	if (text.len > SCHEME_PEM_MAX)
		return err_set(err, EFBIG, "%s key is over %d KiB", whose, SCHEME_PEM_MAX / 1024);
	key.pkey = read_pem(text, &key.is_private);
	if (key.pkey == NULL)
		return err_set(err, EINVAL, "%s key is no PEM key without a passphrase, and %s wants "
		               "one", whose, algorithm->name);
	if (!key_fits(algorithm, key.pkey))
		return err_set(err, EKEYREJECTED, "%s key is of another kind than %s wants", whose,
		               algorithm->name);
	*ret_key = key;
	key.pkey = NULL;
	return 0;
}

int
scheme_pkey_check(const struct scheme_algorithm *algorithms, size_t n, struct http_text secret,
                  struct err *err)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	const char *kind;

	if (!scheme_is_pem(secret))
		return 0;
	if (secret.len > SCHEME_PEM_MAX)
		return err_set(err, EFBIG, "the key is over %d KiB", SCHEME_PEM_MAX / 1024);
	key.pkey = read_pem(secret, &key.is_private);
	if (key.pkey == NULL || !key.is_private)
		return err_set(err, EINVAL, "the value is not a private key in PEM without a password");
	for (size_t i = 0; i < n; i++)
		if (key_fits(&algorithms[i], key.pkey))
			return 0;
	kind = EVP_PKEY_get0_type_name(key.pkey);
	return err_set(err, EKEYREJECTED, "no algorithm of this scheme signs with a key of this kind "
	               "(%s)", kind != NULL ? kind : "unknown");
}

static int
set_padding(const struct scheme_algorithm *algorithm, EVP_PKEY_CTX *ctx)
{
	if (algorithm->kind == SCHEME_RSA)
		return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1;
	if (algorithm->kind != SCHEME_PSS)
		return 1;
	return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
	       EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1;
}

/* r and s, each with its leading zeros, as DER. */
static int
der_of_halves(const struct scheme_algorithm *algorithm, const unsigned char *signature,
              size_t len, unsigned char *out, size_t size, size_t *ret_len)
{
	ECDSA_SIG *sig = ECDSA_SIG_new();
	BIGNUM *r = NULL, *s = NULL;
	unsigned char *at = out;
	int n = -1;

	if (len == 2 * algorithm->half) {
		r = BN_bin2bn(signature, (int)algorithm->half, NULL);
		s = BN_bin2bn(signature + algorithm->half, (int)algorithm->half, NULL);
	}
	if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
		n = i2d_ECDSA_SIG(sig, NULL);
		if (n > 0 && (size_t)n <= size)
			n = i2d_ECDSA_SIG(sig, &at);
	} else {
		BN_free(r);
		BN_free(s);
	}
	ECDSA_SIG_free(sig);
	*ret_len = n > 0 ? (size_t)n : 0;
	return n > 0 && (size_t)n <= size ? 0 : -EINVAL;
}

static int
halves_of_der(const struct scheme_algorithm *algorithm, unsigned char *signature, size_t *len)
{
	const unsigned char *at = signature;
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)*len);
	int half = (int)algorithm->half, ok = 0;

	if (sig != NULL)
		ok = BN_bn2binpad(ECDSA_SIG_get0_r(sig), signature, half) == half &&
		     BN_bn2binpad(ECDSA_SIG_get0_s(sig), signature + half, half) == half;
	ECDSA_SIG_free(sig);
	*len = 2 * algorithm->half;
	return ok ? 0 : -EINVAL;
}

static const EVP_MD *
md_of(const struct scheme_algorithm *algorithm)
{
	return algorithm->digest != NULL ? EVP_get_digestbyname(algorithm->digest) : NULL;
}

static void
free_ctx(EVP_MD_CTX **ctx)
{
	EVP_MD_CTX_free(*ctx);
	ERR_clear_error();
}

static int
verify_hmac(const struct scheme_algorithm *algorithm, const struct scheme_pkey *key,
            struct http_text message, const unsigned char *signature, size_t len,
            bool *ret_right, struct err *err)
{
	unsigned char mac[SIGN_DIGEST_MAX];
	size_t mac_len;
	int r = scheme_hmac(md_of(algorithm), &key->secret, message, mac, &mac_len, err);

	if (r == 0)
		*ret_right = scheme_same_secret(mac, mac_len, signature, len);
	return r;
}

int
scheme_pkey_verify(const struct scheme_algorithm *algorithm, const struct scheme_pkey *key,
                   struct http_text message, const unsigned char *signature, size_t len,
                   bool *ret_right, struct err *err)
{
	OWN(free_ctx) EVP_MD_CTX *ctx = NULL;
	unsigned char der[SIGN_DIGEST_MAX * 4];
	EVP_PKEY_CTX *pctx = NULL;

	if (algorithm->kind == SCHEME_HMAC)
		return verify_hmac(algorithm, key, message, signature, len, ret_right, err);
	if (algorithm->kind == SCHEME_EC) {
		if (der_of_halves(algorithm, signature, len, der, sizeof(der), &len) < 0) {
			*ret_right = false;
			return 0;
		}
		signature = der;
	}
	ctx = EVP_MD_CTX_new();
	if (ctx == NULL ||
	    EVP_DigestVerifyInit(ctx, &pctx, md_of(algorithm), NULL, key->pkey) != 1 ||
	    !set_padding(algorithm, pctx))
		return scheme_failed(err, "check a signature");
	*ret_right = EVP_DigestVerify(ctx, signature, len, (const unsigned char *)message.at,
	                              message.len) == 1;
	return 0;
}

int
scheme_pkey_sign(const struct scheme_algorithm *algorithm, const struct scheme_pkey *key,
                 struct http_text message, unsigned char ret_signature[SCHEME_SIGNATURE_MAX],
                 size_t *ret_len, struct err *err)
{
	OWN(free_ctx) EVP_MD_CTX *ctx = NULL;
	EVP_PKEY_CTX *pctx = NULL;
	size_t len = SCHEME_SIGNATURE_MAX;

	if (algorithm->kind == SCHEME_HMAC)
		return scheme_hmac(md_of(algorithm), &key->secret, message, ret_signature, ret_len, err);
	if (!key->is_private)
		return err_set(err, EKEYREJECTED, "the real key is a public key, which cannot sign: "
		               "add the private one");
	ctx = EVP_MD_CTX_new();
	if (ctx == NULL ||
	    EVP_DigestSignInit(ctx, &pctx, md_of(algorithm), NULL, key->pkey) != 1 ||
	    !set_padding(algorithm, pctx) ||
	    EVP_DigestSign(ctx, ret_signature, &len, (const unsigned char *)message.at,
	                   message.len) != 1 ||
	    (algorithm->kind == SCHEME_EC && halves_of_der(algorithm, ret_signature, &len) < 0))
		return err_set(err, EINVAL, "OpenSSL does not sign with the real key for %s: is it "
		               "long enough?", algorithm->name);
	*ret_len = len;
	return 0;
}
