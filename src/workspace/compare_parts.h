/* compare_parts.h - shared by compare.c, compare_script.c and compare_settle.c. */
#ifndef CLOISTER_COMPARE_PARTS_H
#define CLOISTER_COMPARE_PARTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "workspace/compare.h"

struct compare_side {
	const char *text;
	size_t *start;                  /* of each line, then the end of the last */
	int32_t n;
	bool *changed;                  /* of each line, then one false entry behind the last */
};

static inline size_t
compare_line_len(const struct compare_side *s, int32_t i)
{
	return s->start[i + 1] - s->start[i];
}

static inline bool
compare_same_line(const struct compare_side *a, int32_t i, const struct compare_side *b, int32_t j)
{
	size_t len = compare_line_len(a, i);

	return len == compare_line_len(b, j) && memcmp(a->text + a->start[i], b->text + b->start[j], len) == 0;
}

/* Mark the lines of both sides that are not in a common sequence.  The unmarked lines are equal on
 * both sides.  -ENOMEM. */
int compare_mark(struct compare_side *old, struct compare_side *new);
/* Move each block of changed lines of SIDE to where people expect it: as far down as it goes, or to
 * a place where OTHER changed too. */
void compare_settle(struct compare_side *side, const struct compare_side *other);
#endif
