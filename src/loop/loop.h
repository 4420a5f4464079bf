/* loop.h - an epoll loop: descriptors, timers, signals.
 *
 * Sources, timers and rounds live in their owner's structures.  Events are taken in batches.  A
 * callback may remove any source, also its own, or change its events: the rest of the batch for
 * that source is dropped.  A source may be freed and its descriptor closed only after
 * loop_unwatch(). */
#ifndef CLOISTER_LOOP_H
#define CLOISTER_LOOP_H
#include <signal.h>
#include <sys/signalfd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"

struct err;
struct loop;                            /* opaque */

struct loop_source {
	int fd;                         /* borrowed */
	uint32_t events;                /* EPOLLIN, EPOLLOUT; 0 while not in the loop */
	void (*ready)(void *arg, uint32_t events);
	void *arg;
};

struct loop_timer {
	uint64_t at_ms;                 /* 0 while not set */
	void (*due)(void *arg);
	void *arg;
	uint64_t key_ms;                /* private, as is what follows */
	struct loop_timer *child, *next, *prev;
};

struct loop_round {
	void (*run)(void *arg);
	void *arg;
	struct loop_round *next, **at;  /* private; AT is NULL unless requested */
	uint64_t ran;
};

/* A file or folder that other processes change. */
struct loop_file {
	/* NAME is that of a changed entry of a folder; else "".  May remove any watch. */
	void (*changed)(void *arg, const char *name);
	void *arg;
	int watch;                      /* private, as is what follows; 0 while it is not watched */
	struct loop_file *next;
};

int loop_new(struct loop **ret_loop, struct err *err);
void loop_free(struct loop *loop);      /* NULL is fine */
OWN_BY(loop_freep, struct loop *, loop_free)

/* Watch SOURCE->fd for EVENTS (0 stops watching).  A regular file cannot be
 * watched: -EPERM. */
int loop_watch(struct loop *loop, struct loop_source *source, uint32_t events,
               struct err *err);
void loop_unwatch(struct loop *loop, struct loop_source *source);

/* Whether the current batch still has events for SOURCE. */
bool loop_has_event(const struct loop *loop, const struct loop_source *source);

/* ---- files: loop_files.c ---- */

enum loop_file_event {
	LOOP_FILE_CREATED = 1,          /* a new entry of a folder */
	LOOP_FILE_MODIFIED = 2,         /* written */
	LOOP_FILE_WRITTEN = 4,          /* closed by a process that could write it */
};
/* Call CHANGED at each of EVENTS (enum loop_file_event bits) of the file or folder FD, which may be
 * closed then.  All watches of a loop share one descriptor. */
int loop_watch_file(struct loop *loop, struct loop_file *file, int fd, unsigned events,
                    struct err *err);
void loop_unwatch_file(struct loop *loop, struct loop_file *file);

/* ---- timers and rounds ---- */

/* What TIMER calls.  It starts out as zeros; preparing it again while it is set only changes what it
 * calls. */
void loop_prepare_timer(struct loop_timer *timer, void (*due)(void *arg), void *arg);

/* Call DUE once, AFTER_MS from now; setting it again moves it.  Moving it to a later time, as idle
 * connections do with every sign of life, costs next to nothing.  Timers due at the same time run
 * in any order. */
void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t after_ms);
void loop_cancel_timer(struct loop *loop, struct loop_timer *timer);

void loop_prepare_round(struct loop_round *round, void (*run)(void *arg), void *arg);

/* Run ROUND once, after the current events and before the loop waits for the next ones.  Requesting
 * it again before that changes nothing.  A round that requests itself runs again in the next round,
 * which then does not wait. */
void loop_at_round_end(struct loop *loop, struct loop_round *round);
void loop_cancel_round(struct loop *loop, struct loop_round *round);

/* Block SIGNALS and call CAUGHT for each; one such set per loop. */
int loop_catch(struct loop *loop, const sigset_t *signals,
               void (*caught)(void *arg, const struct signalfd_siginfo *info),
               void *arg, struct err *err);

/* From now on, poll for a moment before sleeping, as long as recent waits were short.  Between
 * processes of one machine, waking up takes longer than answering.  Other users of the CPU go
 * first, and polling pauses while it is mostly in vain. */
void loop_linger(struct loop *loop);

/* Run until loop_quit(); after it no callback is called. */
int loop_run(struct loop *loop, struct err *err);
void loop_quit(struct loop *loop);

/* For a process that waits elsewhere: a descriptor that is readable when a source is ready, and one
 * turn of the loop that does not wait.  Timers run with the next turn. */
int loop_fd(const struct loop *loop);
int loop_turn(struct loop *loop, struct err *err);

uint64_t loop_now_ms(void);             /* CLOCK_BOOTTIME: includes sleep */
#endif
