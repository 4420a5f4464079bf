/* cell_refusals.h - counts a cell's refused and failed requests, for the summary at the end of
 * `run`.
 *
 * Fixed in size, never fails: an event that it cannot parse is only counted. */
#ifndef CLOISTER_CELL_REFUSALS_H
#define CLOISTER_CELL_REFUSALS_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CELL_REFUSALS_MAX 6             /* different ones that are printed */
#define CELL_REFUSAL_TEXT 432
#define CELL_REFUSAL_TIMES_MAX UINT32_MAX        /* the most that one event counts for */

struct cell_refusals {
	struct cell_refusal {
		char what[CELL_REFUSAL_TEXT];   /* "POST https://api.example/x" */
		char why[CELL_REFUSAL_TEXT];    /* "the rule's reason (cloister.yaml:5:5)" */
		uint64_t times;
	} kinds[CELL_REFUSALS_MAX];
	size_t n;
	uint64_t total;
	uint64_t failed;                /* requests that were allowed, and failed */
};

/* MEMBERS is one event, as the courier sends it (COURIER_EVENTS). */
void cell_refusals_note(struct cell_refusals *refusals, const char *members);
/* Print a few lines, each beginning with "cloister: "; none if nothing was refused or failed.  CELL
 * is the operator's name for the cell. */
void cell_refusals_print(FILE *out, const struct cell_refusals *refusals, const char *cell);
#endif
