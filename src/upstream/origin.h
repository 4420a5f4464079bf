/* origin.h - destinations whose requests may share connections. */
#ifndef CLOISTER_UPSTREAM_ORIGIN_H
#define CLOISTER_UPSTREAM_ORIGIN_H
#include "upstream/upstream.h"

enum speaks { SPEAKS_UNKNOWN, SPEAKS_H1, SPEAKS_H2 };

struct origin {
	struct pool *pool;
	struct origin *next;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	enum http_scheme scheme;
	bool may_use_private, h1_only;
	unsigned char named_bits;
	uint8_t certificate;            /* shown there, and not shared with others */
	bool h2_unasked;                /* plain HTTP that needs HTTP/2: not negotiated */
	enum speaks speaks;
	struct upstream *upstreams, *idle;
	size_t n_upstreams, n_connecting;
	struct transfer *waiting, **waiting_end;
	size_t n_waiting;
	SSL_SESSION *session;
	uint64_t used_s;
	bool serving;
};

/* Find or make the origin of T.  NULL: there are too many. */
struct origin *origin_find(const struct transfer *t);
/* Free origins that were not used for KEEP_S. */
void origin_forget(struct pool *pool, uint64_t keep_s);
/* Callback for tls_open(). */
void origin_keep_session(void *origin, SSL_SESSION *session);
#endif
