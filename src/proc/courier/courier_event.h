/* courier_event.h - events: members of a record (members.h), batched into messages to the
 * supervisor. */
#ifndef CLOISTER_COURIER_EVENT_H
#define CLOISTER_COURIER_EVENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/members.h"
#include "canon/repeats.h"
#include "loop/loop.h"

struct err;

#define EVENT_MAX (48 * 1024)           /* of one event: what follows, all of it escaped */
#define EVENT_TEXT_MAX 1024             /* bytes of a text in it; longer ones are cut */
#define EVENT_ITEM_MAX 200              /* of one in a list */
#define EVENTS_FLUSH_AT (32 * 1024)
#define EVENTS_EVERY_MS 10              /* at most so often, but for refusals */

struct events {
	struct loop *loop;
	int fd;                         /* borrowed: the supervisor's channel */
	struct members line;            /* the event being written */
	size_t n_kind;                  /* of them, what makes it one of a kind; 0: all */
	uint64_t times;                 /* that it stands for */
	struct buf batch;               /* a message, but for the number of events in it */
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

/* Write one: begin, members, done.  WHAT is for the summary of refusals, or NULL. */
void event_begin(struct events *e, const char *type);
void event_text(struct events *e, const char *key, const char *text, size_t len);
void event_str(struct events *e, const char *key, const char *text);
void event_u64(struct events *e, const char *key, uint64_t value);
void event_true(struct events *e, const char *key);
/* An array of strings. */
void event_list(struct events *e, const char *key, const char *const *texts, size_t n);
/* Go on with one that was begun before: its members so far. */
void event_resume(struct events *e, const struct members *begun);
/* What comes after this differs from one to the next of a kind. */
void event_kind_ends(struct events *e);
/* It stands for TIMES of them. */
void event_times(struct events *e, uint64_t times);
/* Of refusals that come in floods, most are only counted (repeats.h). */
void event_done(struct events *e, bool refused, const char *what);
/* Something waits for this one to be recorded, under a NUMBER that grows. */
void event_done_awaited(struct events *e, uint64_t number);

/* While there is no room for records, refusals are only counted; then their number is told. */
void events_halt(struct events *e, bool halted);

/* Send what should not wait any longer; ALL: everything, waiting for the supervisor if
 * it must be. */
void events_flush(struct events *e, bool all);
/* Also what was only counted until now. */
void events_finish(struct events *e);
#endif
