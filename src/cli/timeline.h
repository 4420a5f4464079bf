/* timeline.h - reads what was recorded of a cell: its decisions, one event after the
 * other.
 *
 * Names, paths and notes in events were chosen by the agent: they are for
 * text_print_safe(). */
#ifndef CLOISTER_CLI_TIMELINE_H
#define CLOISTER_CLI_TIMELINE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cell/cell_dirs.h"
#include "policy/policy_suggest.h"

struct err;

#define TIMELINE_LINE_MAX (64 * 1024)   /* a longer line is left out */

/* Strings are "" where the event does not have them, and belong to it. */
struct timeline_event {
	json_t *json;
	uint64_t n;
	const char *time, *type, *verdict, *why, *rule, *rule_text, *reason, *method, *scheme,
		*host, *path, *note, *secret, *did, *user, *sign, *of, *cause, *by;
	uint64_t before;                /* the number of the record before it; 0: it is the first */
	char *argv;                     /* words with spaces between them; NULL: none */
	char *refs;                     /* of a push, as in struct policy_seen; NULL: none */
	uint16_t port, status;          /* 0: none */
	bool has_query, is_upgrade, has_push_options;
	uint64_t size;                  /* of a body that was too large, as far as it is known */
	bool has_sizes;                 /* an exchange that took place: */
	uint64_t sent, received, ms, count;
};
void timeline_event_free(struct timeline_event *e);     /* for OWN() too */
/* Whether it is about something that the cell asked for, and does not tell what befell the cell. */
bool timeline_is_decision(const struct timeline_event *e);
bool timeline_is_refusal(const struct timeline_event *e);
/* "GET https://api.example/x", "name api.example", "tcp db.example:5432", "ssh KEY git@host". */
void timeline_print_what(FILE *out, const struct timeline_event *e);
/* What was used of a budget, and what it cost: no decision. */
bool timeline_is_of_budget(const struct timeline_event *e);
void timeline_print_budget(FILE *out, const struct timeline_event *e);
/* What a model's answer cost, if it was one and that was metered: "  (MODEL: 3 tokens in, ...)". */
void timeline_print_cost(FILE *out, const struct timeline_event *e);
/* Of a budget that an operator raised: " cell requests to 100". */
void timeline_print_raised(FILE *out, const struct timeline_event *e);
/* Why it was refused, in a few words. */
void timeline_print_cause(FILE *out, const struct timeline_event *e);

/* The request that was recorded; *ret_seen borrows from E. */
void timeline_get_seen(const struct timeline_event *e, struct policy_seen *ret_seen);

struct timeline {
	struct cell_entry entry;
	int state, dir, fd;             /* -1 until there is one */
	unsigned number;                /* of FD among its files, from 1; */
	bool is_numbered;               /* that is its name: it is not the newest */
	uint64_t seen;                  /* the number of the last record */
	char *data;                     /* TIMELINE_LINE_MAX of it */
	size_t len, at;
	bool skipping;                  /* the rest of a line that is too long */
	size_t left_out;                /* lines that could not be read */
};
/* Of the cell that WORD means, running or ended; NULL: of the one that used the network last,
 * or else of the last one. */
int timeline_open(const char *word, struct timeline *ret_timeline, struct err *err);
void timeline_close(struct timeline *t);                /* for OWN() too */
/* 1 and the next event, which the caller frees; 0 if there is none as yet.  Checkpoints are left
 * out. */
int timeline_next(struct timeline *t, struct timeline_event *ret_event, struct err *err);
/* Whether the cell still runs.  Ask before reading: then what is read afterwards is
 * all there will be. */
bool timeline_is_live(const struct timeline *t);

#define TIMELINE_TIME_MAX 64
/* "2026-11-15T12:03:01.250Z" as the clock on the wall here, by strftime's FORMAT; false if
 * it is no time. */
bool timeline_format_time(char ret_text[TIMELINE_TIME_MAX], const char *time,
                          const char *format) __attribute__((format(strftime, 3, 0)));
/* What the cell is called: its name, or its id. */
const char *timeline_cell(const struct timeline *t);
#endif
