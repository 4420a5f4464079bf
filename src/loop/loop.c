/* loop.c - see loop.h. */
#include "loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "loop/loop_parts.h"

#define LOOP_BATCH 128                  /* events taken at once */
#define LOOP_POLLED_MAX 256
#define LOOP_WAIT_MAX_MS 86400000       /* a day, so that no sum overflows an int */
#define LINGER_NS 150000                /* a wait up to this is short */
#define LINGER_AFTER 4                  /* short waits in a row */
#define LINGER_COST 8                   /* successful polls that make up for one in vain */
#define LINGER_CREDIT_MAX 64
#define LINGER_PAUSE_NS 100000000       /* without credit */
#define LINGER_STALL_NS 2000000         /* longer means that another process had the CPU */
#define LINGER_STALL_PAUSE 50           /* times as long as the stall */

struct linger {
	bool on;
	unsigned short_waits;           /* in a row, up to LINGER_AFTER */
	int credit;
	uint64_t not_before_ns;
};

struct loop {
	int epoll;
	bool quit;
	struct loop_timer *timers;      /* a pairing heap by key_ms */
	struct loop_round *rounds, **rounds_end;
	struct loop_round *later, **later_end;  /* requested by rounds that already ran */
	uint64_t round;                 /* odd while rounds run */
	struct loop_source signals;
	void (*caught)(void *arg, const struct signalfd_siginfo *info);
	void *caught_arg;
	struct linger linger;           /* see loop_linger() */
	struct loop_files *files;       /* see loop_watch_file(); NULL: none was watched */
	/* Sources that epoll refused.  The kernel limits epoll watches per user, and an agent of
	 * the same user can use them all.  A cell must still be reachable, to be killed. */
	struct loop_source *polled[LOOP_POLLED_MAX];
	size_t n_polled;
	int batch_at, batch_n;          /* the events not yet handled */
	struct epoll_event batch[LOOP_BATCH];
};

int
loop_new(struct loop **ret_loop, struct err *err)
{
	OWN(loop_freep) struct loop *loop = calloc(1, sizeof(*loop));

	if (loop == NULL)
		return err_errno(err, "cannot make an event loop");
	loop->rounds_end = &loop->rounds;
	loop->later_end = &loop->later;
	loop->round = 2;
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
	if (loop->files != NULL) {
		closep(&loop->files->source.fd);
		free(loop->files);
	}
	closep(&loop->epoll);
	closep(&loop->signals.fd);
	free(loop);
}

struct loop_files **
loop_files(struct loop *loop)
{
	return &loop->files;
}

/* ---- sources ---- */

static void
loop_forget_events(struct loop *loop, const struct loop_source *source)
{
	for (int i = loop->batch_at; i < loop->batch_n; i++)
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
}

/* The index of SOURCE in POLLED, or n_polled. */
static size_t
loop_find_polled(const struct loop *loop, const struct loop_source *source)
{
	size_t i = 0;

	while (i < loop->n_polled && loop->polled[i] != source)
		i++;
	return i;
}

static bool
loop_add_polled(struct loop *loop, struct loop_source *source)
{
	if (loop->n_polled == LOOP_POLLED_MAX)
		return false;
	loop->polled[loop->n_polled++] = source;
	return true;
}

int
loop_watch(struct loop *loop, struct loop_source *source, uint32_t events,
           struct err *err)
{
	size_t polled = loop_find_polled(loop, source);
	struct epoll_event event = { .events = events, .data.ptr = source };
	int op = source->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (events == source->events)
		return 0;
	if (events == 0) {
		op = EPOLL_CTL_DEL;
		loop_forget_events(loop, source);
	}
	if (polled < loop->n_polled) {
		if (events == 0)
			loop->polled[polled] = loop->polled[--loop->n_polled];
	} else if (epoll_ctl(loop->epoll, op, source->fd, &event) < 0 &&
	           (errno != ENOSPC || !loop_add_polled(loop, source))) {
		return err_errno(err, "cannot watch a descriptor");
	}
	source->events = events;
	return 0;
}

void
loop_unwatch(struct loop *loop, struct loop_source *source)
{
	(void)loop_watch(loop, source, 0, NULL);
}

bool
loop_has_event(const struct loop *loop, const struct loop_source *source)
{
	for (int i = loop->batch_at; i < loop->batch_n; i++)
		if (loop->batch[i].data.ptr == source)
			return true;
	return false;
}

/* ---- timers ----
 *
 * A timer that moves to a later time keeps its old key and place in the heap.  When that key comes
 * up, it is inserted at its new time. */

