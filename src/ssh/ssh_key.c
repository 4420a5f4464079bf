/* ssh_key.c - see ssh_key.h. */
#include "ssh/ssh_key.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/scheme_pkey.h"

#define POINT_MAX 133                   /* uncompressed, on the largest curve */
#define ED25519_LEN 32

static const struct scheme_algorithm algorithms[] = {
	{ "ssh-ed25519", SCHEME_ED, NULL, "ED25519", 0 },
	{ "ecdsa-sha2-nistp256", SCHEME_EC, "SHA256", "prime256v1", 32 },
	{ "ecdsa-sha2-nistp384", SCHEME_EC, "SHA384", "secp384r1", 48 },
	{ "ecdsa-sha2-nistp521", SCHEME_EC, "SHA512", "secp521r1", 66 },
	{ "rsa-sha2-512", SCHEME_RSA, "SHA512", NULL, 0 },
	{ "rsa-sha2-256", SCHEME_RSA, "SHA256", NULL, 0 },
};
#define RSA "ssh-rsa"                   /* the type of the key; as an algorithm it would be SHA-1 */
#define CURVE_PREFIX "ecdsa-sha2-"

static const struct scheme_algorithm *
find_algorithm(struct http_text name)
{
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++)
		if (http_text_is(name, algorithms[i].name))
			return &algorithms[i];
	return NULL;
}

/* The algorithm for a key's type; for RSA, either of the two. */
static const struct scheme_algorithm *
find_type(struct http_text type)
{
	const struct scheme_algorithm *a = http_text_is(type, RSA) ? &algorithms[4] :
	                                                              find_algorithm(type);

	return a != NULL && (a->kind != SCHEME_RSA || http_text_is(type, RSA)) ? a : NULL;
}

bool
ssh_key_type_ok(struct http_text type)
{
	return find_type(type) != NULL;
}

/* ---- public keys ---- */

OWN_BY(params_freep, OSSL_PARAM *, OSSL_PARAM_free)
OWN_BY(build_freep, OSSL_PARAM_BLD *, OSSL_PARAM_BLD_free)

static EVP_PKEY *
from_params(const char *kind, OSSL_PARAM_BLD *build)
{
	OWN(params_freep) OSSL_PARAM *params = build == NULL ? NULL : OSSL_PARAM_BLD_to_param(build);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *key = NULL;

	if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *
read_rsa(struct http_text *rest)
{
	OWN(build_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	struct http_text e, n;
	BIGNUM *be = NULL, *bn = NULL;
	EVP_PKEY *key = NULL;

	if (!ssh_get_mpint(rest, &e) || !ssh_get_mpint(rest, &n) || e.len > 8 ||
	    8 * n.len < SSH_RSA_MIN || 8 * n.len > SSH_RSA_MAX)
		return NULL;
	be = BN_bin2bn((const unsigned char *)e.at, (int)e.len, NULL);
	bn = BN_bin2bn((const unsigned char *)n.at, (int)n.len, NULL);
	if (build != NULL && be != NULL && bn != NULL &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, bn) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, be) == 1)
		key = from_params("RSA", build);
	BN_free(be);
	BN_free(bn);
	return key;
}

static EVP_PKEY *
read_ec(const struct scheme_algorithm *a, struct http_text *rest)
{
	OWN(build_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	struct http_text curve, point;

	if (!ssh_get_string(rest, &curve) ||
	    !http_text_is(curve, a->name + sizeof(CURVE_PREFIX) - 1) ||
	    !ssh_get_string(rest, &point) || point.len != 1 + 2 * a->half || point.at[0] != 4 ||
	    build == NULL ||
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, a->curve, 0) != 1 ||
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.at,
	                                     point.len) != 1)
		return NULL;
	return from_params("EC", build);
}

static EVP_PKEY *
read_ed25519(struct http_text *rest)
{
	struct http_text key;

	if (!ssh_get_sized(rest, ED25519_LEN, ED25519_LEN, &key))
		return NULL;
	return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)key.at,
	                                   key.len);
}

