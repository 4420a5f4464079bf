/* json_walk.c - see json_walk.h. */
#include "http/json_walk.h"

#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/text.h"
#include "base/utf8.h"

void
json_walk_begin(struct json_walk *w, struct http_text text)
{
	const char *at = text.len > 0 ? text.at : "";

	*w = (struct json_walk){ .at = at, .end = at + text.len };
}

static void
skip_blanks(struct json_walk *w)
{
	while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\n' || *w->at == '\r'))
		w->at++;
}

static bool
take(struct json_walk *w, char c)
{
	if (w->at == w->end || *w->at != c)
		return false;
	w->at++;
	return true;
}

/* ---- strings ---- */

/* "XXXX" at AT; -1 if there is none. */
static int32_t
read_four(const char *at, const char *end)
{
	int32_t code = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = codec_hex_value(at[i]);

		if (digit < 0)
			return -1;
		code = code << 4 | digit;
	}
	return code;
}

/* "\uXXXX" or a pair of them, at its "u". */
static size_t
read_unicode(const char *at, const char *end, uint32_t *ret_code)
{
	int32_t high = read_four(at + 1, end), low;

	if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
		return 0;
	*ret_code = (uint32_t)high;
	if (high < 0xd800 || high > 0xdbff)
		return 5;
	low = end - at >= 7 && at[5] == '\\' && at[6] == 'u' ? read_four(at + 7, end) : -1;
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	*ret_code = 0x10000 + ((uint32_t)(high - 0xd800) << 10 | (uint32_t)(low - 0xdc00));
	return 11;
}

/* Read the character at AT, escaped or not; returns its bytes, 0 if it is invalid. */
static size_t
read_char(const char *at, const char *end, uint32_t *ret_code)
{
	static const char short_names[] = "\"\\/bfnrt", short_codes[] = "\"\\/\b\f\n\r\t";
	const char *name;
	size_t len;

	if ((unsigned char)*at < 0x20 || *at == '"')
		return 0;
	if (*at != '\\')
		return utf8_next(at, (size_t)(end - at), ret_code);
	if (++at == end || *at == '\0')
		return 0;
	if (*at == 'u') {
		len = read_unicode(at, end, ret_code);
		return len == 0 ? 0 : len + 1;
	}
	name = strchr(short_names, *at);
	if (name == NULL)
		return 0;
	*ret_code = (unsigned char)short_codes[name - short_names];
	return 2;
}

/* Behind the opening quote. */
static bool
take_string(struct json_walk *w, struct http_text *ret_raw)
{
	const char *from = w->at;
	uint32_t code;
	size_t len;

	while (w->at < w->end && *w->at != '"') {
		len = read_char(w->at, w->end, &code);
		if (len == 0)
			return false;
		w->at += len;
	}
	*ret_raw = (struct http_text){ from, (size_t)(w->at - from) };
	return take(w, '"');
}

static size_t
put_utf8(uint32_t code, char out[4])
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 63));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 63));
		out[2] = (char)(0x80 | (code & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 63));
	out[2] = (char)(0x80 | (code >> 6 & 63));
	out[3] = (char)(0x80 | (code & 63));
	return 4;
}

bool
json_walk_is(struct http_text raw, const char *word)
{
	const char *at = raw.at, *end = raw.at + raw.len;
	size_t left = strlen(word), len;
	uint32_t code;
	char utf8[4];

	for (; at < end; at += len) {
		size_t n;

		len = read_char(at, end, &code);
		n = len == 0 ? 0 : put_utf8(code, utf8);
		if (n == 0 || n > left || memcmp(word, utf8, n) != 0)
			return false;
		word += n;
		left -= n;
	}
	return left == 0;
}

int
json_walk_decode(struct http_text raw, char *out, size_t size, size_t *ret_len)
{
	const char *at = raw.at, *end = raw.at + raw.len;
	size_t used = 0, len;
	uint32_t code;
	char utf8[4];

	for (; at < end; at += len) {
		size_t n;

		len = read_char(at, end, &code);
		if (len == 0)
			return -EBADMSG;
		n = put_utf8(code, utf8);
		if (n > size - used)
			return -ENOBUFS;
		memcpy(out + used, utf8, n);
		used += n;
	}
	*ret_len = used;
	return 0;
}

unsigned char
json_walk_fold(const char **at, const char *end)
{
	size_t left = (size_t)(end - *at), n = 1;
	unsigned char c;

	if (left == 0)
		return '\0';
	c = (unsigned char)**at;
	if (c >= 'A' && c <= 'Z') {
		c = (unsigned char)(c - 'A' + 'a');
	} else if (left >= 2 && memcmp(*at, "\xc5\xbf", 2) == 0) {
		c = 's';
		n = 2;
	} else if (left >= 3 && memcmp(*at, "\xe2\x84\xaa", 3) == 0) {
		c = 'k';
		n = 3;
	}
	*at += n;
	return c;
}

