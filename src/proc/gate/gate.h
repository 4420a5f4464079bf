/* gate.h - the gate, the only process that parses the agent's bytes: declarations shared by its
 * files.
 *
 * A connection takes these steps:
 *
 * - gate_accept.c accepts it.
 * - gate_route.c looks at its first bytes and asks the courier about it.
 * - It may need the handshake of a proxy (gate_proxy.c) or of TLS (gate_tls.c).
 * - Then the gate speaks its protocol: HTTP/1.1 (gate_h1.c), HTTP/2 (gate_h2.c), DNS (gate_dns.c)
 *   or raw bytes (gate_tunnel.c).  If a credential is used, gate_wire.c starts Postgres
 *   (gate_postgres.c) or Redis (gate_redis.c).
 *
 * Each protocol is a gate_protocol.  Messages of the courier on a stream go to that stream's
 * gate_stream_handler. */
#ifndef CLOISTER_GATE_H
#define CLOISTER_GATE_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"
#include "ipc/egress_channel.h"
#include "loop/loop.h"
#include "tls/conn.h"

struct err;
struct gate_names;
struct gate_tls;
struct gate_h1;
struct gate_h2_head;
struct gate_redis;

#define GATE_CONNS_MAX 1024             /* at once; the oldest idle connection makes room */
#define GATE_ACCEPT_MAX 64              /* in one round of the loop */
#define GATE_SPARE_MAX 32               /* structures of each kind kept for reuse */
#define GATE_IN_MAX (32 * 1024)         /* bytes read at once */
#define GATE_HELD_MAX ((size_t)64 * 1024 * 1024) /* of all streams, waiting for slow peers */

#define GATE_HEAD_MS 30000              /* for a whole head, or the first bytes */
#define GATE_SILENT_MS 20000            /* of silence: then the server is expected to speak first */
#define GATE_BRIEF_MS 2000              /* the same, if everything or nothing is allowed */
#define GATE_REFUSED_MS 1000            /* for the first bytes, which show how to refuse */
#define GATE_IDLE_MS 75000              /* between requests */
#define GATE_HANDSHAKE_MS 15000
#define GATE_STALL_MS 60000             /* the agent reads nothing of the response */
#define GATE_UNBLOCK_MS 10              /* between checks whether the courier reads again */
#define GATE_PRESSED_MS 3000            /* of silence in the middle of a request, when all are busy */
#define GATE_TRIM_MS 2000               /* of idle time: then memory is freed */
#define GATE_LINGER_MS 3000             /* of silence from the agent after our last bytes */
#define GATE_LINGER_ALL_MS 30000        /* however much the agent still sends */

/* ---- streams to the courier: gate_stream.c ---- */

struct gate_stream_handler {
	/* A negative result ends the channel, and the gate with it. */
	int (*frame)(void *owner, uint32_t type, struct buf *body);
	/* NULL: no bytes are expected. */
	void (*data)(void *owner, const unsigned char *data, size_t len);
	void (*writable)(void *owner);  /* may be NULL */
};
struct gate_stream {
	struct mux_stream *mux;         /* NULL while there is none */
	const struct gate_stream_handler *handler;
	void *owner;
	bool is_shut;                           /* the client has closed its side, and the courier knows */
};

/* ---- a connection: gate_conn.c ---- */

struct gate_conn;
struct gate_protocol {
	void (*readable)(struct gate_conn *gc);
	void (*writable)(struct gate_conn *gc);         /* may be NULL */
	/* Called before the output of this round is written; may be NULL. */
	void (*flush)(struct gate_conn *gc);
	/* The agent has closed its side; nothing is read any more; may be NULL. */
	void (*shut)(struct gate_conn *gc);
	void (*late)(struct gate_conn *gc);             /* the deadline has passed; NULL: drop the
	                                                 * connection */
	void (*ended)(struct gate_conn *gc);            /* free gc->state; may be NULL */
	/* Whether the gate waits only for bytes of the agent; NULL: no. */
	bool (*waits)(const struct gate_conn *gc);
	/* TLS is established; NULL: gate_route_secured() is called. */
	void (*secured)(struct gate_conn *gc);
};

/* The proxy handshake whose response is still due. */
enum gate_owes { GATE_OWES_NOTHING, GATE_OWES_CONNECT, GATE_OWES_SOCKS5, GATE_OWES_SOCKS4 };

