/* pool.c - see pool.h. */
#include "upstream/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "upstream/origin.h"

#define UPSTREAMS_MAX 768               /* at once; fewer if descriptors are short */
#define UPSTREAMS_PER_ORIGIN 64
#define FRAME_MAX (2 * HTTP_HEAD_MAX)   /* a head as HTTP/1.1 */
#define DESCRIPTORS_LEFT 64             /* for everything else */
#define ORIGIN_KEEP_S 300               /* how long an unused origin is remembered */

OWN_BY(pool_freep, struct pool *, pool_free)

int
pool_new(const struct pool_owner *owner, void *arg, char *const *environment, const char *pem,
         size_t pem_len, struct pool **ret_pool, struct err *err)
{
	OWN(pool_freep) struct pool *pool = calloc(1, sizeof(*pool));
	struct rlimit limit;
	int r;

	if (pool == NULL)
		return err_errno(err, "cannot keep connections");
	pool->owner = owner;
	pool->arg = arg;
	buf_init_secret(&pool->out, FRAME_MAX);
	pool->upstreams_max = UPSTREAMS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 2 * DESCRIPTORS_LEFT &&
	    limit.rlim_cur - DESCRIPTORS_LEFT < pool->upstreams_max)
		pool->upstreams_max = limit.rlim_cur - DESCRIPTORS_LEFT;
	proxies_load(&pool->proxies, environment);
	r = tls_open(&pool->tls, environment, pem, pem_len, origin_keep_session, err);
	if (r == 0)
		r = resolver_new(&pool->resolver, err);
	if (r == 0)
		*ret_pool = TAKE(pool);
	return r;
}

void
pool_start(struct pool *pool, struct loop *loop)
{
	pool->loop = loop;
	resolver_start(pool->resolver, loop);
}

void
pool_rest(struct pool *pool)
{
	buf_free(&pool->out);
}

void
pool_wipe_in(struct pool *pool, size_t len)
{
	if (pool->owner->has_secrets(pool->arg))
		explicit_bzero(pool->in, len);
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
	struct pool *pool = up->pool;

	up->touched_next = pool->touched;
	pool->touched = up;
	up->pool->owner->at_round_end(up->pool->arg);
}

void
pool_dead(struct upstream *up)
{
	struct pool *pool = up->pool;

	up->dead_next = pool->dead;
	pool->dead = up;
	up->pool->owner->at_round_end(up->pool->arg);
}

void
pool_remove(struct upstream *up)
{
	list_remove(up);
	up->pool->n_upstreams--;
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
new_upstream(struct pool *pool, const struct transfer *t)
{
	struct upstream *up;

	if (pool->n_upstreams >= pool->upstreams_max && !close_oldest_idle(pool))
		return NULL;
	up = calloc(1, sizeof(*up));
	if (up == NULL)
		return NULL;
	up->rules = pool->owner->take_rules(t);
	if (up->rules == NULL) {
		free(up);
		return NULL;
	}
	pool->n_upstreams++;
	up->pool = pool;
	up->scheme = t->scheme;
	up->port = t->port;
	up->may_use_private = t->may_use_private;
	up->named_bits = t->named_bits;
	return up;
}

/* For the first waiting transfer.  False: there are too many. */
static bool
open_upstream(struct origin *o)
{
	struct pool *pool = o->pool;
	struct upstream *up = new_upstream(pool, o->waiting);

	if (up == NULL)
		return false;
	up->origin = o;
	up->host = o->host;
	up->h1_only = o->h1_only;
	up->certificate = o->certificate;
	up->proxy = proxies_for(&pool->proxies, o->scheme, o->host, o->port);
	up->is_absolute = up->proxy != NULL && o->scheme == HTTP_PLAIN && !o->h1_only &&
	                  !o->h2_unasked &&
	                  (pool->proxies.resolves || address_parse(o->host, &(struct address){0}));
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
pool_connect(struct transfer *t)
{
	struct pool *pool = t->pool;
	struct failure failure;
	struct upstream *up = new_upstream(pool, t);

	if (up == NULL) {
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "too many connections are open already");
		t->owner->fail(t, &failure);
		return;
	}
	up->host = t->host;
	up->is_raw = true;
	up->transfer = t;
	t->upstream = up;
	t->owner->moved(t, TRANSFER_QUEUED);
	up->proxy = proxies_for(&pool->proxies, HTTP_TLS, t->host, t->port);
	list_add(&pool->raw, up);
	upstream_start(up);
}

/* ---- assigning connections ---- */

void
pool_forget(struct transfer *t)
{
	struct origin *o = t->origin;
	struct transfer **at;

	if (o == NULL)
		return;
	for (at = &o->waiting; *at != t; at = &(*at)->queue_next)
		;
	*at = t->queue_next;
	if (t->queue_next == NULL)
		o->waiting_end = at;
	o->n_waiting--;
	t->origin = NULL;
}

static void
put_in_queue(struct origin *o, struct transfer *t, bool in_front)
{
	t->origin = o;
	t->upstream = NULL;
	t->owner->moved(t, TRANSFER_QUEUED);
	/* This deadline is for the queue; connecting has timeouts of its own. */
	transfer_touch(t, TRANSFER_QUEUE_S);
	o->n_waiting++;
	if (in_front) {
		t->queue_next = o->waiting;
		if (o->waiting == NULL)
			o->waiting_end = &t->queue_next;
		o->waiting = t;
		return;
	}
	t->queue_next = NULL;
	*o->waiting_end = t;
	o->waiting_end = &t->queue_next;
}

/* A request that must not be sent twice needs a connection that the server has hardly closed. */
static bool
is_replayable(const struct transfer *t)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE" };

	for (size_t i = 0; !t->has_body && i < ARRAY_LEN(safe); i++)
		if (http_text_is(t->method, safe[i]))
			return true;
	return false;
}

