/* overlay_collect.h - takes the changes of an overlay out of a cell: cloister-collect, in the cell's own user namespace. */
#ifndef CLOISTER_OVERLAY_COLLECT_H
#define CLOISTER_OVERLAY_COLLECT_H
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Where it runs.  Borrowed. */
struct overlay_collector {
	int libexec;                    /* folder of the helper executables */
	int userns;                     /* the cell's; -1: it has none, and the caller may read what is in the upper folder */
	bool has_range;                 /* it has ids of its own, and an inner root */
};

/* Run ARGV[0], a helper that reads the folder UPPER at descriptor 3, writes to TARGET at 4, and reports at 5.  Its result
 * has a number, and a second one unless RET_SECOND is NULL. */
int overlay_run_collector(const struct overlay_collector *c, char **argv, int upper, int target, uint32_t *ret_number,
                          bool *ret_second, struct err *err);
/* Copies the changes in UPPER into the empty folder TARGET.  RET_CHANGED is NULL for a dead cell; else see boundary.h. */
int overlay_collect(const struct overlay_collector *c, int upper, int target, uint32_t *ret_left_out, bool *ret_changed,
                    struct err *err);
#endif
