/* http_head.c - checks heads, and encodes them for other processes. */
#include "http/http_head.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "http/http_parts.h"

#define SHOWN_MAX 64            /* bytes of a name in an error */

bool
http_text_is(struct http_text text, const char *word)
{
	return text.len == strlen(word) && (text.len == 0 || memcmp(text.at, word, text.len) == 0);
}

bool
http_text_is_one_of(struct http_text text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (http_text_is(text, words[i]))
			return true;
	return false;
}

bool
http_text_is_nocase(struct http_text text, const char *word)
{
	if (text.len != strlen(word))
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (http_lower(text.at[i]) != http_lower(word[i]))
			return false;
	return true;
}

bool
http_text_has_nocase(struct http_text text, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= text.len; i++)
		if (strncasecmp(text.at + i, word, len) == 0)
			return true;
	return false;
}

void
http_head_drop(struct http_head *head, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		if (!http_text_is(head->fields[i].name, name)) {
			if (kept != i)
				head->fields[kept] = head->fields[i];
			kept++;
		}
	head->n_fields = kept;
}

struct http_text
http_head_get(const struct http_head *head, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < head->n_fields; i++)
		if (head->fields[i].name.len == len &&
		    memcmp(head->fields[i].name.at, name, len) == 0)
			return head->fields[i].value;
	return (struct http_text){ "", 0 };
}

void
http_text_put(struct buf *b, struct http_text text)
{
	buf_put_u32(b, (uint32_t)text.len);
	buf_put(b, text.at, text.len);
	buf_put(b, "", 1);
}

bool
http_head_is_packed(const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (http_text_is(head->fields[i].name, "content-encoding") && head->fields[i].value.len > 0 &&
		    !http_text_is_nocase(head->fields[i].value, "identity"))
			return true;
	return false;
}

int
http_length_parse(struct http_text text, uint64_t *ret_length, struct err *err)
{
	uint64_t n = 0;

	/* 19 digits cannot overflow 64 bits. */
	if (text.len == 0 || text.len > 19 || (text.at[0] == '0' && text.len > 1))
		return err_set(err, EBADMSG, "the content-length is not a plain number");
	for (size_t i = 0; i < text.len; i++) {
		if (!http_is_digit(text.at[i]))
			return err_set(err, EBADMSG, "the content-length is not a plain number");
		n = n * 10 + (uint64_t)(text.at[i] - '0');
	}
	if (n > HTTP_LENGTH_MAX)
		return err_set(err, EBADMSG, "the content-length is too large");
	*ret_length = n;
	return 0;
}

static int
bad_field(const struct http_field *field, const char *what, struct err *err)
{
	return err_set(err, EBADMSG, "the field '%.*s' %s",
	               (int)(field->name.len < SHOWN_MAX ? field->name.len : SHOWN_MAX),
	               field->name.at, what);
}

static int
check_field_text(const struct http_field *field, struct err *err)
{
	const char *end;

	if (field->name.len == 0)
		return err_set(err, EBADMSG, "a field has no name");
	for (size_t i = 0; i < field->name.len; i++) {
		unsigned char c = (unsigned char)field->name.at[i];

		if (c == '\0' || http_name_lower[c] != c)
			return err_set(err, EBADMSG, "a field's name has a character that it cannot have");
	}
	if (field->value.len == 0)
		return 0;
	end = field->value.at + field->value.len;
	if (http_value_end(field->value.at, end) != end)
		return bad_field(field, "has a control character", err);
	if (http_is_blank(field->value.at[0]) || http_is_blank(end[-1]))
		return bad_field(field, "begins or ends with a blank", err);
	return 0;
}

/* SEEN has a bit for each field that may occur once. */
static int
check_known(const struct http_head *head, const struct http_field *field, uint32_t *seen,
            struct err *err)
{
	const struct http_known *known = http_known_find(field->name.at, field->name.len);