uint64_t
loop_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* A and B are roots or NULL. */
static struct loop_timer *
timers_meld(struct loop_timer *a, struct loop_timer *b)
{
	struct loop_timer *first;

	if (a == NULL || b == NULL)
		return a == NULL ? b : a;
	if (b->key_ms < a->key_ms) {
		first = b;
		b = a;
		a = first;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next != NULL)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Meld a list of siblings into one heap: in pairs, then all pairs from the last one on. */
static struct loop_timer *
timers_meld_all(struct loop_timer *list)
{
	struct loop_timer *a, *b, *pairs = NULL, *root = NULL;

	while (list != NULL) {
		a = list;
		b = a->next;
		list = b == NULL ? NULL : b->next;
		a = timers_meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs != NULL) {
		a = pairs;
		pairs = a->next;
		root = timers_meld(root, a);
	}
	if (root != NULL)
		root->prev = root->next = NULL;
	return root;
}

static void
timers_remove(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer *below = timers_meld_all(timer->child);

	if (loop->timers == timer) {
		loop->timers = below;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next != NULL)
			timer->next->prev = timer->prev;
		loop->timers = timers_meld(loop->timers, below);
	}
	timer->child = timer->next = timer->prev = NULL;
}

static void
timers_add(struct loop *loop, struct loop_timer *timer)
{
	timer->key_ms = timer->at_ms;
	loop->timers = timers_meld(loop->timers, timer);
}

void
loop_prepare_timer(struct loop_timer *timer, void (*due)(void *arg), void *arg)
{
	timer->due = due;
	timer->arg = arg;
}

void
loop_cancel_timer(struct loop *loop, struct loop_timer *timer)
{
	if (timer->at_ms == 0)
		return;
	timers_remove(loop, timer);
	timer->at_ms = 0;
}

void
loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t after_ms)
{
	uint64_t at_ms = loop_now_ms() + after_ms;

	if (timer->at_ms != 0 && at_ms >= timer->key_ms) {
		timer->at_ms = at_ms;
		return;
	}
	loop_cancel_timer(loop, timer);
	timer->at_ms = at_ms;
	timers_add(loop, timer);
}

static void
loop_run_timers(struct loop *loop)
{
	uint64_t now = loop->timers == NULL ? 0 : loop_now_ms();
	struct loop_timer *timer;

	/* NOW is not updated, so timers that set themselves again leave events their turn. */
	while (!loop->quit && (timer = loop->timers) != NULL && timer->key_ms <= now) {
		timers_remove(loop, timer);
		if (timer->at_ms > timer->key_ms) {
			timers_add(loop, timer);
			continue;
		}
		timer->at_ms = 0;
		timer->due(timer->arg);
	}
}

/* How long epoll may wait: until the next timer. */
static int
loop_wait_ms(const struct loop *loop)
{
	uint64_t now, wait;

	if (loop->timers == NULL)
		return -1;
	now = loop_now_ms();
	wait = loop->timers->key_ms <= now ? 0 : loop->timers->key_ms - now;
	return wait < LOOP_WAIT_MAX_MS ? (int)wait : LOOP_WAIT_MAX_MS;
}

/* ---- rounds ---- */

void
loop_prepare_round(struct loop_round *round, void (*run)(void *arg), void *arg)
{
	round->run = run;
	round->arg = arg;
}

void
loop_at_round_end(struct loop *loop, struct loop_round *round)
{
	struct loop_round ***end;

	if (round->at != NULL)
		return;
	end = round->ran == loop->round ? &loop->later_end : &loop->rounds_end;
	round->next = NULL;
	round->at = *end;
	**end = round;
	*end = &round->next;
}

void
loop_cancel_round(struct loop *loop, struct loop_round *round)
{
	if (round->at == NULL)
		return;
	*round->at = round->next;
	if (round->next != NULL)
		round->next->at = round->at;
	else if (loop->rounds_end == &round->next)
		loop->rounds_end = round->at;
	else
		loop->later_end = round->at;
	round->next = NULL;
	round->at = NULL;
}

/* Returns whether some rounds have to run again. */
static bool
loop_end_round(struct loop *loop)
{
	struct loop_round *round;

	loop->round++;
	while (!loop->quit && (round = loop->rounds) != NULL) {
		loop_cancel_round(loop, round);
		round->ran = loop->round;
		round->run(round->arg);
	}
	loop->round++;
	if (loop->later == NULL || loop->quit)
		return false;
	loop->rounds = loop->later;
	loop->rounds->at = &loop->rounds;
	loop->rounds_end = loop->later_end;
	loop->later = NULL;
	loop->later_end = &loop->later;
	return true;
}

/* ---- signals ---- */

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

