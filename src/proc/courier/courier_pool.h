/* courier_pool.h - what the files of the pool share: origins, and their connections. */
#ifndef CLOISTER_COURIER_POOL_H
#define CLOISTER_COURIER_POOL_H
#include "proc/courier/courier_upstream.h"

#define POOL_BUCKETS 64

enum speaks { SPEAKS_UNKNOWN, SPEAKS_H1, SPEAKS_H2 };

/* Where requests go, as far as they may share connections. */
struct origin {
	struct pool *pool;
	struct origin *next;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	enum http_scheme scheme;
	bool may_use_private, h1_only;
	uint8_t certificate;            /* that is shown there, and is not for others */
	bool h2_unasked;                /* plain, and needs HTTP/2: no asking which */
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
	struct upstream *raw;           /* those of tunnels */
	struct upstream *touched, *dead;
};

/* ---- courier_origin.c ---- */

/* Where EX goes, made if need be; NULL when there are too many. */
struct origin *origin_find(const struct exchange *ex);
/* Those that nobody has used for KEEP_S. */
void origin_forget(struct pool *pool, uint64_t keep_s);
#endif