	if (known == NULL) {
		if (http_known_alias(field->name.at, field->name.len) != NULL)
			return bad_field(field, "looks like another one", err);
		return 0;
	}
	if ((known->flags & HTTP_HOP) != 0)
		return bad_field(field, "belongs to one connection only", err);
	if (head->status != 0)
		return known->id == HTTP_EXPECT || known->id == HTTP_TE ?
			bad_field(field, "has no place in a response", err) : 0;
	if ((known->flags & HTTP_ONCE) != 0) {
		if ((*seen & UINT32_C(1) << known->number) != 0)
			return bad_field(field, "is there twice", err);
		*seen |= UINT32_C(1) << known->number;
	}
	if (known->id == HTTP_TE && !http_text_is(field->value, "trailers"))
		return bad_field(field, "is not 'trailers'", err);
	if (known->id == HTTP_EXPECT && !http_text_is_nocase(field->value, "100-continue"))
		return bad_field(field, "is not '100-continue'", err);
	return 0;
}

static int
check_fields(const struct http_head *head, size_t size, struct err *err)
{
	uint32_t seen = 0;
	int r;

	if (head->n_fields > HTTP_FIELDS_MAX)
		return err_set(err, EMSGSIZE, "there are more than %d fields", HTTP_FIELDS_MAX);
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		/* Check each length first: a sum of forged lengths could wrap. */
		if (field->name.len > HTTP_HEAD_MAX || field->value.len > HTTP_HEAD_MAX)
			return err_set(err, EMSGSIZE, "the head is too large");
		size += field->name.len + field->value.len;
		if (size > HTTP_HEAD_MAX)
			return err_set(err, EMSGSIZE, "the head is too large");
		r = check_field_text(field, err);
		if (r == 0)
			r = check_known(head, field, &seen, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int
check_request(const struct http_head *head, struct err *err)
{
	if (!http_method_is_good(head->method))
		return err_set(err, EBADMSG, "the method is not one word of capitals");
	if (http_text_is(head->method, "CONNECT"))
		return err_set(err, EBADMSG, "CONNECT is not a request to send on");
	if (!http_host_is_canonical(head->host))
		return err_set(err, EBADMSG, "the host is not in its canonical form");
	if (head->port == 0)
		return err_set(err, EBADMSG, "the request names no port");
	if (head->scheme != HTTP_PLAIN && head->scheme != HTTP_TLS)
		return err_set(err, EBADMSG, "the request has no known scheme");
	if (!http_path_is_canonical(head->path) &&
	    !(http_text_is(head->path, "*") && http_text_is(head->method, "OPTIONS")))
		return err_set(err, EBADMSG, "the path is not in its canonical form");
	if (http_text_is(head->method, "TRACE") && head->length != 0)
		return err_set(err, EBADMSG, "TRACE has no body");
	if (head->upgrade.len > 0 && (!http_text_is(head->method, "GET") || head->length != 0))
		return err_set(err, EBADMSG, "only a GET without a body can ask for an upgrade");
	if (head->says_zero && head->length != 0)
		return err_set(err, EBADMSG, "the request has two lengths");
	if (head->written.len > HTTP_WRITTEN_MAX ||
	    (head->written.len > 0 && !http_path_is_respelt(head->written, head->path)))
		return err_set(err, EBADMSG, "the path is spelled in two ways that differ");
	return 0;
}

static int
check_response(const struct http_head *head, struct err *err)
{
	if (head->status < 100 || head->status > 599)
		return err_set(err, EBADMSG, "%d is not a status", head->status);
	if ((head->status < 200 || head->status == 204) && head->length != 0)
		return err_set(err, EBADMSG, "a %d response has no body", head->status);
	if ((head->status == 101) != (head->upgrade.len > 0))
		return err_set(err, EBADMSG, "an upgrade and the status 101 belong together");
	return 0;
}

int
http_head_check(const struct http_head *head, struct err *err)
{
	size_t size = head->upgrade.len;
	int r;

	if (head->upgrade.len > 0 && !http_text_is(head->upgrade, "websocket"))
		return err_set(err, EBADMSG, "the upgrade is not to websocket");
	if (head->length > HTTP_LENGTH_MAX && head->length != HTTP_LENGTH_UNKNOWN)
		return err_set(err, EBADMSG, "the length is too large");
	if (head->status == 0) {
		if (head->path.len > HTTP_HEAD_MAX)
			return err_set(err, EMSGSIZE, "the head is too large");
		r = check_request(head, err);
		size += head->method.len + head->host.len + head->path.len;
	} else {
		r = check_response(head, err);
	}
	return r < 0 ? r : check_fields(head, size, err);
}

int
http_trailers_check(const struct http_field *fields, size_t n, struct err *err)
{
	const struct http_known *known;
	size_t size = 0;
	int r;

	if (n > HTTP_FIELDS_MAX)
		return err_set(err, EMSGSIZE, "there are more than %d trailers", HTTP_FIELDS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].name.len > HTTP_HEAD_MAX || fields[i].value.len > HTTP_HEAD_MAX)
			return err_set(err, EMSGSIZE, "the trailers are too large");
		size += fields[i].name.len + fields[i].value.len;
		if (size > HTTP_HEAD_MAX)
			return err_set(err, EMSGSIZE, "the trailers are too large");
		r = check_field_text(&fields[i], err);
		if (r < 0)
			return r;
		known = http_known_find(fields[i].name.at, fields[i].name.len);
		if ((known != NULL && (known->flags & HTTP_NO_TRAILER) != 0) ||
		    http_known_alias(fields[i].name.at, fields[i].name.len) != NULL)
			return bad_field(&fields[i], "cannot be a trailer", err);
	}
	return 0;
}

