/* gate_route.c - recognises a new connection, and does with it what the courier decides. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "http/client_hello.h"
#include "proc/gate/gate.h"
#include "proc/gate/gate_sniff.h"
#include "proc/gate/gate_tls.h"

static void route_look(struct gate_conn *gc);

/* ---- refusing ---- */

/* RFC 8446, 6: a fatal alert, in the form for an unfinished handshake. */
static const unsigned char alert_access_denied[] = { 21, 3, 3, 0, 2, 2, 49 };

static void
route_refuse(struct gate_conn *gc, const char *reason, const char *hint)
{
	struct gate *g = gc->gate;

	if (gc->owes != GATE_OWES_NOTHING) {
		gate_proxy_refuse(gc, reason, hint);
	} else if (gc->looks == EGRESS_LOOKS_TLS) {
		if (gate_conn_write(gc, alert_access_denied, sizeof(alert_access_denied)))
			gate_conn_finish(gc);
	} else if (gc->looks == EGRESS_LOOKS_HTTP && !gc->is_h2) {
		gate_request_refusal_h1(gc, 403, reason, hint);
		if (gate_conn_write(gc, g->text.data, g->text.len))
			gate_conn_finish(gc);
	} else {
		gate_conn_drop(gc, true);
	}
}

/* ---- proceeding ---- */

static void
waiting_readable(struct gate_conn *gc)
{
	conn_pause_reading(&gc->conn);
}

static const struct gate_protocol waiting = { .readable = waiting_readable };

/* Whether the rest of a handshake, or of the first bytes, is missing. */
static bool
looking_waits(const struct gate_conn *gc)
{
	return gc->low_water != 0;
}

static void
looking_late(struct gate_conn *gc);

static const struct gate_protocol looking = {
	.readable = route_look, .late = looking_late, .waits = looking_waits,
};

static void
route_secure(struct gate_conn *gc)
{
	struct gate_tls *tls = gate_tls_get(gc->gate);
	SSL *ssl = tls == NULL ? NULL : gate_tls_accept(tls, gc);

	if (ssl == NULL) {
		route_refuse(gc, "", "");
		return;
	}
	gate_conn_use(gc, &waiting, NULL);
	gate_conn_set_late(gc, GATE_HANDSHAKE_MS);
	conn_start_tls(&gc->conn, ssl);
}

static void
route_speak_http(struct gate_conn *gc)
{
	if (!gc->is_h2)
		gate_h1_start(gc);
	else if (gate_h2_start(gc) < 0)
		gate_conn_drop(gc, true);
}

static void
route_speak(struct gate_conn *gc)
{
	if (gc->looks == EGRESS_LOOKS_TLS)
		route_secure(gc);
	else
		route_speak_http(gc);
}

void
gate_route_secured(struct gate_conn *gc)
{
	if (!gate_tls_agrees(gc)) {
		gate_conn_drop(gc, true);
		return;
	}
	gate_tls_take_key(gc);
	gc->is_h2 = gate_tls_chose_h2(gc);
	route_speak_http(gc);
}

/* ---- asking the courier ---- */

static void
route_wait_for_bytes(struct gate_conn *gc, unsigned ms)
{
	if (gc->owes != GATE_OWES_NOTHING)
		gate_proxy_accept(gc);
	if (gc->is_dead)
		return;
	gate_conn_use(gc, &looking, NULL);
	gate_conn_set_late(gc, ms);
	route_look(gc);
}

/* The stream of the question then carries the connection. */
static void
route_stay(struct gate_conn *gc, enum egress_routed routed)
{
	if (gc->owes != GATE_OWES_NOTHING)
		gate_proxy_accept(gc);
	if (gc->is_dead)
		return;
	if (routed == EGRESS_TUNNEL)
		gate_tunnel_start(gc, &gc->route, NULL, 0);
	else
		gate_wire_start(gc, routed);
}

static int
route_frame(void *owner, uint32_t type, struct buf *body)
{
	struct gate_conn *gc = owner;
	uint32_t routed;
	const char *reason, *hint;

	if (type == EGRESS_RESET) {
		gate_stream_forget(&gc->route);
		gate_conn_drop(gc, true);
		return 0;
	}
	if (type != EGRESS_ROUTED || buf_get_u32(body, &routed) < 0 ||
	    buf_get_str(body, &reason) < 0 || buf_get_str(body, &hint) < 0)
		return -EBADMSG;
	if (routed == EGRESS_TUNNEL || routed == EGRESS_POSTGRES || routed == EGRESS_REDIS) {
		route_stay(gc, routed);
		return 0;
	}
	gate_stream_forget(&gc->route);
	gc->asks = routed == EGRESS_SPEAK_ASKING;
	if (gc->looks != EGRESS_LOOKS_UNKNOWN && (routed == EGRESS_SPEAK || gc->asks)) {
		route_speak(gc);
	} else if (gc->looks != EGRESS_LOOKS_UNKNOWN ||
	           (routed == EGRESS_REFUSED && gc->owes != GATE_OWES_NOTHING)) {
		route_refuse(gc, reason, hint);
	} else {
		/* The client's protocol also decides how to refuse it. */
		gc->refusal = routed == EGRESS_REFUSED ? strdup(reason) : NULL;
		gc->hint = routed == EGRESS_REFUSED ? strdup(hint) : NULL;
		gc->may_speak = routed == EGRESS_SPEAK;
		route_wait_for_bytes(gc, gc->refusal != NULL ? GATE_REFUSED_MS :
		                     routed == EGRESS_LOOK_BRIEFLY ? GATE_BRIEF_MS : GATE_SILENT_MS);
	}
	return 0;
}

