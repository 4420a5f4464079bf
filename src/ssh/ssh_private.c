/* ssh_private.c - see ssh_private.h; OpenSSH's PROTOCOL.key describes the format. */
#include "ssh/ssh_private.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "ssh/ssh_key.h"
#include "ssh/ssh_wire.h"

#define MAGIC "openssh-key-v1"          /* and its NUL */
#define PADDING_MAX 255
#define SEED_LEN 32
#define RSA_PARTS 8

static int
malformed(struct err *err)
{
	return err_set(err, EINVAL, "the private key is damaged: its OpenSSH format cannot be read");
}

/* ---- the kinds ---- */

static EVP_PKEY *
make_key(const char *kind, OSSL_PARAM_BLD *build)
{
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *key = NULL;

	if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) != 1)
		key = NULL;
	OSSL_PARAM_free(params);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *
read_ed25519(struct http_text *rest)
{
	struct http_text public, both;

	if (!ssh_get_sized(rest, SEED_LEN, SEED_LEN, &public) ||
	    !ssh_get_sized(rest, 2 * SEED_LEN, 2 * SEED_LEN, &both) ||
	    memcmp(public.at, both.at + SEED_LEN, SEED_LEN) != 0)
		return NULL;
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)both.at,
	                                    SEED_LEN);
}

static BIGNUM *
number_of(struct http_text text)
{
	BIGNUM *n = BN_secure_new();

	return n == NULL ? NULL : BN_bin2bn((const unsigned char *)text.at, (int)text.len, n);
}

static EVP_PKEY *
read_ec(const char *ssh_name, const char *curve, struct http_text *rest)
{
	struct http_text name, point, scalar;
	OSSL_PARAM_BLD *build;
	EVP_PKEY *key = NULL;
	BIGNUM *d;

	if (!ssh_get_string(rest, &name) || !http_text_is(name, ssh_name) ||
	    !ssh_get_string(rest, &point) ||
	    !ssh_get_mpint(rest, &scalar))
		return NULL;
	build = OSSL_PARAM_BLD_new();
	d = number_of(scalar);
	if (build != NULL && d != NULL &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, curve, 0) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.at,
	                                     point.len) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, d) == 1)
		key = make_key("EC", build);
	OSSL_PARAM_BLD_free(build);
	BN_clear_free(d);
	return key;
}

/* n, e, d, 1/q mod p, p, q; then OpenSSL's further numbers: d mod p-1 and d mod q-1. */
static bool
read_rsa_parts(struct http_text *rest, BIGNUM *part[RSA_PARTS])
{
	BN_CTX *ctx = BN_CTX_secure_new();
	BIGNUM *less = BN_secure_new();
	struct http_text text;
	bool ok = ctx != NULL && less != NULL;

	for (size_t i = 0; ok && i < 6; i++) {
		ok = ssh_get_mpint(rest, &text);
		part[i] = ok ? number_of(text) : NULL;
		ok = part[i] != NULL;
	}
	for (size_t i = 6; ok && i < RSA_PARTS; i++) {
		part[i] = BN_secure_new();
		ok = part[i] != NULL && BN_num_bits(part[i - 2]) > 1 &&
		     BN_sub(less, part[i - 2], BN_value_one()) == 1 &&
		     BN_mod(part[i], part[2], less, ctx) == 1;
	}
	BN_clear_free(less);
	BN_CTX_free(ctx);
	return ok;
}

static EVP_PKEY *
read_rsa(struct http_text *rest)
{
	static const char *const names[RSA_PARTS] = {
		OSSL_PKEY_PARAM_RSA_N, OSSL_PKEY_PARAM_RSA_E, OSSL_PKEY_PARAM_RSA_D,
		OSSL_PKEY_PARAM_RSA_COEFFICIENT1, OSSL_PKEY_PARAM_RSA_FACTOR1,
		OSSL_PKEY_PARAM_RSA_FACTOR2, OSSL_PKEY_PARAM_RSA_EXPONENT1,
		OSSL_PKEY_PARAM_RSA_EXPONENT2,
	};
	BIGNUM *part[RSA_PARTS] = {0};
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	bool ok = build != NULL && read_rsa_parts(rest, part) &&
	          BN_num_bits(part[0]) <= SSH_RSA_MAX;
	EVP_PKEY *key = NULL;

	for (size_t i = 0; ok && i < RSA_PARTS; i++)
		ok = OSSL_PARAM_BLD_push_BN(build, names[i], part[i]) == 1;
	if (ok)
		key = make_key("RSA", build);
	OSSL_PARAM_BLD_free(build);
	for (size_t i = 0; i < RSA_PARTS; i++)
		BN_clear_free(part[i]);
	return key;
}

static EVP_PKEY *
read_kind(struct http_text type, struct http_text *rest)
{
	if (http_text_is(type, "ssh-ed25519"))
		return read_ed25519(rest);
	if (http_text_is(type, "ssh-rsa"))
		return read_rsa(rest);
	if (http_text_is(type, "ecdsa-sha2-nistp256"))
		return read_ec("nistp256", "prime256v1", rest);
	if (http_text_is(type, "ecdsa-sha2-nistp384"))
		return read_ec("nistp384", "secp384r1", rest);
	if (http_text_is(type, "ecdsa-sha2-nistp521"))
		return read_ec("nistp521", "secp521r1", rest);
	return NULL;
}