/* Whether the server has neither closed the idle connection nor sent anything on it.  Unsolicited
 * bytes would be taken for the next response. */
static bool
is_quiet(const struct upstream *up)
{
	return !loop_has_event(up->pool->loop, &up->conn.source);
}

/* Pick an existing connection for T.  NULL: there is none. */
static struct upstream *
pick(struct origin *o, const struct transfer *t)
{
	uint64_t now = o->pool->now_s;
	struct upstream *up, *next;

	if (t->retried && o->speaks == SPEAKS_H1)
		return NULL;
	for (up = o->idle; up != NULL; up = next) {
		next = up->idle_next;
		/* The most recent ones are in front. */
		if (now - up->idle_since_s > UPSTREAM_FRESH_S && !is_replayable(t))
			return NULL;
		if (!is_quiet(up))
			upstream_drop(up, true);
		else if (upstream_suits(up, t))
			return up;
	}
	if (o->speaks != SPEAKS_H2)
		return NULL;
	for (up = o->upstreams; up != NULL; up = up->next)
		if (up->kind == &upstream_h2 && h2_room(up) > 0 && upstream_suits(up, t))
			return up;
	return NULL;
}

static void
put_on(struct upstream *up, struct transfer *t)
{
	leave_idle(up);
	t->upstream = up;
	t->owner->moved(t, TRANSFER_SENT);
	transfer_touch(t, TRANSFER_ANSWER_S);
	up->n_started++;
	up->kind->start(up, t);
}

void
pool_send(struct transfer *t)
{
	struct failure failure;
	struct upstream *up;
	struct origin *o = origin_find(t);

	if (o == NULL) {
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "too many servers are spoken with at once");
		t->owner->fail(t, &failure);
		return;
	}
	o->used_s = o->pool->now_s;
	up = o->waiting == NULL ? pick(o, t) : NULL;
	if (up != NULL) {
		put_on(up, t);
		return;
	}
	put_in_queue(o, t, false);
	open_more(o);
}

bool
pool_is_pressed(const struct transfer *t)
{
	const struct origin *o = t->origin != NULL ? t->origin :
	                         t->upstream != NULL ? t->upstream->origin : NULL;

	return o != NULL && o->n_waiting > 0 && o->n_upstreams > o->n_connecting;
}

/* Assign existing connections to waiting transfers, and open new ones for the rest. */
void
pool_serve(struct origin *o)
{
	struct transfer *t;
	struct upstream *up;

	if (o->serving)
		return;
	o->serving = true;
	while ((t = o->waiting) != NULL && (up = pick(o, t)) != NULL) {
		pool_forget(t);
		put_on(up, t);
	}
	open_more(o);
	o->serving = false;
}

void
pool_retry(struct transfer *t)
{
	struct origin *o = origin_find(t);

	t->retried = true;
	if (o == NULL) {
		pool_send(t);
		return;
	}
	put_in_queue(o, t, true);
	open_more(o);
}

void
pool_idle(struct upstream *up)
{
	struct origin *o = up->origin;

	up->transfer = NULL;
	up->is_idle = true;
	up->idle_since_s = up->pool->now_s;
	up->idle_next = o->idle;
	o->idle = up;
	if (o->waiting != NULL)
		pool_serve(o);
}

void
pool_ready(struct upstream *up)
{
	struct origin *o = up->origin;
	struct failure failure;
	struct transfer *t;

	if (o == NULL) {
		up->kind = up->transfer->postgres != NULL ? &upstream_postgres : &upstream_raw;
		up->kind->start(up, up->transfer);
		return;
	}
	o->n_connecting--;
	up->kind = &upstream_h1;
	if (o->h2_unasked || (up->conn.ssl != NULL && tls_chose_h2(up->conn.ssl)))
		up->kind = &upstream_h2;
	o->speaks = up->kind == &upstream_h2 ? SPEAKS_H2 : SPEAKS_H1;
	if (up->kind == &upstream_h2) {
		if (h2_begin(up) < 0) {
			failure_set(&failure, 502, "protocol", "upstream unreachable",
			                    "there is no memory for HTTP/2");
			upstream_fail(up, &failure);
			return;
		}
		up->idle_since_s = up->pool->now_s;
		pool_serve(o);
		return;
	}
	/* The transfer that has waited longest gets it, without pick()'s rule about retries. */
	conn_resume_reading(&up->conn);
	t = o->waiting;
	if (t == NULL || !upstream_suits(up, t)) {
		pool_idle(up);
		return;
	}
	pool_forget(t);
	put_on(up, t);
	open_more(o);
}

void
pool_failed(struct upstream *up, const struct failure *failure)
{
	struct origin *o = up->origin;
	struct transfer *t;
	size_t n;

	if (o == NULL) {
		t = up->transfer;
		up->transfer = NULL;
		if (t != NULL) {
			t->upstream = NULL;
			t->owner->fail(t, failure);
		}
		return;
	}
	/* Each connection was made for one waiting transfer.  If the last one fails, all that wait
	 * fail. */
	n = o->n_upstreams == 0 ? o->n_waiting : 1;
	while (n-- > 0 && (t = o->waiting) != NULL) {
		pool_forget(t);
		t->owner->fail(t, failure);
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
	uint64_t now = pool->now_s;

	for (struct upstream *up = list; up != NULL; up = up->next) {
		if (up->deadline_s != 0 && up->deadline_s <= now) {
			upstream_late(up);
			return true;
		}
		if (up->kind == NULL || up->kind == &upstream_raw || up->transfer != NULL)
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
	resolver_free(pool->resolver);
	tls_close(&pool->tls);
	proxies_free(&pool->proxies);
	buf_free(&pool->out);
	free(pool);
}
