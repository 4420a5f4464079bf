/* canon_check.c - see canon_check.h. */
#include "canon/canon_check.h"

#include <string.h>

#include "base/text.h"
#include "canon/canon_text.h"

struct name {
	const char *at;                 /* as written, between the quotes */
	size_t len;
	bool plain;                     /* ASCII without escapes: bytes sort correctly */
};

struct check {
	const char *at, *end;
	char open[CANON_CHECK_DEPTH_MAX];
	struct name last[CANON_CHECK_DEPTH_MAX];      /* .at is NULL before the first */
	size_t depth;
};

/* ---- strings ---- */

/* At its opening quote. */
static bool
take_string(struct check *c, struct name *ret_name)
{
	const char *at = c->at, *end = c->end;
	uint32_t code;
	size_t n;

	if (at == end || *at != '"')
		return false;
	ret_name->at = ++at;
	ret_name->plain = true;
	for (;;) {
		at += canon_text_plain(at, (size_t)(end - at));
		c->at = at;
		if (at == end)
			return false;
		if (*at == '"')
			break;
		ret_name->plain = false;
		n = canon_text_next(at, end, &code);
		if (n == 0)
			return false;
		at += n;
	}
	ret_name->len = (size_t)(at - ret_name->at);
	c->at = at + 1;
	return true;
}

/* The UTF-16 units of a character: the first one in the high half, then the second. */
static uint32_t
units(uint32_t code)
{
	if (code < 0x10000)
		return code << 16;
	code -= 0x10000;
	return (0xd800 + (code >> 10)) << 16 | (0xdc00 + (code & 0x3ff));
}

/* Whether A comes before B, by units of UTF-16. */
static bool
is_before(const struct name *a, const struct name *b)
{
	const char *p = a->at, *p_end = a->at + a->len, *q = b->at, *q_end = b->at + b->len;
	uint32_t x, y;

	if (a->plain && b->plain) {
		size_t len = a->len < b->len ? a->len : b->len;
		int order = memcmp(p, q, len);

		return order < 0 || (order == 0 && a->len < b->len);
	}
	while (p < p_end && q < q_end) {
		p += canon_text_next(p, p_end, &x);
		q += canon_text_next(q, q_end, &y);
		if (x != y)
			return units(x) < units(y);
	}
	return p == p_end && q < q_end;
}

/* ---- other values ---- */

static bool
take_number(struct check *c)
{
	const char *from;
	uint64_t n = 0;
	bool minus = *c->at == '-';

	c->at += minus;
	from = c->at;
	while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && c->at - from < 17)
		n = n * 10 + (uint64_t)(*c->at++ - '0');
	if (c->at == from || (*from == '0' && (c->at - from > 1 || minus)))
		return false;
	/* These characters would make it a different number. */
	if (c->at < c->end && (*c->at == '.' || *c->at == 'e' || *c->at == 'E'))
		return false;
	return n <= CANON_CHECK_NUMBER_MAX;
}

/* Parse a member's name and colon, if one is due. */
static bool
take_name(struct check *c)
{
	struct name *last = &c->last[c->depth - 1], name;

	if (!take_string(c, &name) || c->at == c->end || *c->at != ':')
		return false;
	c->at++;
	if (last->at != NULL && !is_before(last, &name)) {
		c->at = name.at;
		return false;
	}
	*last = name;
	return true;
}

static bool
open_one(struct check *c)
{
	if (c->depth == CANON_CHECK_DEPTH_MAX)
		return false;
	c->open[c->depth] = *c->at++;
	c->last[c->depth++].at = NULL;
	return true;
}

/* Parse a value, or only the beginning of an object or array. */
static bool
take_value(struct check *c)
{
	struct name unused;

	if (c->depth > 0 && c->open[c->depth - 1] == '{' && !take_name(c))
		return false;
	if (c->at == c->end)
		return false;
	switch (*c->at) {
	case '{': case '[':
		return open_one(c);
	case '"':
		return take_string(c, &unused);
	case 't':
		return text_take(&c->at, c->end, "true");
	case 'f':
		return text_take(&c->at, c->end, "false");
	case 'n':
		return text_take(&c->at, c->end, "null");
	default:
		return take_number(c);
	}
}

/* Behind a value: close the objects and arrays that end here; true if another value is due. */
static bool
close_some(struct check *c)
{
	while (c->depth > 0 && c->at < c->end &&
	       *c->at == (c->open[c->depth - 1] == '{' ? '}' : ']')) {
		c->at++;
		c->depth--;
	}
	if (c->depth == 0 || c->at == c->end || *c->at != ',')
		return false;
	c->at++;
	return true;
}

const char *
canon_check_value(const char *at, const char *end, const char **ret_bad)
{
	struct check c = { .at = at, .end = end };
	bool due = true;
	size_t depth;

	while (due) {
		depth = c.depth;
		if (!take_value(&c))
			break;
		/* A newly opened object or array may be closed only if it is empty: "[,1]" is
		 * invalid. */
		due = c.depth > depth && c.at < c.end && *c.at != '}' && *c.at != ']' ? true :
		      close_some(&c);
		if (!due && c.depth == 0)
			return c.at;
	}
	*ret_bad = c.at;
	return NULL;
}

bool
canon_check_object(const char *text, size_t len)
{
	const char *bad;

	return len > 0 && text[0] == '{' && canon_check_value(text, text + len, &bad) == text + len;
}
