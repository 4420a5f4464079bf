/* tally.h - sums up a cell's timeline: how much was requested, refused and transferred, in total
 * and over time, the last refusal, and the last attempt to steal a secret.
 *
 * Pure, and of a fixed size: the caller passes one line after the other.  Lines that it cannot read
 * are left out; nothing is verified here. */
#ifndef CLOISTER_AUDIT_TALLY_H
#define CLOISTER_AUDIT_TALLY_H
#include <stddef.h>
#include <stdint.h>

#include "audit/record.h"
#include "cell/cell_refusals.h"

#define AUDIT_TALLY_SLOTS 256           /* when they are full, they are merged in pairs */

struct audit_slot {
	uint64_t requests, refused, bytes_in, bytes_out;
	uint64_t thefts;                /* refused: a secret's placeholder went where it may not be */
};

struct audit_refusal {
	char time[AUDIT_TIME_LEN + 1];  /* "" before the first */
	char what[CELL_REFUSAL_TEXT], why[CELL_REFUSAL_TEXT];
};

struct audit_tally {
	uint64_t n;                     /* the last record */
	struct audit_slot total;
	uint64_t since_s, step_s;       /* start of the first slot; length of each */
	size_t n_slots;
	struct audit_slot slots[AUDIT_TALLY_SLOTS];
	struct audit_refusal refusal, theft;    /* the last of each */
};

/* Kinds of a line; bits. */
enum audit_tally_was {
	AUDIT_WAS_REFUSAL = 1,
	AUDIT_WAS_CELL = 2,             /* an action on the cell */
	AUDIT_WAS_ASK = 4,              /* an approval is requested, or may be answered */
	AUDIT_WAS_STEER = 8,            /* an operator changed the cell's rights */
	AUDIT_WAS_BUDGET = 16,
};
/* LINE is without its newline.  A line that was counted before is ignored. */
unsigned audit_tally_line(struct audit_tally *t, const char *line, size_t len);

/* The sums over time until NOW, in at most MAX slots; returns their number, and their length. */
size_t audit_tally_over_time(const struct audit_tally *t, uint64_t now_s, size_t max,
                             struct audit_slot *ret_slots, uint64_t *ret_step_s);
/* Adds the sums from SINCE on to the N slots of STEP seconds each. */
void audit_tally_add_window(const struct audit_tally *t, uint64_t since_s, uint64_t step_s,
                            struct audit_slot *slots, size_t n);
#endif