struct gate_conn {
	struct gate *gate;
	struct conn conn;
	const struct gate_protocol *protocol;
	void *state;                            /* owned by the protocol */
	struct gate_stream route;               /* asks the courier about it, then carries its tunnel */
	struct loop_timer late, stall;
	size_t stall_left;
	uint64_t linger_until;
	uint64_t heard_ms;                      /* when the agent last sent something */

	/* The destination: exactly one of NAME and ADDRESS is not "".  On the proxy's port both are
	 * "" until the client has named it. */
	char name[HTTP_HOST_MAX + 1];
	char address[INET6_ADDRSTRLEN];
	char sni[HTTP_HOST_MAX + 1];
	uint16_t port;
	enum egress_via via;
	uint16_t from;                  /* the port of the cell's side; 0: unknown */
	enum egress_looks looks;
	enum gate_owes owes;
	char *refusal, *hint;                   /* the courier's reason for a refusal, and its hint */
	size_t low_water;                       /* of the socket, while waiting for the first bytes */
	bool is_h2, is_idle, is_touched, is_dead;
	bool waits_for_mux;
	bool has_ended;                         /* the agent sends no more */
	bool is_proxy;                          /* each request names its destination */
	bool may_speak;                         /* the courier allowed it before bytes came */
	bool asks, has_key;                     /* ask for a client certificate; KEY is that of the client's */
	unsigned char key[EGRESS_KEY];
	bool is_wire;                           /* not HTTP: TLS is for its own name, or for none */

	struct gate_conn *prev, *next;          /* in the list of busy or of idle connections */
	struct gate_conn *touched;
};

/* Captured connections, IPv4 and IPv6, and clients of the SSH agent; -1 if there is none. */
enum gate_listener { GATE_LISTENS4, GATE_LISTENS6, GATE_LISTENS_SSH, GATE_LISTENERS };

struct gate_list {
	struct gate_conn *first, *last;
};

struct gate {
	struct loop *loop;
	struct mux *mux;
	struct gate_tls *tls;                   /* see gate_tls_get() */
	char *ca_certificate, *ca_key;          /* in PEM, until TLS is set up */
	struct loop_round warm_up;
	struct gate_names *names;
	struct loop_source supervisor;
	struct loop_source listeners[GATE_LISTENERS], resolvers[2];

	size_t n_conns, conns_max;
	struct gate_list busy, idle;            /* oldest first */
	struct gate_conn *touched, *dead;
	struct loop_round round;
	struct loop_timer trim, unblock, pressed;
	struct gate_conn *spare;
	struct gate_h1 *spare_h1;
	struct gate_h2_head *spare_heads;
	size_t n_spare, n_spare_h1, n_spare_heads;

	size_t held;                            /* see GATE_HELD_MAX */
	size_t n_questions;                     /* DNS queries that wait for the courier */
	uint32_t unnoted;                       /* refusals not yet reported to the courier */
	struct buf frame, text;                 /* scratch for writing */
	struct http_head head;                  /* scratch for reading */
	char literal[INET6_ADDRSTRLEN + 2];     /* an address as a host */
	unsigned char in[GATE_IN_MAX];
};

/* Take over FD.  NULL: out of memory, and FD is closed. */
struct gate_conn *gate_conn_new(struct gate *g, int fd);
void gate_conn_use(struct gate_conn *gc, const struct gate_protocol *protocol, void *state);
/* End the connection.  Its memory stays until the round ends, with is_dead set. */
void gate_conn_drop(struct gate_conn *gc, bool abrupt);
/* Close the connection after everything written is delivered. */
void gate_conn_finish(struct gate_conn *gc);
/* Call protocol->late() after MS; 0: never. */
void gate_conn_set_late(struct gate_conn *gc, uint64_t ms);
/* Stop reading until the courier has taken the waiting bytes. */
void gate_conn_wait_for_mux(struct gate_conn *gc);
/* Idle connections are dropped first when there are too many. */
void gate_conn_set_idle(struct gate_conn *gc, bool idle);
/* Collect writes until the round ends. */
void gate_conn_touch(struct gate_conn *gc);
/* False: it failed, and the connection was dropped. */
bool gate_conn_write(struct gate_conn *gc, const void *data, size_t len);
void gate_conn_init(struct gate *g);

/* ---- gate_accept.c ---- */

int gate_listen(struct gate *g, size_t i, int fd, struct err *err);
/* Accept again, after there were too many connections. */
void gate_listen_again(struct gate *g);
/* The number of a synthetic address; 0: it is not synthetic. */
uint32_t gate_synthetic_number(const struct sockaddr_storage *to);
/* Set the destination from a canonical host (http_authority_parse). */
void gate_set_host(struct gate_conn *gc, const char *host, size_t len, uint16_t port);