/* ---- numbers and words ---- */

static bool
take_digits(struct json_walk *w)
{
	const char *from = w->at;

	while (w->at < w->end && *w->at >= '0' && *w->at <= '9')
		w->at++;
	return w->at > from;
}

static bool
take_number(struct json_walk *w)
{
	(void)take(w, '-');
	if (!take(w, '0') && !take_digits(w))
		return false;
	if (take(w, '.') && !take_digits(w))
		return false;
	if (take(w, 'e') || take(w, 'E')) {
		(void)(take(w, '+') || take(w, '-'));
		return take_digits(w);
	}
	return true;
}

static bool
take_scalar(struct json_walk *w, struct json_walk_item *item)
{
	static const struct {
		const char *word;
		enum json_walk_kind kind;
	} words[] = { { "true", JSON_WALK_TRUE }, { "false", JSON_WALK_FALSE },
	              { "null", JSON_WALK_NULL } };
	const char *from = w->at;

	if (take(w, '"')) {
		item->kind = JSON_WALK_STRING;
		return take_string(w, &item->raw);
	}
	item->kind = JSON_WALK_NUMBER;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && item->kind == JSON_WALK_NUMBER; i++)
		if (text_take(&w->at, w->end, words[i].word))
			item->kind = words[i].kind;
	if (item->kind == JSON_WALK_NUMBER && !take_number(w))
		return false;
	item->raw = (struct http_text){ from, (size_t)(w->at - from) };
	return true;
}

/* ---- items ---- */

static int
open_one(struct json_walk *w, struct json_walk_item *item)
{
	if (w->depth == JSON_WALK_DEPTH_MAX)
		return -E2BIG;
	item->kind = *w->at == '{' ? JSON_WALK_OBJECT : JSON_WALK_ARRAY;
	item->raw = (struct http_text){ w->at, 1 };
	w->open[w->depth++] = w->at++;
	w->any = false;
	return 1;
}

static int
close_one(struct json_walk *w, struct json_walk_item *item)
{
	const char *from = w->open[--w->depth];

	w->at++;
	w->any = true;
	item->kind = JSON_WALK_CLOSE;
	item->depth = w->depth;
	item->raw = (struct http_text){ from, (size_t)(w->at - from) };
	return 1;
}

int
json_walk_next(struct json_walk *w, struct json_walk_item *ret_item)
{
	struct json_walk_item item = { .depth = w->depth };
	bool in_object = w->depth > 0 && *w->open[w->depth - 1] == '{';
	int r = 1;

	skip_blanks(w);
	if (w->depth == 0 && w->any)
		return w->at == w->end ? 0 : -EBADMSG;
	if (w->depth > 0 && w->at < w->end && *w->at == (in_object ? '}' : ']')) {
		r = close_one(w, &item);
		*ret_item = item;
		return r;
	}
	if (w->depth > 0 && w->any) {
		if (!take(w, ','))
			return -EBADMSG;
		skip_blanks(w);
	}
	if (in_object) {
		if (!take(w, '"') || !take_string(w, &item.name))
			return -EBADMSG;
		skip_blanks(w);
		if (!take(w, ':'))
			return -EBADMSG;
		skip_blanks(w);
	}
	if (w->at < w->end && (*w->at == '{' || *w->at == '['))
		r = open_one(w, &item);
	else if (!take_scalar(w, &item))
		return -EBADMSG;
	else
		w->any = true;
	if (r == 1)
		*ret_item = item;
	return r;
}

int
json_walk_member(struct http_text text, const char *name, struct json_walk_item *ret_item)
{
	struct json_walk_item item, found = {0};
	bool is_there = false, is_open = false;
	struct json_walk w;
	int r;

	json_walk_begin(&w, text);
	r = json_walk_next(&w, &item);
	if (r == 1 && item.kind != JSON_WALK_OBJECT)
		return -EINVAL;
	while (r == 1 && (r = json_walk_next(&w, &item)) == 1) {
		if (item.depth != 1)
			continue;
		if (item.kind == JSON_WALK_CLOSE) {
			if (is_open)
				found.raw = item.raw;
			is_open = false;
		} else if (json_walk_is(item.name, name)) {
			if (is_there)
				return -EEXIST;
			is_there = true;
			found = item;
			is_open = item.kind == JSON_WALK_OBJECT || item.kind == JSON_WALK_ARRAY;
		}
	}
	if (r < 0 || !is_there)
		return r;
	*ret_item = found;
	return 1;
}
