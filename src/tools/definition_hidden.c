/* definition_hidden.c - finds text that a person does not see, and that a model reads. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "tools/definition.h"

#define BLANKS_MAX 100                  /* blanks in a row, */
#define LINES_BLANK_MAX 10              /* and newlines among them */
#define DEPTH_MAX 64                    /* as canon/canon.h reads */

struct range { uint32_t first, last; };

/* Characters without a shape that no language needs.  Joiners and variation selectors are looked at in their place. */
static const struct range invisible[] = {
	{ 0x00AD, 0x00AD }, { 0x034F, 0x034F }, { 0x115F, 0x1160 }, { 0x17B4, 0x17B5 }, { 0x180B, 0x180F },
	{ 0x200B, 0x200B }, { 0x2060, 0x2065 }, { 0x206A, 0x206F }, { 0x2800, 0x2800 }, { 0x3164, 0x3164 },
	{ 0xFEFF, 0xFEFF }, { 0xFFA0, 0xFFA0 }, { 0xFFF0, 0xFFFB }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A },
	{ 0xE0000, 0xE0FFF }, { 0xE000, 0xF8FF }, { 0xF0000, 0x10FFFF },
};
static const struct range bidi[] = {
	{ 0x061C, 0x061C }, { 0x200E, 0x200F }, { 0x202A, 0x202E }, { 0x2066, 0x2069 },
};

static bool
is_in(uint32_t code, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* Between these, a joiner changes what is shown: scripts of letters that connect, and emoji. */
static bool
is_joinable(uint32_t code)
{
	return (code >= 0x0600 && code < 0x1100) || (code >= 0x1700 && code < 0x1800) ||
	       (code >= 0x2190 && code < 0x2C00) || code == 0xFE0F || (code >= 0x1F000 && code < 0x20000);
}

/* A selector belongs to a symbol, a digit of a key cap, or an ideograph: once. */
static bool
is_selectable(uint32_t code)
{
	return (code >= 0x2010 && code < 0x2C00) || (code >= 0x3000 && code < 0xA000) || code >= 0x1F000 ||
	       code == 0xA9 || code == 0xAE || code == '#' || code == '*' || (code >= '0' && code <= '9');
}

static unsigned
look_at(uint32_t code, uint32_t before)
{
	const bool is_joiner = code == 0x200C || code == 0x200D;
	const bool is_selector = code >= 0xFE00 && code <= 0xFE0F;

	if (is_in(code, bidi, ARRAY_LEN(bidi)))
		return 1u << DEFINITION_BIDI;
	if (is_in(code, invisible, ARRAY_LEN(invisible)) || (is_joiner && !is_joinable(before)) ||
	    (is_selector && !is_selectable(before)))
		return 1u << DEFINITION_ZERO_WIDTH;
	if (code != '\n' && code != '\t' && code != '\r' && !is_joiner && utf8_is_control(code))
		return 1u << DEFINITION_CONTROL;
	return 0;
}

static bool
is_blank(uint32_t code)
{
	return code == ' ' || code == '\t' || code == '\n' || code == '\r' || code == 0xA0 ||
	       (code >= 0x2000 && code <= 0x200A) || code == 0x202F || code == 0x205F || code == 0x3000;
}

unsigned
definition_hidden_in(const char *text, size_t len)
{
	unsigned found = memmem(text, len, "<!--", 4) != NULL ? 1u << DEFINITION_COMMENT : 0;
	size_t blanks = 0, lines = 0, n;
	uint32_t code = 0, before = 0;

	for (; len > 0; text += n, len -= n, before = code) {
		n = utf8_next(text, len, &code);
		if (n == 0)
			return found | 1u << DEFINITION_CONTROL;
		found |= look_at(code, before);
		if (is_blank(code)) {
			blanks++;
			lines += code == '\n';
			continue;
		}
		/* At the end they hide nothing. */
		if (blanks > BLANKS_MAX || lines > LINES_BLANK_MAX)
			found |= 1u << DEFINITION_PADDING;
		blanks = lines = 0;
	}
	return found;
}

void
definition_put_clean(struct buf *b, const char *text, size_t len)
{
	uint32_t code = 0, before = 0;
	size_t n;

	for (; len > 0; text += n, len -= n, before = code) {
		n = utf8_next(text, len, &code);
		if (n == 0 || code == '\0' || look_at(code, before) != 0)
			buf_put_text(b, "\xef\xbf\xbd");
		else if (code != '\r')
			buf_put(b, text, n);
		n += n == 0;
	}
}

/* ---- a whole definition ---- */

struct search {
	struct definition_hidden *found;
	size_t n, max;
};

static void
add_found(struct search *s, unsigned found, const char *where)
{
	for (unsigned kind = 0; kind <= DEFINITION_PADDING && s->n < s->max; kind++) {
		struct definition_hidden *h = &s->found[s->n];
		size_t at = 0;

		if ((found >> kind & 1) == 0)
			continue;
		h->kind = kind;
		for (; where[at] != '\0' && at + 1 < sizeof(h->where); at++)
			h->where[at] = (where[at] >= ' ' && where[at] < 0x7f) ? where[at] : '?';
		h->where[at] = '\0';
		s->n++;
	}
}

static void
search_value(struct search *s, const json_t *value, const char *where, unsigned depth)
{
	char inner[2 * DEFINITION_SHOWN_MAX];
	const char *key;
	json_t *member;
	size_t i, len;

	if (depth == DEPTH_MAX || s->n == s->max)
		return;
	if (json_is_string(value))
		add_found(s, definition_hidden_in(json_string_value(value), json_string_length(value)), where);
	json_array_foreach((json_t *)(uintptr_t)value, i, member) {
		snprintf(inner, sizeof(inner), "%s/%zu", where, i);
		search_value(s, member, inner, depth + 1);
	}
	json_object_keylen_foreach((json_t *)(uintptr_t)value, key, len, member) {
		snprintf(inner, sizeof(inner), "%s/%s", where, key);
		add_found(s, definition_hidden_in(key, len), inner);
		search_value(s, member, inner, depth + 1);
	}
}

size_t
definition_find_hidden(const json_t *tool, struct definition_hidden *ret_hidden, size_t max)
{
	struct search s = { .found = ret_hidden, .max = max };

	search_value(&s, tool, "", 0);
	return s.n;
}

const char *
definition_hidden_name(enum definition_hidden_kind kind)
{
	static const char *const names[] = {
		[DEFINITION_ZERO_WIDTH] = "invisible characters",
		[DEFINITION_BIDI] = "characters that change the order of the text",
		[DEFINITION_CONTROL] = "control characters or escape sequences",
		[DEFINITION_COMMENT] = "an HTML comment",
		[DEFINITION_PADDING] = "text behind a long run of blanks",
	};

	return names[kind];
}
