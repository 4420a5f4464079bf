/* swap_set.c - the set of needles: all their forms in order, and a table of where none can begin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/swap_parts.h"

#define FORMS_MAX 13                    /* of one needle: raw, plus, hex twice, base64 and base64url at
                                         * three offsets, upper and lower case, UTF-16 */
#define GRAM_ROOM 64                    /* one bit in this many is set */
#define GRAM_BITS_MIN 16                /* 8 KiB: the table stays in the first-level cache */

/* For base64 that begins after 0, 1 or 2 other bytes: bits of the value in the digit before. */
static const unsigned char lead[3] = { 0, 4, 2 };

/* ---- forms ---- */

static unsigned
byte_of(struct http_text value, size_t i)
{
	return i < value.len ? (unsigned char)value.at[i] : 'x';
}

unsigned char
swap_form_byte(enum swap_form form, unsigned phase, struct http_text value, size_t i)
{
	const char *hex = form == SWAP_HEX ? "0123456789abcdef" : "0123456789ABCDEF";
	size_t bit = lead[phase] + 6 * i;
	unsigned c;

	switch (form) {
	case SWAP_RAW:
		break;
	case SWAP_PLUS:
		c = byte_of(value, i);
		return (unsigned char)(c == ' ' ? '+' : c);
	case SWAP_UPPER:
		c = byte_of(value, i);
		return (unsigned char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
	case SWAP_LOWER:
		c = byte_of(value, i);
		return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	case SWAP_UTF16:
		return (unsigned char)(i % 2 == 0 ? byte_of(value, i / 2) : 0);
	case SWAP_HEX:
	case SWAP_HEX_UPPER:
		return (unsigned char)hex[byte_of(value, i / 2) >> (i % 2 == 0 ? 4 : 0) & 15];
	case SWAP_BASE64:
	case SWAP_BASE64URL:
		c = byte_of(value, bit / 8) << 8 | byte_of(value, bit / 8 + 1);
		return (unsigned char)codec_base64_alphabet[form == SWAP_BASE64URL][c >> (10 - bit % 8) & 63];
	}
	return (unsigned char)byte_of(value, i);
}

size_t
swap_form_len(enum swap_form form, unsigned phase, size_t len)
{
	switch (form) {
	case SWAP_RAW:
	case SWAP_PLUS:
	case SWAP_UPPER:
	case SWAP_LOWER:
		break;
	case SWAP_UTF16:
		/* The bytes common to both byte orders; the zero before or after stays. */
		return len > 0 ? 2 * len - 1 : 0;
	case SWAP_HEX:
	case SWAP_HEX_UPPER:
		return 2 * len;
	case SWAP_BASE64:
	case SWAP_BASE64URL:
		return (8 * len - lead[phase]) / 6;
	}
	return len;
}

static bool
is_base64(enum swap_form form)
{
	return form == SWAP_BASE64 || form == SWAP_BASE64URL;
}

unsigned
swap_form_before(enum swap_form form, unsigned phase)
{
	return is_base64(form) ? lead[phase] : 0;
}

unsigned
swap_form_behind(enum swap_form form, unsigned phase, size_t len)
{
	return is_base64(form) ? (unsigned)((8 * len - lead[phase]) % 6) : 0;
}

static unsigned char
pattern_byte(const struct swap_set *set, const struct pattern *p, size_t i)
{
	return swap_form_byte(p->form, p->phase, set->needles[p->needle].find, i);
}

/* ---- the set ---- */

static void
add_form(struct swap_set *set, size_t needle, enum swap_form form, unsigned phase)
{
	struct pattern *p = &set->patterns[set->n_patterns++];

	*p = (struct pattern){ .needle = (uint16_t)needle, .form = (uint8_t)form,
		.phase = (uint8_t)phase,
		.len = (uint32_t)swap_form_len(form, phase, set->needles[needle].find.len) };
}

static bool
is_ascii(struct http_text text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.at[i] >= 0x80)
			return false;
	return true;
}

static void
add_needle(struct swap_set *set, size_t i)
{
	struct http_text find = set->needles[i].find;

	add_form(set, i, SWAP_RAW, 0);
	if (memchr(find.at, ' ', find.len) != NULL)
		add_form(set, i, SWAP_PLUS, 0);
	for (size_t k = 0; k < find.len; k++)
		set->marks |= set->mark[(unsigned char)find.at[k]];
	if (set->echoed) {
		add_form(set, i, SWAP_UPPER, 0);
		add_form(set, i, SWAP_LOWER, 0);
		if (is_ascii(find))
			add_form(set, i, SWAP_UTF16, 0);
	}
	if (!set->coded)
		return;
	add_form(set, i, SWAP_HEX, 0);
	add_form(set, i, SWAP_HEX_UPPER, 0);
	for (unsigned phase = 0; phase < 3; phase++) {
		add_form(set, i, SWAP_BASE64, phase);
		add_form(set, i, SWAP_BASE64URL, phase);
	}
	for (unsigned c = 0; c < 256; c++)
		for (unsigned phase = 1; phase < 3; phase++) {
			int v = codec_base64_value((unsigned char)c), mask = (1 << lead[phase]) - 1;

			if (v >= 0 && (v & mask) == (unsigned char)find.at[0] >> (8 - lead[phase]))
				set->before[c] = true;
		}
}

