/* pg_login.c - see pg_login.h. */
#include "wire/pg_login.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"

#define HEADER 5                        /* type and length */
#define SCRAM_NAME "SCRAM-SHA-256"
#define SCRAM_PLUS_NAME "SCRAM-SHA-256-PLUS"
#define MD5_TEXT 32

enum auth { AUTH_OK = 0, AUTH_PASSWORD = 3, AUTH_MD5 = 5, AUTH_SASL = 10, AUTH_SASL_MORE = 11,
            AUTH_SASL_FINAL = 12 };

static uint32_t
get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void
pg_login_wipe(struct pg_login *l)
{
	OPENSSL_cleanse(&l->scram, sizeof(l->scram));
}

/* ---- authentication requests ---- */

static int
send_password(struct pg_login *l, struct buf *out, struct err *err)
{
	if (!l->is_private)
		return err_set(err, EPROTO, "the server wants the password as it is, and gets it only over "
		               "TLS");
	pg_put_message(out, 'p', l->password, strlen(l->password) + 1);
	l->told_password = true;
	l->step = PG_LOGIN_ANSWERED;
	return 0;
}

/* HEX is the hash of A and B, as text. */
static bool
hash(const void *a, size_t n_a, const void *b, size_t n_b, char hex[MD5_TEXT + 1])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;
	bool ok = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_md5(), NULL) == 1 &&
	          EVP_DigestUpdate(ctx, a, n_a) == 1 && EVP_DigestUpdate(ctx, b, n_b) == 1 &&
	          EVP_DigestFinal_ex(ctx, digest, &n) == 1 && n * 2 == MD5_TEXT;

	if (ok)
		codec_hex(digest, n, hex);
	EVP_MD_CTX_free(ctx);
	OPENSSL_cleanse(digest, sizeof(digest));
	return ok;
}

static int
send_md5(struct pg_login *l, const unsigned char *salt, size_t len, struct buf *out,
         struct err *err)
{
	char text[3 + MD5_TEXT + 1] = "md5";
	bool ok;

	if (len != 4)
		return err_set(err, EPROTO, "the server's salt is none");
	ok = hash(l->password, strlen(l->password), l->user, strlen(l->user), text + 3) &&
	     hash(text + 3, MD5_TEXT, salt, len, text + 3);
	if (ok)
		pg_put_message(out, 'p', text, sizeof(text));
	OPENSSL_cleanse(text, sizeof(text));
	l->step = PG_LOGIN_ANSWERED;
	return ok ? 0 : err_set(err, EPROTO, "the server wants a hash (MD5) that this machine's "
	                        "libraries do not compute");
}

/* NAMES is a list of NUL-terminated names, ended by a NUL. */
static bool
offers(const char *names, size_t len, const char *name)
{
	const char *end = names + len;

	while (names < end && *names != '\0') {
		size_t n = strnlen(names, (size_t)(end - names));

		if (n == strlen(name) && memcmp(names, name, n) == 0)
			return true;
		names += n + 1;
	}
	return false;
}

static int
begin_scram(struct pg_login *l, const char *names, size_t len, struct buf *out, struct err *err)
{
	struct scram_binding binding = { .header = "n,," };
	bool plus = l->binding.len > 0 && offers(names, len, SCRAM_PLUS_NAME);
	const char *name = plus ? SCRAM_PLUS_NAME : SCRAM_NAME;
	char text[SCRAM_MESSAGE_MAX], message[SCRAM_MESSAGE_MAX + 64];
	size_t n, n_name = strlen(name) + 1;

	if (!plus && !offers(names, len, SCRAM_NAME))
		return err_set(err, EPROTO, "the server wants a kind of login that is not known here");
	if (plus) {
		binding = l->binding;
		binding.header = "p=tls-server-end-point,,";
	} else if (l->binding.len > 0) {
		/* We could bind.  If someone removed the server's offer of binding, the server will
		 * notice. */
		binding.header = "y,,";
	}
	if (scram_first(&l->scram, &binding, "", l->nonce, text) < 0)
		return err_set(err, EPROTO, "the login is too long");
	n = strlen(text);
	memcpy(message, name, n_name);
	message[n_name] = (char)(n >> 24);
	message[n_name + 1] = (char)(n >> 16);
	message[n_name + 2] = (char)(n >> 8);
	message[n_name + 3] = (char)n;
	memcpy(message + n_name + 4, text, n);
	pg_put_message(out, 'p', message, n_name + 4 + n);
	l->step = PG_LOGIN_SCRAM;
	return 0;
}

