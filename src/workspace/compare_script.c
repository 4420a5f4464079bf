/* compare_script.c - finds the lines that two texts have in common.
 *
 * Uses Myers' algorithm in linear space ("An O(ND) Difference Algorithm and Its Variations", 1986),
 * on numbers that equal lines share.  Lines that the other text does not have are left out first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "workspace/compare_parts.h"

#define COST_MIN 256            /* edits up to which the shortest script is found */

/* ---- equal lines get equal numbers ---- */

struct line_class {
	const struct compare_side *side;        /* NULL: a free slot */
	int32_t line;
	int32_t seen[2];                        /* count in each text */
};

static uint64_t
hash_line(const char *s, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15u, word;

	for (; len >= sizeof(word); s += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, s, sizeof(word));
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, s, len);
	h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
	return h ^ (h >> 29);
}

static uint32_t
find_class(struct line_class *table, size_t mask, const struct compare_side *side, int32_t line)
{
	size_t at = hash_line(side->text + side->start[line], compare_line_len(side, line)) & mask;

	while (table[at].side != NULL && !compare_same_line(table[at].side, table[at].line, side, line))
		at = (at + 1) & mask;
	if (table[at].side == NULL)
		table[at] = (struct line_class){ .side = side, .line = line };
	return (uint32_t)at;
}

/* ---- the lines that are compared ---- */

struct work {
	struct compare_side *side[2];
	uint32_t *class[2];             /* class of each remaining line */
	int32_t *line[2];               /* and its index */
	int32_t n[2];
	int32_t *furthest, *nearest;    /* per diagonal; both point to diagonal 0 */
	int32_t cost_max;
};

/* ---- Myers ---- */

struct box {
	int32_t x0, x1, y0, y1;
};
struct split {
	int32_t x, y;
};

/* The diagonals from MIN to MAX that the search has reached. */
struct front {
	int32_t min, max;
};

/* Allow one more edit: add a diagonal at both ends, or drop one at the edge of the box.  OUTSIDE
 * loses against any real value. */
static void
widen(struct front *f, int32_t *at, const struct box *b, int32_t outside)
{
	if (f->min > b->x0 - b->y1)
		at[--f->min - 1] = outside;
	else
		f->min++;
	if (f->max < b->x1 - b->y0)
		at[++f->max + 1] = outside;
	else
		f->max--;
}

static bool
step_forward(const struct work *w, const struct box *b, const struct front *f, const struct front *met,
             struct split *ret)
{
	const uint32_t *old = w->class[0], *new = w->class[1];
	int32_t *at = w->furthest;

	for (int32_t d = f->max; d >= f->min; d -= 2) {
		int32_t x = at[d - 1] < at[d + 1] ? at[d + 1] : at[d - 1] + 1, y = x - d;

		for (; x < b->x1 && y < b->y1 && old[x] == new[y]; x++)
			y++;
		at[d] = x;
		if (met != NULL && met->min <= d && d <= met->max && w->nearest[d] <= x) {
			*ret = (struct split){ x, y };
			return true;
		}
	}
	return false;
}

static bool
step_back(const struct work *w, const struct box *b, const struct front *f, const struct front *met,
          struct split *ret)
{
	const uint32_t *old = w->class[0], *new = w->class[1];
	int32_t *at = w->nearest;

	for (int32_t d = f->max; d >= f->min; d -= 2) {
		int32_t x = at[d - 1] < at[d + 1] ? at[d - 1] : at[d + 1] - 1, y = x - d;

		for (; x > b->x0 && y > b->y0 && old[x - 1] == new[y - 1]; x--)
			y--;
		at[d] = x;
		if (met != NULL && met->min <= d && d <= met->max && x <= w->furthest[d]) {
			*ret = (struct split){ x, y };
			return true;
		}
	}
	return false;
}

/* The search takes too long: continue from the farthest point that either direction reached. */
static struct split
give_up(const struct work *w, const struct box *b, const struct front *ahead, const struct front *back)
{
	struct split first = { b->x0, b->y0 }, last = { b->x1, b->y1 };

	for (int32_t d = ahead->max; d >= ahead->min; d -= 2) {
		int32_t x = w->furthest[d] < b->x1 ? w->furthest[d] : b->x1;

		x = x - d > b->y1 ? b->y1 + d : x;
		if (x >= b->x0 && x - d >= b->y0 && x + (x - d) > first.x + first.y)
			first = (struct split){ x, x - d };
	}
	for (int32_t d = back->max; d >= back->min; d -= 2) {
		int32_t x = w->nearest[d] > b->x0 ? w->nearest[d] : b->x0;

		x = x - d < b->y0 ? b->y0 + d : x;
		if (x <= b->x1 && x - d <= b->y1 && x + (x - d) < last.x + last.y)
			last = (struct split){ x, x - d };
	}
	return first.x + first.y - b->x0 - b->y0 > b->x1 + b->y1 - last.x - last.y ? first : last;
}

/* Find a point on a shortest path that is not a corner of the box.  Neither side is empty; the
 * first lines differ, and so do the last ones. */
