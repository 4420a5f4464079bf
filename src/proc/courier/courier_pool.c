/* courier_pool.c - pools connections by destination: chooses one for each exchange, and makes new
 * ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/courier/courier_pool.h"

#define UPSTREAMS_MAX 768               /* at once; fewer if descriptors are short */
#define UPSTREAMS_PER_ORIGIN 64
#define DESCRIPTORS_LEFT 64             /* for everything else */
#define ORIGIN_KEEP_S 300               /* how long an unused origin is remembered */

int
pool_new(struct courier *c, struct pool **ret_pool, struct err *err)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	struct rlimit limit;

	if (pool == NULL)
		return err_errno(err, "cannot keep connections");
	pool->courier = c;
	pool->upstreams_max = UPSTREAMS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 2 * DESCRIPTORS_LEFT &&
	    limit.rlim_cur - DESCRIPTORS_LEFT < pool->upstreams_max)
		pool->upstreams_max = limit.rlim_cur - DESCRIPTORS_LEFT;
	*ret_pool = pool;
	return 0;
}

/* ---- lists ---- */

static void
list_add(struct upstream **list, struct upstream *up)
{
	up->next = *list;
	up->at = list;
	if (*list != NULL)
		(*list)->at = &up->next;
	*list = up;
}

static void
list_remove(struct upstream *up)
{
	if (up->at == NULL)
		return;
	*up->at = up->next;
	if (up->next != NULL)
		up->next->at = up->at;
	up->at = NULL;
}

static void
leave_idle(struct upstream *up)
{
	struct upstream **at;

	if (!up->is_idle)
		return;
	for (at = &up->origin->idle; *at != up; at = &(*at)->idle_next)
		;
	*at = up->idle_next;
	up->is_idle = false;
}

void
pool_touched(struct upstream *up)
{
	struct pool *pool = up->courier->pool;

	up->touched_next = pool->touched;
	pool->touched = up;
	courier_at_round_end(up->courier);
}

void
pool_dead(struct upstream *up)
{
	struct pool *pool = up->courier->pool;

	up->dead_next = pool->dead;
	pool->dead = up;
	courier_at_round_end(up->courier);
}

void
pool_remove(struct upstream *up)
{
	list_remove(up);
	up->courier->pool->n_upstreams--;
	if (up->origin == NULL)
		return;
	leave_idle(up);
	up->origin->n_upstreams--;
	if (up->kind == NULL)
		up->origin->n_connecting--;
}

void
pool_round_over(struct pool *pool)
{
	struct upstream *up;

	while ((up = pool->touched) != NULL) {
		pool->touched = up->touched_next;
		upstream_flush(up);
	}
	while ((up = pool->dead) != NULL) {
		pool->dead = up->dead_next;
		upstream_free(up);
	}
}

/* ---- making connections ---- */

/* Close the connection that has been idle longest, of all origins. */
static bool
close_oldest_idle(struct pool *pool)
{
	struct upstream *oldest = NULL;

	for (size_t i = 0; i < POOL_BUCKETS; i++)
		for (struct origin *o = pool->origins[i]; o != NULL; o = o->next)
			for (struct upstream *up = o->idle; up != NULL; up = up->idle_next)
				if (oldest == NULL || up->idle_since_s < oldest->idle_since_s)
					oldest = up;
	if (oldest == NULL)
		return false;
	upstream_drop(oldest, false);
	return true;
}

static struct upstream *
new_upstream(struct courier *c, const struct exchange *ex)
{
	struct upstream *up;

	if (c->pool->n_upstreams >= c->pool->upstreams_max && !close_oldest_idle(c->pool))
		return NULL;
	up = calloc(1, sizeof(*up));
	if (up == NULL)
		return NULL;
	c->pool->n_upstreams++;
	up->courier = c;
	up->scheme = ex->scheme;
	up->port = ex->port;
	up->may_use_private = ex->decision.may_use_private;
	up->policy = courier_policy_use(ex->policy);
	up->way = exchange_way(ex);
	return up;
}

/* For the first waiting exchange.  False: there are too many. */
static bool
open_upstream(struct origin *o)
{
	struct courier *c = o->pool->courier;
	struct upstream *up = new_upstream(c, o->waiting);

	if (up == NULL)
		return false;
	up->origin = o;
	up->host = o->host;
	up->h1_only = o->h1_only;
	up->certificate = o->certificate;
	up->proxy = proxies_for(&c->proxies, o->scheme, o->host, o->port);
	up->is_absolute = up->proxy != NULL && o->scheme == HTTP_PLAIN && !o->h1_only &&
	                  !o->h2_unasked &&
	                  (c->proxies.resolves || address_parse(o->host, &(struct address){0}));
	list_add(&o->upstreams, up);
	o->n_upstreams++;
	o->n_connecting++;
	upstream_start(up);
	return true;
}

/* Open as many as are useful.  Until the server's protocol is known, only one is opened: HTTP/2
 * needs no more. */
