/* http_dots.c - finds path segments that a lenient server could read as "." or "..".
 *
 * Servers decode escapes twice, drop control characters, accept overlong UTF-8, fold wide
 * characters to ASCII, and cut parameters off.  A server that does several of these in any order
 * must find no dot segment in a path that we accept.  So the segment is read once, as leniently as
 * all of them together.
 *
 * A *solid* character is one that no server removes or turns into a dot or a separator.  Anything
 * that may be a separator divides the segment into parts.  A part with a dot and nothing solid is
 * ambiguous.  The stack holds only bytes that may still become a character: "%", hex digits behind
 * it, and an unfinished UTF-8 sequence. */
#include <string.h>

#include "base/codec.h"
#include "http/http_parts.h"

#define DEPTH_MAX 64            /* nested escapes; no honest client needs three */

#define TORN 0x100              /* a byte was dropped behind this one */
#define WIDE 0x200              /* a character that may fold to a hex digit */

struct reading {
	uint16_t stack[DEPTH_MAX];
	size_t n;
	/* the current part: */
	size_t dots;
	bool odd;               /* has more than literal dots */
	bool solid;
	bool wild;              /* has an escape of WIDE characters: a dot or a separator */
	bool before;            /* a solid character precedes it */
	bool bad;
};

/* Characters with a meaning in paths, and the zero byte. */
static const char separators[] = "./\\;?#%";

static void take_byte(struct reading *r, unsigned byte);

static bool
is_high(uint16_t entry)
{
	return (entry & 0x80) != 0 && (entry & WIDE) == 0;
}

/* Nothing on the stack can change any more. */
static void
freeze(struct reading *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->stack[i] != '%' && !is_high(r->stack[i]))
			r->solid = true;
	r->n = 0;
}

static void
check_part(struct reading *r)
{
	if (r->solid)
		return;
	if ((r->dots > 0 && (r->odd || r->dots <= 2)) || (r->wild && !r->before))
		r->bad = true;
}

static void
begin_part(struct reading *r, bool solid)
{
	r->dots = 0;
	r->odd = r->wild = r->before = false;
	r->solid = solid;
}

static void
push(struct reading *r, uint16_t entry)
{
	if (r->n == DEPTH_MAX)
		r->bad = true;
	else
		r->stack[r->n++] = entry;
}

static bool
is_ignored(unsigned byte)
{
	return byte <= ' ' || byte == 0x7f || byte == '+';
}

/* A character was here that some readers drop. */
static void
skip(struct reading *r)
{
	r->odd = true;
	if (r->n > 0 && is_high(r->stack[r->n - 1]))
		r->stack[r->n - 1] |= TORN;
}

/* Drop the bytes of an unfinished UTF-8 sequence. */
static void
drop_unfinished(struct reading *r)
{
	while (r->n > 0 && is_high(r->stack[r->n - 1])) {
		r->n--;
		r->odd = true;
	}
}

/* ---- escapes within escapes ---- */

/* How many entries follow the last "%"; SIZE_MAX if there is none. */
static size_t
since_percent(const struct reading *r)
{
	for (size_t i = r->n; i > 0; i--)
		if (r->stack[i - 1] == '%')
			return r->n - i;
	return SIZE_MAX;
}

static bool
is_long_escape(const struct reading *r, size_t since)
{
	return since >= 1 && since <= 5 && (r->stack[r->n - since] | 0x20) == 'u';
}

/* A character that readers may treat as a dot, a separator or nothing. */
static void
take_wild(struct reading *r)
{
	/* If it is nothing, it would complete an escape around it: surely an attack. */
	r->bad |= since_percent(r) != SIZE_MAX;
	freeze(r);
	check_part(r);
	r->before |= r->solid;
	r->solid = false;
	r->dots = 0;
	r->odd = r->wild = true;
}

static void take_code(struct reading *r, uint32_t code, bool torn);

/* The last N entries are the digits of an escape. */
static void
reduce(struct reading *r, size_t n, bool is_long)
{
	const uint16_t *digits = r->stack + r->n - n;
	uint32_t code = 0;
	bool wide = false;

	for (size_t i = 0; i < n; i++) {
		wide |= digits[i] == WIDE;
		code = code << 4 | (uint32_t)(wide ? 0 : codec_hex_value((char)digits[i]));
	}
	r->n -= n + 1 + is_long;
	r->odd = true;
	if (wide)
		take_wild(r);
	else if (is_long && code >= 0x80)
		take_code(r, code, true);
	else
		take_byte(r, code);
	/* Other readers drop the expected next byte before they reach this one. */
	if (r->n > 0 && is_high(r->stack[r->n - 1]))
		r->stack[r->n - 1] |= TORN;
}

