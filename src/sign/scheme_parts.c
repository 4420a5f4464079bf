/* scheme_parts.c - see scheme_parts.h. */
#include "sign/scheme_parts.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "base/codec.h"
#include "base/err.h"

void
scheme_secret_wipe(struct scheme_secret *s)
{
	OPENSSL_cleanse(s, sizeof(*s));
}

int
scheme_secret_read(struct http_text secret, enum sign_coding coding, const char *whose,
                   struct scheme_secret *ret, struct err *err)
{
	static const char *const names[] = { "text", "hex", "base64", "base64url" };
	int r = scheme_decode(coding, secret, ret->at, sizeof(ret->at), &ret->len);

	if (r == -ENOBUFS)
		return err_set(err, EFBIG, "%s secret is over %d bytes", whose, SCHEME_SECRET_MAX);
	if (r < 0)
		return err_set(err, EINVAL, "%s secret is not %s: add it again as the service "
		               "shows it", whose, names[coding]);
	if (ret->len == 0)
		return err_set(err, EINVAL, "%s secret is empty", whose);
	return 0;
}

struct http_text
scheme_text(const char *s)
{
	return (struct http_text){ s, strlen(s) };
}

struct http_text
scheme_text_of(const struct buf *b)
{
	return (struct http_text){ (const char *)b->data, b->len };
}

int
scheme_compare(struct http_text a, struct http_text b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int r = len > 0 ? memcmp(a.at, b.at, len) : 0;

	return r != 0 ? r : a.len < b.len ? -1 : a.len > b.len;
}

bool
scheme_same(struct http_text a, struct http_text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool
scheme_begins(struct http_text text, const char *with)
{
	size_t len = strlen(with);

	return text.len >= len && (len == 0 || memcmp(text.at, with, len) == 0);
}

bool
scheme_same_secret(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a_len == b_len && (a_len == 0 || CRYPTO_memcmp(a, b, a_len) == 0);
}

int
scheme_field_at(const struct http_head *head, const char *name)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (http_text_is(head->fields[i].name, name))
			return (int)i;
	return -1;
}

bool
scheme_is_form(const struct http_head *head)
{
	static const char form[] = "application/x-www-form-urlencoded";
	struct http_text type = http_head_get(head, "content-type");
	const char *end = type.len > 0 ? memchr(type.at, ';', type.len) : NULL;

	if (end != NULL)
		type.len = (size_t)(end - type.at);
	while (type.len > 0 && (type.at[type.len - 1] == ' ' || type.at[type.len - 1] == '\t'))
		type.len--;
	return http_text_is_nocase(type, form);
}

struct http_text
scheme_path_of(const struct http_head *head)
{
	const char *mark = memchr(head->path.at, '?', head->path.len);

	return (struct http_text){ head->path.at,
		mark == NULL ? head->path.len : (size_t)(mark - head->path.at) };
}

struct http_text
scheme_query_of(const struct http_head *head)
{
	const char *mark = memchr(head->path.at, '?', head->path.len);

	if (mark == NULL)
		return (struct http_text){ NULL, 0 };
	return (struct http_text){ mark + 1, head->path.len - (size_t)(mark + 1 - head->path.at) };
}

void
scheme_put_authority(struct buf *b, const struct http_head *head)
{
	scheme_put(b, head->host);
	if (head->port != (head->scheme == HTTP_TLS ? 443 : 80)) {
		buf_put_text(b, ":");
		buf_put_decimal(b, head->port);
	}
}

void
scheme_put(struct buf *b, struct http_text text)
{
	if (text.len > 0)
		buf_put(b, text.at, text.len);
}

void
scheme_put_coded(struct buf *b, enum sign_coding coding, const void *data, size_t len)
{
	enum codec_base64 form = coding == SIGN_BASE64 ? CODEC_BASE64 : CODEC_BASE64URL;
	size_t room = coding == SIGN_HEX ? 2 * len : CODEC_BASE64_LEN(len);
	unsigned char *to;

	if (coding == SIGN_RAW) {
		buf_put(b, data, len);
		return;
	}
	to = buf_add(b, room);
	if (to != NULL && coding == SIGN_HEX)
		codec_hex_digits(data, len, (char *)to);
	else if (to != NULL)
		b->len -= room - codec_base64_digits(form, data, len, (char *)to);
}

void
scheme_put_encoded(struct buf *b, struct http_text text)
{
	char coded[3];

	for (size_t i = 0; i < text.len; i++)
		buf_put(b, coded, codec_percent((unsigned char)text.at[i], coded));
}

/* Decode the next character of TEXT from *POS on. */
static char
next_decoded(struct http_text text, size_t *pos, bool plus)
{
	int byte = codec_percent_byte(text.at + *pos, text.len - *pos);
	char c = text.at[*pos];

	*pos += byte < 0 ? 1 : 3;
	return byte >= 0 ? (char)byte : c == '+' && plus ? ' ' : c;
}

