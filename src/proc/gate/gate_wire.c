/* gate_wire.c - starts Postgres and Redis connections that use a credential: finds out whether they
 * begin with TLS. */
#include <errno.h>
#include <sys/socket.h>

#include "proc/gate/gate.h"
#include "proc/gate/gate_tls.h"

#define TLS_HANDSHAKE 0x16              /* neither protocol begins with it */

bool
gate_wire_secure(struct gate_conn *gc)
{
	struct gate_tls *tls = gate_tls_get(gc->gate);
	SSL *ssl = tls == NULL ? NULL : gate_tls_accept(tls, gc);

	if (ssl == NULL) {
		gate_conn_drop(gc, true);
		return false;
	}
	conn_start_tls(&gc->conn, ssl);
	return true;
}

static void
postgres_begins(struct gate_conn *gc)
{
	gate_postgres_start(gc);
}

static void
redis_begins(struct gate_conn *gc)
{
	gate_tunnel_start_redis(gc, &gc->route);
}

/* Peek at the first byte, which stays in the socket.  0: none yet; -1: the end. */
static int
wire_peek(const struct gate_conn *gc)
{
	unsigned char first;
	ssize_t n = recv(gc->conn.source.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n == 1)
		return first == TLS_HANDSHAKE ? 2 : 1;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void
wire_look(struct gate_conn *gc, void (*begin)(struct gate_conn *gc))
{
	switch (wire_peek(gc)) {
	case 0:
		conn_resume_reading(&gc->conn);
		break;
	case 1:
		begin(gc);
		break;
	case 2:
		gate_conn_set_late(gc, GATE_HANDSHAKE_MS);
		(void)gate_wire_secure(gc);
		break;
	default:
		gate_conn_drop(gc, true);
	}
}

static void
postgres_look(struct gate_conn *gc)
{
	wire_look(gc, postgres_begins);
}

static void
redis_look(struct gate_conn *gc)
{
	wire_look(gc, redis_begins);
}

static void
postgres_secured(struct gate_conn *gc)
{
	if (gate_tls_agrees(gc))
		postgres_begins(gc);
	else
		gate_conn_drop(gc, true);
}

static void
redis_secured(struct gate_conn *gc)
{
	if (gate_tls_agrees(gc))
		redis_begins(gc);
	else
		gate_conn_drop(gc, true);
}

static const struct gate_protocol postgres_first = {
	.readable = postgres_look, .secured = postgres_secured,
};
static const struct gate_protocol redis_first = {
	.readable = redis_look, .secured = redis_secured,
};

void
gate_wire_start(struct gate_conn *gc, enum egress_routed as)
{
	bool postgres = as == EGRESS_POSTGRES;

	gc->is_wire = true;
	gate_conn_use(gc, postgres ? &postgres_first : &redis_first, NULL);
	/* Connection pools keep idle connections to Redis; a Postgres client logs in at once. */
	gate_conn_set_late(gc, postgres ? GATE_HEAD_MS : 0);
	wire_look(gc, postgres ? postgres_begins : redis_begins);
}
