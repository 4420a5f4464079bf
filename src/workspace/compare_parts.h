/* compare_parts.h - shared by the files compare*.c. */
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
/* Move each block of changed lines to where people expect it: as far down as it goes, or to a place
 * where the other side changed too. */
void compare_settle_both(struct compare_side *old, struct compare_side *new);

/* Split both texts into lines, and mark those that differ.  The texts are borrowed; the caller owns
 * the sides, even on failure.  -ENOMEM or -E2BIG. */
int compare_sides(struct compare_side *old, struct compare_text old_text, struct compare_side *new,
                  struct compare_text new_text);
void compare_side_free(struct compare_side *s); /* for OWN() */

/* Lines of both sides, from one point where they are in step to the next. */
struct compare_range {
	int32_t old, old_end, new, new_end;
};
/* The next change from a point where both are in step; false if there is none. */
bool compare_next_change(const struct compare_side *old, const struct compare_side *new, int32_t at_old,
                         int32_t at_new, struct compare_range *ret);
/* The same for a hunk: changes whose contexts touch share one.  The range is without its context. */
bool compare_next_hunk(const struct compare_side *old, const struct compare_side *new, int32_t at_old,
                       int32_t at_new, struct compare_range *ret);
#endif
