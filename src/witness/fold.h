/* fold.h - counts acts that repeat, and bounds what is recorded.
 *
 * An event waits for a short time, for others like it: then one event has the count of all.  If it goes on, each
 * wait is twice as long as the one before.  The events of a process are passed on when it ends.
 *
 * Events are passed on as long as there is room: so many bytes in a second, and in all.  If it runs short, the
 * commonest kinds are left out first.  Events that are left out are counted, and the counts are events, too. */
#ifndef CLOISTER_WITNESS_FOLD_H
#define CLOISTER_WITNESS_FOLD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "witness/act.h"

#define FOLD_WAIT_MS 100                /* the first wait */
#define FOLD_WAIT_MAX_MS 64000
#define FOLD_BYTES_MAX (1536 * 1024)    /* of memory */
#define FOLD_SECOND_MAX (512 * 1024)    /* bytes of events in a second, over time */
#define FOLD_BURST_MAX (4 * 1024 * 1024)        /* at once, after a quiet time */
#define FOLD_LOST_MS 1000               /* how often counts are passed on */
#define FOLD_LOST_LATE_MS 60000         /* likewise, once there is no room at all */

struct fold;                            /* opaque */

struct fold_sink {
	/* COUNT acts of KIND: TEXT is an event as put_act() writes it. */
	void (*pass)(void *arg, enum act_kind kind, uint64_t count, const char *text, size_t len);
	/* N acts of KIND were left out.  A later call has only those since then. */
	void (*lose)(void *arg, enum act_kind kind, uint64_t n, const char *why);
	void *arg;
};

/* TOTAL: bytes of all events.  NULL: out of memory. */
struct fold *fold_new(const struct fold_sink *sink, uint64_t total, uint64_t now_ms);
void fold_free(struct fold *f);         /* NULL is fine; nothing is passed on */

/* Takes an event of the process PID.  COUNT_AT: where its count is, a "1"; 0: it is passed on as it is, now. */
void fold_take(struct fold *f, enum act_kind kind, uint32_t pid, const char *text, size_t len, size_t count_at,
               uint64_t now_ms);
/* Passes on an event of COUNT acts as it is, now. */
void fold_pass(struct fold *f, enum act_kind kind, uint64_t count, const char *text, size_t len, uint64_t now_ms);
/* N acts were left out before they were events. */
void fold_lose(struct fold *f, enum act_kind kind, uint64_t n, const char *why, uint64_t now_ms);
/* The process ends, or becomes another program: passes on what waits of it. */
void fold_flush(struct fold *f, uint32_t pid, uint64_t now_ms);
/* Passes on what has waited long enough; with ALL, everything. */
void fold_turn(struct fold *f, bool all, uint64_t now_ms);
/* When fold_turn() has something to do; UINT64_MAX: never. */
uint64_t fold_next(const struct fold *f);
#endif
