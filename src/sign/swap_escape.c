/* swap_escape.c - undoes one escape: those of URLs and JSON, and in responses also those of HTML,
 * mail and programming languages. */
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "sign/swap_parts.h"

#define CODE_DIGITS_MAX 8               /* of &#...; */
#define CODE_MAX 0x10ffff

const unsigned char swap_short_forms[256] = {
	['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n',
	['r'] = '\r', ['t'] = '\t',
};

/* Parse N hex digits.  -1: they are not; -2: not known yet. */
static int
hex_number(const unsigned char *at, size_t len, size_t n)
{
	int v = 0;

	for (size_t i = 0; i < n; i++) {
		int d = i < len ? codec_hex_value((char)at[i]) : -2;

		if (d < 0)
			return d;
		v = v << 4 | d;
	}
	return v;
}

static size_t
put_utf8(uint32_t c, unsigned char ret[4])
{
	if (c < 0x80) {
		ret[0] = (unsigned char)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (unsigned char)(0xc0 | c >> 6);
		ret[1] = (unsigned char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (unsigned char)(0xe0 | c >> 12);
		ret[1] = (unsigned char)(0x80 | (c >> 6 & 63));
		ret[2] = (unsigned char)(0x80 | (c & 63));
		return 3;
	}
	ret[0] = (unsigned char)(0xf0 | c >> 18);
	ret[1] = (unsigned char)(0x80 | (c >> 12 & 63));
	ret[2] = (unsigned char)(0x80 | (c >> 6 & 63));
	ret[3] = (unsigned char)(0x80 | (c & 63));
	return 4;
}

/* Each of these returns as swap_unescape(), which has set RET to the byte itself. */

/* Two hex digits after SKIP bytes. */
static size_t
unescape_hex(const unsigned char *at, size_t len, size_t skip, bool last, unsigned char ret[4])
{
	int c = hex_number(at + skip, len - skip, 2);

	if (c < 0)
		return c == -2 && !last ? 0 : 1;
	ret[0] = (unsigned char)c;
	return skip + 2;
}

/* A character's number after SKIP bytes, followed by END. */
static size_t
unescape_code(const unsigned char *at, size_t len, size_t skip, unsigned base, unsigned char end,
              bool last, unsigned char ret[4], size_t *ret_n)
{
	uint32_t c = 0;
	size_t i = skip;

	for (; i < len && i - skip < CODE_DIGITS_MAX; i++) {
		int d = codec_hex_value((char)at[i]);

		if (d < 0 || (unsigned)d >= base)
			break;
		c = c * base + (unsigned)d;
	}
	if (i == len)
		return last ? 1 : 0;
	if (i == skip || at[i] != end || c > CODE_MAX)
		return 1;
	*ret_n = put_utf8(c, ret);
	return i + 1;
}

/* \uXXXX, and a second one if it is a surrogate pair. */
static size_t
unescape_u(const unsigned char *at, size_t len, bool last, unsigned char ret[4], size_t *ret_n)
{
	int c = hex_number(at + 2, len - 2, 4), low = -1;

	if (c == -2 && !last)
		return 0;
	if (c < 0)
		return 1;
	if (c >= 0xd800 && c < 0xdc00) {
		if (len < 8)
			low = (len == 6 || (len == 7 && at[6] == '\\')) && !last ? -2 : -1;
		else if (at[6] == '\\' && at[7] == 'u')
			low = hex_number(at + 8, len - 8, 4);
		if (low == -2 && !last)
			return 0;
	}
	if (low >= 0xdc00 && low < 0xe000) {
		*ret_n = put_utf8(0x10000 + (((uint32_t)c & 0x3ff) << 10 | ((uint32_t)low & 0x3ff)), ret);
		return 12;
	}
	*ret_n = put_utf8((uint32_t)c, ret);
	return 6;
}

/* \163: always three digits. */
static size_t
unescape_octal(const unsigned char *at, size_t len, bool last, unsigned char ret[4])
{
	unsigned c = 0;

	for (size_t i = 1; i < 4; i++) {
		if (i == len)
			return last ? 1 : 0;
		if (at[i] < '0' || at[i] > '7')
			return 1;
		c = c << 3 | (unsigned)(at[i] - '0');
	}
	ret[0] = (unsigned char)c;
	return 4;
}

static size_t
unescape_backslash(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
                   unsigned char ret[4], size_t *ret_n)
{
	if (set->echoed && at[1] == 'x')
		return unescape_hex(at, len, 2, last, ret);
	if (set->echoed && at[1] >= '0' && at[1] <= '3')
		return unescape_octal(at, len, last, ret);
	if (set->echoed && at[1] == 'u' && len > 2 && at[2] == '{')
		return unescape_code(at, len, 3, 16, '}', last, ret, ret_n);
	if (at[1] == 'u')
		return unescape_u(at, len, last, ret, ret_n);
	/* JSON has no escape for it; JavaScript, Python and PHP have. */
	if (set->echoed && at[1] == '\'') {
		ret[0] = '\'';
		return 2;
	}
	if (swap_short_forms[at[1]] == 0)
		return 1;
	ret[0] = swap_short_forms[at[1]];
	return 2;
}

/* &#115; &#x73; and the names of ASCII characters that are neither letters nor digits. */
static size_t
unescape_html(const unsigned char *at, size_t len, bool last, unsigned char ret[4], size_t *ret_n)
{
	/* By their first letters; each is followed by the character that it stands for. */
	static const char *const names[256] = {
		['A'] = "AMP;&", ['G'] = "GT;>", ['H'] = "Hat;^", ['L'] = "LT;<", ['N'] = "NewLine;\n",
		['Q'] = "QUOT;\"", ['T'] = "Tab;\t", ['U'] = "UnderBar;_",
		['a'] = "amp;&apos;'ast;*", ['b'] = "bsol;\\", ['c'] = "comma;,colon;:commat;@",
		['d'] = "dollar;$", ['e'] = "equals;=excl;!", ['g'] = "gt;>grave;`",
		['l'] = "lt;<lowbar;_lpar;(lsqb;[lbrack;[lcub;{lbrace;{", ['m'] = "midast;*", ['n'] = "num;#",
		['p'] = "plus;+period;.percnt;%", ['q'] = "quot;\"quest;?",
		['r'] = "rpar;)rsqb;]rbrack;]rcub;}rbrace;}", ['s'] = "sol;/semi;;", ['v'] = "verbar;|vert;|",
	};
	const char *name = names[at[1]];
	bool is_open = false;

	if (at[1] == '#' && len < 3)
		return last ? 1 : 0;
	if (at[1] == '#')
		return (at[2] | 0x20) == 'x' ? unescape_code(at, len, 3, 16, ';', last, ret, ret_n)
		                             : unescape_code(at, len, 2, 10, ';', last, ret, ret_n);
	for (size_t n; name != NULL && name[0] != '\0'; name += n + 1) {
		size_t has;

		n = (size_t)(strchr(name, ';') - name) + 1;
		has = len - 1 < n ? len - 1 : n;
		if (memcmp(at + 1, name, has) != 0)
			continue;
		if (has == n) {
			ret[0] = (unsigned char)name[n];
			return n + 1;
		}
		is_open = true;
	}
	return is_open && !last ? 0 : 1;
}

/* Quoted-printable: =73.  A soft line break (= at the end of a line) counts as part of what
 * follows, so that no escape is empty.  Two of them never follow each other. */
static size_t
unescape_quoted(const unsigned char *at, size_t len, bool last, unsigned char ret[4])
{
	size_t skip = at[1] == '\n' ? 2 : at[1] == '\r' ? 3 : 0, used;

	if (skip == 0)
		return unescape_hex(at, len, 1, last, ret);
	if (skip == 3 && len > 2 && at[2] != '\n')
		return 1;
	if (len <= skip)
		return last ? 1 : 0;
	if (at[skip] != '=') {
		ret[0] = at[skip];
		return skip + 1;
	}
	used = unescape_hex(at + skip, len - skip, 1, last, ret);
	return used > 1 ? skip + used : used;
}

size_t
swap_unescape(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
              unsigned char ret[4], size_t *ret_n)
{
	ret[0] = at[0];
	*ret_n = 1;
	if (set->mark[at[0]] == 0)
		return 1;
	if (len < 2)
		return last ? 1 : 0;
	switch (at[0]) {
	case '%':
		return unescape_hex(at, len, 1, last, ret);
	case '&':
		return unescape_html(at, len, last, ret, ret_n);
	case '=':
		return unescape_quoted(at, len, last, ret);
	default:
		return unescape_backslash(set, at, len, last, ret, ret_n);
	}
}

enum swap_escape
swap_escape_of(const unsigned char *at)
{
	switch (at[0]) {
	case '%':
		return SWAP_BY_PERCENT;
	case '&':
		return SWAP_BY_HTML;
	case '=':
		return SWAP_BY_QUOTED;
	default:
		return at[1] == 'x' ? SWAP_BY_X : at[1] >= '0' && at[1] <= '3' ? SWAP_BY_OCTAL : SWAP_BY_JSON;
	}
}

void
swap_escape_marks(struct swap_set *set)
{
	set->mark['%'] = 1;
	set->mark['\\'] = 2;
	if (set->echoed) {
		set->mark['&'] = 4;
		set->mark['='] = 8;
	}
}