void
scheme_put_decoded(struct buf *b, struct http_text text, bool plus)
{
	for (size_t i = 0; i < text.len;) {
		char c = next_decoded(text, &i, plus);

		buf_put(b, &c, 1);
	}
}

int
scheme_decode(enum sign_coding coding, struct http_text text, unsigned char *out,
              size_t size, size_t *ret_len)
{
	size_t len = coding == SIGN_HEX ? text.len / 2 : text.len;

	if (coding == SIGN_BASE64 || coding == SIGN_BASE64URL)
		return codec_unbase64(coding == SIGN_BASE64 ? CODEC_BASE64 : CODEC_BASE64URL, text.at, text.len,
		                      out, size, ret_len);
	if (coding == SIGN_HEX && text.len % 2 != 0)
		return -EINVAL;
	if (len > size)
		return -ENOBUFS;
	if (coding == SIGN_HEX && !codec_unhex(text.at, out, len))
		return -EINVAL;
	if (coding == SIGN_RAW && len > 0)
		memcpy(out, text.at, len);
	*ret_len = len;
	return 0;
}

bool
scheme_param_next(struct http_text *rest, struct scheme_param *ret)
{
	while (rest->len > 0) {
		const char *end = memchr(rest->at, '&', rest->len), *equals;
		struct http_text whole = { rest->at,
			end == NULL ? rest->len : (size_t)(end - rest->at) };
		size_t step = whole.len + (end != NULL);

		rest->at += step;
		rest->len -= step;
		if (whole.len == 0)
			continue;
		equals = memchr(whole.at, '=', whole.len);
		ret->whole = whole;
		ret->name = whole;
		ret->value = (struct http_text){ whole.at + whole.len, 0 };
		if (equals != NULL) {
			ret->name.len = (size_t)(equals - whole.at);
			ret->value.at = equals + 1;
			ret->value.len = whole.len - ret->name.len - 1;
		}
		return true;
	}
	return false;
}

bool
scheme_param_is(struct http_text name, const char *want)
{
	for (size_t i = 0; i < name.len; want++) {
		if (*want == '\0' || next_decoded(name, &i, true) != *want)
			return false;
	}
	return *want == '\0';
}

bool
scheme_same_decoded(struct http_text coded, struct http_text text)
{
	size_t n = 0;

	for (size_t i = 0; i < coded.len; n++)
		if (n == text.len || next_decoded(coded, &i, false) != text.at[n])
			return false;
	return n == text.len;
}

bool
scheme_param_find(struct http_text text, const char *want, struct scheme_param *ret)
{
	while (scheme_param_next(&text, ret))
		if (scheme_param_is(ret->name, want))
			return true;
	return false;
}

void
scheme_splice(struct buf *b, struct http_text text, const struct scheme_cut *cuts, size_t n)
{
	const char *at = text.at, *end = text.at + text.len;

	for (size_t i = 0; i < n; i++) {
		scheme_put(b, (struct http_text){ at, (size_t)(cuts[i].at.at - at) });
		scheme_put(b, cuts[i].with);
		at = cuts[i].at.at + cuts[i].at.len;
	}
	scheme_put(b, (struct http_text){ at, (size_t)(end - at) });
}

int
scheme_keep(struct sign_memory *m, struct http_text text, struct http_text *ret_text,
            struct err *err)
{
	if (text.len > sizeof(m->at) - m->used)
		return err_set(err, EFBIG, "the signed request would be too long: its new parts "
		               "take over %d KiB", SIGN_MEMORY_MAX / 1024);
	if (text.len > 0)
		memcpy(m->at + m->used, text.at, text.len);
	*ret_text = (struct http_text){ m->at + m->used, text.len };
	m->used += text.len;
	return 0;
}

int
scheme_wrong(struct err *err, const char *scheme, const char *covers)
{
	return err_set(err, EKEYREJECTED, "the %s signature is not the placeholder's for this "
	               "request (it covers %s): sign what is sent, with the credential that "
	               "the cell was given", scheme, covers);
}

int
scheme_failed(struct err *err, const char *what)
{
	return err_set(err, ENOMEM, "cannot %s: out of memory, or refused by OpenSSL", what);
}

int
scheme_hmac(const EVP_MD *md, const struct scheme_secret *key, struct http_text message,
            unsigned char ret_mac[SIGN_DIGEST_MAX], size_t *ret_len, struct err *err)
{
	unsigned len = 0;

	if (HMAC(md, key->at, (int)key->len, (const unsigned char *)message.at, message.len,
	         ret_mac, &len) == NULL)
		return scheme_failed(err, "compute a signature");
	*ret_len = len;
	return 0;
}