/* Read BLOB, which must be exactly one key; *ret_algorithm is for its type.  NULL: it is invalid. */
static EVP_PKEY *
read_public(struct http_text blob, const struct scheme_algorithm **ret_algorithm)
{
	const struct scheme_algorithm *a;
	struct http_text type;
	EVP_PKEY *key = NULL;

	if (blob.len > SSH_BLOB_MAX || !ssh_get_string(&blob, &type) ||
	    (a = find_type(type)) == NULL)
		return NULL;
	if (a->kind == SCHEME_RSA)
		key = read_rsa(&blob);
	else if (a->kind == SCHEME_EC)
		key = read_ec(a, &blob);
	else
		key = read_ed25519(&blob);
	ERR_clear_error();
	if (key != NULL && blob.len != 0) {
		EVP_PKEY_free(key);
		return NULL;
	}
	*ret_algorithm = a;
	return key;
}

bool
ssh_key_ok(struct http_text blob)
{
	const struct scheme_algorithm *a;
	EVP_PKEY *key = read_public(blob, &a);

	EVP_PKEY_free(key);
	return key != NULL;
}

static void
put_number(struct buf *b, const EVP_PKEY *key, const char *name)
{
	unsigned char bytes[SSH_RSA_MAX / 8];
	BIGNUM *n = NULL;
	int len = 0;

	if (EVP_PKEY_get_bn_param(key, name, &n) == 1 && BN_num_bytes(n) <= (int)sizeof(bytes))
		len = BN_bn2bin(n, bytes);
	BN_free(n);
	ssh_put_mpint(b, (struct http_text){ (char *)bytes, (size_t)len });
}

static int
put_ec(struct buf *b, const EVP_PKEY *key)
{
	unsigned char point[POINT_MAX];
	char curve[64] = "";
	size_t len = 0;

	if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, curve, sizeof(curve),
	                                   NULL) != 1 ||
	    EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
	                                    &len) != 1)
		return -ENOTSUP;
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		if (algorithms[i].kind != SCHEME_EC || strcmp(algorithms[i].curve, curve) != 0 ||
		    len != 1 + 2 * algorithms[i].half)
			continue;
		ssh_put_str(b, algorithms[i].name);
		ssh_put_str(b, algorithms[i].name + sizeof(CURVE_PREFIX) - 1);
		ssh_put_string(b, (struct http_text){ (char *)point, len });
		return 0;
	}
	return -ENOTSUP;
}

int
ssh_key_put(struct buf *b, const EVP_PKEY *key, struct err *err)
{
	unsigned char raw[ED25519_LEN];
	size_t len = sizeof(raw);
	int r = -ENOTSUP, bits = EVP_PKEY_get_bits(key);

	if (EVP_PKEY_is_a(key, "ED25519") && EVP_PKEY_get_raw_public_key(key, raw, &len) == 1) {
		ssh_put_str(b, "ssh-ed25519");
		ssh_put_string(b, (struct http_text){ (char *)raw, len });
		r = 0;
	} else if (EVP_PKEY_is_a(key, "EC")) {
		r = put_ec(b, key);
	} else if (EVP_PKEY_is_a(key, "RSA") && bits >= SSH_RSA_MIN && bits <= SSH_RSA_MAX) {
		ssh_put_str(b, RSA);
		put_number(b, key, OSSL_PKEY_PARAM_RSA_E);
		put_number(b, key, OSSL_PKEY_PARAM_RSA_N);
		r = 0;
	}
	ERR_clear_error();
	return r == 0 ? 0 : err_set(err, ENOTSUP, "the key is of a kind or size that SSH is not used "
	                            "with: Ed25519, ECDSA on P-256, P-384 or P-521, or RSA");
}

void
ssh_key_print(struct http_text blob, char ret_text[SSH_PRINT_MAX])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf b = BUF(SSH_PRINT_MAX);

	SHA256((const unsigned char *)blob.at, blob.len, digest);
	buf_put(&b, "SHA256:", 7);
	scheme_put_coded(&b, SIGN_BASE64, digest, sizeof(digest));
	snprintf(ret_text, SSH_PRINT_MAX, "%.*s", (int)b.len - 1, (const char *)b.data);
	buf_free(&b);
}

/* ---- keys as lines ---- */

