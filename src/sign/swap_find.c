/* swap_find.c - finds the first needle of a set in a run of bytes.
 *
 * The search looks up the group of four bytes at every fourth position.  So one group within the
 * first seven bytes of a pattern is always looked up.  A table of bits tells, at gigabytes a
 * second, where no pattern can begin.  A pattern with an escape in its first bytes is found by the
 * escape.  The remaining candidates are followed from their first byte through the sorted patterns. */
#include <endian.h>
#include <string.h>

#include "base/codec.h"
#include "sign/swap_parts.h"

#define GROUP 32                        /* bytes that are examined together */
#define BEFORE (SAMPLED - 1)            /* how far before an escape a pattern may begin */

/* ---- one candidate ---- */

static unsigned
byte_at(const struct swap_set *set, uint32_t pattern, uint32_t depth)
{
	const struct pattern *p = &set->patterns[pattern];

	return swap_form_byte(p->form, p->phase, set->needles[p->needle].find, depth);
}

/* Narrow the patterns of W, all longer than W's depth, to those that continue with C. */
static void
narrow(const struct swap_set *set, struct swap_walk *w, unsigned c)
{
	uint32_t lo = w->lo, end = w->end, mid;

	if (w->depth == 0) {
		w->lo = set->first[c];
		w->end = set->first[c + 1];
	} else if (end - lo == 1) {
		w->lo += byte_at(set, lo, w->depth) != c;
	} else if (byte_at(set, lo, w->depth) != c || byte_at(set, end - 1, w->depth) != c) {
		/* The patterns are sorted: if both ends continue with C, all of them do. */
		while (lo < end) {
			mid = lo + (end - lo) / 2;
			if (byte_at(set, mid, w->depth) < c)
				lo = mid + 1;
			else
				end = mid;
		}
		w->lo = lo;
		for (end = w->end; lo < end;) {
			mid = lo + (end - lo) / 2;
			if (byte_at(set, mid, w->depth) <= c)
				lo = mid + 1;
			else
				end = mid;
		}
		w->end = end;
	}
	w->depth++;
}

/* Whether C begins an escape, and occurs in no needle as itself. */
static bool
is_escape(const struct swap_set *set, unsigned char c)
{
	return set->mark[c] != 0 && (set->marks & set->mark[c]) == 0;
}

/* The bits of a walk's number are the marks that it treats as parts of a needle. */
static bool
is_walked(const struct swap_set *set, unsigned walk)
{
	return (walk & ~(unsigned)set->marks) == 0;
}

static void
walk_begin(const struct swap_set *set, struct swap_walk walk[SWAP_WALKS])
{
	for (unsigned i = 0; i < SWAP_WALKS; i++)
		if (is_walked(set, i))
			walk[i].end = set->n_patterns;
}

/* Patterns that end here are the first in sorted order. */
static void
walk_reached(const struct swap_set *set, struct swap_walk *w, bool counts)
{
	if (w->lo < w->end && set->patterns[w->lo].len == w->depth) {
		if (counts) {
			w->best = w->lo;
			w->best_pos = w->pos;
			w->best_escapes = w->escapes;
		}
		w->lo++;
	}
}

/* Only one pattern is left, in plain form: compare most of it here. */
static void
walk_plain(const struct swap_set *set, struct swap_walk *w, const unsigned char *at, size_t len)
{
	const struct pattern *p = &set->patterns[w->lo];
	const char *find = set->needles[p->needle].find.at;

	if (w->end - w->lo != 1 || p->form != SWAP_RAW)
		return;
	while (w->pos < len && w->depth + 1 < p->len && set->mark[at[w->pos]] == 0 &&
	       (unsigned char)find[w->depth] == at[w->pos]) {
		w->pos++;
		w->depth++;
	}
}

/* Follow W, number I, which begins at AT.  False: no more bytes for now. */
static bool
walk_on(const struct swap_set *set, struct swap_walk *w, unsigned i, const unsigned char *at,
        size_t len, bool last)
{
	unsigned char bytes[4];
	size_t used, n;

	while (w->lo < w->end) {
		walk_plain(set, w, at, len);
		if (w->pos == len)
			return last;
		bytes[0] = at[w->pos];
		used = n = 1;
		if ((set->mark[bytes[0]] & ~i) != 0)
			used = swap_unescape(set, at + w->pos, len - w->pos, last, bytes, &n);
		if (used == 0)
			return false;
		if (used > 1)
			w->escapes |= (uint8_t)swap_escape_of(at + w->pos);
		w->pos += used;
		for (size_t k = 0; k < n && w->lo < w->end; k++) {
			narrow(set, w, bytes[k]);
			walk_reached(set, w, k + 1 == n);
		}
	}
	return true;
}

static unsigned
behind(const struct swap_set *set, uint32_t pattern)
{
	const struct pattern *p = &set->patterns[pattern];

	return swap_form_behind(p->form, p->phase, set->needles[p->needle].find.len);
}