static void
open_more(struct origin *o)
{
	while (o->waiting != NULL) {
		if (o->speaks == SPEAKS_H1 ? o->n_connecting >= o->n_waiting ||
		                             o->n_upstreams >= UPSTREAMS_PER_ORIGIN
		                           : o->n_connecting > 0 || o->n_upstreams >= UPSTREAMS_PER_ORIGIN)
			return;
		if (!open_upstream(o))
			return;
	}
}

void
pool_connect(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct courier_failure failure;
	struct upstream *up;

	if (!exchange_may_leave(ex))
		return;
	up = new_upstream(c, ex);
	if (up == NULL) {
		courier_failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "too many connections are open already");
		exchange_fail(ex, &failure);
		return;
	}
	up->host = ex->host;
	up->is_raw = true;
	up->exchange = ex;
	ex->upstream = up;
	ex->step = STEP_WAIT;
	up->proxy = proxies_for(&c->proxies, HTTP_TLS, ex->host, ex->port);
	list_add(&c->pool->raw, up);
	upstream_start(up);
}

/* ---- assigning connections ---- */

void
pool_forget(struct exchange *ex)
{
	struct origin *o = ex->origin;
	struct exchange **at;

	if (o == NULL)
		return;
	for (at = &o->waiting; *at != ex; at = &(*at)->wait_next)
		;
	*at = ex->wait_next;
	if (ex->wait_next == NULL)
		o->waiting_end = at;
	o->n_waiting--;
	ex->origin = NULL;
}

static void
put_in_queue(struct origin *o, struct exchange *ex, bool in_front)
{
	ex->origin = o;
	ex->upstream = NULL;
	ex->step = STEP_WAIT;
	/* This deadline is for the queue; connecting has timeouts of its own. */
	exchange_touch(ex, COURIER_QUEUE_S);
	o->n_waiting++;
	if (in_front) {
		ex->wait_next = o->waiting;
		if (o->waiting == NULL)
			o->waiting_end = &ex->wait_next;
		o->waiting = ex;
		return;
	}
	ex->wait_next = NULL;
	*o->waiting_end = ex;
	o->waiting_end = &ex->wait_next;
}

/* A request that must not be sent twice needs a connection that the server has hardly closed. */
static bool
is_replayable(const struct exchange *ex)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE" };

	for (size_t i = 0; !ex->has_body && i < ARRAY_LEN(safe); i++)
		if (http_text_is(ex->method, safe[i]))
			return true;
	return false;
}

/* Whether the server has neither closed the idle connection nor sent anything on it.  Unsolicited
 * bytes would be taken for the next response. */
static bool
is_quiet(const struct upstream *up)
{
	return !loop_has_event(up->courier->loop, &up->conn.source);
}

/* Pick an existing connection for EX.  NULL: there is none. */
static struct upstream *
pick(struct origin *o, const struct exchange *ex)
{
	uint64_t now = o->pool->courier->now_s;
	struct upstream *up, *next;

	if (ex->retried && o->speaks == SPEAKS_H1)
		return NULL;
	for (up = o->idle; up != NULL; up = next) {
		next = up->idle_next;
		/* The most recent ones are in front. */
		if (now - up->idle_since_s > UPSTREAM_FRESH_S && !is_replayable(ex))
			return NULL;
		if (!is_quiet(up))
			upstream_drop(up, true);
		else if (upstream_suits(up, ex))
			return up;
	}
	if (o->speaks != SPEAKS_H2)
		return NULL;
	for (up = o->upstreams; up != NULL; up = up->next)
		if (up->kind == &upstream_h2 && h2_room(up) > 0 && upstream_suits(up, ex))
			return up;
	return NULL;
}

static void
put_on(struct upstream *up, struct exchange *ex)
{
	leave_idle(up);
	ex->upstream = up;
	ex->step = STEP_SENT;
	exchange_touch(ex, COURIER_ANSWER_S);
	up->n_started++;
	up->kind->start(up, ex);
}

void
pool_send(struct exchange *ex)
{
	struct courier_failure failure;
	struct upstream *up;
	struct origin *o;

	if (!exchange_may_leave(ex))
		return;
	o = origin_find(ex);
	if (o == NULL) {
		courier_failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "too many servers are spoken with at once");
		exchange_fail(ex, &failure);
		return;
	}
	o->used_s = o->pool->courier->now_s;
	up = o->waiting == NULL ? pick(o, ex) : NULL;
	if (up != NULL) {
		put_on(up, ex);
		return;
	}
	put_in_queue(o, ex, false);
	open_more(o);
}

bool
pool_is_pressed(const struct exchange *ex)
{
	const struct origin *o = ex->step == STEP_WAIT ? ex->origin :
	                         ex->upstream != NULL ? ex->upstream->origin : NULL;

	return o != NULL && o->n_waiting > 0 && o->n_upstreams > o->n_connecting;
}

/* Assign existing connections to waiting exchanges, and open new ones for the rest. */
void
pool_serve(struct origin *o)
{
	struct exchange *ex;
	struct upstream *up;

	if (o->serving)
		return;
	o->serving = true;
	while ((ex = o->waiting) != NULL && (up = pick(o, ex)) != NULL) {
		pool_forget(ex);
		put_on(up, ex);
	}
	open_more(o);
	o->serving = false;
}

