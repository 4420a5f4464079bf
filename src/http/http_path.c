/* http_path.c - converts paths and queries to their one canonical form. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "http/http_parts.h"

/* Classes of bytes in a request target. */
enum { BAD, OTHER, UNRESERVED, SLASH, QUERY, ESCAPE, BACKSLASH, HIGH };

static const unsigned char kind_of[256] = {
	/* Includes characters that are invalid in URLs but that programs send. */
	['!'] = OTHER, ['"'] = OTHER, ['$'] = OTHER, ['&'] = OTHER, ['\''] = OTHER,
	['('] = OTHER, [')'] = OTHER, ['*'] = OTHER, ['+'] = OTHER, [','] = OTHER,
	[':'] = OTHER, ['<'] = OTHER, ['='] = OTHER, ['>'] = OTHER, ['@'] = OTHER,
	['['] = OTHER, [']'] = OTHER, ['^'] = OTHER, ['`'] = OTHER, ['{'] = OTHER,
	['|'] = OTHER, ['}'] = OTHER,
	['a' ... 'z'] = UNRESERVED, ['A' ... 'Z'] = UNRESERVED, ['0' ... '9'] = UNRESERVED,
	['-'] = UNRESERVED, ['.'] = UNRESERVED, ['_'] = UNRESERVED, ['~'] = UNRESERVED,
	['/'] = SLASH, ['?'] = QUERY, ['%'] = ESCAPE, [';'] = OTHER, ['\\'] = BACKSLASH,
	[0x80 ... 0xff] = HIGH,
};

