/* compare_merge.c - see compare_merge.h.
 *
 * Both sides are compared with the base.  A region is a run of lines that one side changed, or in
 * which changes of both sides overlap or touch.  Outside of regions all three texts are equal. */
#include "workspace/compare_merge.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "workspace/compare_parts.h"

#define JOINED_LINES 3          /* conflicts with at most so many lines between them are shown as one */

enum region_kind { TAKE_OURS, TAKE_THEIRS, CONFLICT };

struct region {
	enum region_kind kind;
	int32_t ours, ours_end, theirs, theirs_end;     /* lines */
};

struct merge {
	const struct compare_merge *how;
	struct compare_side base[2], ours, theirs;      /* BASE: compared with ours, and with theirs */
	struct region *regions;
	size_t n, cap;
	uint64_t conflicts;
	int (*take)(void *arg, const char *data, size_t len);
	void *arg;
};

static void
merge_free(struct merge *m)
{
	compare_side_free(&m->base[0]);
	compare_side_free(&m->base[1]);
	compare_side_free(&m->ours);
	compare_side_free(&m->theirs);
	free(m->regions);
}

static int
add_region(struct merge *m, struct region region)
{
	size_t cap = m->cap == 0 ? 64 : m->cap * 2;
	struct region *more;

	if (m->n == m->cap) {
		more = reallocarray(m->regions, cap, sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		m->regions = more;
		m->cap = cap;
	}
	m->regions[m->n++] = region;
	return 0;
}

static struct compare_text
text_of(const struct compare_side *s, int32_t start, int32_t end)
{
	return (struct compare_text){ s->text + s->start[start], s->start[end] - s->start[start] };
}

static bool
is_equal(struct compare_text a, struct compare_text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* ---- regions ---- */

/* The changes of one side to the base, one after the other. */
struct cursor {
	const struct compare_side *base, *side;
	struct compare_range next;
	bool more;
	int32_t at_base, at_side;       /* in step, behind the last region */
};

static void
advance(struct cursor *c, int32_t base, int32_t side)
{
	c->more = compare_next_change(c->base, c->side, base, side, &c->next);
}

/* The part of one side in a region of the base that grows while changes join it. */
struct part {
	int32_t start, end;             /* lines of the side */
	int32_t base_end;               /* line of the base at which the side is at END */
	int changes;
};

static bool
joins(struct cursor *c, struct part *part, int32_t *end)
{
	if (!c->more || c->next.old > *end)
		return false;
	part->end = c->next.new_end;
	part->base_end = c->next.old_end;
	part->changes++;
	*end = c->next.old_end > *end ? c->next.old_end : *end;
	advance(c, c->next.old_end, c->next.new_end);
	return true;
}

static void
close_part(struct cursor *c, struct part *part, int32_t end)
{
	part->end += end - part->base_end;
	c->at_base = end;
	c->at_side = part->end;
	advance(c, end, part->end);
}

/* A conflict is reduced to the lines in which the two sides differ. */
static int
add_conflict(struct merge *m, const struct region *whole)
{
	OWN(compare_side_free) struct compare_side ours = {0};
	OWN(compare_side_free) struct compare_side theirs = {0};
	struct compare_range at = {0};
	int r;

	if (whole->ours == whole->ours_end || whole->theirs == whole->theirs_end)
		return add_region(m, *whole);
	r = compare_sides(&ours, text_of(&m->ours, whole->ours, whole->ours_end), &theirs,
	                  text_of(&m->theirs, whole->theirs, whole->theirs_end));
	if (r < 0)
		return r;
	compare_settle_both(&ours, &theirs);
	while (r == 0 && compare_next_change(&ours, &theirs, at.old_end, at.new_end, &at))
		r = add_region(m, (struct region){ CONFLICT, whole->ours + at.old, whole->ours + at.old_end,
		                                   whole->theirs + at.new, whole->theirs + at.new_end });
	return r;
}

static int
next_region(struct merge *m, struct cursor *ours, struct cursor *theirs)
{
	int32_t start = !theirs->more || (ours->more && ours->next.old < theirs->next.old) ? ours->next.old :
	                theirs->next.old, end = start;
	struct part o = { .start = ours->at_side + (start - ours->at_base), .base_end = start };
	struct part t = { .start = theirs->at_side + (start - theirs->at_base), .base_end = start };
	struct region region;

	o.end = o.start;
	t.end = t.start;
	while (joins(ours, &o, &end) || joins(theirs, &t, &end))
		;
	close_part(ours, &o, end);
	close_part(theirs, &t, end);
	region = (struct region){ t.changes == 0 ? TAKE_OURS : o.changes == 0 ? TAKE_THEIRS : CONFLICT,
	                          o.start, o.end, t.start, t.end };
	if (region.kind != CONFLICT)
		return add_region(m, region);
	if (!is_equal(text_of(&m->ours, o.start, o.end), text_of(&m->theirs, t.start, t.end)))
		return add_conflict(m, &region);
	/* One and the same change needs no region, which would keep conflicts around it apart. */
	if (o.changes == 1 && t.changes == 1)
		return 0;
	region.kind = TAKE_OURS;
	return add_region(m, region);
}

static int
find_regions(struct merge *m)
{
	struct cursor ours = { .base = &m->base[0], .side = &m->ours };
	struct cursor theirs = { .base = &m->base[1], .side = &m->theirs };
	int r = 0;

	advance(&ours, 0, 0);
	advance(&theirs, 0, 0);
	while (r == 0 && (ours.more || theirs.more))
		r = next_region(m, &ours, &theirs);
	return r;
}

/* ---- conflicts ---- */

static bool
has_words(const struct compare_side *s, int32_t start, int32_t end)
{
	const struct compare_text text = text_of(s, start, end);

	for (size_t i = 0; i < text.len; i++)
		if (isalnum((unsigned char)text.at[i]))
			return true;
	return false;
}

/* Conflicts that only a few lines keep apart are easier to read as one. */
static void
join_conflicts(struct merge *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct region *next = &m->regions[i];
		struct region *last = n == 0 ? NULL : &m->regions[n - 1];

		if (last != NULL && last->kind == CONFLICT && next->kind == CONFLICT &&
		    (next->ours - last->ours_end <= JOINED_LINES ||
		     !has_words(&m->ours, last->ours_end, next->ours))) {
			last->ours_end = next->ours_end;
			last->theirs_end = next->theirs_end;
		} else {
			m->regions[n++] = *next;
		}
	}
	m->n = n;
	for (size_t i = 0; i < n; i++)
		m->conflicts += m->regions[i].kind == CONFLICT;
}

/* ---- output ---- */

static int
put(const struct merge *m, struct compare_text text)
{
	return text.len == 0 ? 0 : m->take(m->arg, text.at, text.len);
}

static int
put_marker(const struct merge *m, char sign, const char *label)
{
	const char signs[7] = { sign, sign, sign, sign, sign, sign, sign };
	int r = m->take(m->arg, signs, sizeof(signs));

	if (r == 0 && label != NULL)
		r = m->take(m->arg, " ", 1);
	if (r == 0 && label != NULL)
		r = m->take(m->arg, label, strlen(label));
	return r == 0 ? m->take(m->arg, "\n", 1) : r;
}

/* A marker begins a line. */
static int
put_side(const struct merge *m, struct compare_text text)
{
	int r = put(m, text);

	return r == 0 && text.len > 0 && text.at[text.len - 1] != '\n' ? m->take(m->arg, "\n", 1) : r;
}

static int
put_conflict(const struct merge *m, const struct region *region)
{
	int r = put_marker(m, '<', m->how->ours_label);

	r = r == 0 ? put_side(m, text_of(&m->ours, region->ours, region->ours_end)) : r;
	r = r == 0 ? put_marker(m, '=', NULL) : r;
	r = r == 0 ? put_side(m, text_of(&m->theirs, region->theirs, region->theirs_end)) : r;
	return r == 0 ? put_marker(m, '>', m->how->theirs_label) : r;
}

static int
put_merged(const struct merge *m)
{
	int32_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		const struct region *region = &m->regions[i];

		r = put(m, text_of(&m->ours, at, region->ours));
		at = region->ours_end;
		if (r == 0 && region->kind == CONFLICT)
			r = put_conflict(m, region);
		else if (r == 0 && region->kind == TAKE_THEIRS)
			r = put(m, text_of(&m->theirs, region->theirs, region->theirs_end));
		else if (r == 0)
			r = put(m, text_of(&m->ours, region->ours, region->ours_end));
	}
	return r == 0 ? put(m, text_of(&m->ours, at, m->ours.n)) : r;
}

