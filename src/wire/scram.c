/* scram.c - see scram.h. */
#include "wire/scram.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"

#define SALT_MAX 128
#define SIGNATURE_TEXT 44               /* 32 bytes in base64 */

/* ---- a server's first message ---- */

struct server_first {
	const char *nonce;
	size_t n_nonce;
	unsigned char salt[SALT_MAX];
	size_t n_salt;
	int iterations;
};

/* Take "X=..." up to the next comma, and advance *AT past it. */
static bool
take(const char **at, const char *end, char name, const char **ret_value, size_t *ret_len)
{
	const char *comma;

	if (end - *at < 2 || (*at)[0] != name || (*at)[1] != '=')
		return false;
	*ret_value = *at + 2;
	comma = memchr(*ret_value, ',', (size_t)(end - *ret_value));
	*ret_len = (size_t)((comma == NULL ? end : comma) - *ret_value);
	*at = comma == NULL ? end : comma + 1;
	return true;
}

static int
parse_iterations(const char *text, size_t len)
{
	int n = 0;

	if (len == 0 || len > 9 || text[0] == '0')
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		n = n * 10 + text[i] - '0';
	}
	return n;
}

static int
parse_first(const struct scram *s, const char *server, size_t len, struct server_first *f,
            struct err *err)
{
	const char *end = server + len, *nonce = s->bare + s->nonce_at, *salt, *count;
	size_t n_salt, n_count;

	if (!take(&server, end, 'r', &f->nonce, &f->n_nonce) ||
	    !take(&server, end, 's', &salt, &n_salt) || !take(&server, end, 'i', &count, &n_count))
		return err_set(err, EBADMSG, "the server's first message is no SCRAM");
	if (f->n_nonce <= strlen(nonce) || memcmp(f->nonce, nonce, strlen(nonce)) != 0)
		return err_set(err, EBADMSG, "the server answers another login");
	for (size_t i = 0; i < f->n_nonce; i++)
		if (f->nonce[i] <= ' ' || f->nonce[i] > '~')
			return err_set(err, EBADMSG, "the server's nonce is not text");
	if (codec_unbase64(CODEC_BASE64, salt, n_salt, f->salt, sizeof(f->salt), &f->n_salt) < 0)
		f->n_salt = 0;
	f->iterations = parse_iterations(count, n_count);
	if (f->n_salt == 0 || f->iterations <= 0)
		return err_set(err, EBADMSG, "the server's salt is none");
	if (f->iterations > SCRAM_ITERATIONS_MAX)
		return err_set(err, E2BIG, "the server wants %d iterations of a hash, and over %d are too "
		               "many", f->iterations, SCRAM_ITERATIONS_MAX);
	return 0;
}

/* ---- keys ---- */

static bool
sign(const unsigned char key[SCRAM_KEY_SIZE], const char *text, size_t len,
     unsigned char out[SCRAM_KEY_SIZE])
{
	unsigned int n = SCRAM_KEY_SIZE;

	return HMAC(EVP_sha256(), key, SCRAM_KEY_SIZE, (const unsigned char *)text, len, out,
	            &n) != NULL && n == SCRAM_KEY_SIZE;
}

/* Compute the proof for MESSAGE, and the server's expected signature. */
static bool
prove(struct scram *s, const char *password, const struct server_first *f, const char *message,
      unsigned char proof[SCRAM_KEY_SIZE])
{
	unsigned char salted[SCRAM_KEY_SIZE], key[SCRAM_KEY_SIZE], stored[SCRAM_KEY_SIZE];
	bool ok = PKCS5_PBKDF2_HMAC(password, (int)strlen(password), f->salt, (int)f->n_salt,
	                            f->iterations, EVP_sha256(), sizeof(salted), salted) == 1;

	ok = ok && sign(salted, "Client Key", 10, key) && SHA256(key, sizeof(key), stored) != NULL &&
	     sign(stored, message, strlen(message), proof);
	for (size_t i = 0; ok && i < SCRAM_KEY_SIZE; i++)
		proof[i] ^= key[i];
	ok = ok && sign(salted, "Server Key", 10, key) &&
	     sign(key, message, strlen(message), s->expected);
	OPENSSL_cleanse(salted, sizeof(salted));
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(stored, sizeof(stored));
	return ok;
}

