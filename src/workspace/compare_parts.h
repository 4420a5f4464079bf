/* compare_parts.h - what compare.c and compare_script.c share. */
#ifndef CLOISTER_COMPARE_PARTS_H
#define CLOISTER_COMPARE_PARTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "workspace/compare.h"

struct compare_side {
	const char *text;
	size_t *start;                  /* of each line, and the end of the last */
	int32_t n;
	bool *changed;                  /* of each line, and false for one behind the last */
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

/* Marks as changed the lines of both that are not in a common sequence: in all, what is not
 * marked is the same on both sides.  -ENOMEM. */
int compare_mark(struct compare_side *old, struct compare_side *new);
/* Moves each block of changed lines of SIDE to where people expect it: as far down as it goes, or
 * to where OTHER changed too. */
void compare_settle(struct compare_side *side, const struct compare_side *other);
#endif