/* ---- between processes -----------------------------------------------------------
 *
 * A head is u32 status, u32 scheme and flags, u32 port, u64 length, u32 fields.  Strings follow,
 * each u32 length and bytes: method, host and path (requests only), the path as written (only with
 * its flag), upgrade, and name and value of each field.  Trailers are u32 fields and the same
 * strings. */

#define FLAG_ZERO 2u            /* beside the scheme: says_zero */
#define FLAG_WRITTEN 4u

static unsigned char *
put_u32(unsigned char *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, 4);
	return at + 4;
}

static unsigned char *
put_text(unsigned char *at, struct http_text text)
{
	at = put_u32(at, (uint32_t)text.len);
	if (text.len > 0)
		memcpy(at, text.at, text.len);
	return at + text.len;
}

static unsigned char *
put_fields(unsigned char *at, const struct http_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		at = put_text(at, fields[i].name);
		at = put_text(at, fields[i].value);
	}
	return at;
}

static size_t
fields_size(const struct http_field *fields, size_t n)
{
	size_t size = 8 * n;

	for (size_t i = 0; i < n; i++)
		size += fields[i].name.len + fields[i].value.len;
	return size;
}

void
http_head_encode(struct buf *b, const struct http_head *head)
{
	size_t size = 24 + 4 + head->upgrade.len + fields_size(head->fields, head->n_fields);
	uint64_t length = htole64(head->length);
	unsigned char *at;

	if (head->status == 0)
		size += 12 + head->method.len + head->host.len + head->path.len +
			(head->written.len > 0 ? 4 + head->written.len : 0);
	at = buf_add(b, size);
	if (at == NULL)
		return;
	at = put_u32(at, head->status);
	at = put_u32(at, head->status != 0 ? 0 : head->scheme | (head->says_zero ? FLAG_ZERO : 0) |
	             (head->written.len > 0 ? FLAG_WRITTEN : 0));
	at = put_u32(at, head->status == 0 ? head->port : 0);
	memcpy(at, &length, 8);
	at = put_u32(at + 8, (uint32_t)head->n_fields);
	if (head->status == 0) {
		at = put_text(at, head->method);
		at = put_text(at, head->host);
		at = put_text(at, head->path);
		if (head->written.len > 0)
			at = put_text(at, head->written);
	}
	at = put_text(at, head->upgrade);
	put_fields(at, head->fields, head->n_fields);
}

