/* gate_proxy.c - an HTTP and SOCKS proxy on one port, for programs that require a proxy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proc/gate/gate.h"
#include "proc/gate/gate_socks.h"

enum socks_reply { SOCKS_FAILED = 1, SOCKS_REFUSED = 2, SOCKS_NO_COMMAND = 7, SOCKS_NO_KIND = 8 };

struct gate_socks_state {
	bool greeted;
	size_t len;
	unsigned char data[GATE_SOCKS_MAX];
};

/* ---- responses ---- */

static void
proxy_write_socks(struct gate_conn *gc, enum gate_owes kind, unsigned char code)
{
	const unsigned char five[10] = { 5, code, 0, 1 };
	const unsigned char four[8] = { 0, code == 0 ? 90 : 91 };

	if (kind == GATE_OWES_SOCKS5)
		gate_conn_write(gc, five, sizeof(five));
	else
		gate_conn_write(gc, four, sizeof(four));
}

void
gate_proxy_accept(struct gate_conn *gc)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	enum gate_owes owed = gc->owes;

	gc->owes = GATE_OWES_NOTHING;
	if (owed == GATE_OWES_CONNECT)
		gate_conn_write(gc, ok, sizeof(ok) - 1);
	else
		proxy_write_socks(gc, owed, 0);
}

void
gate_proxy_refuse(struct gate_conn *gc, const char *reason, const char *hint)
{
	struct gate *g = gc->gate;

	if (gc->owes == GATE_OWES_CONNECT) {
		gate_request_refusal_h1(gc, 403, reason, hint);
		gate_conn_write(gc, g->text.data, g->text.len);
	} else {
		proxy_write_socks(gc, gc->owes, SOCKS_REFUSED);
	}
	gc->owes = GATE_OWES_NOTHING;
	gate_conn_finish(gc);
}

/* ---- SOCKS ---- */

static void
socks_ended(struct gate_conn *gc)
{
	free(gc->state);
	gc->state = NULL;
}

static void
socks_bad(struct gate_conn *gc, enum gate_owes kind, int error)
{
	static const unsigned char no_method[] = { 5, 0xff };
	const char *reason = error == -EPERM ? "the client offers no supported SOCKS login" :
	                     error == -ENOTSUP ? "only the SOCKS command CONNECT is supported" :
	                     "this is not SOCKS";
	unsigned char code = error == -ENOTSUP ? SOCKS_NO_COMMAND :
	                     error == -EAFNOSUPPORT ? SOCKS_NO_KIND : SOCKS_FAILED;

	gate_note(gc->gate, gc, EGRESS_NOTE_TCP, 0, reason);
	if (error == -EPERM)
		gate_conn_write(gc, no_method, sizeof(no_method));
	else if (error != -EBADMSG)
		proxy_write_socks(gc, kind, code);
	gate_conn_finish(gc);
}

static void
socks_go(struct gate_conn *gc, enum gate_owes kind, const struct gate_socks *socks)
{
	socks_ended(gc);
	gc->is_proxy = false;
	gc->via = EGRESS_SOCKS;
	gc->owes = kind;
	gate_set_host(gc, socks->host, strlen(socks->host), socks->port);
	gate_route_start(gc);
}

/* Handle the bytes so far.  True: read on, up to *ret_need bytes in total. */
static bool
socks_step(struct gate_conn *gc, size_t *ret_need)
{
	static const unsigned char greeting[] = { 5, 0 };
	struct gate_socks_state *s = gc->state;
	enum gate_owes kind = s->data[0] == 4 ? GATE_OWES_SOCKS4 : GATE_OWES_SOCKS5;
	struct gate_socks socks = {0};
	int r;

	if (kind == GATE_OWES_SOCKS4)
		r = gate_socks4_request(s->data, s->len, ret_need, &socks);
	else if (s->greeted)
		r = gate_socks5_request(s->data, s->len, ret_need, &socks);
	else
		r = gate_socks5_greeting(s->data, s->len, ret_need);
	if (r == -EAGAIN)
		return true;
	if (r < 0) {
		socks_bad(gc, kind, r);
		return false;
	}
	if (kind == GATE_OWES_SOCKS5 && !s->greeted) {
		s->greeted = true;
		s->len = 0;
		*ret_need = 5;
		return gate_conn_write(gc, greeting, sizeof(greeting));
	}
	socks_go(gc, kind, &socks);
	return false;
}

static void
socks_readable(struct gate_conn *gc)
{
	struct gate_socks_state *s = gc->state;
	size_t need = 2;
	ssize_t n;

	/* Never read a byte too many: another reader handles what follows. */
	do {
		if (s->len > 0 && !socks_step(gc, &need))
			return;
		n = conn_read(&gc->conn, s->data + s->len, need - s->len);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			gate_conn_drop(gc, n < 0);
			return;
		}
		s->len += (size_t)n;
	} while (s->len <= sizeof(s->data));
}

static const struct gate_protocol socks_protocol = {
	.readable = socks_readable, .ended = socks_ended,
};

/* ---- recognising the protocol ---- */

static void
proxy_readable(struct gate_conn *gc)
{
	struct gate_socks_state *s;
	unsigned char first;
	ssize_t n = recv(gc->conn.source.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		gate_conn_drop(gc, n < 0);
		return;
	}
	if (first != 4 && first != 5) {
		gate_h1_start(gc);
		gc->protocol->readable(gc);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	gate_conn_use(gc, &socks_protocol, s);
	socks_readable(gc);
}

static const struct gate_protocol proxy = { .readable = proxy_readable };

void
gate_proxy_start(struct gate_conn *gc)
{
	gc->is_proxy = true;
	gc->name[0] = gc->address[0] = '\0';
	gc->via = EGRESS_CONNECT;
	gate_conn_use(gc, &proxy, NULL);
	gate_conn_set_late(gc, GATE_HEAD_MS);
	conn_resume_reading(&gc->conn);
}