/* ---- messages ---- */

int
scram_first(struct scram *s, const struct scram_binding *binding, const char *user,
            const char *nonce, char text[SCRAM_MESSAGE_MAX])
{
	int n = snprintf(s->bare, sizeof(s->bare), "n=%s,r=%s", user, nonce);

	s->binding = *binding;
	if (n < 0 || (size_t)n >= sizeof(s->bare))
		return -EMSGSIZE;
	s->nonce_at = (size_t)n - strlen(nonce);
	n = snprintf(text, SCRAM_MESSAGE_MAX, "%s%s", binding->header, s->bare);
	return n < 0 || n >= SCRAM_MESSAGE_MAX ? -EMSGSIZE : 0;
}

/* Write "c=...,r=...", without the proof. */
static int
write_final(const struct scram *s, const struct server_first *f, char text[SCRAM_MESSAGE_MAX])
{
	unsigned char bound[64 + SCRAM_BINDING_MAX];
	char coded[CODEC_BASE64_LEN(sizeof(bound)) + 1];
	size_t n = strlen(s->binding.header);
	int r;

	if (n + s->binding.len > sizeof(bound))
		return -EMSGSIZE;
	memcpy(bound, s->binding.header, n);
	memcpy(bound + n, s->binding.data, s->binding.len);
	codec_base64(CODEC_BASE64, bound, n + s->binding.len, coded);
	r = snprintf(text, SCRAM_MESSAGE_MAX - SIGNATURE_TEXT - 4, "c=%s,r=%.*s", coded,
	             (int)f->n_nonce, f->nonce);
	return r < 0 || r >= SCRAM_MESSAGE_MAX - SIGNATURE_TEXT - 4 ? -EMSGSIZE : r;
}

int
scram_final(struct scram *s, const char *password, const char *server, size_t len,
            char text[SCRAM_MESSAGE_MAX], struct err *err)
{
	char message[3 * SCRAM_MESSAGE_MAX];
	unsigned char proof[SCRAM_KEY_SIZE];
	char coded[SIGNATURE_TEXT + 1];
	struct server_first f = {0};
	int r = len < SCRAM_MESSAGE_MAX ? parse_first(s, server, len, &f, err) :
	        err_set(err, EBADMSG, "the server's first message is too long");
	int n = r < 0 ? r : write_final(s, &f, text);

	if (r < 0)
		return r;
	if (n < 0)
		return err_set(err, EBADMSG, "the server's first message is too long");
	snprintf(message, sizeof(message), "%s,%.*s,%s", s->bare, (int)len, server, text);
	if (!prove(s, password, &f, message, proof))
		return err_set(err, ENOMEM, "the login cannot be computed");
	codec_base64(CODEC_BASE64, proof, sizeof(proof), coded);
	snprintf(text + n, SCRAM_MESSAGE_MAX - (size_t)n, ",p=%s", coded);
	return 0;
}

int
scram_check(const struct scram *s, const char *server, size_t len, struct err *err)
{
	unsigned char signature[SCRAM_KEY_SIZE];
	const char *end = server + len, *value;
	size_t n;

	if (!take(&server, end, 'v', &value, &n) || n != SIGNATURE_TEXT ||
	    codec_unbase64(CODEC_BASE64, value, n, signature, sizeof(signature), &n) < 0 || n != SCRAM_KEY_SIZE ||
	    CRYPTO_memcmp(signature, s->expected, SCRAM_KEY_SIZE) != 0)
		return err_set(err, EBADMSG, "the server does not know the password");
	return 0;
}
