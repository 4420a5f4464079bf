/* tally.h - what a cell's timeline comes to: how much was asked for, refused and moved, in all and
 * over time, and what was refused last.
 *
 * Pure, and of a fixed size: it is given one line after the other.  What it cannot read it leaves
 * out; a line is not verified here. */
#ifndef CLOISTER_AUDIT_TALLY_H
#define CLOISTER_AUDIT_TALLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/record.h"
#include "cell/cell_refusals.h"

#define AUDIT_TALLY_SLOTS 256           /* when they are full, each two become one */

struct audit_slot {
	uint64_t requests, refused, bytes_in, bytes_out;
};

struct audit_tally {
	uint64_t n;                     /* the last record */
	struct audit_slot total;
	uint64_t since_s, step_s;       /* when the first slot begins, and how long each is */
	size_t n_slots;
	struct audit_slot slots[AUDIT_TALLY_SLOTS];
	struct {
		char time[AUDIT_TIME_LEN + 1];  /* "" before the first */
		char what[CELL_REFUSAL_TEXT], why[CELL_REFUSAL_TEXT];
	} refusal;                      /* the last */
};

/* What a line was; bits. */
enum audit_tally_was {
	AUDIT_WAS_REFUSAL = 1,
	AUDIT_WAS_CELL = 2,             /* something was done to the cell */
	AUDIT_WAS_ASK = 4,              /* somebody is asked, or may have answered */
	AUDIT_WAS_STEER = 8,            /* an operator changed what it may */
	AUDIT_WAS_BUDGET = 16,
};
/* LINE is without its newline.  One that was counted before counts no more. */
unsigned audit_tally_line(struct audit_tally *t, const char *line, size_t len);

/* What there was over time until NOW, in at most MAX slots; how many these are, and how long each. */
size_t audit_tally_over_time(const struct audit_tally *t, uint64_t now_s, size_t max,
                             struct audit_slot *ret_slots, uint64_t *ret_step_s);
#endif
