/* sigv4_canon.c - writes the canonical form of a request, and hashes it at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sigv4.h"

#define SHOWN_MAX 64            /* of a name in an error */

/* ---- characters ---------------------------------------------------------------------- */

/* Read the byte at *AT, and advance *AT. */
static unsigned char
next_byte(const char **at, const char *end, bool plus_is_space)
{
	int byte = codec_percent_byte(*at, (size_t)(end - *at));
	unsigned char c = (unsigned char)**at;

	*at += byte < 0 ? 1 : 3;
	return byte >= 0 ? (unsigned char)byte : c == '+' && plus_is_space ? ' ' : c;
}

/* ---- a hash with many small writes ------------------------------------------------------ */

struct sink {
	EVP_MD_CTX *md;
	size_t used;
	bool failed;
	char at[1024];
};

static void
sink_flush(struct sink *s)
{
	if (EVP_DigestUpdate(s->md, s->at, s->used) != 1)
		s->failed = true;
	s->used = 0;
}

static void
put(struct sink *s, const char *at, size_t len)
{
	if (len > sizeof(s->at) - s->used)
		sink_flush(s);
	if (len > sizeof(s->at)) {
		if (EVP_DigestUpdate(s->md, at, len) != 1)
			s->failed = true;
		return;
	}
	if (len > 0)
		memcpy(s->at + s->used, at, len);
	s->used += len;
}

static void
put_char(struct sink *s, char c)
{
	put(s, &c, 1);
}

static void
put_text(struct sink *s, struct http_text text)
{
	put(s, text.at, text.len);
}

static void
put_encoded(struct sink *s, unsigned char byte)
{
	char text[3];
	size_t n = codec_percent(byte, text);

	put(s, text, n);
}

/* ---- the path ------------------------------------------------------------------------- */

/* Decode and encode: a client may send characters unescaped that others escape.  An escaped slash
 * stays escaped, since no client signs it as a plain one. */
static void
put_path_once(struct sink *s, const char *at, const char *end)
{
	while (at < end) {
		unsigned char byte;

		if (*at == '/') {
			put_char(s, *at++);
			continue;
		}
		byte = next_byte(&at, end, false);
		put_encoded(s, byte);
	}
}

/* Merge slashes, unless the client does not, and encode the path on the wire again.  Dot segments
 * are already resolved in every canonical head. */
static void
put_path_twice(struct sink *s, const char *at, const char *end, bool slashes_as_is)
{
	for (const char *begin = at; at < end; at++) {
		if (*at != '/')
			put_encoded(s, (unsigned char)*at);
		else if (slashes_as_is || at == begin || at[-1] != '/')
			put_char(s, '/');
	}
}

static int
put_path(struct sink *s, const struct sigv4_canon *canon, struct err *err)
{
	struct http_text path = canon->head->path;
	const char *end;

	if (path.len == 0 || path.at[0] != '/')
		return err_set(err, EBADMSG, "the signed request has no path");
	end = memchr(path.at, '?', path.len);
	if (end == NULL)
		end = path.at + path.len;
	if (canon->once)
		put_path_once(s, path.at, end);
	else
		put_path_twice(s, path.at, end, (canon->ways & SIGV4_SLASHES_AS_IS) != 0);
	put_char(s, '\n');
	return 0;
}

/* ---- the query ------------------------------------------------------------------------- */

/* The order of encoded bytes: "%" sorts before all unescaped characters. */
static int
rank_of(unsigned char byte)
{
	return codec_is_unreserved(byte) ? 256 + byte : byte;
}

static int
compare_encoded(struct http_text a, struct http_text b, bool plus_is_space)
{
	const char *x = a.at, *x_end = x + a.len, *y = b.at, *y_end = y + b.len;

	while (x < x_end && y < y_end) {
		int p = rank_of(next_byte(&x, x_end, plus_is_space));
		int q = rank_of(next_byte(&y, y_end, plus_is_space));

		if (p != q)
			return p < q ? -1 : 1;
	}
	return (x < x_end) - (y < y_end);
}

static int
compare_params(const void *a, const void *b, void *plus_is_space)
{
	const struct sigv4_param *p = a, *q = b;
	int r = compare_encoded(p->name, q->name, *(bool *)plus_is_space);

	return r != 0 ? r : compare_encoded(p->value, q->value, *(bool *)plus_is_space);
}

static void
put_param_text(struct sink *s, struct http_text text, bool plus_is_space)
{
	const char *at = text.at, *end = at + text.len;

	while (at < end)
		put_encoded(s, next_byte(&at, end, plus_is_space));
}

