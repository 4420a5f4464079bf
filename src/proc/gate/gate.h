/* gate.h - the only process that parses the agent's bytes: what its files share.
 *
 * A connection goes through: accepted (gate_accept.c), looked at and asked about
 * (gate_route.c), perhaps through the handshake of a proxy (gate_proxy.c) or of TLS
 * (gate_tls.c), then spoken with: HTTP/1.1 (gate_h1.c), HTTP/2 (gate_h2.c), DNS
 * (gate_dns.c), raw bytes (gate_tunnel.c), or, where a credential goes with these, Postgres
 * (gate_postgres.c) and Redis (gate_redis.c), begun by gate_wire.c.  Each of these is a
 * gate_protocol.  What the courier says on a stream goes to that stream's
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

#define GATE_CONNS_MAX 1024             /* at once; the oldest idle one makes room */
#define GATE_ACCEPT_MAX 64              /* in one round of the loop */
#define GATE_SPARE_MAX 32               /* kept of each kind of structure, to be used again */
#define GATE_IN_MAX (32 * 1024)         /* read at once */
#define GATE_HELD_MAX ((size_t)64 * 1024 * 1024) /* of all streams, waiting for slow peers */

#define GATE_HEAD_MS 30000              /* for a whole head, or the first bytes */
#define GATE_SILENT_MS 20000            /* then the server is expected to speak first */
#define GATE_BRIEF_MS 2000              /* the same, where everything may go, or nothing */
#define GATE_REFUSED_MS 1000            /* for first bytes that tell how to refuse */
#define GATE_IDLE_MS 75000              /* between requests */
#define GATE_HANDSHAKE_MS 15000
#define GATE_STALL_MS 60000             /* the agent reads nothing of what it is sent */
#define GATE_UNBLOCK_MS 10              /* between looks whether the courier reads again */
#define GATE_PRESSED_MS 3000            /* of silence in the middle of a request, when all are busy */
#define GATE_TRIM_MS 2000               /* of quiet, then memory is given back */
#define GATE_LINGER_MS 3000             /* of silence from the agent after our last words */
#define GATE_LINGER_ALL_MS 30000        /* however much it still sends */

/* ---- the courier's side: gate_stream.c ---- */

struct gate_stream_handler {
	/* A negative answer ends the channel, and the gate with it. */
	int (*frame)(void *owner, uint32_t type, struct buf *body);
	/* NULL: no bytes are expected. */
	void (*data)(void *owner, const unsigned char *data, size_t len);
	void (*writable)(void *owner);  /* may be NULL */
};
struct gate_stream {
	struct mux_stream *mux;         /* NULL while there is none */
	const struct gate_stream_handler *handler;
	void *owner;
	bool is_shut;                           /* and the courier was told */
};

/* ---- a connection: gate_conn.c ---- */

struct gate_conn;
struct gate_protocol {
	void (*readable)(struct gate_conn *gc);
	void (*writable)(struct gate_conn *gc);         /* may be NULL */
	/* Before what was collected in this round is written; may be NULL. */
	void (*flush)(struct gate_conn *gc);
	/* The agent has ended its side, and is not read from; may be NULL. */
	void (*shut)(struct gate_conn *gc);
	void (*late)(struct gate_conn *gc);             /* NULL: dropped */
	void (*ended)(struct gate_conn *gc);            /* free gc->state; may be NULL */
	/* Whether all that is missing is the agent's; NULL: no. */
	bool (*waits)(const struct gate_conn *gc);
	/* TLS is there; NULL: gate_route_secured() goes on. */
	void (*secured)(struct gate_conn *gc);
};

/* A proxy's handshake that is not answered yet. */
enum gate_owes { GATE_OWES_NOTHING, GATE_OWES_CONNECT, GATE_OWES_SOCKS5, GATE_OWES_SOCKS4 };

struct gate_conn {
	struct gate *gate;
	struct conn conn;
	const struct gate_protocol *protocol;
	void *state;                            /* the protocol's */
	struct gate_stream route;               /* the question about it, then its tunnel */
	struct loop_timer late, stall;
	size_t stall_left;
	uint64_t linger_until;
	uint64_t heard_ms;                      /* when the agent last sent something */