static const struct gate_stream_handler route_handler = { .frame = route_frame };

static void
route_ask(struct gate_conn *gc)
{
	struct gate *g = gc->gate;

	gate_conn_use(gc, &waiting, NULL);
	/* The courier has timeouts of its own. */
	gate_conn_set_late(gc, 0);
	conn_pause_reading(&gc->conn);
	if (!gate_stream_open(g, &gc->route, &route_handler, gc)) {
		gate_conn_drop(gc, true);
		return;
	}
	buf_reset(&g->frame);
	buf_put_u32(&g->frame, EGRESS_FROM(gc->via, gc->from));
	buf_put_str(&g->frame, gc->name);
	buf_put_str(&g->frame, gc->address);
	buf_put_u32(&g->frame, gc->port);
	buf_put_u32(&g->frame, gc->looks);
	buf_put_str(&g->frame, gc->sni);
	mux_send(g->mux, gc->route.mux->id, EGRESS_ROUTE, &g->frame);
}

/* ---- the first bytes ---- */

/* Wake up only for more than the N bytes that were not enough.  They stay in the socket, because
 * OpenSSL reads them from there. */
static void
route_set_low_water(struct gate_conn *gc, size_t n)
{
	int value = (int)n + 1;

	if (gc->low_water == n)
		return;
	setsockopt(gc->conn.source.fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
	gc->low_water = n;
}

/* The number of bytes that came, once they identify the connection, or at its end.  0: none yet.
 * -EAGAIN: more are needed. */
static ssize_t
route_peek(struct gate_conn *gc)
{
	struct client_hello hello;
	ssize_t n = recv(gc->conn.source.fd, gc->gate->in, CLIENT_HELLO_MAX,
	                 MSG_PEEK | MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -ECONNRESET;
	switch (gate_sniff(gc->gate->in, (size_t)n, &hello)) {
	case GATE_SNIFF_MORE:
		route_set_low_water(gc, (size_t)n);
		return -EAGAIN;
	case GATE_SNIFF_TLS:
		gc->looks = EGRESS_LOOKS_TLS;
		memcpy(gc->sni, hello.sni, sizeof(gc->sni));
		break;
	case GATE_SNIFF_HTTP2:
		gc->is_h2 = true;
		gc->looks = EGRESS_LOOKS_HTTP;
		break;
	case GATE_SNIFF_HTTP:
		gc->looks = EGRESS_LOOKS_HTTP;
		break;
	case GATE_SNIFF_OTHER:
		gc->looks = EGRESS_LOOKS_OTHER;
		break;
	}
	route_set_low_water(gc, 0);
	return n;
}

static void
route_look(struct gate_conn *gc)
{
	ssize_t n = route_peek(gc);

	if (n == 0 || n == -EAGAIN)
		conn_resume_reading(&gc->conn);
	else if (n < 0)
		gate_conn_drop(gc, true);
	else if (gc->refusal != NULL)
		route_refuse(gc, gc->refusal, gc->hint);
	else if (gc->may_speak)
		route_speak(gc);
	else
		route_ask(gc);
}

static void
looking_late(struct gate_conn *gc)
{
	if (gc->may_speak || gc->refusal != NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	/* Nothing came, or too little to identify anything. */
	route_set_low_water(gc, 0);
	gc->looks = EGRESS_LOOKS_OTHER;
	route_ask(gc);
}

void
gate_route_start(struct gate_conn *gc)
{
	ssize_t n = 0;

	gc->looks = EGRESS_LOOKS_UNKNOWN;
	if (gc->owes == GATE_OWES_NOTHING)
		n = route_peek(gc);
	if (n < 0 && n != -EAGAIN) {
		gate_conn_drop(gc, true);
		return;
	}
	/* Too little is treated as nothing.  If a rule allows raw bytes, the client may have sent
	 * all that it sends before the server answers. */
	route_set_low_water(gc, 0);
	route_ask(gc);
}
