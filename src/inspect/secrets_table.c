/* secrets_table.c - builds the table that shows the scanner where no secret can begin. */
#include "inspect/secrets_table.h"

#include <assert.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "credential/shape.h"
#include "inspect/one_of.h"

#define BASE64_MIN 4            /* characters that must depend on the mark alone */

static struct secrets_table table;

/* ---- anchors ---- */

static void
add_anchor(const struct secrets_shape *shape, enum anchor_kind kind, unsigned phase,
           const char *text, size_t len)
{
	struct anchor *a = &table.anchors[table.n_anchors];

	if (len > ANCHOR_MAX)
		len = ANCHOR_MAX;
	assert(table.n_anchors < ANCHORS_MAX && len >= 2);
	*a = (struct anchor){ .shape = shape, .kind = kind, .phase = (unsigned char)phase,
	                      .len = (unsigned char)len };
	memcpy(a->text, text, len);
	table.n_anchors++;
}

/* Of the six bits from BIT on, those that belong to MARK; *ret_mask shows which. */
static unsigned
bits_of(const char *mark, size_t len, unsigned phase, size_t bit, unsigned *ret_mask)
{
	size_t first = 8 * (size_t)phase, end = first + 8 * len;
	unsigned value = 0, mask = 0;

	for (size_t i = bit; i < bit + 6; i++) {
		bool inside = i >= first && i < end;
		unsigned char c = inside ? (unsigned char)mark[i / 8 - phase] : 0;

		value = value << 1 | (c >> (7 - i % 8) & 1u);
		mask = mask << 1 | inside;
	}
	*ret_mask = mask;
	return value;
}

/* The characters of a mark's base64 that do not depend on its surroundings. */
static void
add_base64(const struct secrets_shape *shape, unsigned phase)
{
	size_t len = strlen(shape->mark), from = (8 * phase + 5) / 6;
	size_t to = 8 * (phase + len) / 6;
	char text[2 * SECRETS_MARK_MAX];
	unsigned mask;

	if (to - from < BASE64_MIN)
		return;
	for (size_t i = from; i < to; i++)
		text[i - from] = codec_base64_alphabet[CODEC_BASE64][bits_of(shape->mark, len, phase, 6 * i, &mask)];
	add_anchor(shape, ANCHOR_BASE64, phase, text, to - from);
}

/* ---- the table of pairs ---- */

/* The possible values of a byte; seven bits of it count. */
struct set {
	unsigned char at[128];
	size_t n;
};

static struct set
set_any(void)
{
	struct set s = { .n = 0 };

	for (unsigned char c = 0; c < 128; c++)
		s.at[s.n++] = c;
	return s;
}

/* Character I of the base64 in which a mark begins: some of its bits may be the mark's. */
static struct set
set_of_base64(const struct anchor *a, size_t i)
{
	const char *mark = a->shape->mark;
	struct set s = { .n = 0 };
	unsigned mask, bits = bits_of(mark, strlen(mark), a->phase, 6 * i, &mask);

	for (unsigned value = 0; mask != 0 && value < 64; value++)
		if ((value & mask) == bits)
			s.at[s.n++] = (unsigned char)codec_base64_alphabet[CODEC_BASE64][value];
	return mask != 0 ? s : set_any();
}

/* Byte I of an anchor.  Its tail follows, of which the table sees four bytes at most: all items but
 * those of one character begin with more of one class. */
static struct set
set_of(const struct anchor *a, size_t i)
{
	const char *tail = a->kind == ANCHOR_PLAIN ? a->shape->tail
	                   : a->kind == ANCHOR_ESCAPE && i == 2 && a->len == 2 ? "{H2}" : NULL;
	struct shape_item item = {0};
	struct set s = { .n = 0 };

	if (i < a->len) {
		s.at[s.n++] = a->text[i] & 127;
		return s;
	}
	if (a->kind == ANCHOR_BASE64)
		return set_of_base64(a, (8u * a->phase + 5) / 6 + i);
	if (tail == NULL || shape_next_item(tail, &item) == NULL || item.class == 0 || item.min < 2)
		return set_any();
	for (unsigned char c = 0; c < 128; c++)
		if (shape_class_has(item.class, c) || (item.class == 'x' && c == '\\'))
			s.at[s.n++] = c;
	return s;
}

/* Bytes that may precede an anchor: see secrets_left_edge().  That also accepts the ends of "%3D"
 * and "\u003d", but the search of the unescaped text finds these. */