/* The next word of *REST. */
static struct http_text
next_word(struct http_text *rest)
{
	struct http_text word;

	while (rest->len > 0 && (rest->at[0] == ' ' || rest->at[0] == '\t')) {
		rest->at++;
		rest->len--;
	}
	word = (struct http_text){ rest->at, 0 };
	while (word.len < rest->len && rest->at[word.len] != ' ' && rest->at[word.len] != '\t')
		word.len++;
	rest->at += word.len;
	rest->len -= word.len;
	return word;
}

int
ssh_key_parse(struct http_text line, struct buf *ret_blob)
{
	struct http_text type = next_word(&line), coded = next_word(&line), inner, blob, rest;
	unsigned char *at = buf_add(ret_blob, SSH_BLOB_MAX);
	size_t len = 0;

	if (at == NULL)
		return -ENOMEM;
	ret_blob->len -= SSH_BLOB_MAX;
	if (scheme_decode(SIGN_BASE64, coded, at, SSH_BLOB_MAX, &len) < 0)
		return -EINVAL;
	rest = blob = (struct http_text){ (char *)at, len };
	if (!ssh_get_string(&rest, &inner) || !scheme_same(inner, type) || !ssh_key_ok(blob))
		return -EINVAL;
	ret_blob->len += len;
	return 0;
}

void
ssh_key_put_line(struct buf *b, struct http_text blob)
{
	struct http_text rest = blob, type = {0};

	(void)ssh_get_string(&rest, &type);
	scheme_put(b, type);
	buf_put_text(b, " ");
	scheme_put_coded(b, SIGN_BASE64, blob.at, blob.len);
}

/* ---- signatures ---- */

/* Convert two numbers to halves of a fixed size. */
static bool
read_halves(struct http_text value, size_t half, unsigned char *out)
{
	struct http_text r, s;

	if (!ssh_get_mpint(&value, &r) || !ssh_get_mpint(&value, &s) || value.len != 0 ||
	    r.len > half || s.len > half)
		return false;
	memset(out, 0, 2 * half);
	memcpy(out + half - r.len, r.at, r.len);
	memcpy(out + 2 * half - s.len, s.at, s.len);
	return true;
}

bool
ssh_verify(struct http_text key, struct http_text message, struct http_text signature)
{
	const struct scheme_algorithm *of_key, *a;
	OWN(scheme_pkey_drop) struct scheme_pkey public = { .pkey = read_public(key, &of_key) };
	unsigned char halves[POINT_MAX];
	struct http_text name, value;
	bool right = false;

	if (public.pkey == NULL || !ssh_get_string(&signature, &name) ||
	    !ssh_get_string(&signature, &value) || signature.len != 0)
		return false;
	a = find_algorithm(name);
	if (a == NULL || a->kind != of_key->kind || (a->kind != SCHEME_RSA && a != of_key))
		return false;
	if (a->kind == SCHEME_EC) {
		if (!read_halves(value, a->half, halves))
			return false;
		value = (struct http_text){ (char *)halves, 2 * a->half };
	}
	return scheme_pkey_verify(a, &public, message, (const unsigned char *)value.at, value.len,
	                          &right, NULL) == 0 && right;
}

int
ssh_sign(struct http_text pem, const char *algorithm, struct http_text message, struct buf *b,
         struct err *err)
{
	const struct scheme_algorithm *a = find_algorithm(scheme_text(algorithm));
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	OWN(buf_free) struct buf value = BUF(SSH_BLOB_MAX);
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	size_t len;
	int r;

	if (a == NULL)
		return err_set(err, EINVAL, "there is no algorithm '%.32s'", algorithm);
	r = scheme_pkey_read(a, pem, SIGN_RAW, "the real", &key, err);
	r = r == 0 ? scheme_pkey_sign(a, &key, message, signature, &len, err) : r;
	if (r < 0)
		return r;
	if (a->kind == SCHEME_EC) {
		ssh_put_mpint(&value, (struct http_text){ (char *)signature, a->half });
		ssh_put_mpint(&value, (struct http_text){ (char *)signature + a->half, a->half });
	} else {
		buf_put(&value, signature, len);
	}
	ssh_put_str(b, a->name);
	ssh_put_string(b, scheme_text_of(&value));
	return buf_failed(b) ? err_set(err, EFBIG, "the signature is too large") : 0;
}