void
http_fields_encode(struct buf *b, const struct http_field *fields, size_t n)
{
	unsigned char *at = buf_add(b, 4 + fields_size(fields, n));

	if (at != NULL)
		put_fields(put_u32(at, (uint32_t)n), fields, n);
}

static bool
get_text(struct buf *b, struct http_text *ret_text)
{
	size_t left = buf_left(b);
	uint32_t len;

	if (left < 4)
		return false;
	memcpy(&len, b->data + b->pos, 4);
	len = le32toh(len);
	if (len > left - 4)
		return false;
	*ret_text = (struct http_text){ (const char *)b->data + b->pos + 4, len };
	b->pos += 4 + (size_t)len;
	return true;
}

static bool
get_fields(struct buf *b, struct http_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!get_text(b, &fields[i].name) || !get_text(b, &fields[i].value))
			return false;
	return true;
}

/* All of a head except its fields. */
static bool
get_line(struct buf *b, struct http_head *head, uint32_t *ret_n)
{
	uint32_t status, scheme, port;

	head->method = head->host = head->path = head->written = (struct http_text){ "", 0 };
	if (buf_get_u32(b, &status) < 0 || status > 599 || buf_get_u32(b, &scheme) < 0 ||
	    (scheme & ~(FLAG_ZERO | FLAG_WRITTEN)) > HTTP_TLS ||
	    buf_get_u32(b, &port) < 0 || port > UINT16_MAX ||
	    buf_get_u64(b, &head->length) < 0 || buf_get_u32(b, ret_n) < 0)
		return false;
	/* Each head has exactly one encoding. */
	if (status != 0 && (scheme != 0 || port != 0))
		return false;
	head->status = (uint16_t)status;
	head->scheme = (enum http_scheme)(scheme & ~(FLAG_ZERO | FLAG_WRITTEN));
	head->says_zero = (scheme & FLAG_ZERO) != 0;
	head->port = (uint16_t)port;
	if (status == 0 && (!get_text(b, &head->method) || !get_text(b, &head->host) ||
	                    !get_text(b, &head->path)))
		return false;
	if ((scheme & FLAG_WRITTEN) != 0 && (!get_text(b, &head->written) || head->written.len == 0))
		return false;
	return get_text(b, &head->upgrade);
}

bool
http_head_decode_checked(struct buf *b, struct http_head *ret_head)
{
	uint32_t n;

	if (!get_line(b, ret_head, &n) || n > HTTP_FIELDS_MAX ||
	    !get_fields(b, ret_head->fields, n))
		return false;
	ret_head->n_fields = n;
	return true;
}

int
http_head_decode(struct buf *b, struct http_head *ret_head, struct err *err)
{
	if (!http_head_decode_checked(b, ret_head))
		return err_set(err, EBADMSG, "the head is garbled");
	return http_head_check(ret_head, err);
}

void
http_head_copy(struct http_head *to, const struct http_head *from)
{
	memcpy(to, from, offsetof(struct http_head, fields));
	memcpy(to->fields, from->fields, from->n_fields * sizeof(from->fields[0]));
	to->n_fields = from->n_fields;
}

int
http_fields_decode(struct buf *b, struct http_field ret_fields[HTTP_FIELDS_MAX],
                   size_t *ret_n, struct err *err)
{
	uint32_t n;
	int r;

	if (buf_get_u32(b, &n) < 0 || n > HTTP_FIELDS_MAX || !get_fields(b, ret_fields, n))
		return err_set(err, EBADMSG, "the trailers are garbled");
	r = http_trailers_check(ret_fields, n, err);
	if (r == 0)
		*ret_n = n;
	return r;
}
