/* lend.c - see lend.h. */
#include "vault/lend.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "vault/seal.h"

#define FORMAT "cloister lends secrets, 1"
#define CLAIM_MAX 1024

OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)
OWN_BY(pkey_ctx_freep, EVP_PKEY_CTX *, EVP_PKEY_CTX_free)

static int
failed(struct err *err)
{
	return err_set(err, EIO, "OpenSSL cannot encrypt here");
}

int
lend_make_key(struct guard *ret_private, unsigned char ret_public[LEND_KEY], struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	OWN(guard_free) struct guard private = {0};
	size_t n = LEND_KEY, n_public = LEND_KEY;
	int r = guard_alloc(&private, LEND_KEY, err);

	if (r < 0)
		return r;
	if (pair == NULL || EVP_PKEY_get_raw_private_key(pair, (unsigned char *)private.at, &n) != 1 || n != LEND_KEY ||
	    EVP_PKEY_get_raw_public_key(pair, ret_public, &n_public) != 1 || n_public != LEND_KEY)
		return failed(err);
	private.len = LEND_KEY;
	*ret_private = guard_take(&private);
	return 0;
}

/* HKDF of what both sides get from the two keys, bound to both public halves. */
static int
derive(EVP_PKEY *own, const unsigned char their[LEND_KEY], const unsigned char one_off[LEND_KEY],
       const unsigned char to[LEND_KEY], struct guard *ret_key, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, their, LEND_KEY);
	OWN(pkey_ctx_freep) EVP_PKEY_CTX *c = own == NULL ? NULL : EVP_PKEY_CTX_new(own, NULL);
	OWN(guard_free) struct guard shared = {0}, key = {0};
	unsigned char salt[2 * LEND_KEY];
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *k = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	size_t n = LEND_KEY;
	int r = guard_alloc(&shared, LEND_KEY, err);

	r = r == 0 ? guard_alloc(&key, SEAL_KEY, err) : r;
	memcpy(salt, one_off, LEND_KEY);
	memcpy(salt + LEND_KEY, to, LEND_KEY);
	/* A public key of small order is refused: EVP_PKEY_derive() fails. */
	if (r == 0 && (peer == NULL || c == NULL || k == NULL || EVP_PKEY_derive_init(c) != 1 ||
	               EVP_PKEY_derive_set_peer(c, peer) != 1 ||
	               EVP_PKEY_derive(c, (unsigned char *)shared.at, &n) != 1 || n != LEND_KEY))
		r = err_set(err, EBADMSG, "the key for lent secrets is of no use");
	if (r == 0) {
		const OSSL_PARAM params[] = {
			OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){ "SHA256" }, 0),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, shared.at, LEND_KEY),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof(salt)),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (char[]){ FORMAT }, strlen(FORMAT)),
			OSSL_PARAM_END
		};

		if (EVP_KDF_derive(k, (unsigned char *)key.at, SEAL_KEY, params) != 1)
			r = failed(err);
	}
	EVP_KDF_CTX_free(k);
	EVP_KDF_free(kdf);
	if (r < 0)
		return r;
	key.len = SEAL_KEY;
	*ret_key = guard_take(&key);
	return 0;
}

static int
bind(struct buf *b, const struct lend_claim *claim, struct err *err)
{
	buf_put_str(b, FORMAT);
	lend_put_claim(b, claim);
	return buf_failed(b) ? err_set(err, E2BIG, "the claim of lent secrets is too large") : 0;
}

int
lend_close(const unsigned char to[LEND_KEY], const struct lend_claim *claim, const void *data, size_t len,
           struct buf *out, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *own = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	OWN(buf_free) struct buf known = BUF(CLAIM_MAX);
	OWN(guard_free) struct guard key = {0};
	unsigned char one_off[LEND_KEY];
	size_t n = LEND_KEY;
	int r = bind(&known, claim, err);

	if (r == 0 && (own == NULL || EVP_PKEY_get_raw_public_key(own, one_off, &n) != 1 || n != LEND_KEY))
		r = failed(err);
	r = r == 0 ? derive(own, to, one_off, to, &key, err) : r;
	if (r < 0)
		return r;
	buf_put(out, one_off, LEND_KEY);
	return seal_close(&key, known.data, known.len, data, len, out, err);
}

int
lend_open(const struct guard *private, const unsigned char public[LEND_KEY], const struct lend_claim *claim,
          const void *box, size_t len, struct guard *ret_data, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL,
	                                                             (const unsigned char *)private->at, private->len);
	OWN(buf_free) struct buf known = BUF(CLAIM_MAX);
	OWN(guard_free) struct guard key = {0};
	const unsigned char *one_off = box;
	int r = bind(&known, claim, err);

	if (r == 0 && len < LEND_KEY)
		r = err_set(err, EBADMSG, "what is sealed is cut short");
	r = r == 0 ? derive(own, one_off, one_off, public, &key, err) : r;
	return r < 0 ? r : seal_open(&key, known.data, known.len, one_off + LEND_KEY, len - LEND_KEY, ret_data, err);
}