int
compare_merge(const struct compare_merge *how, int (*take)(void *arg, const char *data, size_t len),
              void *arg, uint64_t *ret_conflicts)
{
	OWN(merge_free) struct merge m = { .how = how, .take = take, .arg = arg };
	int r = compare_sides(&m.base[0], how->base, &m.ours, how->ours);

	if (r == 0)
		r = compare_sides(&m.base[1], how->base, &m.theirs, how->theirs);
	if (r < 0)
		return r;
	compare_settle_both(&m.base[0], &m.ours);
	compare_settle_both(&m.base[1], &m.theirs);
	r = find_regions(&m);
	if (r < 0)
		return r;
	join_conflicts(&m);
	*ret_conflicts = m.conflicts;
	return m.conflicts > 0 && how->ours_label == NULL ? 0 : put_merged(&m);
}

int
compare_pick(struct compare_text old_text, struct compare_text new_text, const bool *wanted, size_t n,
             int (*take)(void *arg, const char *data, size_t len), void *arg)
{
	OWN(compare_side_free) struct compare_side old = {0};
	OWN(compare_side_free) struct compare_side new = {0};
	const struct merge out = { .take = take, .arg = arg };
	struct compare_range at = {0};
	int32_t done = 0;
	int r = compare_sides(&old, old_text, &new, new_text);

	if (r < 0)
		return r;
	compare_settle_both(&old, &new);
	for (size_t i = 0; r == 0 && compare_next_hunk(&old, &new, at.old_end, at.new_end, &at); i++) {
		if (i >= n || !wanted[i])
			continue;
		r = put(&out, text_of(&old, done, at.old));
		r = r == 0 ? put(&out, text_of(&new, at.new, at.new_end)) : r;
		done = at.old_end;
	}
	return r == 0 ? put(&out, text_of(&old, done, old.n)) : r;
}
