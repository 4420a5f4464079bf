/* secrets_match.c - decides whether the text after a mark is a credential of that shape. */
#include "inspect/secrets_parts.h"

#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "credential/shape.h"
#include "inspect/one_of.h"

#define CHANCE_MAX 512          /* characters that are judged */

/* ---- characters ---- */

static bool
is_lower(unsigned char c)
{
	return c >= 'a' && c <= 'z';
}

static bool
is_upper(unsigned char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool
is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word(unsigned char c)
{
	return is_lower(c) || is_upper(c) || is_digit(c);
}

static bool
is_hex(unsigned char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool
secrets_left_edge(const struct secrets_view *view, size_t pos)
{
	const unsigned char *p = view->at + pos;

	if (pos == 0 || !is_word(p[-1]))
		return true;
	if (pos >= 2 && p[-2] == '\\' && is_one_of(p[-1], "nrtbfv"))
		return true;
	if (pos >= 3 && p[-3] == '%' && is_hex(p[-2]) && is_hex(p[-1]))
		return true;
	return pos >= 6 && p[-6] == '\\' && p[-5] == 'u' && is_hex(p[-4]) && is_hex(p[-3]) &&
	       is_hex(p[-2]) && is_hex(p[-1]);
}

size_t
secrets_line_end(const struct secrets_view *view, size_t pos)
{
	const unsigned char *p = view->at + pos;
	size_t left = view->len - pos, slashes = 0;

	if (left == 0)
		return 0;
	if (*p == '\n' || *p == '\r')
		return 1;
	if (left >= 3 && p[0] == '%' && p[1] == '0' && is_one_of(p[2], "AaDd"))
		return 3;
	/* Text may be nested in several levels of strings. */
	while (slashes < left && slashes < 8 && p[slashes] == '\\')
		slashes++;
	if (slashes > 0 && slashes < left && (p[slashes] == 'n' || p[slashes] == 'r'))
		return slashes + 1;
	return 0;
}

size_t
secrets_base64_decode(const struct secrets_view *view, size_t pos, unsigned char *out,
                      size_t size)
{
	uint32_t bits = 0;
	unsigned n_bits = 0;
	size_t n = 0;

	while (pos < view->len && n < size) {
		int value = codec_base64_value(view->at[pos]);
		size_t skip = value < 0 ? secrets_line_end(view, pos) : 1;

		if (skip == 0)
			break;
		pos += skip;
		if (value < 0)
			continue;
		bits = bits << 6 | (uint32_t)value;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			out[n++] = (unsigned char)(bits >> n_bits);
		}
	}
	return n;
}

/* ---- randomness ---- */

/* Words that people write in place of a key. */
static bool
has_word_of_a_stand_in(const unsigned char *text, size_t len)
{
	static const char *const words[] = {
		"example", "xxxx", "your", "fake", "dummy", "sample", "redact", "placeholder",
		"insert", "change", "abcdef", "012345", "123456",
	};
	unsigned char lower[UINT8_MAX];

	for (size_t i = 0; i < len; i++)
		lower[i] = is_upper(text[i]) ? text[i] | 0x20 : text[i];
	for (size_t w = 0; w < ARRAY_LEN(words); w++)
		if (memmem(lower, len, words[w], strlen(words[w])) != NULL)
			return true;
	return false;
}

/* The longest run of equal, ascending or descending characters. */
static size_t
longest_run(const unsigned char *text, size_t len)
{
	size_t longest = 1, run = 1;
	int last = 2;

	for (size_t i = 1; i < len; i++) {
		int step = text[i] - text[i - 1];

		if (step < -1 || step > 1)
			run = 1;
		else
			run = step == last ? run + 1 : 2;
		last = step;
		if (run > longest)
			longest = run;
	}
	return longest;
}

static bool
repeats_itself(const unsigned char *text, size_t len)
{
	for (size_t period = 1; period <= len / 2; period++)
		if (memcmp(text, text + period, len - period) == 0)
			return true;
	return false;
}

static unsigned
kind_of(unsigned char c)
{
	return is_digit(c) ? 1 : is_upper(c) ? 2 : is_lower(c) ? 4 : 0;
}

bool
secrets_looks_random(const unsigned char *text, size_t len)
{
	unsigned char count[256] = {0};
	size_t distinct = 0, most = 0, changes = 0;
	unsigned kinds = 0;

	if (len > UINT8_MAX)
		len = UINT8_MAX;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = text[i];

		distinct += count[c]++ == 0;
		if (count[c] > most)
			most = count[c];
		changes += i > 0 && kind_of(c) != kind_of(text[i - 1]);
		kinds |= kind_of(c);
	}
	/* Of 20 random hex digits, fewer than 8 are different once in 10,000 times. */
	if (distinct < (len < 20 ? len * 2 / 5 : 8) || most > len / 4 + 1)
		return false;
	/* Words in camel case, and names with dashes. */
	if ((kinds & 1) == 0 && changes * 10 < len * 3)
		return false;
	/* It needs two of: digits, upper case, lower case. */
	if ((kinds & (kinds - 1)) == 0)
		return false;
	return longest_run(text, len) < 6 && !repeats_itself(text, len) &&
	       !has_word_of_a_stand_in(text, len);
}

