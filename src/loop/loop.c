/* loop.c - see loop.h. */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

struct loop {
	int epoll;
	bool quit;
	struct loop_timer *timers;      /* earliest first */
	struct loop_source signals;
	void (*caught)(void *arg, const struct signalfd_siginfo *info);
	void *caught_arg;
};

int
loop_new(struct loop **ret_loop, struct err *err)
{
	OWN(loop_freep) struct loop *loop = calloc(1, sizeof(*loop));

	if (loop == NULL)
		return err_errno(err, "cannot make an event loop");
	loop->signals.fd = -1;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0)
		return err_errno(err, "cannot make an event loop");
	*ret_loop = TAKE(loop);
	return 0;
}

void
loop_free(struct loop *loop)
{
	if (loop == NULL)
		return;
	closep(&loop->epoll);
	closep(&loop->signals.fd);
	free(loop);
}

void
loop_freep(struct loop **loop)
{
	loop_free(*loop);
}

int
loop_watch(struct loop *loop, struct loop_source *source, uint32_t events,
           struct err *err)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	int op = source->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (events == source->events)
		return 0;
	if (events == 0)
		op = EPOLL_CTL_DEL;
	if (epoll_ctl(loop->epoll, op, source->fd, &event) < 0)
		return err_errno(err, "cannot watch a descriptor");
	source->events = events;
	return 0;
}

void
loop_unwatch(struct loop *loop, struct loop_source *source)
{
	(void)loop_watch(loop, source, 0, NULL);
}

uint64_t
loop_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void
loop_cancel_timer(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at = &loop->timers;

	while (*at != NULL && *at != timer)
		at = &(*at)->next;
	if (*at != NULL)
		*at = timer->next;
	timer->next = NULL;
	timer->at_ms = 0;
}

void
loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t after_ms)
{
	struct loop_timer **at = &loop->timers;

	loop_cancel_timer(loop, timer);
	timer->at_ms = loop_now_ms() + after_ms;
	while (*at != NULL && (*at)->at_ms <= timer->at_ms)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
}

static void
loop_signals_ready(void *arg, uint32_t events)
{
	struct loop *loop = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(loop->signals.fd, &info, sizeof(info)) == sizeof(info))
		loop->caught(loop->caught_arg, &info);
}

int
loop_catch(struct loop *loop, const sigset_t *signals,
           void (*caught)(void *arg, const struct signalfd_siginfo *info),
           void *arg, struct err *err)
{
	loop->caught = caught;
	loop->caught_arg = arg;
	loop->signals.ready = loop_signals_ready;
	loop->signals.arg = loop;
	sigprocmask(SIG_BLOCK, signals, NULL);
	loop->signals.fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signals.fd < 0)
		return err_errno(err, "cannot catch signals");
	return loop_watch(loop, &loop->signals, EPOLLIN, err);
}

/* Run what is due; returns how long epoll may wait for the next one. */
static int
loop_run_timers(struct loop *loop)
{
	struct loop_timer *timer;
	uint64_t now;

	while (!loop->quit && (timer = loop->timers) != NULL) {
		now = loop_now_ms();
		if (timer->at_ms > now)
			/* A day at most, so that the sum never overflows int. */
			return timer->at_ms - now < 86400000 ? (int)(timer->at_ms - now) : 86400000;
		loop_cancel_timer(loop, timer);
		timer->due(timer->arg);
	}
	return -1;
}

int
loop_run(struct loop *loop, struct err *err)
{
	struct epoll_event event;
	struct loop_source *source;
	int wait, n;

	loop->quit = false;
	for (;;) {
		wait = loop_run_timers(loop);
		if (loop->quit)
			return 0;
		n = epoll_wait(loop->epoll, &event, 1, wait);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "cannot wait for events");
		if (n == 1) {
			source = event.data.ptr;
			source->ready(source->arg, event.events);
		}
		if (loop->quit)
			return 0;
	}
}

void
loop_quit(struct loop *loop)
{
	loop->quit = true;
}
