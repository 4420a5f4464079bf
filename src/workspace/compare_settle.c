/* compare_settle.c - chooses where a block of changed lines is shown.
 *
 * A block whose last line equals the line above it can be shown one line higher, and so on: all
 * these positions mean the same.  Unchanged lines come in pairs, one on each side.  Between two
 * pairs there is a block on each side, which may be empty. */
#include "workspace/compare_parts.h"

struct block {
	int32_t start, end;
};

static struct block
next_block(const struct compare_side *s, int32_t from)
{
	struct block b = { from, from };

	while (b.end < s->n && s->changed[b.end])
		b.end++;
	return b;
}

static struct block
block_before(const struct compare_side *s, int32_t end)
{
	struct block b = { end, end };

	while (b.start > 0 && s->changed[b.start - 1])
		b.start--;
	return b;
}

/* Move the block one line up, and merge it with a block that it touches there. */
static bool
slide_up(struct compare_side *s, struct block *b, const struct compare_side *other, struct block *beside)
{
	if (b->start == 0 || !compare_same_line(s, b->start - 1, s, b->end - 1))
		return false;
	s->changed[--b->start] = true;
	s->changed[--b->end] = false;
	b->start = block_before(s, b->start).start;
	*beside = block_before(other, beside->start - 1);
	return true;
}

static bool
slide_down(struct compare_side *s, struct block *b, const struct compare_side *other, struct block *beside)
{
	if (b->end == s->n || !compare_same_line(s, b->start, s, b->end))
		return false;
	s->changed[b->start++] = false;
	s->changed[b->end++] = true;
	b->end = next_block(s, b->end).end;
	*beside = next_block(other, beside->end + 1);
	return true;
}

static void
settle_block(struct compare_side *s, struct block *b, const struct compare_side *other, struct block *beside)
{
	int32_t size, meets;

	do {
		size = b->end - b->start;
		while (slide_up(s, b, other, beside))
			;
		meets = beside->end > beside->start ? b->end : -1;
		while (slide_down(s, b, other, beside))
			if (beside->end > beside->start)
				meets = b->end;
	} while (size != b->end - b->start);
	while (meets >= 0 && b->end > meets && slide_up(s, b, other, beside))
		;
}

static void
settle(struct compare_side *side, const struct compare_side *other)
{
	struct block b = next_block(side, 0), beside = next_block(other, 0);

	for (;;) {
		if (b.end > b.start)
			settle_block(side, &b, other, &beside);
		if (b.end >= side->n)
			return;
		b = next_block(side, b.end + 1);
		beside = next_block(other, beside.end + 1);
	}
}

void
compare_settle_both(struct compare_side *old, struct compare_side *new)
{
	settle(old, new);
	settle(new, old);
}