/* ---- tails ---- */

/* The character at POS, where JSON may have "\/" for "/".  Returns its length. */
static size_t
next_char(const struct secrets_view *view, size_t pos, unsigned char *ret_c)
{
	size_t n = pos + 1 < view->len && view->at[pos] == '\\' && view->at[pos + 1] == '/' ? 2 : 1;

	if (pos >= view->len)
		return 0;
	*ret_c = view->at[pos + n - 1];
	return n;
}

size_t
secrets_take(const struct secrets_view *view, size_t *pos, char class, unsigned char *out,
             size_t max)
{
	unsigned char c;
	size_t n = 0, step;

	while (n < max && (step = next_char(view, *pos, &c)) > 0 && shape_class_has(class, c)) {
		out[n++] = c;
		*pos += step;
	}
	return n;
}

static bool
match_literal(const struct secrets_view *view, size_t *pos, const struct shape_item *item)
{
	unsigned char c;

	for (size_t i = 0; i < item->min; i++) {
		size_t step = next_char(view, *pos, &c);

		if (step == 0 || c != (unsigned char)item->at[i])
			return false;
		*pos += step;
	}
	return true;
}

/* The six digits at *POS, after the characters in CHANCE that they check. */
static bool
match_checksum(const struct secrets_view *view, size_t *pos, const unsigned char *chance, size_t n)
{
	char want[CODEC_CRC62_LEN];
	unsigned char is[CODEC_CRC62_LEN];

	if (n < SHAPE_CHECKED || secrets_take(view, pos, 'w', is, sizeof(is)) < sizeof(is))
		return false;
	codec_crc62(chance + n - SHAPE_CHECKED, SHAPE_CHECKED, want);
	return memcmp(is, want, sizeof(want)) == 0;
}

/* Where the match of TAIL ends, or 0.  Its characters, without the literals, are added to CHANCE. */
static size_t
match_tail(const char *tail, const struct secrets_view *view, size_t pos, bool open_end,
           unsigned char chance[CHANCE_MAX], size_t *ret_n_chance)
{
	struct shape_item item = {0};
	size_t n = 0;

	while (*tail != '\0' && (tail = shape_next_item(tail, &item)) != NULL) {
		size_t room = CHANCE_MAX - n, run;
		unsigned char c;

		if (item.class == 0 || item.class == 'c') {
			if (item.class == 0 ? !match_literal(view, &pos, &item) :
			                      !match_checksum(view, &pos, chance, n))
				return 0;
			continue;
		}
		if (room > item.max)
			room = item.max;
		run = secrets_take(view, &pos, item.class, chance + n, room);
		if (run < item.min)
			return 0;
		n += run;
		if (*tail == '\0' && !open_end && run == item.max &&
		    next_char(view, pos, &c) > 0 && shape_class_has(item.class, c))
			return 0;
	}
	*ret_n_chance = n;
	return pos;
}

bool
secrets_match(const struct secrets_shape *shape, const struct secrets_view *view, size_t mark)
{
	struct secrets_hit hit = { view, mark, mark + strlen(shape->mark), 0 };
	bool sure = (shape->flags & SHAPE_SURE) != 0;
	unsigned char chance[CHANCE_MAX];
	size_t n_chance = 0;

	if ((shape->flags & SHAPE_EDGE) != 0 && !secrets_left_edge(view, mark))
		return false;
	hit.end = hit.body;
	if (shape->tail != NULL) {
		hit.end = match_tail(shape->tail, view, hit.body, sure, chance, &n_chance);
		if (hit.end == 0 || (!sure && !secrets_looks_random(chance, n_chance)))
			return false;
	}
	return shape->check == NULL || shape->check(&hit);
}
