/* event.h - writes events as members of a record (members.h), and sends them in batches to
 * the supervisor. */
#ifndef CLOISTER_EGRESS_EVENT_H
#define CLOISTER_EGRESS_EVENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/members.h"
#include "canon/repeats.h"
#include "loop/loop.h"

#define EVENT_MAX (48 * 1024)           /* of one event with all its members, escaped */
#define EVENT_TEXT_MAX 1024             /* bytes of a text in it; longer texts are cut */
#define EVENT_ITEM_MAX 200              /* bytes of one text in a list */
#define EVENTS_FLUSH_AT (32 * 1024)
#define EVENTS_EVERY_MS 10              /* at most this often, except for refusals */

struct events {
	struct loop *loop;
	int fd;                         /* borrowed: the supervisor's channel */
	struct members line;            /* the event being written */
	size_t n_kind;                  /* the members that define its kind; 0: all */
	uint64_t times;                 /* how many occurrences the event stands for */
	struct buf batch;               /* a message, without the number of its events */
	uint32_t n;
	uint64_t awaited;               /* see event_done_awaited(); 0: none */
	bool halted;                    /* see events_halt() */
	uint64_t n_halted;
	bool urgent;
	uint64_t sent_ms;
	struct loop_timer timer;
	struct repeats repeats;
	struct loop_timer repeats_timer;
};

void events_init(struct events *e, struct loop *loop, int fd);
void events_free(struct events *e);

/* Write one event: begin, members, done. */
void event_begin(struct events *e, const char *type);
void event_text(struct events *e, const char *key, const char *text, size_t len);
void event_str(struct events *e, const char *key, const char *text);
void event_u64(struct events *e, const char *key, uint64_t value);
void event_true(struct events *e, const char *key);
/* An array of strings. */
void event_list(struct events *e, const char *key, const char *const *texts, size_t n);
/* Continue an event that was begun before, with its members so far. */
void event_resume(struct events *e, const struct members *begun);
/* The members after this one differ between events of the same kind. */
void event_kind_ends(struct events *e);
/* The event stands for TIMES occurrences. */
void event_times(struct events *e, uint64_t times);
/* WHAT is for the summary of refusals, or NULL.  In a flood of refusals, most are only counted
 * (repeats.h). */
void event_done(struct events *e, bool refused, const char *what);
/* As event_done(); something waits until this event is recorded.  NUMBER grows with each. */
void event_done_awaited(struct events *e, uint64_t number);

/* While there is no room for records, refusals are only counted.  Afterwards their number is
 * recorded. */
void events_halt(struct events *e, bool halted);

/* Send the events that are due.  ALL: send all events, and block until the supervisor takes them. */
void events_flush(struct events *e, bool all);
/* Send everything, including refusals that were only counted. */
void events_finish(struct events *e);
#endif