static struct split
find_split(const struct work *w, const struct box *b)
{
	struct front ahead = { b->x0 - b->y0, b->x0 - b->y0 }, back = { b->x1 - b->y1, b->x1 - b->y1 };
	const bool odd = ((ahead.min - back.min) & 1) != 0;
	struct split found;

	w->furthest[ahead.min] = b->x0;
	w->nearest[back.min] = b->x1;
	for (int32_t cost = 1;; cost++) {
		widen(&ahead, w->furthest, b, -1);
		if (step_forward(w, b, &ahead, odd ? &back : NULL, &found))
			return found;
		widen(&back, w->nearest, b, INT32_MAX);
		if (step_back(w, b, &back, odd ? NULL : &ahead, &found))
			return found;
		if (cost >= w->cost_max)
			return give_up(w, b, &ahead, &back);
	}
}

static void
mark(const struct work *w, int side, int32_t from, int32_t to)
{
	for (; from < to; from++)
		w->side[side]->changed[w->line[side][from]] = true;
}

/* Recurses only into the smaller part, so recursion stays shallow. */
static void
compare_box(const struct work *w, struct box b)
{
	const uint32_t *old = w->class[0], *new = w->class[1];

	for (;;) {
		struct box first, second;
		struct split at;
		bool smaller;

		for (; b.x0 < b.x1 && b.y0 < b.y1 && old[b.x0] == new[b.y0]; b.x0++)
			b.y0++;
		for (; b.x0 < b.x1 && b.y0 < b.y1 && old[b.x1 - 1] == new[b.y1 - 1]; b.x1--)
			b.y1--;
		if (b.x0 == b.x1 || b.y0 == b.y1) {
			mark(w, 0, b.x0, b.x1);
			mark(w, 1, b.y0, b.y1);
			return;
		}
		at = find_split(w, &b);
		first = (struct box){ b.x0, at.x, b.y0, at.y };
		second = (struct box){ at.x, b.x1, at.y, b.y1 };
		smaller = at.x - b.x0 + at.y - b.y0 < b.x1 - at.x + b.y1 - at.y;
		compare_box(w, smaller ? first : second);
		b = smaller ? second : first;
	}
}

/* ---- both texts ---- */

/* Keep the lines from FROM to TO that the other text has too, as classes; mark the others as
 * changed. */
static void
keep_common(struct work *w, int side, int32_t from, int32_t to, const struct line_class *table)
{
	int32_t n = 0;

	for (int32_t i = from; i < to; i++) {
		uint32_t class = w->class[side][i - from];

		if (table[class].seen[!side] == 0) {
			w->side[side]->changed[i] = true;
			continue;
		}
		w->class[side][n] = class;
		w->line[side][n++] = i;
	}
	w->n[side] = n;
}

static int
classify(struct work *w, int32_t from, const int32_t *to)
{
	size_t n = (size_t)(to[0] - from) + (size_t)(to[1] - from), size = 16;
	OWN(freep) struct line_class *table = NULL;

	while (size < n * 2)
		size *= 2;
	table = calloc(size, sizeof(*table));
	if (table == NULL)
		return -ENOMEM;
	for (int side = 0; side < 2; side++)
		for (int32_t i = from; i < to[side]; i++) {
			uint32_t class = find_class(table, size - 1, w->side[side], i);

			table[class].seen[side]++;
			w->class[side][i - from] = class;
		}
	keep_common(w, 0, from, to[0], table);
	keep_common(w, 1, from, to[1], table);
	return 0;
}

static int
mark_middle(struct work *w, int32_t from, const int32_t *to)
{
	OWN(freep) int32_t *diagonals = NULL;
	size_t n;
	int r = classify(w, from, to);

	if (r < 0)
		return r;
	n = (size_t)w->n[0] + (size_t)w->n[1] + 3;
	diagonals = reallocarray(NULL, n * 2, sizeof(*diagonals));
	if (diagonals == NULL)
		return -ENOMEM;
	w->furthest = diagonals + w->n[1] + 1;
	w->nearest = w->furthest + n;
	w->cost_max = 1;
	while ((size_t)w->cost_max * (size_t)w->cost_max < n)
		w->cost_max *= 2;
	if (w->cost_max < COST_MIN)
		w->cost_max = COST_MIN;
	compare_box(w, (struct box){ 0, w->n[0], 0, w->n[1] });
	return 0;
}

int
compare_mark(struct compare_side *old, struct compare_side *new)
{
	struct work w = { .side = { old, new } };
	OWN(freep) uint32_t *classes = NULL;
	OWN(freep) int32_t *lines = NULL;
	int32_t from = 0, to[2] = { old->n, new->n };
	size_t n;

	while (from < to[0] && from < to[1] && compare_same_line(old, from, new, from))
		from++;
	for (; to[0] > from && to[1] > from && compare_same_line(old, to[0] - 1, new, to[1] - 1); to[0]--)
		to[1]--;
	n = (size_t)(to[0] - from) + (size_t)(to[1] - from) + 1;
	classes = reallocarray(NULL, n, sizeof(*classes));
	lines = reallocarray(NULL, n, sizeof(*lines));
	if (classes == NULL || lines == NULL)
		return -ENOMEM;
	w.class[0] = classes;
	w.class[1] = classes + (to[0] - from);
	w.line[0] = lines;
	w.line[1] = lines + (to[0] - from);
	return mark_middle(&w, from, to);
}