/* Polled sources get the first half of the batch, beginning with a different one each time. */
static int
loop_take_polled(struct loop *loop, int wait_ms)
{
	struct pollfd fds[LOOP_POLLED_MAX + 1];
	size_t all = loop->n_polled;
	int n, got = 0;

	for (size_t i = 0; i < all; i++)
		fds[i] = (struct pollfd){ .fd = loop->polled[i]->fd, .events = (short)loop->polled[i]->events };
	fds[all] = (struct pollfd){ .fd = loop->epoll, .events = POLLIN };
	n = poll(fds, all + 1, wait_ms);
	if (n <= 0)
		return n;
	for (size_t i = 0; i < all && got < LOOP_BATCH / 2; i++) {
		size_t at = (i + loop->round / 2) % all;

		if (fds[at].revents != 0)
			loop->batch[got++] = (struct epoll_event){ .events = (uint16_t)fds[at].revents,
			                                           .data.ptr = loop->polled[at] };
	}
	n = fds[all].revents == 0 ? 0 : epoll_wait(loop->epoll, loop->batch + got, LOOP_BATCH - got, 0);
	return n > 0 ? got + n : got;
}

static int
loop_take(struct loop *loop, int wait_ms)
{
	if (loop->n_polled > 0)
		return loop_take_polled(loop, wait_ms);
	return epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, wait_ms);
}

/* ---- lingering ----
 *
 * If CPUs are scarce, or limited by a quota (--cpus), lingering uses up our share and delays the
 * events that we wait for.  Waits that are far too long show that. */

void
loop_linger(struct loop *loop)
{
	loop->linger = (struct linger){ .on = true };
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void
linger_paid(struct linger *l)
{
	if (l->credit < LINGER_CREDIT_MAX)
		l->credit++;
}

static void
linger_was_in_vain(struct linger *l, uint64_t now, uint64_t took)
{
	uint64_t pause = 0;

	l->credit -= LINGER_COST;
	if (l->credit < 0)
		pause = LINGER_PAUSE_NS;
	if (took >= LINGER_STALL_NS)
		pause = LINGER_PAUSE_NS + LINGER_STALL_PAUSE * took;
	if (pause > 0) {
		l->credit = 0;
		l->not_before_ns = now + pause;
	}
}

/* Poll for events that come soon; 0 if none did. */
static int
loop_take_soon(struct loop *loop, uint64_t begun)
{
	uint64_t now;
	int n;

	do {
		n = loop_take(loop, 0);
		if (n != 0) {
			linger_paid(&loop->linger);
			return n;
		}
		sched_yield();
		now = now_ns();
	} while (now - begun < LINGER_NS);
	linger_was_in_vain(&loop->linger, now, now - begun);
	return 0;
}

static int
loop_take_lingering(struct loop *loop, int wait_ms)
{
	struct linger *l = &loop->linger;
	uint64_t begun = now_ns();
	int n = 0;

	if (l->short_waits == LINGER_AFTER && begun >= l->not_before_ns)
		n = loop_take_soon(loop, begun);
	if (n == 0)
		n = loop_take(loop, wait_ms);
	if (now_ns() - begun >= LINGER_NS)
		l->short_waits = 0;
	else if (l->short_waits < LINGER_AFTER)
		l->short_waits++;
	return n;
}

/* ---- the loop ---- */

static void
loop_run_batch(struct loop *loop)
{
	struct loop_source *source;
	uint32_t events;

	while (!loop->quit && loop->batch_at < loop->batch_n) {
		source = loop->batch[loop->batch_at].data.ptr;
		events = loop->batch[loop->batch_at].events;
		loop->batch_at++;
		if (source == NULL)
			continue;
		/* An earlier callback of this batch may have changed the source's events. */
		events &= source->events | EPOLLERR | EPOLLHUP;
		if (events != 0)
			source->ready(source->arg, events);
	}
	loop->batch_at = loop->batch_n = 0;
}

int
loop_fd(const struct loop *loop)
{
	return loop->epoll;
}

int
loop_turn(struct loop *loop, struct err *err)
{
	loop->quit = false;
	loop->batch_n = loop_take(loop, 0);
	if (loop->batch_n < 0) {
		loop->batch_n = 0;
		if (errno != EINTR)
			return err_errno(err, "cannot wait for events");
	}
	loop_run_batch(loop);
	loop_run_timers(loop);
	while (!loop->quit && loop_end_round(loop))
		;
	return 0;
}

int
loop_run(struct loop *loop, struct err *err)
{
	bool again;
	int wait;

	loop->quit = false;
	for (;;) {
		loop_run_timers(loop);
		again = loop_end_round(loop);
		if (loop->quit)
			return 0;
		wait = again ? 0 : loop_wait_ms(loop);
		loop->batch_n = loop->linger.on && wait != 0 ? loop_take_lingering(loop, wait) :
		                                               loop_take(loop, wait);
		if (loop->batch_n < 0) {
			loop->batch_n = 0;
			if (errno != EINTR)
				return err_errno(err, "cannot wait for events");
		}
		loop_run_batch(loop);
		if (loop->quit)
			return 0;
	}
}

void
loop_quit(struct loop *loop)
{
	loop->quit = true;
}
