/* h1_read.c - finds the heads, bodies and ends of messages in a stream of bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "http/h1_parts.h"
#include "http/http_parts.h"

#define TEXT_MIN 1024           /* enough for a small head */
#define EXTENSION_MAX 1024      /* bytes behind the size of a chunk */

enum state {
	READ_HEAD,              /* in a head, or before one */
	READ_LENGTH,            /* a body of known length */
	READ_UNTIL_CLOSE,
	READ_CHUNK_SIZE, READ_CHUNK_EXTENSION, READ_CHUNK_SIZE_LF, READ_CHUNK, READ_CHUNK_CR, READ_CHUNK_LF,
	READ_TRAILERS,
	READ_END,               /* H1_END is due */
	READ_NOTHING,           /* the last message of the connection is read */
	READ_DEAD,
};

void
h1_reader_init(struct h1_reader *r, enum h1_kind kind)
{
	/* Not the whole struct: the fields are large. */
	memset(&r->head, 0, offsetof(struct http_head, fields));
	r->head.n_fields = 0;
	r->kind = kind;
	r->keep_alive = r->expects_continue = r->until_close = false;
	r->form = H1_ORIGIN;
	r->status = r->version = 0;
	r->state = READ_HEAD;
	r->left = r->length = 0;
	r->line = 0;
	r->head_only = r->skipped_line = false;
	r->text = r->written = NULL;
	r->text_len = r->text_cap = 0;
	r->host[0] = '\0';
}

void
h1_reader_free(struct h1_reader *r)
{
	free(r->text);
	free(r->written);
	r->text = r->written = NULL;
	r->text_len = r->text_cap = 0;
	r->state = READ_DEAD;
}

void
h1_reader_rest(struct h1_reader *r)
{
	if (r->text_len > 0 || (r->state != READ_HEAD && r->state != READ_NOTHING))
		return;
	free(r->text);
	free(r->written);
	r->text = r->written = NULL;
	r->text_cap = 0;
	r->head.n_fields = 0;
}

void
h1_reader_expect(struct h1_reader *r, bool no_body)
{
	r->head_only = no_body;
}

static enum h1_event
bad(struct h1_reader *r)
{
	if (r->kind == H1_RESPONSES)
		r->status = 502;
	r->state = READ_DEAD;
	return H1_BAD;
}

static enum h1_event
bad_because(struct h1_reader *r, uint16_t status, struct err *err, const char *why)
{
	r->status = status;
	err_set(err, EBADMSG, "%s", why);
	return bad(r);
}

/* ---- heads and trailers: lines up to an empty one ---------------------------------- */

enum lines { LINES_MORE, LINES_DONE, LINES_BAD };

static enum lines
lines_bad(struct h1_reader *r, uint16_t status, struct err *err, const char *why)
{
	bad_because(r, status, err, why);
	return LINES_BAD;
}

static enum lines
keep_text(struct h1_reader *r, const char *data, size_t len, struct err *err)
{
	size_t cap = r->text_cap > 0 ? r->text_cap : TEXT_MIN;
	char *text;

	if (len > HTTP_HEAD_MAX - r->text_len)
		return lines_bad(r, 431, err, "the head is too large");
	while (cap < r->text_len + len)
		cap *= 2;
	if (cap != r->text_cap) {
		text = realloc(r->text, cap);
		if (text == NULL)
			return lines_bad(r, 500, err, "there is no memory for the head");
		r->text = text;
		r->text_cap = cap;
	}
	if (len > 0)
		memcpy(r->text + r->text_len, data, len);
	r->text_len += len;
	return LINES_MORE;
}

/* Whether the LF at DATA[AT] has a CR before it, there or in what is kept. */
static bool
ends_line(const struct h1_reader *r, const char *data, size_t at)
{
	if (at > 0)
		return data[at - 1] == '\r';
	return r->text_len > 0 && r->text[r->text_len - 1] == '\r';
}

/* Keep lines from DATA up to the empty one.  Refuse a bad line as soon as it ends, not only with
 * the whole head: a client that sends "GET HTTP/1.0\n\n" would wait forever. */
static enum lines
take_lines(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
           struct err *err)
{
	size_t from = 0, at = 0, end, line;
	const char *lf;

