/* http_path.c - paths and queries in their one canonical form. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "http/http_parts.h"

/* What a byte of a request target is. */
enum { BAD, OTHER, UNRESERVED, SLASH, QUERY, ESCAPE, PARAMETER, BACKSLASH };

static const unsigned char kind_of[256] = {
	/* Also what no URL may have but programs send. */
	['!'] = OTHER, ['"'] = OTHER, ['$'] = OTHER, ['&'] = OTHER, ['\''] = OTHER,
	['('] = OTHER, [')'] = OTHER, ['*'] = OTHER, ['+'] = OTHER, [','] = OTHER,
	[':'] = OTHER, ['<'] = OTHER, ['='] = OTHER, ['>'] = OTHER, ['@'] = OTHER,
	['['] = OTHER, [']'] = OTHER, ['^'] = OTHER, ['`'] = OTHER, ['{'] = OTHER,
	['|'] = OTHER, ['}'] = OTHER,
	['a' ... 'z'] = UNRESERVED, ['A' ... 'Z'] = UNRESERVED, ['0' ... '9'] = UNRESERVED,
	['-'] = UNRESERVED, ['.'] = UNRESERVED, ['_'] = UNRESERVED, ['~'] = UNRESERVED,
	['/'] = SLASH, ['?'] = QUERY, ['%'] = ESCAPE, [';'] = PARAMETER, ['\\'] = BACKSLASH,
};

static bool
is_dots(const char *at, size_t len)
{
	return (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.');
}

/* The byte that the escape at AT stands for, or -1. */
static int
escaped_byte(const char *at, const char *end)
{
	int high, low;

	if (end - at < 3)
		return -1;
	high = num_hex_digit(at[1]);
	low = num_hex_digit(at[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Where a path is being written. */
struct path_out {
	char *text;
	size_t len;
	size_t segment;         /* where the last one begins */
	size_t part;            /* where the last one begins if "%2F" ends one, too */
};

/* Something ends a segment for some servers and not for others: a dot segment must
 * not stand before it. */
static int
end_part(const struct path_out *out, struct err *err)
{
	if (is_dots(out->text + out->part, out->len - out->part))
		return err_set(err, EBADMSG, "the path hides a dot segment");
	return 0;
}

/* The segment is complete.  1: it was a dot segment and is resolved; what is left ends
 * with a slash. */
static int
end_segment(struct path_out *out, struct err *err)
{
	size_t len = out->len - out->segment;

	if (out->part != out->segment)
		return end_part(out, err);
	if (!is_dots(out->text + out->segment, len))
		return 0;
	out->len = out->segment;
	if (len == 2 && out->len > 1) {
		out->len--;
		while (out->text[out->len - 1] != '/')
			out->len--;
	}
	return 1;
}

static int
put_escape(struct path_out *out, int byte, bool in_query, struct err *err)
{
	static const char hex[] = "0123456789ABCDEF";

	if (byte < 0)
		return err_set(err, EBADMSG, "the path has a '%%' without two hex digits");
	if (kind_of[byte] == UNRESERVED) {
		out->text[out->len++] = (char)byte;
		return 0;
	}
	if (!in_query && (byte == '\0' || byte == '\\'))
		return err_set(err, EBADMSG, "the path has an escaped %s",
		               byte == '\0' ? "zero byte" : "backslash");
	if (!in_query && (byte == '/' || byte == ';') && end_part(out, err) < 0)
		return -EBADMSG;
	out->text[out->len++] = '%';
	out->text[out->len++] = hex[byte >> 4];
	out->text[out->len++] = hex[byte & 15];
	if (byte == '/')
		out->part = out->len;
	return 0;
}

/* The path behind its first slash; *RET_AT is where the query begins, or END. */
static int
put_path(struct path_out *out, const char *at, const char *end, const char **ret_at,
         struct err *err)
{
	int r = 0;

	for (; at < end && *at != '?'; at++) {
		switch (kind_of[(unsigned char)*at]) {
		case PARAMETER:
			r = end_part(out, err);
			out->text[out->len++] = *at;
			break;
		case OTHER:
		case UNRESERVED:
			out->text[out->len++] = *at;
			break;
		case SLASH:
			r = end_segment(out, err);
			if (r == 0)
				out->text[out->len++] = '/';
			out->segment = out->part = out->len;
			break;
		case ESCAPE:
			r = put_escape(out, escaped_byte(at, end), false, err);
			at += 2;
			break;
		default:
			return err_set(err, EBADMSG, "the path has a character that it cannot have");
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
	int r;

	for (; at < end; at++) {
		switch (kind_of[(unsigned char)*at]) {
		case BAD:
			return err_set(err, EBADMSG, "the query has a character that it cannot have");
		case ESCAPE:
			r = put_escape(out, escaped_byte(at, end), true, err);
			if (r < 0)
				return r;
			at += 2;
			break;
		default:
			out->text[out->len++] = *at;
			break;
		}
	}
	return 0;
}

int
http_path_normalise(struct http_text text, char *out, size_t size, size_t *ret_len,
                    struct err *err)
{
	struct path_out to = { .text = out, .len = 1, .segment = 1, .part = 1 };
	const char *at = NULL, *end;
	int r;

	if (text.len == 0 || text.at[0] != '/')
		return err_set(err, EBADMSG, "the path does not begin with '/'");
	if (size < text.len)
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
		int byte = *at == '%' ? escaped_byte(at, end) : -1;
		size_t len = *to == '%' ? 3 : 1;

		if (byte < 0 ? *at != *to || *to == '%' :
		    len == 1 ? (char)byte != *to || kind_of[byte] != UNRESERVED :
		               escaped_byte(to, to_end) != byte)
			return false;
		differs |= byte >= 0 && (len == 1 || memcmp(at, to, len) != 0);
		at += byte < 0 ? 1 : 3;
		to += len;
	}
	return at == end && to == to_end && differs;
}

/* An escape that normalising leaves as it is. */
static bool
escape_is_canonical(const char *at, const char *end, bool in_query)
{
	int byte = escaped_byte(at, end);

	return byte >= 0 && at[1] < 'a' && at[2] < 'a' && kind_of[byte] != UNRESERVED &&
		(in_query || (byte != '\0' && byte != '\\'));
}

static bool
query_is_canonical(const char *at, const char *end)
{
	for (; at < end; at++) {
		unsigned char kind = kind_of[(unsigned char)*at];

		if (kind == BAD || (kind == ESCAPE && !escape_is_canonical(at, end, true)))
			return false;
	}
	return true;
}

bool
http_path_is_canonical(struct http_text path)
{
	const char *at, *end, *part;
	unsigned char kind;

	if (path.len == 0 || path.at[0] != '/')
		return false;
	at = part = path.at + 1;
	end = path.at + path.len;
	for (; at < end && *at != '?'; at++) {
		kind = kind_of[(unsigned char)*at];
		if (kind == UNRESERVED || kind == OTHER)
			continue;
		if (kind == BAD || kind == BACKSLASH)
			return false;
		if (kind == ESCAPE && !escape_is_canonical(at, end, false))
			return false;
		/* "/", ";", and the escapes of both, may not come behind dots. */
		if (kind != ESCAPE || (at[1] == '2' && at[2] == 'F') || (at[1] == '3' && at[2] == 'B')) {
			if (is_dots(part, (size_t)(at - part)))
				return false;
		}
		if (kind == SLASH)
			part = at + 1;
		else if (kind == ESCAPE && at[1] == '2' && at[2] == 'F')
			part = at + 3;
	}
	return !is_dots(part, (size_t)(at - part)) && query_is_canonical(at, end);
}