enum swap_found
swap_find_on(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
             struct swap_hit *hit)
{
	const struct swap_walk *best = &hit->walk[0];
	bool done = true;

	for (unsigned i = 0; i < SWAP_WALKS; i++) {
		if (!is_walked(set, i))
			continue;
		done &= walk_on(set, &hit->walk[i], i, at + hit->start, len - hit->start, last);
		if (hit->walk[i].best_pos > best->best_pos)
			best = &hit->walk[i];
	}
	if (!done)
		return SWAP_MORE;
	if (best->best_pos == 0)
		return SWAP_NONE;
	hit->end = hit->start + best->best_pos;
	hit->pattern = best->best;
	hit->escapes = best->best_escapes;
	/* The digit after it belongs to the match as well, when it has come. */
	return hit->end == len && !last && behind(set, hit->pattern) > 0 ? SWAP_MORE : SWAP_FOUND;
}

void
swap_widen(const struct swap_set *set, const unsigned char *at, size_t len, size_t from,
           struct swap_hit *hit)
{
	const struct pattern *p = &set->patterns[hit->pattern];
	struct http_text find = set->needles[p->needle].find;
	unsigned rest = behind(set, hit->pattern), lead = swap_form_before(p->form, p->phase);
	int v;

	if (lead > 0 && hit->start > from) {
		v = codec_base64_value(at[hit->start - 1]);
		hit->wide_before = v >= 0 && (v & ((1 << lead) - 1)) ==
		                   (unsigned char)find.at[0] >> (8 - lead);
	}
	if (rest > 0 && hit->end < len) {
		v = codec_base64_value(at[hit->end]);
		hit->wide_behind = v >= 0 &&
			v >> (6 - rest) == ((unsigned char)find.at[find.len - 1] & ((1 << rest) - 1));
	}
	hit->start -= hit->wide_before;
	hit->end += hit->wide_behind;
}

/* Whether the first bytes at START may begin a pattern: a cheap test that mostly fails. */
static bool
may_begin(const struct swap_set *set, const unsigned char *at, size_t len, size_t start,
          bool last)
{
	unsigned char text[GRAM + 3];
	size_t n = 0, pos = start, used, more;

	if (set->first[at[start]] == set->first[at[start] + 1] && set->mark[at[start]] == 0)
		return false;
	while (n < GRAM) {
		if (pos == len)
			return !last;
		used = 1;
		text[n] = at[pos];
		more = 1;
		if ((set->marks & set->mark[at[pos]]) != 0)
			return true;
		if (is_escape(set, at[pos]))
			used = swap_unescape(set, at + pos, len - pos, last, text + n, &more);
		if (used == 0)
			return true;
		pos += used;
		n += more;
	}
	return (swap_gram_bit(set, text) & 1) != 0;
}

static enum swap_found
try_at(const struct swap_set *set, const unsigned char *at, size_t len, size_t start,
       bool last, struct swap_hit *hit)
{
	if (!may_begin(set, at, len, start, last))
		return SWAP_NONE;
	*hit = (struct swap_hit){ .start = start };
	walk_begin(set, hit->walk);
	return swap_find_on(set, at, len, last, hit);
}

/* ---- searching a run ---- */

/* Try each start from FROM to TO. */
static enum swap_found
try_each(const struct swap_set *set, const unsigned char *at, size_t len, size_t from,
         size_t to, bool last, struct swap_hit *hit)
{
	enum swap_found found = SWAP_NONE;

	for (size_t i = from; i < to && found == SWAP_NONE; i++)
		found = try_at(set, at, len, i, last, hit);
	return found;
}

typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

static inline words2
escapes_of(const unsigned char *at, bool echoed)
{
	bytes16 a;

	memcpy(&a, at, sizeof(a));
	/* "%" and "&" are adjacent in ASCII. */
	if (echoed)
		return (words2)((bytes16)((bytes16)(a - (unsigned char)'%') < 2) | (bytes16)(a == '\\') |
		                (bytes16)(a == '='));
	return (words2)((bytes16)(a == '%') | (bytes16)(a == '\\'));
}

/* One bit for each of eight bytes that is all ones. */
static uint64_t
bits_of(uint64_t mask)
{
	return (le64toh(mask) & UINT64_C(0x8040201008040201)) * UINT64_C(0x0101010101010101) >> 56;
}

/* As swap_unescape(), but only the first byte counts; the most frequent cases are decided here. */
static inline size_t
unescape_first(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
               unsigned char ret[4])
{
	size_t n;

	if (len > 2 && at[0] == '\\' && swap_short_forms[at[1]] != 0) {
		ret[0] = swap_short_forms[at[1]];
		return 2;
	}
	if (len > 2 && (at[0] == '%' || at[0] == '=')) {
		int byte = codec_hex_byte((const char *)at + 1);

		if (byte >= 0) {
			ret[0] = (unsigned char)byte;
			return 3;
		}
		if (at[0] == '%' || (at[1] != '\r' && at[1] != '\n'))
			return 1;
	}
	return swap_unescape(set, at, len, last, ret, &n);
}

