/* cell_refusals.h - counts what a cell was refused, and what failed, for the last words of `run`.
 *
 * Fixed in size and never fails: what it cannot read it counts, and no more. */
#ifndef CLOISTER_CELL_REFUSALS_H
#define CLOISTER_CELL_REFUSALS_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CELL_REFUSALS_MAX 6             /* different ones that are told of */
#define CELL_REFUSAL_TEXT 272
#define CELL_REFUSAL_TIMES_MAX UINT32_MAX        /* that one event stands for */

struct cell_refusals {
	struct cell_refusal {
		char what[CELL_REFUSAL_TEXT];   /* "POST https://api.example/x" */
		char why[CELL_REFUSAL_TEXT];    /* "the rule's reason (cloister.yaml:5:5)" */
		uint64_t times;
	} kinds[CELL_REFUSALS_MAX];
	size_t n;
	uint64_t total;
	uint64_t failed;                /* requests that were allowed, and came to nothing */
};

/* MEMBERS: one event as the courier sends it (COURIER_EVENTS). */
void cell_refusals_note(struct cell_refusals *refusals, const char *members);
/* A few lines, each beginning with "cloister: "; none if nothing was refused or failed.  CELL is
 * what the operator calls it. */
void cell_refusals_print(FILE *out, const struct cell_refusals *refusals, const char *cell);
#endif