static void
put_query(struct sink *s, const struct sigv4_canon *canon)
{
	struct sigv4_param sorted[SIGV4_PARAMS_MAX];
	bool plus_is_space = (canon->ways & SIGV4_PLUS_IS_SPACE) != 0;
	const struct sigv4_param *signature = NULL, *token = NULL;
	size_t n = 0;

	if ((canon->row->flags & SIGV4_RAW_QUERY) != 0) {
		struct http_text path = canon->head->path;
		const char *mark = memchr(path.at, '?', path.len);

		if (mark != NULL)
			put(s, mark + 1, (size_t)(path.at + path.len - mark) - 1);
		put_char(s, '\n');
		return;
	}
	if (canon->presigned)
		signature = sigv4_param_find(canon->row, canon->query, "Signature");
	if ((canon->ways & SIGV4_TOKEN_APART) != 0)
		token = sigv4_param_find(canon->row, canon->query, "Security-Token");
	for (size_t i = 0; i < canon->query->n; i++)
		if (&canon->query->params[i] != signature && &canon->query->params[i] != token)
			sorted[n++] = canon->query->params[i];
	if (n > 1)
		qsort_r(sorted, n, sizeof(sorted[0]), compare_params, &plus_is_space);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			put_char(s, '&');
		put_param_text(s, sorted[i].name, plus_is_space);
		put_char(s, '=');
		put_param_text(s, sorted[i].value, plus_is_space);
	}
	put_char(s, '\n');
}

/* ---- the fields ------------------------------------------------------------------------- */

/* Runs of blanks become one space; a canonical value has none at its ends. */
static void
put_value(struct sink *s, struct http_text value, bool lower)
{
	for (size_t i = 0; i < value.len; i++) {
		char c = value.at[i];

		if (c == '\t')
			c = ' ';
		if (c == ' ' && i > 0 && (value.at[i - 1] == ' ' || value.at[i - 1] == '\t'))
			continue;
		put_char(s, lower && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c);
	}
}

static int
put_field(struct sink *s, const struct sigv4_canon *canon, struct http_text name,
          struct err *err)
{
	bool lower = (canon->row->flags & SIGV4_LOWER_VALUES) != 0 &&
		(canon->ways & SIGV4_VALUES_AS_IS) == 0;
	struct http_text value;
	struct http_sent sent;
	bool found = false;

	put_text(s, name);
	put_char(s, ':');
	http_sent_begin(&sent, canon->head, name);
	for (; http_sent_next(&sent, &value); found = true) {
		if (found)
			put_char(s, ',');
		put_value(s, value, lower);
	}
	/* If this is signed, the request is sent by HTTP/1.1: see sign_memory's h1_only. */
	if (http_text_is(name, "transfer-encoding") && canon->head->length == HTTP_LENGTH_UNKNOWN) {
		put(s, "chunked", 7);
		found = true;
	}
	put_char(s, '\n');
	if (!found)
		return err_set(err, EBADMSG, "the signature covers the field '%.*s', which the request "
		               "does not have, or which is not sent on as it is",
		               (int)(name.len < SHOWN_MAX ? name.len : SHOWN_MAX), name.at);
	return 0;
}

static bool
is_field_name(struct http_text name)
{
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.at[i];

		if (c <= ' ' || c >= 0x7f || (c >= 'A' && c <= 'Z') || c == ':')
			return false;
	}
	return name.len > 0;
}

static int
put_fields(struct sink *s, const struct sigv4_canon *canon, struct err *err)
{
	const char *at = canon->fields.at, *end = at + canon->fields.len, *next;
	bool has_host = false;
	size_t n = 0;
	int r;

	for (; at <= end; at = next + 1) {
		struct http_text name;

		next = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
		if (next == NULL)
			next = end;
		name = (struct http_text){ at, (size_t)(next - at) };
		if (!is_field_name(name) || ++n > HTTP_FIELDS_MAX)
			return err_set(err, EBADMSG, "the signature's list of fields cannot be read");
		has_host |= http_text_is(name, "host");
		r = put_field(s, canon, name, err);
		if (r < 0)
			return r;
	}
	/* Never sign a request with a real key if it could be sent to any host. */
	if (!has_host)
		return err_set(err, EBADMSG, "the signature does not cover the field 'host'");
	put_char(s, '\n');
	put_text(s, canon->fields);
	put_char(s, '\n');
	return 0;
}

OWN_BY(md_freep, EVP_MD_CTX *, EVP_MD_CTX_free)

int
sigv4_canon_hash(const struct sigv4_canon *canon, char ret_hex[SIGV4_HEX_LEN],
                 struct err *err)
{
	OWN(md_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	struct sink s = { .md = md };
	unsigned char hash[SIGV4_HASH_LEN];
	int r;

	if (md == NULL || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
		return err_set(err, ENOMEM, "cannot hash the request: SHA-256 cannot be had");
	put_text(&s, canon->head->method);
	put_char(&s, '\n');
	r = put_path(&s, canon, err);
	if (r < 0)
		return r;
	put_query(&s, canon);
	r = put_fields(&s, canon, err);
	if (r < 0)
		return r;
	put_text(&s, canon->hash);
	sink_flush(&s);
	if (s.failed || EVP_DigestFinal_ex(md, hash, NULL) != 1)
		return err_set(err, EIO, "cannot hash the request: SHA-256 fails");
	codec_hex_digits(hash, sizeof(hash), ret_hex);
	return 0;
}
