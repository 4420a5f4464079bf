/* loop.h - an epoll loop: descriptors, timers, signals.
 *
 * Sources and timers live in their owner's structures.  One event is taken at a
 * time, so a callback may remove any source, its own included. */
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
	struct loop_timer *next;
};

int loop_new(struct loop **ret_loop, struct err *err);
void loop_free(struct loop *loop);      /* NULL is fine */
void loop_freep(struct loop **loop);

/* Watch SOURCE->fd for EVENTS (0 stops watching).  A regular file cannot be
 * watched: -EPERM. */
int loop_watch(struct loop *loop, struct loop_source *source, uint32_t events,
               struct err *err);
void loop_unwatch(struct loop *loop, struct loop_source *source);

/* Due once, AFTER_MS from now; setting it again moves it. */
void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t after_ms);
void loop_cancel_timer(struct loop *loop, struct loop_timer *timer);

/* Block SIGNALS and call CAUGHT for each; one such set per loop. */
int loop_catch(struct loop *loop, const sigset_t *signals,
               void (*caught)(void *arg, const struct signalfd_siginfo *info),
               void *arg, struct err *err);

/* Until loop_quit(). */
int loop_run(struct loop *loop, struct err *err);
void loop_quit(struct loop *loop);

uint64_t loop_now_ms(void);             /* CLOCK_BOOTTIME: sleep counts */
#endif
