/* http_field.c - character classes, and the fields that need special treatment. */
#include <stdint.h>
#include <string.h>

#include "base/own.h"
#include "http/http_parts.h"

#define LOWER(c) [c] = ((c) | 0x20)
#define SAME(c) [c] = (c)

/* RFC 9110, 5.6.2: token */
const unsigned char http_name_lower[256] = {
	LOWER('A'), LOWER('B'), LOWER('C'), LOWER('D'), LOWER('E'), LOWER('F'), LOWER('G'),
	LOWER('H'), LOWER('I'), LOWER('J'), LOWER('K'), LOWER('L'), LOWER('M'), LOWER('N'),
	LOWER('O'), LOWER('P'), LOWER('Q'), LOWER('R'), LOWER('S'), LOWER('T'), LOWER('U'),
	LOWER('V'), LOWER('W'), LOWER('X'), LOWER('Y'), LOWER('Z'),
	SAME('a'), SAME('b'), SAME('c'), SAME('d'), SAME('e'), SAME('f'), SAME('g'), SAME('h'),
	SAME('i'), SAME('j'), SAME('k'), SAME('l'), SAME('m'), SAME('n'), SAME('o'), SAME('p'),
	SAME('q'), SAME('r'), SAME('s'), SAME('t'), SAME('u'), SAME('v'), SAME('w'), SAME('x'),
	SAME('y'), SAME('z'),
	SAME('0'), SAME('1'), SAME('2'), SAME('3'), SAME('4'), SAME('5'), SAME('6'), SAME('7'),
	SAME('8'), SAME('9'),
	SAME('!'), SAME('#'), SAME('$'), SAME('%'), SAME('&'), SAME('\''), SAME('*'), SAME('+'),
	SAME('-'), SAME('.'), SAME('^'), SAME('_'), SAME('`'), SAME('|'), SAME('~'),
};

#define EVERY(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether any of eight bytes is below 0x20 or is DEL. */
static bool
has_control(uint64_t eight)
{
	uint64_t below = (eight - EVERY(0x20)) & ~eight & EVERY(0x80);
	uint64_t del = eight ^ EVERY(0x7f);

	return (below | ((del - EVERY(1)) & ~del & EVERY(0x80))) != 0;
}

const char *
http_value_end(const char *at, const char *end)
{
	uint64_t eight;

	for (;;) {
		while (end - at >= 8) {
			memcpy(&eight, at, 8);
			if (has_control(eight))
				break;
			at += 8;
		}
		for (int i = 0; i < 8; i++, at++) {
			unsigned char c;

			if (at == end)
				return at;
			c = (unsigned char)*at;
			if ((c < 0x20 && c != '\t') || c == 0x7f)
				return at;
		}
	}
}

#define MEMBER (HTTP_HOP | HTTP_NO_TRAILER | HTTP_KEEP | HTTP_NO_ALIAS)
#define DROPPED (HTTP_HOP | HTTP_NO_TRAILER)
#define MATTERS (HTTP_ONCE | HTTP_NO_TRAILER | HTTP_KEEP | HTTP_NO_ALIAS)
#define HEAD_ONLY (HTTP_NO_TRAILER | HTTP_KEEP)