	while (at < len && (lf = memchr(data + at, '\n', len - at)) != NULL) {
		end = (size_t)(lf - data);
		if (end + 1 - from > HTTP_HEAD_MAX - r->text_len)
			return lines_bad(r, 431, err, "the head is too large");
		if (!ends_line(r, data, end))
			return lines_bad(r, 400, err, "a line ends with a bare LF");
		line = r->line + end - at;
		r->line = 0;
		at = end + 1;
		if (line > 1)
			continue;
		if (r->state == READ_TRAILERS || r->text_len + end - from > 1) {
			*ret_used = at;
			return keep_text(r, data + from, at - from, err) == LINES_BAD ? LINES_BAD :
				LINES_DONE;
		}
		/* RFC 9112, 2.2: some clients send an empty line behind a body. */
		if (r->kind == H1_RESPONSES || r->skipped_line)
			return lines_bad(r, 400, err, "there is an empty line where a head should begin");
		r->skipped_line = true;
		r->text_len = 0;
		from = at;
	}
	r->line += len - at;
	*ret_used = len;
	return keep_text(r, data + from, len - from, err);
}

/* Whether another head of the same message follows. */
static bool
is_interim(uint16_t status)
{
	return status >= 100 && status < 200 && status != 101;
}

static void
begin_body(struct h1_reader *r)
{
	const struct http_head *head = &r->head;

	r->left = 0;
	r->line = 0;
	if (is_interim(head->status)) {
		r->state = READ_HEAD;
		return;
	}
	if (head->length == 0 || head->status == 304 || (head->status != 0 && r->head_only))
		r->state = READ_END;
	else if (r->until_close)
		r->state = READ_UNTIL_CLOSE;
	else if (head->length == HTTP_LENGTH_UNKNOWN)
		r->state = READ_CHUNK_SIZE;
	else {
		r->state = READ_LENGTH;
		r->left = r->length = head->length;
	}
}

static enum h1_event
read_head(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
          struct err *err)
{
	enum lines lines = take_lines(r, data, len, ret_used, err);

	if (lines != LINES_DONE)
		return lines == LINES_BAD ? H1_BAD : H1_MORE;
	if (h1_parse_head(r, err) < 0)
		return bad(r);
	/* The caller still uses the text; the next head overwrites it. */
	r->text_len = 0;
	r->skipped_line = false;
	begin_body(r);
	return H1_HEAD;
}

static enum h1_event
end_message(struct h1_reader *r)
{
	static const struct http_text nothing = { "", 0 };

	r->head.method = r->head.path = r->head.written = r->head.upgrade = nothing;
	r->text_len = 0;
	r->line = 0;
	r->head_only = false;
	r->state = r->keep_alive ? READ_HEAD : READ_NOTHING;
	return H1_END;
}

static enum h1_event
read_trailers(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
              struct err *err)
{
	enum lines lines = take_lines(r, data, len, ret_used, err);

	if (lines != LINES_DONE)
		return lines == LINES_BAD ? H1_BAD : H1_MORE;
	if (h1_parse_trailers(r, err) < 0)
		return bad(r);
	return end_message(r);
}

/* ---- bodies ---------------------------------------------------------------------------- */

static enum h1_event
give_piece(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
           struct http_text *ret_piece)
{
	size_t n = r->state == READ_UNTIL_CLOSE || len < r->left ? len : (size_t)r->left;

	if (n == 0)
		return H1_MORE;
	*ret_piece = (struct http_text){ data, n };
	*ret_used += n;
	if (r->state == READ_UNTIL_CLOSE)
		return H1_BODY;
	r->left -= n;
	if (r->left == 0)
		r->state = r->state == READ_CHUNK ? READ_CHUNK_CR : READ_END;
	return H1_BODY;
}

/* RFC 9112, 7.1.1: unknown extensions must be ignored.  They are not forwarded, so nobody behind us
 * can read them differently.  Requests do not need them. r->line counts from the ";" on. */
static bool
read_extension_byte(struct h1_reader *r, char c)
{
	if (c == '\r') {
		r->state = READ_CHUNK_SIZE_LF;
		return true;
	}
	if (r->line == 0 && c != ';')
		return http_is_blank(c);
	return ++r->line <= EXTENSION_MAX && c != '\n' && http_value_end(&c, &c + 1) == &c + 1;
}