void
pool_retry(struct exchange *ex)
{
	struct origin *o = origin_find(ex);

	ex->retried = true;
	if (o == NULL) {
		pool_send(ex);
		return;
	}
	put_in_queue(o, ex, true);
	open_more(o);
}

void
pool_idle(struct upstream *up)
{
	struct origin *o = up->origin;

	up->exchange = NULL;
	up->is_idle = true;
	up->idle_since_s = up->courier->now_s;
	up->idle_next = o->idle;
	o->idle = up;
	if (o->waiting != NULL)
		pool_serve(o);
}

void
pool_ready(struct upstream *up)
{
	struct origin *o = up->origin;
	struct courier_failure failure;
	struct exchange *ex;

	if (o == NULL) {
		up->kind = exchange_wire_logs_in(up->exchange) ? &upstream_postgres : &upstream_raw;
		up->kind->start(up, up->exchange);
		return;
	}
	o->n_connecting--;
	up->kind = &upstream_h1;
	if (o->h2_unasked || (up->conn.ssl != NULL && tls_chose_h2(up->conn.ssl)))
		up->kind = &upstream_h2;
	o->speaks = up->kind == &upstream_h2 ? SPEAKS_H2 : SPEAKS_H1;
	if (up->kind == &upstream_h2) {
		if (h2_begin(up) < 0) {
			courier_failure_set(&failure, 502, "protocol", "upstream unreachable",
			                    "there is no memory for HTTP/2");
			upstream_fail(up, &failure);
			return;
		}
		up->idle_since_s = up->courier->now_s;
		pool_serve(o);
		return;
	}
	/* The exchange that has waited longest gets it, without pick()'s rule about retries. */
	conn_resume_reading(&up->conn);
	ex = o->waiting;
	if (ex == NULL || !upstream_suits(up, ex)) {
		pool_idle(up);
		return;
	}
	pool_forget(ex);
	put_on(up, ex);
	open_more(o);
}

void
pool_failed(struct upstream *up, const struct courier_failure *failure)
{
	struct origin *o = up->origin;
	struct exchange *ex;
	size_t n;

	if (o == NULL) {
		ex = up->exchange;
		up->exchange = NULL;
		if (ex != NULL) {
			ex->upstream = NULL;
			exchange_fail(ex, failure);
		}
		return;
	}
	/* Each connection was made for one waiting exchange.  If the last one fails, all that wait
	 * fail. */
	n = o->n_upstreams == 0 ? o->n_waiting : 1;
	while (n-- > 0 && (ex = o->waiting) != NULL) {
		pool_forget(ex);
		exchange_fail(ex, failure);
	}
	pool_serve(o);
}

/* ---- certificates ---- */

static void
forget_upstreams(struct origin *o, bool now)
{
	struct upstream *up, *next;

	for (up = o->upstreams; up != NULL; up = next) {
		next = up->next;
		up->is_stale = true;
		if (now || up->is_idle)
			upstream_drop(up, now);
	}
}

void
pool_forget_certificate(struct pool *pool, unsigned certificate, bool now)
{
	for (size_t i = 0; i < POOL_BUCKETS; i++)
		for (struct origin *o = pool->origins[i]; o != NULL; o = o->next) {
			if (o->certificate != certificate)
				continue;
			SSL_SESSION_free(TAKE(o->session));
			o->serving = true;      /* keeps O itself in place */
			forget_upstreams(o, now);
			o->serving = false;
			pool_serve(o);
		}
}

/* ---- timeouts ---- */

static bool
expire(struct pool *pool, struct upstream *list)
{
	uint64_t now = pool->courier->now_s;

	for (struct upstream *up = list; up != NULL; up = up->next) {
		if (up->deadline_s != 0 && up->deadline_s <= now) {
			upstream_late(up);
			return true;
		}
		if (up->kind == NULL || up->kind == &upstream_raw || up->exchange != NULL)
			continue;
		if (up->idle_since_s + UPSTREAM_KEEP_S <= now) {
			upstream_drop(up, false);
			return true;
		}
		if (up->idle_since_s + 1 < now)
			up->kind->rest(up);
	}
	return false;
}

bool
pool_tick(struct pool *pool)
{
	while (expire(pool, pool->raw))
		;
	for (size_t i = 0; i < POOL_BUCKETS; i++)
		for (struct origin *o = pool->origins[i]; o != NULL; o = o->next) {
			o->serving = true;      /* keeps O itself in place */
			while (expire(pool, o->upstreams))
				;
			o->serving = false;
			pool_serve(o);
		}
	origin_forget(pool, ORIGIN_KEEP_S);
	return pool->n_upstreams > 0 || pool->n_origins > 0;
}

void
pool_free(struct pool *pool)
{
	if (pool == NULL)
		return;
	while (pool->raw != NULL)
		upstream_drop(pool->raw, true);
	for (size_t i = 0; i < POOL_BUCKETS; i++)
		for (struct origin *o = pool->origins[i]; o != NULL; o = o->next)
			while (o->upstreams != NULL)
				upstream_drop(o->upstreams, true);
	pool->touched = NULL;
	pool_round_over(pool);
	origin_forget(pool, 0);
	free(pool);
}