	/* Where it goes: exactly one of NAME and ADDRESS is not "", except on the proxy's
	 * port before the client has said. */
	char name[HTTP_HOST_MAX + 1];
	char address[INET6_ADDRSTRLEN];
	char sni[HTTP_HOST_MAX + 1];
	uint16_t port;
	enum egress_via via;
	enum egress_looks looks;
	enum gate_owes owes;
	char *refusal, *hint;                   /* why, once the courier has said no, and what helps */
	size_t low_water;                       /* of the socket, while it is looked at */
	bool is_h2, is_idle, is_touched, is_dead;
	bool waits_for_mux;
	bool has_ended;                         /* the agent sends no more */
	bool is_proxy;                          /* each request says where it goes */
	bool may_speak;                         /* the courier said so before the bytes came */
	bool asks, has_key;                     /* for a certificate; KEY is of the one that came */
	unsigned char key[EGRESS_KEY];
	bool is_wire;                           /* no HTTP: TLS is for its name, or for none */

	struct gate_conn *prev, *next;          /* of the busy or the idle ones */
	struct gate_conn *touched;
};

/* Captured connections, IPv4 and IPv6, and clients of the SSH agent; -1 where there is none. */
enum gate_listener { GATE_LISTENS4, GATE_LISTENS6, GATE_LISTENS_SSH, GATE_LISTENERS };

struct gate_list {
	struct gate_conn *first, *last;
};

struct gate {
	struct loop *loop;
	struct mux *mux;
	struct gate_tls *tls;                   /* see gate_tls_get() */
	char *ca_certificate, *ca_key;          /* until it is made of them */
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
	size_t n_questions;                     /* of DNS, waiting for the courier */
	uint32_t unnoted;                       /* refusals that the courier was not told of yet */
	struct buf frame, text;                 /* what is being written */
	struct http_head head;                  /* what is being read */
	char literal[INET6_ADDRSTRLEN + 2];     /* an address as a host */
	unsigned char in[GATE_IN_MAX];
};

/* Take over FD; NULL (and FD is closed) when there is no memory. */
struct gate_conn *gate_conn_new(struct gate *g, int fd);
void gate_conn_use(struct gate_conn *gc, const struct gate_protocol *protocol, void *state);
/* It is over.  The memory stays until the round ends, with is_dead set. */
void gate_conn_drop(struct gate_conn *gc, bool abrupt);
/* Say goodbye: what was written is delivered before the connection goes. */
void gate_conn_finish(struct gate_conn *gc);
/* protocol->late() after MS; 0: never. */
void gate_conn_set_late(struct gate_conn *gc, uint64_t ms);
/* Stop reading until the courier has taken what waits for it. */
void gate_conn_wait_for_mux(struct gate_conn *gc);
/* Idle ones are the first to go when there are too many. */
void gate_conn_set_idle(struct gate_conn *gc, bool idle);
/* Collect writes until the round ends. */
void gate_conn_touch(struct gate_conn *gc);
/* false: it failed and the connection was dropped. */
bool gate_conn_write(struct gate_conn *gc, const void *data, size_t len);
void gate_conn_init(struct gate *g);

/* ---- gate_accept.c ---- */

int gate_listen(struct gate *g, size_t i, int fd, struct err *err);
/* Take connections again, after there were too many. */
void gate_listen_again(struct gate *g);
/* Where a connection goes, from an address: the name that a synthetic one stands for,
 * or the address itself. */
void gate_set_destination(struct gate_conn *gc, const struct sockaddr_storage *to);
/* The number of a synthetic address; 0 if it is none. */
uint32_t gate_synthetic_number(const struct sockaddr_storage *to);
/* The same from a canonical host (http_authority_parse). */
void gate_set_host(struct gate_conn *gc, const char *host, size_t len, uint16_t port);

/* ---- gate_route.c ---- */

/* Look at the first bytes, ask the courier, and go on as it says. */
void gate_route_start(struct gate_conn *gc);
/* The handshake of TLS is done. */
void gate_route_secured(struct gate_conn *gc);

