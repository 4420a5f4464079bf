/* seal.c - see seal.h. */
#include "vault/seal.h"

#include <errno.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#define NONCE 12
#define TAG 16
#define SCRYPT_R 8
#define SCRYPT_P 1

OWN_BY(cipher_freep, EVP_CIPHER_CTX *, EVP_CIPHER_CTX_free)    /* wipes it */

static int
failed(struct err *err)
{
	return err_set(err, EIO, "OpenSSL cannot encrypt here");
}

int
seal_random(void *at, size_t len, struct err *err)
{
	return len <= INT_MAX && RAND_bytes(at, (int)len) == 1 ? 0 :
	       err_set(err, EIO, "there are no random numbers");
}

int
seal_stretch(const struct guard *passphrase, const unsigned char salt[SEAL_SALT], unsigned cost,
             struct guard *ret_key, struct err *err)
{
	OWN(guard_free) struct guard key = {0};
	uint64_t n = UINT64_C(1) << cost;
	int r = guard_alloc(&key, SEAL_KEY, err);

	if (r < 0)
		return r;
	/* The memory limit only has to be above what N and r need. */
	if (cost < SEAL_COST_MIN || cost > SEAL_COST_MAX ||
	    EVP_PBE_scrypt(passphrase->at, passphrase->len, salt, SEAL_SALT, n, SCRYPT_R, SCRYPT_P,
	                   129 * SCRYPT_R * n + (1 << 20), (unsigned char *)key.at, SEAL_KEY) != 1)
		return err_set(err, ENOMEM, "cannot make a key of the passphrase: it takes %llu MiB of "
		               "memory", (unsigned long long)(128 * SCRYPT_R * n >> 20));
	key.len = SEAL_KEY;
	*ret_key = guard_take(&key);
	return 0;
}

int
seal_derive(const struct guard *key, const unsigned char salt[SEAL_SALT], const char *use,
            struct guard *ret_key, struct err *err)
{
	OWN(guard_free) struct guard out = {0};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *c = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){ "SHA256" }, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key->at, key->len),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt, SEAL_SALT),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)use, strlen(use)),
		OSSL_PARAM_END
	};
	int r = guard_alloc(&out, SEAL_KEY, err);

	if (r == 0 && (c == NULL || EVP_KDF_derive(c, (unsigned char *)out.at, SEAL_KEY, params) != 1))
		r = failed(err);
	EVP_KDF_CTX_free(c);
	EVP_KDF_free(kdf);
	if (r < 0)
		return r;
	out.len = SEAL_KEY;
	*ret_key = guard_take(&out);
	return 0;
}

int
seal_close(const struct guard *key, const void *known, size_t n_known, const void *data,
           size_t len, struct buf *out, struct err *err)
{
	OWN(cipher_freep) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	unsigned char *at = len <= INT_MAX - SEAL_EXTRA ? buf_add(out, len + SEAL_EXTRA) : NULL;
	int n, r;

	if (c == NULL || at == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = seal_random(at, NONCE, err);
	if (r < 0)
		return r;
	if (EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, (unsigned char *)key->at, at) != 1 ||
	    EVP_EncryptUpdate(c, NULL, &n, known, (int)n_known) != 1 ||
	    (len > 0 && EVP_EncryptUpdate(c, at + NONCE, &n, data, (int)len) != 1) ||
	    EVP_EncryptFinal_ex(c, at + NONCE + len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, at + NONCE + len) != 1)
		return failed(err);
	return 0;
}

int
seal_open(const struct guard *key, const void *known, size_t n_known, const void *sealed,
          size_t len, struct guard *ret_data, struct err *err)
{
	OWN(cipher_freep) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	OWN(guard_free) struct guard data = {0};
	const unsigned char *at = sealed;
	size_t inside = len - SEAL_EXTRA;
	unsigned char tag[TAG];
	int n, r;

	if (len < SEAL_EXTRA || inside > INT_MAX)
		return err_set(err, EBADMSG, "what is sealed is cut short");
	r = c != NULL ? guard_alloc(&data, inside, err) : err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	memcpy(tag, at + NONCE + inside, TAG);
	if (EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, (unsigned char *)key->at, at) != 1 ||
	    EVP_DecryptUpdate(c, NULL, &n, known, (int)n_known) != 1 ||
	    (inside > 0 && EVP_DecryptUpdate(c, (unsigned char *)data.at, &n, at + NONCE,
	                                     (int)inside) != 1) ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) != 1)
		return failed(err);
	if (EVP_DecryptFinal_ex(c, (unsigned char *)data.at + inside, &n) != 1)
		return err_set(err, EBADMSG, "what is sealed was changed, or is of another key");
	data.len = inside;
	*ret_data = guard_take(&data);
	return 0;
}

int
seal_print(const struct guard *key, const void *data, size_t len,
           unsigned char ret_print[SEAL_PRINT], struct err *err)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n;

	if (HMAC(EVP_sha256(), key->at, (int)key->len, data, len, digest, &n) == NULL)
		return failed(err);
	memcpy(ret_print, digest, SEAL_PRINT);
	OPENSSL_cleanse(digest, sizeof(digest));
	return 0;
}
