/* loop.h - an epoll loop: descriptors, timers, signals.
 *
 * Sources, timers and rounds live in their owner's structures.  Events are taken in
 * batches; a callback may still remove any source, its own included, or change what it
 * waits for: what else the batch holds for it is forgotten.  After loop_unwatch(), and
 * not before, a source may be freed and its descriptor closed. */
#ifndef CLOISTER_LOOP_H
#define CLOISTER_LOOP_H
#include <signal.h>
#include <sys/signalfd.h>
#include <stdbool.h>
#include <stdint.h>

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
	struct loop_round *next, **at;  /* private; AT is NULL while not asked for */
	uint64_t ran;
};

int loop_new(struct loop **ret_loop, struct err *err);
void loop_free(struct loop *loop);      /* NULL is fine */
void loop_freep(struct loop **loop);

/* Watch SOURCE->fd for EVENTS (0 stops watching).  A regular file cannot be
 * watched: -EPERM. */
int loop_watch(struct loop *loop, struct loop_source *source, uint32_t events,
               struct err *err);
void loop_unwatch(struct loop *loop, struct loop_source *source);

/* Whether the events at hand include some of SOURCE's that it has not been told yet. */
bool loop_has_event(const struct loop *loop, const struct loop_source *source);

/* Due once, AFTER_MS from now; setting it again moves it.  Moving it to a later time,
 * as every sign of life does with the timer of an idle connection, costs next to
 * nothing.  Timers that are due at the same time come in any order. */
void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t after_ms);
void loop_cancel_timer(struct loop *loop, struct loop_timer *timer);

/* Run once, when the events at hand have been dealt with and before the next ones are
 * waited for; asking again before that changes nothing.  A round that asks for itself
 * runs again in the next round, which then waits for nothing. */
void loop_at_round_end(struct loop *loop, struct loop_round *round);
void loop_cancel_round(struct loop *loop, struct loop_round *round);

/* Block SIGNALS and call CAUGHT for each; one such set per loop. */
int loop_catch(struct loop *loop, const sigset_t *signals,
               void (*caught)(void *arg, const struct signalfd_siginfo *info),
               void *arg, struct err *err);

/* From now on, look for events for a moment before sleeping, while the waits before were
 * short: between processes of one machine, waking up takes longer than answering does.
 * Whatever else wants the CPU goes first; where it is mostly in vain, it is left off. */
void loop_linger(struct loop *loop);

/* Until loop_quit(), after which nothing more is called. */
int loop_run(struct loop *loop, struct err *err);
void loop_quit(struct loop *loop);

uint64_t loop_now_ms(void);             /* CLOCK_BOOTTIME: sleep counts */
#endif