static struct set
set_before(const struct anchor *a)
{
	struct set s = { .n = 0 };

	if (a->kind == ANCHOR_BASE64 && a->phase > 0)
		return set_of_base64(a, (8u * a->phase + 5) / 6 - 1);
	if (a->kind != ANCHOR_PLAIN || (a->shape->flags & SHAPE_EDGE) == 0)
		return set_any();
	for (unsigned char c = 0; c < 128; c++)
		if (!shape_class_has('w', c) || is_one_of(c, "nrtbfv"))
			s.at[s.n++] = c;
	return s;
}

static void
set_each_pair(const struct set *first, const struct set *second, unsigned bit)
{
	for (size_t a = 0; a < first->n; a++)
		for (size_t b = 0; b < second->n; b++)
			table.pairs[first->at[a] | second->at[b] << 7] |= UINT32_C(1) << bit;
}

/* Bits that any pair may set are collected in *ret_open: there are many of those. */
static void
set_pairs(const struct set *first, const struct set *second, unsigned bit,
          uint32_t *ret_open)
{
	if (first->n == 128 && second->n == 128)
		*ret_open |= UINT32_C(1) << bit;
	else if ((*ret_open >> bit & 1) == 0)
		set_each_pair(first, second, bit);
}

/* An anchor begins at the first or second byte of a pair. */
static void
set_anchor(const struct anchor *a, unsigned bucket, uint32_t *ret_open)
{
	struct set before = set_before(a), s[7];

	for (size_t i = 0; i < ARRAY_LEN(s); i++)
		s[i] = set_of(a, i);
	for (unsigned i = 0; i < 3; i++)
		set_pairs(&s[2 * i], &s[2 * i + 1], bucket + i * BUCKETS, ret_open);
	if (a->len >= 5) {
		for (unsigned i = 0; i < 3; i++)
			set_pairs(&s[2 * i + 1], &s[2 * i + 2], bucket + i * BUCKETS,
			          ret_open);
	} else {
		set_pairs(&before, &s[0], bucket, ret_open);
		set_pairs(&s[1], &s[2], bucket + BUCKETS, ret_open);
		set_pairs(&s[3], &s[4], bucket + 2 * BUCKETS, ret_open);
	}
}

static void
set_triples(const struct anchor *a)
{
	struct set s = set_of(a, 2);

	for (size_t i = 0; i < s.n; i++) {
		unsigned n = secrets_triple_of((unsigned char)a->text[0] |
		                               (uint32_t)(unsigned char)a->text[1] << 8 |
		                               (uint32_t)s.at[i] << 16);

		table.triples[n / 64] |= UINT64_C(1) << n % 64;
	}
}

/* Short anchors match many pairs, each kind in its own way: in separate buckets they match fewer. */
static unsigned
bucket_of(const struct anchor *a)
{
	bool hex = a->shape != NULL && a->shape->tail != NULL && strncmp(a->shape->tail, "{h", 2) == 0;

	if (a->kind == ANCHOR_ESCAPE)
		return 0;
	if (a->kind == ANCHOR_BASE64)
		return a->len <= 4 ? 5 : a->len <= 6 ? 6 : 7;
	if (a->len <= 3)
		return hex ? 1 : 2;
	if (a->len == 4)
		return hex ? 3 : 4;
	return a->len <= 6 ? 8 : 9;
}

static void
make_table(void)
{
	static const char hex[] = "0123456789abcdefABCDEF";
	uint32_t open = 0;

	for (size_t i = 0; i < secrets_n_shapes; i++) {
		const struct secrets_shape *s = &secrets_shapes[i];

		assert(strlen(s->mark) < SECRETS_MARK_MAX);
		add_anchor(s, ANCHOR_PLAIN, 0, s->mark, strlen(s->mark));
		for (unsigned phase = 0; phase < 3; phase++)
			add_base64(s, phase);
	}
	for (size_t i = 0; i < sizeof(hex) - 1; i++)
		add_anchor(NULL, ANCHOR_ESCAPE, 0, (const char[]){ '%', hex[i] }, 2);
	add_anchor(NULL, ANCHOR_ESCAPE, 0, "\\u00", 4);
	for (size_t i = 0; i < table.n_anchors; i++) {
		set_anchor(&table.anchors[i], bucket_of(&table.anchors[i]), &open);
		set_triples(&table.anchors[i]);
	}
	for (size_t i = 0; i < PAIRS; i++)
		table.pairs[i] |= open;

	memset(table.heads, -1, sizeof(table.heads));
	for (size_t i = 0; i < table.n_anchors; i++) {
		short *head = &table.heads[secrets_head_of((const unsigned char *)table.anchors[i].text)];

		table.anchors[i].next = *head;
		*head = (short)i;
	}
}

const struct secrets_table *
secrets_table_get(void)
{
	static bool made;

	if (!made)
		make_table();
	made = true;
	return &table;
}