/* Read one byte between the data of chunks; false if it is not valid there. */
static bool
read_chunk_byte(struct h1_reader *r, char c)
{
	int digit;

	switch (r->state) {
	case READ_CHUNK_SIZE:
		digit = codec_hex_value(c);
		if (digit >= 0 && r->line < 16 && r->left <= HTTP_LENGTH_MAX >> 4) {
			r->left = r->left << 4 | (uint64_t)digit;
			r->line++;
			return true;
		}
		if (r->line > 0 && r->kind == H1_RESPONSES && (http_is_blank(c) || c == ';')) {
			r->state = READ_CHUNK_EXTENSION;
			r->line = c == ';';
			return true;
		}
		r->state = READ_CHUNK_SIZE_LF;
		return c == '\r' && r->line > 0;
	case READ_CHUNK_EXTENSION:
		return read_extension_byte(r, c);
	case READ_CHUNK_SIZE_LF:
		r->state = r->left > 0 ? READ_CHUNK : READ_TRAILERS;
		r->line = 0;
		return c == '\n';
	case READ_CHUNK_CR:
		r->state = READ_CHUNK_LF;
		return c == '\r';
	default:
		r->state = READ_CHUNK_SIZE;
		return c == '\n';
	}
}

static enum h1_event
read_chunks(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
            struct http_text *ret_piece, struct err *err)
{
	enum h1_event event;
	size_t at = 0, used = 0;

	while (at < len && r->state != READ_CHUNK && r->state != READ_TRAILERS)
		if (!read_chunk_byte(r, data[at++]))
			return bad_because(r, 400, err, "a chunk of the body is not well-formed");
	*ret_used = at;
	if (r->state == READ_CHUNK)
		return give_piece(r, data + at, len - at, ret_used, ret_piece);
	if (r->state == READ_TRAILERS && at < len) {
		event = read_trailers(r, data + at, len - at, &used, err);
		*ret_used += used;
		return event;
	}
	return H1_MORE;
}

enum h1_event
h1_read(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
        struct http_text *ret_piece, struct err *err)
{
	*ret_used = 0;
	if (len == 0 && r->state != READ_END && r->state != READ_DEAD)
		return H1_MORE;
	switch (r->state) {
	case READ_HEAD:
		return read_head(r, data, len, ret_used, err);
	case READ_LENGTH:
	case READ_UNTIL_CLOSE:
		return give_piece(r, data, len, ret_used, ret_piece);
	case READ_TRAILERS:
		return read_trailers(r, data, len, ret_used, err);
	case READ_END:
		r->head.n_fields = 0;
		return end_message(r);
	case READ_NOTHING:
		*ret_used = len;
		return H1_MORE;
	case READ_DEAD:
		return bad_because(r, 400, err, "the connection is past an error");
	default:
		return read_chunks(r, data, len, ret_used, ret_piece, err);
	}
}

enum h1_event
h1_read_eof(struct h1_reader *r, struct err *err)
{
	switch (r->state) {
	case READ_UNTIL_CLOSE:
	case READ_END:
		r->head.n_fields = 0;
		return end_message(r);
	case READ_NOTHING:
		return H1_MORE;
	case READ_HEAD:
		if (r->text_len == 0 && !is_interim(r->head.status))
			return H1_MORE;
		break;
	default:
		break;
	}
	return bad_because(r, 400, err, "the connection ended in the middle of a message");
}

void
h1_reader_where(const struct h1_reader *r, char text[H1_WHERE_MAX])
{
	text[0] = '\0';
	switch (r->state) {
	case READ_HEAD:
		if (r->text_len >= 5 && memcmp(r->text, "HTTP/", 5) == 0)
			snprintf(text, H1_WHERE_MAX, "in the middle of the response's head");
		break;
	case READ_LENGTH:
		snprintf(text, H1_WHERE_MAX, "after %llu of %llu bytes",
		         (unsigned long long)(r->length - r->left), (unsigned long long)r->length);
		break;
	case READ_UNTIL_CLOSE:
	case READ_END:
	case READ_NOTHING:
	case READ_DEAD:
		break;
	default:
		snprintf(text, H1_WHERE_MAX, "before the last chunk of the response");
		break;
	}
}