/* ---- gate_route.c ---- */

/* Look at the first bytes, ask the courier, and proceed as it answers. */
void gate_route_start(struct gate_conn *gc);
/* The TLS handshake is done. */
void gate_route_secured(struct gate_conn *gc);

/* ---- gate_stream.c ---- */

extern const struct mux_handler gate_mux_handler;
bool gate_stream_open(struct gate *g, struct gate_stream *s,
                      const struct gate_stream_handler *handler, void *owner);
/* Release the stream: both sides are done. */
void gate_stream_forget(struct gate_stream *s);
/* Report to the courier that the stream is over, unless that is known.  Fine without a stream. */
void gate_stream_reset(struct gate_stream *s, enum egress_reset why);
/* The client has closed its side.  Fine without a stream, and more than once. */
void gate_stream_shut(struct gate_stream *s);
void gate_stream_end(struct gate *g, struct gate_stream *s,
                     const struct http_field *trailers, size_t n);

/* ---- gate_request.c ---- */

/* Add to HEAD what the connection knows: the scheme, and unless IS_ABSOLUTE, the host and port.
 * Then check that everything agrees.  Returns 0, or the status of the refusal. */
uint16_t gate_request_complete(struct gate_conn *gc, struct http_head *head, bool is_absolute,
                               struct err *err);
/* Send a complete request to the courier. */
void gate_request_send(struct gate_conn *gc, struct gate_stream *s, uint32_t version,
                       const struct http_head *head);
/* Write the body of the gate's own response into g->text.  HINT is what to do; NULL: the default
 * for STATUS. */
void gate_request_refusal(const struct gate_conn *gc, uint16_t status, const char *reason,
                          const char *hint);
/* As gate_request_refusal(), as a whole HTTP/1.1 response that ends the connection. */
void gate_request_refusal_h1(const struct gate_conn *gc, uint16_t status, const char *reason,
                             const char *hint);
/* Have the courier record a refusal by the gate itself, on GC's connection (NULL: on none). */
void gate_note(struct gate *g, const struct gate_conn *gc, enum egress_note kind,
               uint16_t status, const char *reason);

/* ---- protocols ---- */

void gate_h1_start(struct gate_conn *gc);
void gate_h1_trim(struct gate *g);
int gate_h2_start(struct gate_conn *gc);
void gate_h2_trim(struct gate *g);
/* From here on STREAM, which had another owner, carries the connection's bytes.  The LEN bytes at
 * DATA were read already, and fit the stream's credit. */
void gate_tunnel_start(struct gate_conn *gc, struct gate_stream *stream, const void *data,
                       size_t len);
/* As gate_tunnel_start(), for Redis; nothing was read yet. */
void gate_tunnel_start_redis(struct gate_conn *gc, struct gate_stream *stream);
void gate_proxy_start(struct gate_conn *gc);
/* Answer a proxy's client: go on, or refused. */
void gate_proxy_accept(struct gate_conn *gc);
void gate_proxy_refuse(struct gate_conn *gc, const char *reason, const char *hint);
int gate_dns_listen(struct gate *g, size_t i, int fd, struct err *err);
void gate_dns_start(struct gate_conn *gc);
/* Answer as an SSH agent; the gate itself holds no key. */
void gate_ssh_start(struct gate_conn *gc);

/* ---- gate_wire.c: Postgres and Redis, plain or TLS as the client chooses ---- */

/* Continues on gc->route.  AS is EGRESS_POSTGRES or EGRESS_REDIS. */
void gate_wire_start(struct gate_conn *gc, enum egress_routed as);
/* Start TLS on a plain connection, with its current protocol.  False: there is no TLS, and GC is
 * dropped. */
bool gate_wire_secure(struct gate_conn *gc);

/* ---- gate_postgres.c ---- */

void gate_postgres_start(struct gate_conn *gc);

/* ---- gate_redis.c: the agent's bytes to a Redis server ---- */

struct gate_redis *gate_redis_new(struct gate_conn *gc, struct gate_stream *stream);
void gate_redis_free(struct gate_redis *redis); /* NULL is fine */
/* Read and send as much as possible.  0: more will come; 1: the end; or a negative errno, and the
 * connection is over. */
int gate_redis_pump(struct gate_redis *redis);
/* EGRESS_LOGGED came.  False: no login was pending. */
bool gate_redis_logged(struct gate_redis *redis);
#endif
