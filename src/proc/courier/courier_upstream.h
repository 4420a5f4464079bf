/* courier_upstream.h - one connection to a server, from its name to its last byte.
 *
 * It resolves the name, vets the addresses, dials, goes through the operator's proxy and
 * TLS where there are any, and then speaks as its kind says. */
#ifndef CLOISTER_COURIER_UPSTREAM_H
#define CLOISTER_COURIER_UPSTREAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/courier/courier.h"
#include "proc/courier/courier_dial.h"
#include "tls/conn.h"

struct h1_reader;
struct h2;

/* In seconds, for each step of the way. */
#define UPSTREAM_CHECK_S 2              /* a name that the proxy may resolve; see UP_CHECK */
#define UPSTREAM_RESOLVE_S 11           /* the resolver itself gives up first */
#define UPSTREAM_CONNECT_S 10
#define UPSTREAM_PROXY_S 10
#define UPSTREAM_TLS_S 10
#define UPSTREAM_KEEP_S 60              /* idle, then it is closed */
#define UPSTREAM_FRESH_S 4              /* idle for less, a server has hardly closed it */

enum upstream_step {
	UP_CHECK,                       /* where does the name lead, behind a proxy? */
	UP_RESOLVE, UP_DIAL, UP_PROXY, UP_TLS, UP_READY, UP_DEAD,
};

/* How a connection that is there is used. */
struct upstream_kind {
	/* EX is on it: send its head. */
	void (*start)(struct upstream *up, struct exchange *ex);
	/* As much of these bytes of the body as can be taken now; 0 is fine. */
	size_t (*send)(struct upstream *up, struct exchange *ex, const void *data, size_t len);
	/* There is more in ex->body, or it is complete. */
	void (*more)(struct upstream *up, struct exchange *ex);
	/* The gate takes bytes again. */
	void (*resume)(struct upstream *up, struct exchange *ex);
	/* It took bytes that were kept for it; may be NULL. */
	void (*given)(struct upstream *up, struct exchange *ex);
	/* EX wants nothing more of it. */
	void (*cancel)(struct upstream *up, struct exchange *ex);
	void (*readable)(struct upstream *up);
	void (*writable)(struct upstream *up);  /* may be NULL */
	/* It is broken, ERROR says why; or, without one, it was dropped. */
	void (*broken)(struct upstream *up, const struct courier_failure *failure);
	/* Before what was collected in this round is written; may be NULL. */
	void (*flush)(struct upstream *up);
	/* It has nothing to do: give memory back; may be NULL. */
	void (*rest)(struct upstream *up);
	void (*free)(struct upstream *up);      /* may be NULL */
};
extern const struct upstream_kind upstream_h1, upstream_h2, upstream_raw, upstream_postgres;

struct upstream {
	struct courier *courier;
	struct origin *origin;          /* NULL: EXCHANGE's own */
	struct upstream *next, **at;    /* of its origin's, or the pool's raw ones */
	struct upstream *idle_next;
	struct upstream *touched_next;
	struct upstream *dead_next;
	enum upstream_step step;
	uint64_t deadline_s, idle_since_s;
	uint64_t n_started;             /* exchanges that were put on it */
	bool is_touched, is_idle, has_conn;

	/* Where it goes; of the origin or the exchange, and as long as they are there. */
	const char *host;
	uint16_t port;
	enum http_scheme scheme;
	bool may_use_private, h1_only, is_raw;
	uint8_t certificate;            /* that is shown: courier_mtls.h */
	bool is_stale;                  /* that has another value by now */
	const struct proxy *proxy;
	bool is_absolute;               /* the proxy is told the whole URL; no CONNECT */
	bool has_target;                /* TARGET is the address that the proxy connects to */
	struct address target;
	struct courier_policy *policy;  /* and WAY: which addresses are denied */
	struct policy_way way;

	struct resolve_wait resolving;
	struct dial *dial;              /* while it dials */
	struct address address;         /* where it led; of the proxy if there is one */
	struct conn conn;
	const struct upstream_kind *kind;
	struct exchange *exchange;      /* of h1 and raw ones */
	struct h1_reader *reader;       /* of h1 ones, and while the proxy answers */
	struct h2 *h2;
	bool h1_chunked;
};

/* Connect.  Ends with pool_ready() or pool_failed(). */
void upstream_start(struct upstream *up);
/* Nothing is owed to anybody any more; freed when the round ends. */
void upstream_drop(struct upstream *up, bool abrupt);
/* Of a kind whose connection serves one exchange at a time, when that wants no more. */
void upstream_cancel(struct upstream *up, struct exchange *ex);
/* The same, when it is broken: EX is told. */
void upstream_broken(struct upstream *up, const struct courier_failure *failure);
/* Of a kind that asks for the body when it can be sent. */
size_t upstream_send_later(struct upstream *up, struct exchange *ex, const void *data, size_t len);
/* The same, and whoever is on it is told. */
void upstream_fail(struct upstream *up, const struct courier_failure *failure);
void upstream_late(struct upstream *up);
/* Collect what is written until the round ends. */
void upstream_touch(struct upstream *up);
void upstream_flush(struct upstream *up);
/* False: it failed. */
bool upstream_write(struct upstream *up, const void *data, size_t len);
void upstream_free(struct upstream *up);
/* TLS on a connection that is there, if it is EX's own; ends as upstream_start(). */
void upstream_secure(struct upstream *up);
/* Whether the policy of EX lets it use a connection that is already there. */
bool upstream_suits(struct upstream *up, const struct exchange *ex);

/* What became of the connection, told to its kind as a failure. */
void upstream_failure(struct courier_failure *ret_failure, const struct upstream *up, int error);

/* ---- courier_pool.c ---- */

void pool_ready(struct upstream *up);
void pool_failed(struct upstream *up, const struct courier_failure *failure);
/* An HTTP/1.1 connection has nothing to do. */
void pool_idle(struct upstream *up);
/* An HTTP/2 connection has room again, or none any more. */
void pool_serve(struct origin *origin);
void pool_remove(struct upstream *up);
void pool_touched(struct upstream *up);
void pool_dead(struct upstream *up);
/* To be resumed, borrowed; or NULL. */
SSL_SESSION *pool_session(const struct upstream *up);
/* EX goes to a connection that is not there yet, once; its body has not been sent. */
void pool_retry(struct exchange *ex);

size_t h2_room(const struct upstream *up);      /* more exchanges that it takes */
int h2_begin(struct upstream *up);
#endif
