/* courier_pool.h - origins and their connections, shared by the files of the pool. */
#ifndef CLOISTER_COURIER_POOL_H
#define CLOISTER_COURIER_POOL_H
#include "proc/courier/courier_upstream.h"

#define POOL_BUCKETS 64

enum speaks { SPEAKS_UNKNOWN, SPEAKS_H1, SPEAKS_H2 };

/* A destination whose requests may share connections. */
struct origin {
	struct pool *pool;
	struct origin *next;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	enum http_scheme scheme;
	bool may_use_private, h1_only;
	uint8_t certificate;            /* shown there, and not shared with others */
	bool h2_unasked;                /* plain HTTP that needs HTTP/2: not negotiated */
	enum speaks speaks;
	struct upstream *upstreams, *idle;
	size_t n_upstreams, n_connecting;
	struct exchange *waiting, **waiting_end;
	size_t n_waiting;
	SSL_SESSION *session;
	uint64_t used_s;
	bool serving;
};

struct pool {
	struct courier *courier;
	struct origin *origins[POOL_BUCKETS];
	size_t n_origins, n_upstreams, upstreams_max;
	struct upstream *raw;           /* connections of tunnels */
	struct upstream *touched, *dead;
};

/* ---- courier_origin.c ---- */

/* Find or make the origin of EX.  NULL: there are too many. */
struct origin *origin_find(const struct exchange *ex);
/* Free origins that were not used for KEEP_S. */
void origin_forget(struct pool *pool, uint64_t keep_s);
#endif
