/* secrets.c - finds credentials in a stream of bytes.
 *
 * Every shape of the catalogue has a mark.  The scanner searches for the mark, for its three forms
 * in base64, and for escapes (%67, \u0067).  A table of byte pairs excludes most places, two bytes
 * at a time, at gigabytes a second.  At the remaining places it compares the mark, and then matches
 * the whole shape. */
#include "base/codec.h"
#include "inspect/inspect.h"

#include <endian.h>
#include <string.h>

#include "inspect/secrets_table.h"

#define AHEAD 2048                      /* new bytes that are scanned together with the tail */
#define ESCAPED_BEFORE 512              /* bytes around an escape that are unescaped */
#define ESCAPED_BEHIND 4096
#define ESCAPED_STEP 2048
#define BASE64_BEFORE 160               /* characters before a mark in base64 */
#define BASE64_BEHIND 512               /* bytes from the mark on */

/* ---- a scan ---- */

struct scan {
	const struct secrets_table *table;
	const struct secrets_view *view;
	bool unescaped;                 /* the view was unescaped */
	size_t next_escape;             /* escapes before this offset were handled */
};

static const char *find_marks(struct scan *scan, size_t from, size_t to);

/* Decode the escape at P, of LEN bytes.  Returns its length. */
static size_t
unescape_one(const unsigned char *p, size_t len, unsigned char *ret_c)
{
	int c;

	if ((c = codec_percent_byte((const char *)p, len)) >= 0) {
		*ret_c = (unsigned char)c;
		return 3;
	}
	if (p[0] == '\\' && len >= 6 && memcmp(p, "\\u00", 4) == 0 &&
	    (c = codec_hex_byte((const char *)p + 4)) >= 0) {
		*ret_c = (unsigned char)c;
		return 6;
	}
	if (p[0] == '\\' && len >= 2 && p[1] == '/') {
		*ret_c = '/';
		return 2;
	}
	*ret_c = p[0];
	return 1;
}

/* At an escape at POS: search the bytes around it without escapes. */
static const char *
find_escaped(struct scan *scan, size_t pos)
{
	const struct secrets_view *view = scan->view;
	size_t from = pos > ESCAPED_BEFORE ? pos - ESCAPED_BEFORE : 0;
	size_t to = view->len - pos > ESCAPED_BEHIND ? pos + ESCAPED_BEHIND : view->len;
	unsigned char text[ESCAPED_BEFORE + ESCAPED_BEHIND], c;
	struct secrets_view plain = { text, 0 };
	struct scan inner = { scan->table, &plain, true, 0 };

	if (scan->unescaped || pos < scan->next_escape ||
	    unescape_one(view->at + pos, view->len - pos, &c) == 1)
		return NULL;
	scan->next_escape = pos + ESCAPED_STEP;
	while (from < to)
		from += unescape_one(view->at + from, to - from, &text[plain.len++]);
	return find_marks(&inner, 0, plain.len);
}

/* Go back from POS over LEAD characters of base64, and then in groups of four, at most N in total,
 * across line ends.  Returns the number of characters, and the position of the first. */
static size_t
base64_back(const struct secrets_view *view, size_t pos, size_t lead, size_t n,
            size_t *ret_pos)
{
	size_t done = 0, whole = 0;

	*ret_pos = pos;
	while (pos > 0 && done < n) {
		unsigned char c = view->at[pos - 1];

		if (pos >= 2 && view->at[pos - 2] == '\\' && (c == 'n' || c == 'r')) {
			pos -= 2;
			while (pos > 0 && view->at[pos - 1] == '\\')
				pos--;
		} else if (c == '\n' || c == '\r') {
			pos--;
		} else if (codec_base64_value(c) >= 0) {
			pos--;
			if (++done >= lead && (done - lead) % 4 == 0) {
				*ret_pos = pos;
				whole = done;
			}
		} else {
			break;
		}
	}
	return whole;
}

static bool
has_mark(const struct secrets_view *view, size_t pos, const char *mark)
{
	size_t len = strlen(mark);

	return pos < view->len && view->len - pos >= len &&
	       memcmp(view->at + pos, mark, len) == 0;
}

/* The anchor's characters are at POS: decode the text around them, in groups of four. */
static const char *
find_base64(const struct secrets_view *view, const struct anchor *a, size_t pos)
{
	unsigned char text[BASE64_BEFORE * 3 / 4 + BASE64_BEHIND];
	struct secrets_view plain = { text, 0 };
	size_t lead = (8u * a->phase + 5) / 6, start, before;

	before = base64_back(view, pos, lead, BASE64_BEFORE + lead, &start);
	if (before < lead)
		return NULL;
	plain.len = secrets_base64_decode(view, start, text, sizeof(text));
	before = (before - lead) / 4 * 3 + a->phase;
	return has_mark(&plain, before, a->shape->mark) &&
	       secrets_match(a->shape, &plain, before) ? a->shape->name : NULL;
}

/* Whether a secret's mark is at POS. */
static const char *
find_at(struct scan *scan, size_t pos)
{
	const struct secrets_table *table = scan->table;
	const struct secrets_view *view = scan->view;
	const unsigned char *p = view->at + pos;
	size_t left = view->len - pos;
	const char *name = NULL;

	if (left < 2)
		return NULL;
	for (short i = table->heads[secrets_head_of(p)]; i >= 0 && name == NULL;
	     i = table->anchors[i].next) {
		const struct anchor *a = &table->anchors[i];

		if (left < a->len || memcmp(p, a->text, a->len) != 0)
			continue;
		if (a->kind == ANCHOR_PLAIN && !has_mark(view, pos, a->shape->mark))
			continue;
		if (a->kind == ANCHOR_ESCAPE)
			name = find_escaped(scan, pos);
		else if (a->kind == ANCHOR_BASE64)
			name = find_base64(view, a, pos);
		else
			name = secrets_match(a->shape, view, pos) ? a->shape->name : NULL;
	}
	return name;
}