static bool
is_dots(const char *at, size_t len)
{
	return (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.');
}

/* The output path. */
struct path_out {
	char *text;
	size_t len;
	size_t segment;         /* start of the last segment */
};

/* The segment is complete.  Returns 1 if it was a dot segment: it is resolved, and the output ends
 * with a slash. */
static int
end_segment(struct path_out *out, struct err *err)
{
	size_t len = out->len - out->segment;

	if (!is_dots(out->text + out->segment, len)) {
		if (http_segment_hides_dots((struct http_text){ out->text + out->segment, len }))
			return err_set(err, EBADMSG, "the path is ambiguous: some servers read a part "
			               "of it as '.' or '..'");
		return 0;
	}
	out->len = out->segment;
	if (len == 2 && out->len > 1) {
		out->len--;
		while (out->text[out->len - 1] != '/')
			out->len--;
	}
	return 1;
}

static void
put_byte(struct path_out *out, unsigned byte)
{
	static const char hex[] = "0123456789ABCDEF";

	out->text[out->len++] = '%';
	out->text[out->len++] = hex[byte >> 4];
	out->text[out->len++] = hex[byte & 15];
}

/* Write the "%" at AT: as an escape, or, if it begins none, escaped itself.  Returns how many bytes
 * were read, or a negative errno. */
static int
put_escape(struct path_out *out, const char *at, const char *end, bool in_query, struct err *err)
{
	int byte = codec_percent_byte(at, (size_t)(end - at));

	if (byte < 0) {
		put_byte(out, '%');
		return 1;
	}
	if (kind_of[byte] == UNRESERVED) {
		out->text[out->len++] = (char)byte;
		return 3;
	}
	if (!in_query && (byte == '\0' || byte == '\\'))
		return err_set(err, EBADMSG, "the path has an escaped %s",
		               byte == '\0' ? "zero byte" : "backslash");
	put_byte(out, (unsigned)byte);
	return 3;
}

/* Write the path behind its first slash; *RET_AT is where the query begins, or END. */
static int
put_path(struct path_out *out, const char *at, const char *end, const char **ret_at,
         struct err *err)
{
	int r = 0;

	for (; at < end && *at != '?'; at++) {
		switch (kind_of[(unsigned char)*at]) {
		case OTHER:
		case UNRESERVED:
			out->text[out->len++] = *at;
			break;
		case HIGH:
			put_byte(out, (unsigned char)*at);
			break;
		case SLASH:
			r = end_segment(out, err);
			if (r == 0)
				out->text[out->len++] = '/';
			out->segment = out->len;
			break;
		case ESCAPE:
			r = put_escape(out, at, end, false, err);
			at += r > 0 ? r - 1 : 0;
			break;
		case BACKSLASH:
			return err_set(err, EBADMSG, "the path has a backslash");
		default:
			return err_set(err, EBADMSG, "the path has a blank, a '#' or a control character");
		}
		if (r < 0)
			return r;
	}
	*ret_at = at;
	return end_segment(out, err);
}

static int
put_query(struct path_out *out, const char *at, const char *end, struct err *err)
{
	for (; at < end; at++) {
		switch (kind_of[(unsigned char)*at]) {
		case BAD:
			return err_set(err, EBADMSG, "the query has a blank, a '#' or a control character");
		case HIGH:
			put_byte(out, (unsigned char)*at);
			break;
		case ESCAPE:
			at += put_escape(out, at, end, true, err) - 1;
			break;
		default:
			out->text[out->len++] = *at;
			break;
		}
	}
	return 0;
}

size_t
http_path_room(struct http_text text)
{
	const char *end = text.at + text.len;
	size_t room = text.len;

	for (const char *at = text.at; at < end; at++) {
		unsigned char kind = kind_of[(unsigned char)*at];

		if (kind == HIGH || (kind == ESCAPE && codec_percent_byte(at, (size_t)(end - at)) < 0))
			room += 2;
	}
	return room;
}

int
http_path_normalise(struct http_text text, char *out, size_t size, size_t *ret_len,
                    struct err *err)
{
	struct path_out to = { .text = out, .len = 1, .segment = 1 };
	const char *at = NULL, *end;
	int r;

	if (text.len == 0 || text.at[0] != '/')
		return err_set(err, EBADMSG, "the path does not begin with '/'");
	if (size < http_path_room(text))
		return err_set(err, EMSGSIZE, "the path is too long");
	end = text.at + text.len;
	out[0] = '/';
	r = put_path(&to, text.at + 1, end, &at, err);
	if (r >= 0)
		r = put_query(&to, at, end, err);
	if (r < 0)
		return r;
	*ret_len = to.len;
	return 0;
}

bool
http_path_is_respelt(struct http_text text, struct http_text path)
{
	const char *at = text.at, *end = at + text.len, *to = path.at, *to_end = to + path.len;
	bool differs = false;

	while (at < end && to < to_end) {
		int byte = *at == '%' ? codec_percent_byte(at, (size_t)(end - at)) : -1;
		size_t len = *to == '%' ? 3 : 1;

		if (byte < 0 ? *at != *to || *to == '%' :
		    len == 1 ? (char)byte != *to || kind_of[byte] != UNRESERVED :
		               codec_percent_byte(to, (size_t)(to_end - to)) != byte)
			return false;
		differs |= byte >= 0 && (len == 1 || memcmp(at, to, len) != 0);
		at += byte < 0 ? 1 : 3;
		to += len;
	}
	return at == end && to == to_end && differs;
}

/* Whether normalising leaves the escape as it is. */
static bool
escape_is_canonical(const char *at, const char *end, bool in_query)
{
	int byte = codec_percent_byte(at, (size_t)(end - at));

	return byte >= 0 && at[1] < 'a' && at[2] < 'a' && kind_of[byte] != UNRESERVED &&
		(in_query || (byte != '\0' && byte != '\\'));
}

static bool
query_is_canonical(const char *at, const char *end)
{
	for (; at < end; at++) {
		unsigned char kind = kind_of[(unsigned char)*at];

		if (kind == BAD || kind == HIGH ||
		    (kind == ESCAPE && !escape_is_canonical(at, end, true)))
			return false;
	}
	return true;
}

/* Neither a dot segment nor one that some servers read as one. */
static bool
segment_is_canonical(const char *at, const char *end)
{
	struct http_text segment = { at, (size_t)(end - at) };

	return !is_dots(at, segment.len) && !http_segment_hides_dots(segment);
}

bool
http_path_is_canonical(struct http_text path)
{
	const char *at, *end, *segment;

	if (path.len == 0 || path.at[0] != '/')
		return false;
	at = segment = path.at + 1;
	end = path.at + path.len;
	for (; at < end && *at != '?'; at++) {
		unsigned char kind = kind_of[(unsigned char)*at];

		if (kind == UNRESERVED || kind == OTHER)
			continue;
		if (kind == BAD || kind == BACKSLASH || kind == HIGH)
			return false;
		if (kind == ESCAPE && !escape_is_canonical(at, end, false))
			return false;
		if (kind == SLASH) {
			if (!segment_is_canonical(segment, at))
				return false;
			segment = at + 1;
		}
	}
	return segment_is_canonical(segment, at) && query_is_canonical(at, end);
}