static int
go_on_scram(struct pg_login *l, const char *server, size_t len, struct buf *out, struct err *err)
{
	char text[SCRAM_MESSAGE_MAX];
	int r = scram_final(&l->scram, l->password, server, len, text, err);

	if (r < 0)
		return -EPROTO;
	pg_put_message(out, 'p', text, strlen(text));
	l->step = PG_LOGIN_PROVED;
	return 0;
}

static int
check_scram(struct pg_login *l, const char *server, size_t len, struct err *err)
{
	if (scram_check(&l->scram, server, len, err) < 0)
		return -EPROTO;
	l->step = PG_LOGIN_CHECKED;
	return 0;
}

static int
take_auth(struct pg_login *l, const unsigned char *at, size_t len, struct buf *out,
          struct err *err)
{
	const char *text = (const char *)at + 4;
	uint32_t code;

	if (len < 4)
		return err_set(err, EPROTO, "the server's message is cut off");
	code = get_u32(at);
	len -= 4;
	if (code == AUTH_SASL_MORE && l->step == PG_LOGIN_SCRAM)
		return go_on_scram(l, text, len, out, err);
	if (code == AUTH_SASL_FINAL && l->step == PG_LOGIN_PROVED)
		return check_scram(l, text, len, err);
	/* In the middle of SCRAM the server still has to prove itself. */
	if (code == AUTH_OK && len == 0 && l->step != PG_LOGIN_SCRAM && l->step != PG_LOGIN_PROVED)
		return 1;
	if (l->step != PG_LOGIN_BEGINS)
		return err_set(err, EPROTO, "the server does not keep to the order of a login");
	switch (code) {
	case AUTH_PASSWORD:
		return send_password(l, out, err);
	case AUTH_MD5:
		return send_md5(l, at + 4, len, out, err);
	case AUTH_SASL:
		return begin_scram(l, text, len, out, err);
	default:
		return err_set(err, EPROTO, "the server wants a kind of login that is not known here");
	}
}

/* ---- messages ---- */

/* Take the text for people from an error: fields of a letter and a text. */
static int
take_error(struct pg_login *l, const char *at, size_t len)
{
	const char *end = at + len;
	size_t n;

	for (; at < end && *at != '\0'; at += n + 1) {
		n = strnlen(at, (size_t)(end - at));
		/* A server that got the plain password could repeat it here. */
		if (*at == 'M' && !l->told_password)
			snprintf(l->refusal, sizeof(l->refusal), "%.*s", (int)(n - 1), at + 1);
	}
	for (char *c = l->refusal; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	return -EACCES;
}

static int
take_message(struct pg_login *l, struct buf *out, struct err *err)
{
	const unsigned char *at = l->message + HEADER;
	size_t len = l->len - HEADER;

	if (++l->n_messages > PG_MESSAGES_MAX)
		return err_set(err, EPROTO, "the server does not come to an end");
	switch (l->message[0]) {
	case 'R':
		return take_auth(l, at, len, out, err);
	case 'E':
		return take_error(l, (const char *)at, len);
	case 'N':                       /* a notice */
	case 'v':                       /* options that it does not know: we send none */
		return 0;
	default:
		return err_set(err, EPROTO, "this is no Postgres server, or not version 3");
	}
}

int
pg_login_read(struct pg_login *l, const unsigned char *data, size_t len, size_t *ret_used,
              struct buf *out, struct err *err)
{
	size_t want, n;
	int r = 0;

	*ret_used = 0;
	while (r == 0 && *ret_used < len) {
		want = HEADER;
		if (l->len >= HEADER) {
			want = 1 + (size_t)get_u32(l->message + 1);
			if (want < HEADER || want > PG_MESSAGE_MAX)
				return err_set(err, EPROTO, "this is no Postgres server, or not version 3");
		}
		n = want - l->len < len - *ret_used ? want - l->len : len - *ret_used;
		memcpy(l->message + l->len, data + *ret_used, n);
		l->len += n;
		*ret_used += n;
		/* A message may be empty. */
		if (l->len >= HEADER && l->len == 1 + (size_t)get_u32(l->message + 1)) {
			r = take_message(l, out, err);
			l->len = 0;
		}
	}
	return r;
}