/* The pairs of eight bytes as indices, 14 bits each. */
static uint64_t
pairs_of(const unsigned char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	w = le64toh(w);
	return (w & UINT64_C(0x007f007f007f007f)) | (w >> 1 & UINT64_C(0x3f803f803f803f80));
}

/* The buckets whose anchors may begin at three pairs with these entries. */
static inline uint32_t
may_be(uint32_t first, uint32_t second, uint32_t third)
{
	return first & second >> BUCKETS & third >> 2 * BUCKETS & ((1u << BUCKETS) - 1);
}

static bool
may_begin(const struct secrets_table *table, const unsigned char *p)
{
	uint32_t bytes;
	unsigned n;

	memcpy(&bytes, p, sizeof(bytes));
	n = secrets_triple_of(le32toh(bytes));
	return (table->triples[n / 64] >> n % 64 & 1) != 0;
}

/* Check the N pairs from POS on that may begin an anchor.  It begins before a pair, or at one of
 * its bytes. */
static __attribute__((noinline)) const char *
find_in_pairs(struct scan *scan, size_t pos, size_t n)
{
	const unsigned char *at = scan->view->at;
	const uint32_t *pairs = scan->table->pairs;
	const char *name = NULL;

	for (size_t end = pos + 2 * n; pos < end && name == NULL; pos += 2) {
		uint64_t w = pairs_of(at + pos);

		if (!may_be(pairs[w & 0xffff], pairs[w >> 16 & 0xffff], pairs[w >> 32 & 0xffff]))
			continue;
		for (size_t i = pos - (pos > 0); i < pos + 2 && name == NULL; i++)
			if (may_begin(scan->table, at + i))
				name = find_at(scan, i);
	}
	return name;
}

/* The first secret whose mark begins at FROM or later, and before TO. */
static const char *
find_marks(struct scan *scan, size_t from, size_t to)
{
	const unsigned char *at = scan->view->at;
	const uint32_t *pairs = scan->table->pairs;
	const char *name = NULL;
	size_t pos = from;

	if (to > from + 16) {
		uint64_t w = pairs_of(at + pos);
		uint32_t e0 = pairs[w & 0xffff], e1 = pairs[w >> 16 & 0xffff];

		for (; pos + 16 <= to && name == NULL; pos += 8) {
			uint32_t e2 = pairs[w >> 32 & 0xffff], e3 = pairs[w >> 48], e4, e5;

			w = pairs_of(at + pos + 8);
			e4 = pairs[w & 0xffff];
			e5 = pairs[w >> 16 & 0xffff];
			if ((may_be(e0, e1, e2) | may_be(e1, e2, e3) | may_be(e2, e3, e4) |
			     may_be(e3, e4, e5)) != 0)
				name = find_in_pairs(scan, pos, 4);
			e0 = e4;
			e1 = e5;
		}
	}
	/* One back: a mark may begin at the second byte of a pair. */
	for (pos -= pos > from; pos < to && name == NULL; pos++)
		name = find_at(scan, pos);
	return name;
}

/* ---- the stream ---- */

static const char *
find_extra(const struct secrets_scan *scan, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < scan->n_extra; i++)
		if (memmem(data, len, scan->extra[i].text, scan->extra[i].len) != NULL)
			return scan->extra[i].name;
	return NULL;
}

static const char *
find_in_view(const struct secrets_scan *scan, const unsigned char *data, size_t len,
             size_t from, size_t to)
{
	struct secrets_view view = { data, len };
	struct scan inner = { secrets_table_get(), &view, false, 0 };
	const char *name = find_extra(scan, data, len);

	return name != NULL ? name : find_marks(&inner, from, to);
}

static void
keep_tail(struct secrets_scan *scan, const unsigned char *data, size_t len)
{
	size_t keep = 0;

	if (len >= SECRETS_TAIL) {
		data += len - SECRETS_TAIL;
		len = SECRETS_TAIL;
	} else {
		keep = SECRETS_TAIL - len < scan->n_tail ? SECRETS_TAIL - len : scan->n_tail;
		memmove(scan->tail, scan->tail + scan->n_tail - keep, keep);
	}
	memcpy(scan->tail + keep, data, len);
	scan->n_tail = keep + len;
}

const char *
secrets_find(struct secrets_scan *scan, const void *data, size_t len)
{
	unsigned char joint[SECRETS_TAIL + AHEAD];
	size_t before = scan->n_tail, ahead = len < AHEAD ? len : AHEAD, done = 0;
	const char *name = NULL;

	if (len == 0)
		return NULL;
	/* Marks that begin in the tail, and shapes that look back into it. */
	if (before > 0) {
		memcpy(joint, scan->tail, before);
		memcpy(joint + before, data, ahead);
		done = ahead == len ? len : SECRETS_TAIL;
		name = find_in_view(scan, joint, before + ahead, 0, before + done);
	}
	if (name == NULL && done < len)
		name = find_in_view(scan, data, len, done, len);
	keep_tail(scan, data, len);
	return name;
}
