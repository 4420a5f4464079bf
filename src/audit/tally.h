/* tally.h - sums up a cell's timeline: how much was requested, refused and transferred, what the cell
 * used, in total and over time, the acts inside, the last refusal, and the last attempt to steal a secret.
 *
 * Pure, and of a fixed size: the caller passes one line after the other.  Lines that it cannot read
 * are left out; nothing is verified here. */
#ifndef CLOISTER_AUDIT_TALLY_H
#define CLOISTER_AUDIT_TALLY_H
#include <stddef.h>
#include <stdint.h>

#include "audit/record.h"
#include "cell/cell_refusals.h"
#include "http/http_head.h"

#define AUDIT_TALLY_SLOTS 256           /* when they are full, they are merged in pairs */

struct audit_slot {
	uint64_t requests, refused, bytes_in, bytes_out;
	uint64_t thefts;                /* refused: a secret's placeholder was on its way to where it may not go */
	uint64_t misplaced;             /* refused: on its way to its own host, but in a wrong part or way */
};

struct audit_refusal {
	char time[AUDIT_TIME_LEN + 1];  /* "" before the first */
	char what[CELL_REFUSAL_TEXT], why[CELL_REFUSAL_TEXT];
};

/* What a `resources` record measures. */
enum audit_measure {
	AUDIT_CPU_MS, AUDIT_READ, AUDIT_WRITTEN,        /* sums since the cell's start */
	AUDIT_SUMS,
	AUDIT_MEMORY = AUDIT_SUMS, AUDIT_PROCESSES, AUDIT_DISK, /* in use */
	AUDIT_USES,
	AUDIT_PEAK = AUDIT_USES,                        /* of memory */
	AUDIT_PRESSURE_CPU, AUDIT_PRESSURE_IO, AUDIT_PRESSURE_MEMORY,   /* hundredths of a per cent */
	AUDIT_MEASURES
};

/* The last `resources` record, or the sums of `cell.end`. */
struct audit_sample {
	uint64_t time_ms;               /* since 1970; 0: there is none */
	uint64_t known;                 /* bits 1 << enum audit_measure */
	uint64_t at[AUDIT_MEASURES];
	uint64_t cpu_permille;          /* of one processor, since the sample before */
};

/* What was used in a slot: more of a sum, and the most that was in use. */
struct audit_use {
	uint64_t samples;               /* 0: nothing is known of this time */
	uint64_t at[AUDIT_USES];
};

/* Acts inside the cell. */
struct audit_acts {
	uint64_t programs;              /* executions */
	uint64_t refused, dangerous;    /* system calls */
	uint64_t lost;                  /* acts that are not recorded */
	uint64_t watches;               /* rules over behaviour that fired */
};

struct audit_tally {
	uint64_t n;                     /* the last record */
	struct audit_slot total;
	struct audit_acts acts;
	struct audit_sample sample;
	uint64_t since_s, step_s;       /* start of the first slot; length of each */
	size_t n_slots;
	struct audit_slot slots[AUDIT_TALLY_SLOTS];
	struct audit_use uses[AUDIT_TALLY_SLOTS];
	struct audit_refusal refusal, theft, misplaced; /* the last of each */
	struct audit_refusal watch;             /* WHAT: the act; WHY: the rule */
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

/* ---- tally_acts.c ---- */

/* Its name in a record. */
const char *audit_measure_name(enum audit_measure measure);
/* Adds what was used from SINCE on to the N slots of STEP seconds each.  Between samples, and until
 * UNTIL, what was in use stays so. */
void audit_tally_add_uses(const struct audit_tally *t, uint64_t since_s, uint64_t step_s, uint64_t until_s,
                          struct audit_use *uses, size_t n);

/* For tally.c: counts EVENT of the type TYPE, whose time is AT, for the slot USE (NULL: none). */
void audit_tally_act(struct audit_tally *t, struct http_text type, struct http_text event, struct http_text time,
                     uint64_t count, struct audit_use *use);
/* For tally.c: adds MORE, which is of a later time, to TO. */
void audit_use_join(struct audit_use *to, const struct audit_use *more);
#endif
