/* courier.c - see courier.h: sets up and runs the parts of the courier. */
#include "egress/courier.h"

#include <assert.h>
#include <malloc.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/err.h"

#define FRAME_MAX (2 * HTTP_HEAD_MAX)   /* a head as a frame */

/* ---- queues ---- */

void
courier_queue(struct buf *b, const void *data, size_t len)
{
	/* Moving is cheap as long as less is moved than was read. */
	if (b->pos > 0 && b->pos >= buf_left(b)) {
		memmove(b->data, b->data + b->pos, buf_left(b));
		b->len -= b->pos;
		b->pos = 0;
	}
	buf_put(b, data, len);
	/* A gap in a body would be worse than a crash. */
	assert(!buf_failed(b));
}

/* ---- timers ---- */

static void
give_memory_back(struct courier *c)
{
	struct exchange *ex;

	while ((ex = c->spare) != NULL) {
		c->spare = ex->next;
		exchange_free(ex);
	}
	c->n_spare = 0;
	courier_meters_trim(c);
	buf_free(&c->out);
	pool_rest(c->pool);
	malloc_trim(0);
}

/* Expire the first late exchange.  It may take others with it, so the list is searched anew each
 * time. */
static bool
expire_one(struct courier *c)
{
	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next) {
		if (ex->t.deadline_s != 0 && ex->t.deadline_s <= c->now_s) {
			exchange_late(ex);
			return true;
		}
	}
	return false;
}

static bool
push_one(struct courier *c)
{
	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next)
		if (exchange_give_way(ex))
			return true;
	return false;
}

static void
tick_due(void *arg)
{
	struct courier *c = arg;
	bool busy;

	c->now_s = c->pool->now_s = loop_now_ms() / 1000;
	while (expire_one(c))
		;
	while (push_one(c))
		;
	courier_budget_tick(c);
	courier_tell_used(c);
	busy = pool_tick(c->pool);
	if (c->n_exchanges > 0) {
		c->quiet_since_s = c->now_s;
		c->rests = false;
	} else if (!c->rests && c->quiet_since_s + COURIER_QUIET_S <= c->now_s) {
		c->rests = true;
		give_memory_back(c);
		/* A restarted courier reads the machine's current resolver settings. */
		if (resolver_is_stale(c->pool->resolver))
			loop_quit(c->loop);
	}
	if (busy || !c->rests)
		loop_set_timer(c->loop, &c->tick, 1000);
}

void
courier_wake(struct courier *c)
{
	if (c->tick.at_ms != 0)
		return;
	c->now_s = c->pool->now_s = c->quiet_since_s = loop_now_ms() / 1000;
	c->rests = false;
	loop_set_timer(c->loop, &c->tick, 1000);
}

static void
round_over(void *arg)
{
	struct courier *c = arg;
	struct exchange *ex;

	courier_cut_over(c);
	courier_budget_settled(c);
	pool_round_over(c->pool);
	/* Record only now, after the gate has its responses. */
	while ((ex = c->over) != NULL) {
		c->over = ex->next;
		exchange_record_last(ex);
		exchange_recycle(ex);
	}
	c->over_end = &c->over;
	courier_tell_guessed(c);
	events_flush(&c->events, false);
}

void
courier_at_round_end(struct courier *c)
{
	loop_at_round_end(c->loop, &c->round);
}

/* ---- beginning and end ---- */

int
courier_init(struct courier *c, struct policy *policy, bool learn, char *const *environment,
             const char *pem, size_t pem_len, struct err *err)
{
	int r = courier_set_policy(c, policy, err);

	c->learn = learn;
	c->over_end = &c->over;
	c->awaits_end = &c->awaits;
	buf_init_secret(&c->out, FRAME_MAX);
	return r < 0 ? r : pool_new(&courier_pool_owner, c, environment, pem, pem_len, &c->pool, err);
}

int
courier_start(struct courier *c, struct loop *loop, int supervisor, int gate,
              const struct mux_handler *handler, int inspect, struct err *err)
{
	int r = mux_new(loop, gate, handler, c, &c->gate, err);

	c->loop = loop;
	loop_prepare_round(&c->round, round_over, c);
	loop_prepare_timer(&c->tick, tick_due, c);
	events_init(&c->events, loop, supervisor);
	courier_steer_init(c);
	courier_budget_init(c);
	pool_start(c->pool, loop);
	if (r == 0 && inspect >= 0)
		r = mux_new(loop, inspect, &courier_inspect_handler, c, &c->inspect, err);
	return r;
}

void
courier_close(struct courier *c)
{
	struct exchange *ex;

	while (c->exchanges != NULL) {
		if (c->exchanges->note[0] == '\0')
			memcpy(c->exchanges->note, "it was cut off", sizeof("it was cut off"));
		exchange_over(c->exchanges);
	}
	for (ex = c->over; ex != NULL; ex = ex->next)
		exchange_record_last(ex);
	if (c->events.loop != NULL) {
		courier_meters_finish(c);
		events_finish(&c->events);
	}
	courier_steer_close(c);
	courier_budget_close(c);
	events_free(&c->events);
	pool_free(c->pool);
	secrets_close(&c->secrets);
	courier_fires_free(c);
	while ((ex = c->over) != NULL) {
		c->over = ex->next;
		exchange_free(ex);
	}
	while ((ex = c->spare) != NULL) {
		c->spare = ex->next;
		exchange_free(ex);
	}
	if (c->loop != NULL) {
		loop_cancel_round(c->loop, &c->round);
		loop_cancel_timer(c->loop, &c->tick);
		loop_cancel_timer(c->loop, &c->secrets.sweep);
	}
	mux_free(c->gate);
	mux_free(c->inspect);
	mux_free(c->hooks);
	mux_free(c->dead_hooks);
	courier_policy_release(c->policy);
	buf_free(&c->out);
}