/* ---- gate_stream.c ---- */

extern const struct mux_handler gate_mux_handler;
bool gate_stream_open(struct gate *g, struct gate_stream *s,
                      const struct gate_stream_handler *handler, void *owner);
/* Both sides have said all there is to say. */
void gate_stream_forget(struct gate_stream *s);
/* Tell the courier that it is over, if it is not; fine if there is no stream. */
void gate_stream_reset(struct gate_stream *s, enum egress_reset why);
/* The client has closed its side; fine if there is no stream, and more than once. */
void gate_stream_shut(struct gate_stream *s);
void gate_stream_end(struct gate *g, struct gate_stream *s,
                     const struct http_field *trailers, size_t n);

/* ---- gate_request.c ---- */

/* Fill in what the connection knows about a request (its scheme, and its host and port
 * if IS_ABSOLUTE does not say that they are in it), then look whether all of it agrees.
 * 0, or the status to refuse it with. */
uint16_t gate_request_complete(struct gate_conn *gc, struct http_head *head, bool is_absolute,
                               struct err *err);
/* Hand a request that is complete to the courier. */
void gate_request_send(struct gate_conn *gc, struct gate_stream *s, uint32_t version,
                       const struct http_head *head);
/* The body of an answer that the gate makes itself, in g->text.  HINT is what to do, NULL: what
 * helps with STATUS. */
void gate_request_refusal(const struct gate_conn *gc, uint16_t status, const char *reason,
                          const char *hint);
/* The same as a whole HTTP/1.1 answer that ends the connection, in g->text. */
void gate_request_refusal_h1(const struct gate_conn *gc, uint16_t status, const char *reason,
                             const char *hint);
/* Have it recorded that the gate itself refuses something, on GC's connection (NULL: on
 * none). */
void gate_note(struct gate *g, const struct gate_conn *gc, enum egress_note kind,
               uint16_t status, const char *reason);

/* ---- what speaks ---- */

void gate_h1_start(struct gate_conn *gc);
void gate_h1_trim(struct gate *g);
int gate_h2_start(struct gate_conn *gc);
void gate_h2_trim(struct gate *g);
/* STREAM, owned by somebody else until now, carries the connection's bytes from here on;
 * the LEN bytes at DATA were read already, and fit the stream's credit. */
void gate_tunnel_start(struct gate_conn *gc, struct gate_stream *stream, const void *data,
                       size_t len);
/* The same for Redis; nothing was read yet. */
void gate_tunnel_start_redis(struct gate_conn *gc, struct gate_stream *stream);
void gate_proxy_start(struct gate_conn *gc);
/* Answer the client of a proxy: it may go on, or not. */
void gate_proxy_accept(struct gate_conn *gc);
void gate_proxy_refuse(struct gate_conn *gc, const char *reason, const char *hint);
int gate_dns_listen(struct gate *g, size_t i, int fd, struct err *err);
void gate_dns_start(struct gate_conn *gc);
/* Answer as an SSH agent that holds no key. */
void gate_ssh_start(struct gate_conn *gc);

/* ---- gate_wire.c: Postgres and Redis, plain or TLS as the client likes ---- */

/* On gc->route, which stays; AS is EGRESS_POSTGRES or EGRESS_REDIS. */
void gate_wire_start(struct gate_conn *gc, enum egress_routed as);
/* From plain to TLS, with the protocol that GC has; false: there is none, and GC is dropped. */
bool gate_wire_secure(struct gate_conn *gc);

/* ---- gate_postgres.c ---- */

void gate_postgres_start(struct gate_conn *gc);

/* ---- gate_redis.c: the agent's bytes on their way to a Redis server ---- */

struct gate_redis *gate_redis_new(struct gate_conn *gc, struct gate_stream *stream);
void gate_redis_free(struct gate_redis *redis); /* NULL is fine */
/* Read and send what can be.  0: there will be more; 1: that was all; or a negative errno, with
 * which the connection is over. */
int gate_redis_pump(struct gate_redis *redis);
/* EGRESS_LOGGED came: false, if nobody asked. */
bool gate_redis_logged(struct gate_redis *redis);
#endif