/* A character that may be a digit of an escape; false: it is not. */
static bool
take_digit(struct reading *r, uint16_t c)
{
	size_t since = since_percent(r);
	bool hex = c == WIDE || codec_hex_value((char)c) >= 0;

	if (since == SIZE_MAX || since > 5)
		return false;
	if (since == 0 && (c | 0x20) == 'u') {
		push(r, c);
		return true;
	}
	if (!hex || (since > 1 && !is_long_escape(r, since)))
		return false;
	push(r, c);
	if (is_long_escape(r, since + 1) && since + 1 == 5)
		reduce(r, 4, true);
	else if (since == 1 && !is_long_escape(r, 2))
		reduce(r, 2, false);
	return true;
}

/* ---- characters ---- */

/* Characters beyond ASCII that fold to a separator, a dot or "%", or that some readers treat as
 * one. */
static const struct {
	uint32_t code;
	char means;
} folds[] = {
	{ 0x037e, ';' }, { 0x2024, '.' }, { 0x2025, '.' }, { 0x2026, '.' }, { 0x2044, '/' },
	{ 0x2047, '?' }, { 0x2048, '?' }, { 0x2049, '?' }, { 0x2215, '/' }, { 0x2216, '\\' },
	{ 0x29f5, '\\' }, { 0x29f8, '/' }, { 0x29f9, '\\' }, { 0x3002, '.' }, { 0xfe14, ';' },
	{ 0xfe16, '?' }, { 0xfe19, '.' }, { 0xfe30, '.' }, { 0xfe52, '.' }, { 0xfe54, ';' },
	{ 0xfe56, '?' }, { 0xfe5f, '#' }, { 0xfe68, '\\' }, { 0xfe6a, '%' }, { 0xff61, '.' },
};

/* Blanks, controls and characters without width: readers trim, strip or ignore them. */
static const struct { uint32_t first, last; } ignored[] = {
	{ 0x80, 0xa0 }, { 0xad, 0xad }, { 0x34f, 0x34f }, { 0x600, 0x605 }, { 0x61c, 0x61c },
	{ 0x6dd, 0x6dd }, { 0x70f, 0x70f }, { 0x890, 0x891 }, { 0x8e2, 0x8e2 },
	{ 0x115f, 0x1160 }, { 0x1680, 0x1680 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
	{ 0x2000, 0x200f }, { 0x2028, 0x202f }, { 0x205f, 0x206f }, { 0x2800, 0x2800 },
	{ 0x3000, 0x3000 }, { 0x3164, 0x3164 }, { 0xd800, 0xf8ff }, { 0xfdd0, 0xfdef },
	{ 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xffff },
	{ 0x110bd, 0x110cd }, { 0x13430, 0x1345f }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
	{ 0xe0000, 0x1fffff },
};

/* The meaning of CODE (at least 0x80) to the most lenient reader: an ASCII character, 0 for
 * nothing, or -1 for itself. */
static int
meaning(uint32_t code)
{
	if (code >= 0xff01 && code <= 0xff5e)
		return (int)(code - 0xfee0);
	for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
		if (folds[i].code == code)
			return folds[i].means;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (code >= ignored[i].first && code <= ignored[i].last)
			return 0;
	return -1;
}

/* TORN: not every reader sees these bytes as one character. */
static void
take_code(struct reading *r, uint32_t code, bool torn)
{
	int means = meaning(code);

	if (means > 0 && torn && (means == ';' || means == '?' || means == '#')) {
		take_wild(r);
	} else if (means > 0) {
		r->odd = true;
		take_byte(r, (unsigned)means);
	} else if (means == 0 || torn) {
		skip(r);
	} else {
		drop_unfinished(r);
		if (take_digit(r, WIDE))
			return;
		freeze(r);
		r->solid = true;
	}
}

static void
take_ascii(struct reading *r, char c)
{
	if (c == '%') {
		skip(r);
		push(r, '%');
		return;
	}
	drop_unfinished(r);
	if (c == '.') {
		freeze(r);
		r->dots++;
	} else if (!take_digit(r, (uint16_t)c)) {
		freeze(r);
		r->solid = true;
	}
}

/* ---- UTF-8, including invalid forms ---- */

static size_t
sequence_length(unsigned lead)
{
	return lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 :
		lead < 0xfc ? 5 : lead < 0xfe ? 6 : 0;
}

/* The number of bytes of a sequence on top of the stack. */
static size_t
sequence_begun(const struct reading *r)
{
	for (size_t n = 1; n <= 6 && n <= r->n && is_high(r->stack[r->n - n]); n++)
		if ((r->stack[r->n - n] & 0xff) >= 0xc0)
			return n;
	return 0;
}

/* Whether decoders that only mask bits would treat BYTE as continuing the N bytes on top.  BYTE is
 * ASCII and not a continuation.  The sequence must then be overlong, and end in a character with a
 * meaning in paths. */
static bool
is_masked(const struct reading *r, size_t n, unsigned byte)
{
	unsigned lead = r->stack[r->n - n] & 0xff, bits;

	if (byte == '\0' || byte >= 0x80 || (lead != 0xc0 && lead != 0xc1 && lead != 0xe0 && lead != 0xf0 &&
	                     lead != 0xf8 && lead != 0xfc))
		return false;
	if (n + 1 < sequence_length(lead))
		return (byte & 0x3f) <= 1;
	bits = (r->stack[r->n - 1] & 1u) << 6 | (byte & 0x3f);
	return memchr(separators, (int)bits, sizeof(separators)) != NULL;
}

static void
finish_sequence(struct reading *r, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000, 0x200000, 0x4000000 };
	const uint16_t *bytes = r->stack + r->n - n;
	uint32_t code = bytes[0] & (0x7fu >> n);
	bool torn = n > 4;

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (bytes[i] & 0x3f);
	for (size_t i = 0; i + 1 < n; i++)
		torn |= (bytes[i] & TORN) != 0;
	r->n -= n;
	if (code < 0x80) {
		r->odd = true;
		r->bad |= since_percent(r) != SIZE_MAX;
	}
	if (code >= 0x80)
		take_code(r, code, torn || code < least[n]);
	else if (code == '.' || code == '/' || code == '\\' || code == '%')
		take_byte(r, code);
	else if (memchr(separators, (int)code, sizeof(separators)) != NULL)
		take_wild(r);
	else
		skip(r);
}