/* One list for each length of name. */
static const struct http_known known_2[] = {
	{ "te", HTTP_TE, HTTP_ONCE | HTTP_NO_TRAILER, 1 },
};
static const struct http_known known_3[] = {
	{ "age", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
	{ "via", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_4[] = {
	{ "host", HTTP_HOST, MEMBER, 0 },
	{ "date", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
	{ "vary", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_5[] = {
	{ "range", HTTP_OTHER, MATTERS, 2 },
};
static const struct http_known known_6[] = {
	{ "cookie", HTTP_OTHER, HEAD_ONLY | HTTP_NO_ALIAS, 0 },
	{ "expect", HTTP_EXPECT, MATTERS, 3 },
	{ "origin", HTTP_OTHER, MATTERS, 4 },
	{ "pragma", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_7[] = {
	{ "upgrade", HTTP_UPGRADE, DROPPED, 0 },
	{ "expires", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
	{ "referer", HTTP_OTHER, MATTERS, 5 },
	{ "trailer", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_8[] = {
	{ "if-match", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "if-range", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "location", HTTP_OTHER, HEAD_ONLY, 0 },
};
static const struct http_known known_9[] = {
	{ "forwarded", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_10[] = {
	{ "connection", HTTP_CONNECTION, MEMBER, 0 },
	{ "keep-alive", HTTP_OTHER, DROPPED, 0 },
	{ "set-cookie", HTTP_OTHER, HEAD_ONLY, 0 },
};
static const struct http_known known_11[] = {
	{ "retry-after", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
};
static const struct http_known known_12[] = {
	{ "content-type", HTTP_OTHER, MATTERS, 6 },
	{ "max-forwards", HTTP_OTHER, HEAD_ONLY, 0 },
};
static const struct http_known known_13[] = {
	{ "authorization", HTTP_OTHER, MATTERS, 7 },
	{ "cache-control", HTTP_OTHER, HTTP_NO_TRAILER, 0 },
	{ "content-range", HTTP_OTHER, MATTERS, 8 },
	{ "if-none-match", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "x-http-method", HTTP_OTHER, MATTERS, 9 },
};
static const struct http_known known_14[] = {
	{ "content-length", HTTP_CONTENT_LENGTH, MEMBER, 0 },
	{ "http2-settings", HTTP_OTHER, DROPPED, 0 },
};
static const struct http_known known_16[] = {
	{ "content-encoding", HTTP_OTHER, MATTERS, 10 },
	{ "www-authenticate", HTTP_OTHER, HEAD_ONLY, 0 },
};
static const struct http_known known_17[] = {
	{ "transfer-encoding", HTTP_TRANSFER_ENCODING, MEMBER, 0 },
	{ "if-modified-since", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "sec-websocket-key", HTTP_OTHER, MATTERS, 11 },
	{ "x-method-override", HTTP_OTHER, MATTERS, 12 },
};
static const struct http_known known_19[] = {
	{ "authentication-info", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "content-disposition", HTTP_OTHER, HEAD_ONLY, 0 },
	{ "if-unmodified-since", HTTP_OTHER, HEAD_ONLY, 0 },
};
static const struct http_known known_20[] = {
	{ "sec-websocket-accept", HTTP_OTHER, MATTERS, 13 },
};
static const struct http_known known_21[] = {
	{ "sec-websocket-version", HTTP_OTHER, MATTERS, 14 },
};
static const struct http_known known_22[] = {
	{ "x-http-method-override", HTTP_OTHER, MATTERS, 15 },
};

#define LIST(n) [n] = { known_##n, ARRAY_LEN(known_##n) }
static const struct {
	const struct http_known *list;
	size_t n;
} known_by_length[] = {
	LIST(2), LIST(3), LIST(4), LIST(5), LIST(6), LIST(7), LIST(8), LIST(9), LIST(10),
	LIST(11), LIST(12), LIST(13), LIST(14), LIST(16), LIST(17), LIST(19), LIST(20),
	LIST(21), LIST(22),
};

const struct http_known *
http_known_find(const char *name, size_t len)
{
	static const struct http_known proxy = { "proxy-", HTTP_OTHER, DROPPED, 0 };

	if (len < ARRAY_LEN(known_by_length))
		for (size_t i = 0; i < known_by_length[len].n; i++)
			if (memcmp(known_by_length[len].list[i].name, name, len) == 0)
				return &known_by_length[len].list[i];
	return len > 6 && memcmp(name, "proxy-", 6) == 0 ? &proxy : NULL;
}

const struct http_known *
http_known_alias(const char *name, size_t len)
{
	char plain[ARRAY_LEN(known_by_length)];
	const struct http_known *known;

	if (len >= sizeof(plain) || memchr(name, '_', len) == NULL)
		return NULL;
	for (size_t i = 0; i < len; i++)
		plain[i] = name[i] == '_' ? '-' : name[i];
	known = http_known_find(plain, len);
	return known != NULL && (known->flags & HTTP_NO_ALIAS) != 0 ? known : NULL;
}

bool
http_field_is_hop(struct http_text name)
{
	const struct http_known *known = http_known_find(name.at, name.len);

	return known != NULL && (known->flags & HTTP_HOP) != 0;
}

bool
http_method_is_good(struct http_text method)
{
	if (method.len == 0 || method.len > HTTP_METHOD_MAX)
		return false;
	for (size_t i = 0; i < method.len; i++) {
		char c = method.at[i];

		/* To some servers lower case is a different method, to others the same one. */
		if (!(c >= 'A' && c <= 'Z') &&
		    (i == 0 || !(http_is_digit(c) || c == '-' || c == '_')))
			return false;
	}
	return true;
}
