/* sigv4a.c - derives SigV4A's P-256 key from a secret. */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/obj_mac.h>
#include <openssl/param_build.h>
#include <string.h>

#include "sign/sigv4.h"

#define COUNTER_MAX 254
#define POINT_LEN 65            /* uncompressed */

/* One step of NIST SP 800-108's counter mode: 32 bits of 1, label, 0, key id, the
 * counter, and 32 bits of the length, 256. */
static int
candidate(const char *label, const char *prefix, const struct sign_key *key,
          unsigned char counter, unsigned char ret_bytes[SIGV4_HASH_LEN])
{
	unsigned char input[4 + 32 + 1 + SIGV4_ID_MAX + 1 + 4];
	unsigned char secret[8 + SIGV4_SECRET_MAX];
	size_t n = 0, label_len = strlen(label), prefix_len = strlen(prefix);
	int r;

	if (label_len > 32 || prefix_len > 8 || key->id.len > SIGV4_ID_MAX ||
	    key->secret.len > SIGV4_SECRET_MAX)
		return -1;
	memcpy(input, "\0\0\0\1", 4);
	memcpy(input + (n += 4), label, label_len);
	input[n += label_len] = 0;
	if (key->id.len > 0)
		memcpy(input + n + 1, key->id.at, key->id.len);
	input[n += 1 + key->id.len] = counter;
	memcpy(input + ++n, "\0\0\1\0", 4);
	for (size_t i = 0; i < prefix_len; i++)
		secret[i] = (unsigned char)prefix[i];
	memcpy(secret + prefix_len, key->secret.at, key->secret.len);
	r = sigv4_hmac(secret, prefix_len + key->secret.len, input, n + 4, ret_bytes);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

static EVP_PKEY *
pkey_of(const BIGNUM *d, const unsigned char *point, size_t len)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *pkey = NULL;

	if (build != NULL && ctx != NULL &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, d) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, len) == 1)
		params = OSSL_PARAM_BLD_to_param(build);
	if (params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_KEYPAIR, params) != 1)
		pkey = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(ctx);
	return pkey;
}

/* The first candidate that is at most the group's order minus 2, plus 1. */
static bool
find_scalar(const char *label, const char *prefix, const struct sign_key *key,
            const EC_GROUP *group, BIGNUM *d, BIGNUM *limit)
{
	unsigned char bytes[SIGV4_HASH_LEN];
	bool found = false, ok;

	ok = BN_copy(limit, EC_GROUP_get0_order(group)) != NULL && BN_sub_word(limit, 2) == 1;
	for (int counter = 1; ok && !found && counter <= COUNTER_MAX; counter++) {
		ok = candidate(label, prefix, key, (unsigned char)counter, bytes) == 0 &&
			BN_bin2bn(bytes, sizeof(bytes), d) != NULL;
		found = ok && BN_cmp(d, limit) <= 0;
	}
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return found && BN_add_word(d, 1) == 1;
}

EVP_PKEY *
sigv4a_key(const char *label, const char *prefix, const struct sign_key *key)
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	EC_POINT *point = group == NULL ? NULL : EC_POINT_new(group);
	BIGNUM *d = BN_secure_new(), *limit = BN_new();
	unsigned char encoded[POINT_LEN];
	EVP_PKEY *pkey = NULL;

	if (d != NULL)
		BN_set_flags(d, BN_FLG_CONSTTIME);
	if (point != NULL && d != NULL && limit != NULL &&
	    find_scalar(label, prefix, key, group, d, limit) &&
	    EC_POINT_mul(group, point, d, NULL, NULL, NULL) == 1 &&
	    EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, encoded,
	                       sizeof(encoded), NULL) == sizeof(encoded))
		pkey = pkey_of(d, encoded, sizeof(encoded));
	BN_clear_free(d);
	BN_free(limit);
	EC_POINT_free(point);
	EC_GROUP_free(group);
	return pkey;
}