/* True: BYTE was part of the sequence on top. */
static bool
continue_sequence(struct reading *r, unsigned byte)
{
	size_t n = sequence_begun(r);

	/* Another escape may still supply the continuation. */
	if (n == 0 || byte == '%')
		return false;
	if ((byte & 0xc0) != 0x80 && !is_masked(r, n, byte))
		return false;
	if (is_ignored(byte)) {
		r->n -= n;
		take_wild(r);
		return true;
	}
	push(r, (uint16_t)(0x80 | (byte & 0x3f) | (byte < 0x80 ? TORN : 0)));
	if (n + 1 == sequence_length(r->stack[r->n - n - 1] & 0xff))
		finish_sequence(r, n + 1);
	return true;
}

static void
take_high(struct reading *r, unsigned byte)
{
	/* If a reader drops this sequence, an unfinished one before it may go on behind it. */
	skip(r);
	if (sequence_length(byte) > 0)
		push(r, (uint16_t)byte);
}

static void
take_byte(struct reading *r, unsigned byte)
{
	if (continue_sequence(r, byte))
		return;
	if (byte >= 0x80) {
		take_high(r, byte);
	} else if (byte == '/' || byte == '\\') {
		freeze(r);
		check_part(r);
		begin_part(r, false);
	} else if (byte == ';' || byte == '?' || byte == '#') {
		/* To readers that do not end the segment here, this character is part of it. */
		freeze(r);
		check_part(r);
		begin_part(r, true);
	} else if (byte == 0) {
		/* Some readers end the text here, others drop the character. */
		check_part(r);
		skip(r);
	} else if (is_ignored(byte)) {
		skip(r);
	} else {
		take_ascii(r, (char)byte);
	}
}

bool
http_segment_hides_dots(struct http_text segment)
{
	struct reading r = { .n = 0 };

	if (memchr(segment.at, '.', segment.len) == NULL && memchr(segment.at, '%', segment.len) == NULL)
		return false;
	for (size_t i = 0; i < segment.len && !r.bad; i++) {
		if (segment.at[i] != '%') {
			take_byte(&r, (unsigned char)segment.at[i]);
			continue;
		}
		take_byte(&r, (unsigned)codec_hex_byte(segment.at + i + 1));
		i += 2;
	}
	freeze(&r);
	check_part(&r);
	return r.bad;
}
