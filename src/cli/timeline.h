/* timeline.h - reads a cell's recorded events, one after the other.
 *
 * The agent chose names, paths and notes in events: print them with text_print_safe(). */
#ifndef CLOISTER_CLI_TIMELINE_H
#define CLOISTER_CLI_TIMELINE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cell/cell_dirs.h"
#include "policy/policy_suggest.h"

struct err;

#define TIMELINE_LINE_MAX (64 * 1024)   /* longer lines are skipped */

/* Strings are "" if the event does not have them.  The event owns them. */
struct timeline_event {
	json_t *json;
	uint64_t n;
	const char *time, *type, *verdict, *why, *rule, *rule_text, *reason, *method, *scheme,
		*host, *path, *note, *secret, *did, *user, *sign, *of, *cause, *by;
	uint64_t before;                /* the number of the record before it; 0: none */
	char *argv;                     /* words with spaces between them; NULL: none */
	const char *tool, *prompt, *resource;   /* the call that it was; "": none */
	char *refs;                     /* of a push, as in struct policy_seen; NULL: none */
	uint16_t port, status;          /* 0: none */
	bool has_query, is_upgrade, has_push_options;
	uint64_t size;                  /* of a body that was too large, as far as known */
	bool has_sizes;                 /* the exchange took place: */
	uint64_t sent, received, ms, count;
};
void timeline_event_free(struct timeline_event *e);     /* for OWN() too */
/* Whether it is about a request of the cell, and not about an event in the cell's life. */
bool timeline_is_decision(const struct timeline_event *e);
bool timeline_is_refusal(const struct timeline_event *e);
/* "GET https://api.example/x", "name api.example", "tcp db.example:5432", "ssh KEY git@host". */
void timeline_print_what(FILE *out, const struct timeline_event *e);
/* Budget use and cost; not a decision. */
bool timeline_is_of_budget(const struct timeline_event *e);
void timeline_print_budget(FILE *out, const struct timeline_event *e);
/* The cost of a model's answer, if it was metered: "  (MODEL: 3 tokens in, ...)". */
void timeline_print_cost(FILE *out, const struct timeline_event *e);
/* For a budget that an operator raised: " cell requests to 100". */
void timeline_print_raised(FILE *out, const struct timeline_event *e);
/* The reason of the refusal, in a few words. */
void timeline_print_cause(FILE *out, const struct timeline_event *e);

/* The request that was recorded; *ret_seen borrows from E. */
void timeline_get_seen(const struct timeline_event *e, struct policy_seen *ret_seen);

struct timeline {
	struct cell_entry entry;
	int state, dir, fd;             /* -1 until there is one */
	unsigned number;                /* of FD among its files, from 1 */
	bool is_numbered;               /* that number is its name: it is not the newest */
	uint64_t seen;                  /* the number of the last record */
	char *data;                     /* TIMELINE_LINE_MAX of it */
	size_t len, at;
	bool skipping;                  /* the rest of a line that is too long */
	size_t left_out;                /* lines that could not be read */
};
/* Opens the timeline of the cell WORD, running or ended.  NULL: the cell that used the network
 * last, or else the last cell. */
int timeline_open(const char *word, struct timeline *ret_timeline, struct err *err);
void timeline_close(struct timeline *t);                /* for OWN() too */
/* Frees everything but the entry: nothing more is read. */
void timeline_finish(struct timeline *t);
#define TIMELINE_FDS 3                  /* descriptors of an open timeline */
/* 1 and the next event, which the caller frees; 0 if there is none yet.  Skips checkpoints. */
int timeline_next(struct timeline *t, struct timeline_event *ret_event, struct err *err);
/* Whether the cell still runs.  Ask before reading: then a later read returns all there will be. */
bool timeline_is_live(const struct timeline *t);

#define TIMELINE_TIME_MAX 64
/* Converts "2026-11-15T12:03:01.250Z" to local time by strftime's FORMAT; false if it is no time. */
bool timeline_format_time(char ret_text[TIMELINE_TIME_MAX], const char *time,
                          const char *format) __attribute__((format(strftime, 3, 0)));
/* The cell's name, or its id. */
const char *timeline_cell(const struct timeline *t);
#endif
