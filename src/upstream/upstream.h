/* upstream.h - one connection to a server, from resolving its name to its last byte.
 *
 * It resolves the name, vets the addresses, dials, passes the operator's proxy and TLS where
 * needed, and then works as its kind defines. */
#ifndef CLOISTER_UPSTREAM_UPSTREAM_H
#define CLOISTER_UPSTREAM_UPSTREAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tls/conn.h"
#include "upstream/dial.h"
#include "upstream/pool.h"

struct h1_reader;
struct h2;

/* Timeouts of each step, in seconds. */
#define UPSTREAM_CHECK_S 2              /* a name that the proxy may resolve; see UP_CHECK */
#define UPSTREAM_RESOLVE_S 11           /* longer than the resolver's own timeout */
#define UPSTREAM_CONNECT_S 10
#define UPSTREAM_PROXY_S 10
#define UPSTREAM_TLS_S 10
#define UPSTREAM_KEEP_S 60              /* an idle connection is closed after this time */
#define UPSTREAM_FRESH_S 4              /* idle for less: the server has hardly closed it */

enum upstream_step {
	UP_CHECK,                       /* resolve and vet the name that a proxy will resolve */
	UP_RESOLVE, UP_DIAL, UP_PROXY, UP_TLS, UP_READY, UP_DEAD,
};

/* How a ready connection is used. */
struct upstream_kind {
	/* T was put on the connection: send its head. */
	void (*start)(struct upstream *up, struct transfer *t);
	/* Take as many bytes of the body as possible now; 0 is fine. */
	size_t (*send)(struct upstream *up, struct transfer *t, const void *data, size_t len);
	/* t->body has more bytes, or is complete. */
	void (*more)(struct upstream *up, struct transfer *t);
	/* The gate takes bytes again. */
	void (*resume)(struct upstream *up, struct transfer *t);
	/* The gate took bytes that were kept for it; may be NULL. */
	void (*given)(struct upstream *up, struct transfer *t);
	/* T needs the connection no more. */
	void (*cancel)(struct upstream *up, struct transfer *t);
	void (*readable)(struct upstream *up);
	void (*writable)(struct upstream *up);  /* may be NULL */
	/* The connection is broken because of FAILURE. */
	void (*broken)(struct upstream *up, const struct failure *failure);
	/* Called before the output of this round is written; may be NULL. */
	void (*flush)(struct upstream *up);
	/* The connection is idle: free memory; may be NULL. */
	void (*rest)(struct upstream *up);
	void (*free)(struct upstream *up);      /* may be NULL */
};
extern const struct upstream_kind upstream_h1, upstream_h2, upstream_raw, upstream_postgres;

struct upstream {
	struct pool *pool;
	struct origin *origin;          /* NULL: it belongs to TRANSFER alone */
	struct upstream *next, **at;    /* list of its origin, or of the pool's raw connections */
	struct upstream *idle_next;
	struct upstream *touched_next;
	struct upstream *dead_next;
	enum upstream_step step;
	uint64_t deadline_s, idle_since_s;
	uint64_t n_started;             /* transfers that were put on it */
	bool is_touched, is_idle, has_conn;

	/* The destination, borrowed from the origin or the transfer. */
	const char *host;
	uint16_t port;
	enum http_scheme scheme;
	bool may_use_private, h1_only, is_raw;
	unsigned char named_bits;
	uint8_t certificate;            /* the client certificate to show; 0: none */
	bool is_stale;                  /* that certificate has been replaced */
	const struct proxy *proxy;
	bool is_absolute;               /* the proxy gets the whole URL; no CONNECT */
	bool has_target;                /* TARGET is the address that the proxy connects to */
	struct address target;
	void *rules;                    /* decide which addresses are denied; see struct pool_owner */

	struct resolve_wait resolving;
	struct dial *dial;              /* while dialing */
	struct address address;         /* the connected address; the proxy's if there is one */
	struct conn conn;
	const struct upstream_kind *kind;
	struct transfer *transfer;      /* for h1 and raw connections */
	struct h1_reader *reader;       /* for h1, and while the proxy answers */
	struct h2 *h2;
	bool h1_chunked;
};

/* Connect.  Ends with pool_ready() or pool_failed(). */
void upstream_start(struct upstream *up);
/* Close the connection and call no callbacks.  It is freed when the round ends. */
void upstream_drop(struct upstream *up, bool abrupt);
/* Implements cancel for kinds that serve one transfer at a time. */
void upstream_cancel(struct upstream *up, struct transfer *t);
/* Implements broken for the same kinds: T fails. */
void upstream_broken(struct upstream *up, const struct failure *failure);
/* Implements send for kinds that fetch the body when they can send it; takes nothing. */
size_t upstream_send_later(struct upstream *up, struct transfer *t, const void *data, size_t len);
/* As upstream_drop(), and fail the transfers on it. */
void upstream_fail(struct upstream *up, const struct failure *failure);
void upstream_late(struct upstream *up);
/* Collect output until the round ends. */
void upstream_touch(struct upstream *up);
void upstream_flush(struct upstream *up);
/* False: the connection failed. */
bool upstream_write(struct upstream *up, const void *data, size_t len);
/* Write the held part of T's body with WRITE.  False: not all of it, or the connection failed. */
bool upstream_write_held(struct upstream *up, struct transfer *t,
                         bool (*write)(struct upstream *up, const void *data, size_t len));
void upstream_free(struct upstream *up);
/* Start TLS on a connection that exists.  Ends as upstream_start(). */
void upstream_secure(struct upstream *up);
/* Whether T's rules let it use this existing connection. */
bool upstream_suits(struct upstream *up, const struct transfer *t);

/* Describe the error of a connection as a failure. */
void upstream_failure(struct failure *ret_failure, const struct upstream *up, int error);

/* ---- pool.c ---- */

/* T no longer waits. */
void pool_forget(struct transfer *t);
void pool_ready(struct upstream *up);
void pool_failed(struct upstream *up, const struct failure *failure);
/* An HTTP/1.1 connection is idle. */
void pool_idle(struct upstream *up);
/* An HTTP/2 connection has room again, or has none any more. */
void pool_serve(struct origin *origin);
void pool_remove(struct upstream *up);
void pool_touched(struct upstream *up);
void pool_dead(struct upstream *up);
/* The TLS session to resume, borrowed; or NULL. */
SSL_SESSION *pool_session(const struct upstream *up);
/* Move T to a new connection, once.  Its body has not been sent. */
void pool_retry(struct transfer *t);

size_t h2_room(const struct upstream *up);      /* how many more transfers it takes */
int h2_begin(struct upstream *up);
#endif
