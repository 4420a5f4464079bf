/* origin.c - remembers what is known about servers. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "upstream/origin.h"

#define ORIGINS_MAX 512

static size_t
bucket_of(const struct transfer *t)
{
	size_t hash = t->port * 31u + t->scheme + 2u * t->h1_only +
	              4u * t->may_use_private;

	for (const char *p = t->host; *p != '\0'; p++)
		hash = hash * 31 + (unsigned char)*p;
	return (hash ^ hash >> 12) % POOL_BUCKETS;
}

static bool
is_for(const struct origin *o, const struct transfer *t)
{
	return o->port == t->port && o->scheme == t->scheme && o->h1_only == t->h1_only &&
	       o->h2_unasked == t->h2_unasked && o->certificate == t->certificate &&
	       o->may_use_private == t->may_use_private && o->named_bits == t->named_bits && strcmp(o->host, t->host) == 0;
}

static bool
is_unused(const struct origin *o)
{
	return o->n_upstreams == 0 && o->n_waiting == 0 && !o->serving;
}

static void
origin_free(struct origin *o)
{
	SSL_SESSION_free(o->session);
	o->pool->n_origins--;
	free(o);
}

void
origin_forget(struct pool *pool, uint64_t keep_s)
{
	for (size_t i = 0; i < POOL_BUCKETS; i++) {
		struct origin **at = &pool->origins[i], *o;

		while ((o = *at) != NULL) {
			if (is_unused(o) && o->used_s + keep_s <= pool->now_s) {
				*at = o->next;
				origin_free(o);
			} else {
				at = &o->next;
			}
		}
	}
}

struct origin *
origin_find(const struct transfer *t)
{
	struct pool *pool = t->pool;
	struct origin **bucket = &pool->origins[bucket_of(t)], *o;

	for (o = *bucket; o != NULL; o = o->next)
		if (is_for(o, t))
			return o;
	if (pool->n_origins >= ORIGINS_MAX)
		origin_forget(pool, 0);
	if (pool->n_origins >= ORIGINS_MAX || (o = calloc(1, sizeof(*o))) == NULL)
		return NULL;
	o->pool = pool;
	memcpy(o->host, t->host, sizeof(o->host));
	o->port = t->port;
	o->scheme = t->scheme;
	o->may_use_private = t->may_use_private;
	o->named_bits = t->named_bits;
	o->h1_only = t->h1_only;
	o->certificate = t->certificate;
	o->h2_unasked = t->h2_unasked;
	o->speaks = o->h2_unasked ? SPEAKS_H2 :
	            o->scheme == HTTP_PLAIN || o->h1_only ? SPEAKS_H1 : SPEAKS_UNKNOWN;
	o->waiting_end = &o->waiting;
	o->next = *bucket;
	*bucket = o;
	pool->n_origins++;
	return o;
}

void
origin_keep_session(void *origin, SSL_SESSION *session)
{
	struct origin *o = origin;

	if (o == NULL || SSL_SESSION_up_ref(session) != 1)
		return;
	SSL_SESSION_free(o->session);
	o->session = session;
}

SSL_SESSION *
pool_session(const struct upstream *up)
{
	return up->origin->session;
}