/* ---- the envelope ---- */

/* Bytes 1, 2, 3 ... fill the last block. */
static bool
is_padding(struct http_text rest)
{
	for (size_t i = 0; i < rest.len; i++)
		if ((unsigned char)rest.at[i] != (i + 1) % (PADDING_MAX + 1))
			return false;
	return rest.len <= PADDING_MAX;
}

/* The two halves must belong together, and the outer public key must be that of the inner one.
 * OpenSSL would also test RSA's factors for primality, which takes long and is not needed. */
static bool
is_of(const EVP_PKEY *key, struct http_text public)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, (EVP_PKEY *)(uintptr_t)key, NULL);
	OWN(buf_free) struct buf own = BUF(SSH_BLOB_MAX);
	bool ok = EVP_PKEY_is_a(key, "RSA") || (ctx != NULL && EVP_PKEY_pairwise_check(ctx) == 1);

	EVP_PKEY_CTX_free(ctx);
	return ok && ssh_key_put(&own, key, NULL) == 0 && own.len == public.len &&
	       memcmp(own.data, public.at, own.len) == 0;
}

static int
read_section(struct http_text section, struct http_text public, EVP_PKEY **ret_key,
             struct err *err)
{
	OWN(ssh_pkey_freep) EVP_PKEY *key = NULL;
	struct http_text type, comment;
	uint32_t first, second;

	if (!ssh_get_u32(&section, &first) || !ssh_get_u32(&section, &second) || first != second ||
	    !ssh_get_string(&section, &type))
		return malformed(err);
	if (!ssh_key_type_ok(type))
		return err_set(err, ENOTSUP, "keys of the kind '%.*s' cannot be used from a cell: use "
		               "Ed25519, ECDSA or RSA", type.len < 48 ? (int)type.len : 48, type.at);
	key = read_kind(type, &section);
	if (key == NULL || !ssh_get_string(&section, &comment) || !is_padding(section) ||
	    !is_of(key, public))
		return malformed(err);
	*ret_key = TAKE(key);
	return 0;
}

static int
read_openssh(struct http_text data, EVP_PKEY **ret_key, struct err *err)
{
	struct http_text cipher, kdf, options, public, section;
	uint32_t n;

	if (data.len < sizeof(MAGIC) || memcmp(data.at, MAGIC, sizeof(MAGIC)) != 0)
		return malformed(err);
	data.at += sizeof(MAGIC);
	data.len -= sizeof(MAGIC);
	if (!ssh_get_string(&data, &cipher) || !ssh_get_string(&data, &kdf) ||
	    !ssh_get_string(&data, &options) || !ssh_get_u32(&data, &n) || n != 1 ||
	    !ssh_get_string(&data, &public) || !ssh_get_string(&data, &section) || data.len != 0)
		return malformed(err);
	if (!http_text_is(cipher, "none") || !http_text_is(kdf, "none") || options.len != 0)
		return err_set(err, EKEYREJECTED, "the private key has a passphrase, for which nobody can "
		               "be asked later: give a copy without one (`ssh-keygen -p -N '' -f COPY`), "
		               "the vault seals it");
	return read_section(section, public, ret_key, err);
}

static int
no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing;
	*(bool *)arg = true;
	return -1;
}

static int
read_pem(BIO *in, EVP_PKEY **ret_key, struct err *err)
{
	bool asked = false;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, no_passphrase, &asked);

	ERR_clear_error();
	if (key != NULL) {
		*ret_key = key;
		return 0;
	}
	return asked ? err_set(err, EKEYREJECTED, "the private key has a passphrase, for which nobody "
	                       "can be asked later: give a copy without one (`openssl pkey`), the vault "
	                       "seals it")
	             : err_set(err, EINVAL, "this is no private key: give the file that `ssh-keygen` "
	                       "made, not the one that ends in .pub");
}

int
ssh_private_read(struct http_text text, EVP_PKEY **ret_key, struct err *err)
{
	static const char begin[] = "-----BEGIN OPENSSH PRIVATE KEY-----";
	unsigned char *data = NULL;
	char *name = NULL, *header = NULL;
	long len = 0;
	BIO *in;
	int r;

	if (text.len > SSH_PRIVATE_MAX)
		return err_set(err, EFBIG, "the private key is over %d KiB", SSH_PRIVATE_MAX / 1024);
	in = BIO_new_mem_buf(text.at, (int)text.len);
	if (in == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (memmem(text.at, text.len, begin, sizeof(begin) - 1) == NULL)
		r = read_pem(in, ret_key, err);
	else if (PEM_read_bio(in, &name, &header, &data, &len) != 1 || header[0] != '\0' ||
	         strcmp(name, "OPENSSH PRIVATE KEY") != 0)
		r = malformed(err);
	else
		r = read_openssh((struct http_text){ (char *)data, (size_t)len }, ret_key, err);
	ERR_clear_error();
	OPENSSL_free(name);
	OPENSSL_free(header);
	OPENSSL_clear_free(data, (size_t)len);
	BIO_free(in);
	return r;
}