/* The starts that an escape in the group makes possible, from BEFORE bytes before AT on. */
static uint64_t
escaped_starts(const struct swap_set *set, const unsigned char *at, size_t len, bool last)
{
	words2 first = escapes_of(at, set->echoed), second = escapes_of(at + 16, set->echoed);
	uint64_t escapes = bits_of(first[0]) | bits_of(first[1]) << 8 | bits_of(second[0]) << 16 |
	                   bits_of(second[1]) << 24, starts = 0;
	size_t used, after = 0;

	for (; escapes != 0; escapes &= escapes - 1) {
		unsigned i = (unsigned)__builtin_ctzll(escapes);
		unsigned char bytes[4];

		used = unescape_first(set, at + i, len - i, last, bytes);
		/* Bit BEFORE + i is this place.  If it is part of an earlier escape, that one finds
		 * it. */
		if (used == 0 || (used > 1 && set->early[bytes[0]]))
			starts |= ((UINT64_C(2) << (BEFORE + i)) - 1) & ~((UINT64_C(1) << i) - 1) &
			          ~((UINT64_C(1) << after) - 1);
		if (used > 1 && is_escape(set, at[i]))
			after = BEFORE + i + 1;
	}
	return starts;
}

/* Whether no pattern can begin at the looked-up places of the group, and it has no escape. */
__attribute__((always_inline)) static inline bool
is_clear(const struct swap_set *set, const unsigned char *at, bool echoed)
{
	words2 escapes = escapes_of(at, echoed) | escapes_of(at + 16, echoed);
	uint64_t met = swap_gram_bit(set, at) | swap_gram_bit(set, at + 4) |
	               swap_gram_bit(set, at + 8) | swap_gram_bit(set, at + 12) |
	               swap_gram_bit(set, at + 16) | swap_gram_bit(set, at + 20) |
	               swap_gram_bit(set, at + 24) | swap_gram_bit(set, at + 28);

	return ((met & 1) | escapes[0] | escapes[1]) == 0;
}

/* The first group from POS on that is not clear, or the rest after the last group. */
__attribute__((always_inline)) static inline size_t
skip_clear(const struct swap_set *set, const unsigned char *at, size_t len, size_t pos, bool echoed)
{
	while (len - pos >= GROUP && is_clear(set, at + pos, echoed))
		pos += GROUP;
	return pos;
}

_Static_assert(GROUP == 8 * STRIDE, "eight are looked up");

/* A pattern may begin in the group at POS, or a little before. */
static enum swap_found
try_group(const struct swap_set *set, const unsigned char *at, size_t len, size_t pos,
          size_t from, bool last, struct swap_hit *hit)
{
	uint64_t starts = escaped_starts(set, at + pos, len - pos, last);

	for (unsigned i = 0; i < GROUP; i += STRIDE)
		starts |= (swap_gram_bit(set, at + pos + i) & 1) * UINT64_C(15) <<
		          (BEFORE + i - (STRIDE - 1));
	for (; starts != 0; starts &= starts - 1) {
		size_t start = pos + (size_t)__builtin_ctzll(starts);
		enum swap_found found;

		if (start < from + BEFORE)
			continue;
		found = try_at(set, at, len, start - BEFORE, last, hit);
		if (found != SWAP_NONE)
			return found;
	}
	return SWAP_NONE;
}

/* The same for the rest that is shorter than a group, at the end. */
static bool
is_clear_end(const struct swap_set *set, const unsigned char *at, size_t len)
{
	uint64_t met = 0;

	if (len < SWAP_NEEDLE_MIN)
		return true;
	for (size_t i = 0; i + GRAM <= len; i += STRIDE)
		met |= swap_gram_bit(set, at + i);
	return (met & 1) == 0 && memchr(at, '%', len) == NULL && memchr(at, '\\', len) == NULL &&
	       (!set->echoed || (memchr(at, '&', len) == NULL && memchr(at, '=', len) == NULL));
}

enum swap_found
swap_find(const struct swap_set *set, const unsigned char *at, size_t len, size_t from,
          bool last, struct swap_hit *ret_hit)
{
	enum swap_found found;
	size_t pos = from, tail;

	if (set->n_patterns == 0)
		return SWAP_NONE;
	for (;; pos += GROUP) {
		pos = set->echoed ? skip_clear(set, at, len, pos, true) : skip_clear(set, at, len, pos, false);
		if (len - pos < GROUP)
			break;
		found = try_group(set, at, len, pos, from, last, ret_hit);
		if (found != SWAP_NONE)
			return found;
	}
	tail = pos - from > BEFORE ? pos - BEFORE : from;
	if (last && is_clear_end(set, at + tail, len - tail))
		return SWAP_NONE;
	return try_each(set, at, len, tail, len, last, ret_hit);
}