static int
compare(const void *a, const void *b, void *arg)
{
	const struct swap_set *set = arg;
	const struct pattern *p = a, *q = b;
	uint32_t len = p->len < q->len ? p->len : q->len;

	for (uint32_t i = 0; i < len; i++) {
		int d = pattern_byte(set, p, i) - pattern_byte(set, q, i);

		if (d != 0)
			return d;
	}
	return p->len < q->len ? -1 : p->len > q->len;
}

/* If patterns are equal, the plainer form comes first. */
static int
compare_all(const void *a, const void *b, void *arg)
{
	const struct pattern *p = a, *q = b;
	int d = compare(a, b, arg);

	if (d == 0)
		d = p->form - q->form;
	if (d == 0)
		d = p->needle - q->needle;
	return d != 0 ? d : p->phase - q->phase;
}

static void
sort_patterns(struct swap_set *set)
{
	uint32_t n = 0;

	qsort_r(set->patterns, set->n_patterns, sizeof(*set->patterns), compare_all, set);
	for (uint32_t i = 0; i < set->n_patterns; i++)
		if (n == 0 || compare(&set->patterns[n - 1], &set->patterns[i], set) != 0)
			set->patterns[n++] = set->patterns[i];
	set->n_patterns = n;
	set->shortest = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++)
		set->shortest = set->patterns[i].len < set->shortest ? set->patterns[i].len : set->shortest;
	set->first[256] = n;
	for (uint32_t c = 0, i = 0; c < 256; c++) {
		set->first[c] = i;
		while (i < n && pattern_byte(set, &set->patterns[i], 0) == c)
			i++;
	}
}

static int
add_grams(struct swap_set *set)
{
	unsigned bits = GRAM_BITS_MIN;

	while (((size_t)1 << bits) < (size_t)set->n_patterns * STRIDE * GRAM_ROOM)
		bits++;
	set->gram_shift = 32 - bits;
	set->grams = calloc((size_t)1 << bits >> 6, sizeof(*set->grams));
	if (set->grams == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < set->n_patterns; i++) {
		unsigned char text[SAMPLED];

		for (size_t k = 0; k < SAMPLED; k++) {
			text[k] = pattern_byte(set, &set->patterns[i], k);
			set->early[text[k]] = true;
		}
		for (size_t k = 0; k < STRIDE; k++) {
			uint32_t slot = swap_gram_slot(set, text + k);

			set->grams[slot >> 6] |= UINT64_C(1) << (slot & 63);
		}
	}
	return 0;
}

int
swap_set_new(const struct swap_needle *needles, size_t n, unsigned flags,
             struct swap_set **ret_set, struct err *err)
{
	OWN(swap_set_freep) struct swap_set *set = NULL;

	if (n > SWAP_NEEDLES_MAX)
		return err_set(err, E2BIG, "there are more than %d values to look for", SWAP_NEEDLES_MAX);
	for (size_t i = 0; i < n; i++) {
		if (needles[i].find.len < SWAP_NEEDLE_MIN || needles[i].find.len > SWAP_NEEDLE_MAX)
			return err_set(err, EINVAL, "value %zu to look for has %zu bytes: it must have "
			               "%d to %d", i + 1, needles[i].find.len, SWAP_NEEDLE_MIN,
			               SWAP_NEEDLE_MAX);
		if (needles[i].with.len > SWAP_NEEDLE_MAX)
			return err_set(err, EINVAL, "value %zu to put in has more than %d bytes", i + 1,
			               SWAP_NEEDLE_MAX);
	}
	set = calloc(1, sizeof(*set));
	if (set != NULL)
		set->patterns = calloc(n * FORMS_MAX + 1, sizeof(*set->patterns));
	if (set == NULL || set->patterns == NULL)
		return err_set(err, ENOMEM, "cannot look for values: there is no memory");
	set->needles = needles;
	set->coded = (flags & SWAP_CODED) != 0;
	set->echoed = (flags & SWAP_ECHOED) != 0;
	swap_escape_marks(set);
	for (size_t i = 0; i < n; i++)
		add_needle(set, i);
	sort_patterns(set);
	if (add_grams(set) < 0)
		return err_set(err, ENOMEM, "cannot look for values: there is no memory");
	*ret_set = TAKE(set);
	return 0;
}

void
swap_set_free(struct swap_set *set)
{
	if (set == NULL)
		return;
	free(set->patterns);
	free(set->grams);
	free(set);
}
