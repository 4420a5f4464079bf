/* compare_merge.h - merges two texts that were made from the same base, line by line.
 *
 * Pure, like compare.h.  The rules are those of `git merge-file`: changes of one side are taken,
 * equal changes of both sides are taken once, and different changes to the same or to adjacent lines
 * are a conflict. */
#ifndef CLOISTER_COMPARE_MERGE_H
#define CLOISTER_COMPARE_MERGE_H
#include "workspace/compare.h"

struct compare_merge {
	struct compare_text base, ours, theirs;
	const char *ours_label, *theirs_label;  /* of conflict markers; NULL: none are written */
};

/* TAKE gets the merged text in pieces, as in compare_texts().  If there are conflicts and no labels,
 * it gets nothing.  *ret_conflicts is the number of conflicts.  -ENOMEM or -E2BIG: too large. */
int compare_merge(const struct compare_merge *m, int (*take)(void *arg, const char *data, size_t len),
                  void *arg, uint64_t *ret_conflicts);

/* TAKE gets OLD with those of its hunks changed to NEW for which WANTED is true; hunks are numbered
 * from 0 in the order of compare_texts(), and those from N on are not wanted. */
int compare_pick(struct compare_text old, struct compare_text new, const bool *wanted, size_t n,
                 int (*take)(void *arg, const char *data, size_t len), void *arg);
#endif
