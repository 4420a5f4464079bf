/* fuzz_egress.c - the courier between two hostile sides.
 *
 * The first byte says which of them the rest comes from: a gate that an attacker has
 * taken over (even), or a server or proxy, in answer to a request that the other bits
 * choose (odd).  Whatever comes, the gate is sent whole, canonical frames, and the supervisor
 * events that are JSON text. */
#include <assert.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "canon/members.h"
#include "egress/courier.h"
#include "fuzz.h"
#include "ipc/courier_channel.h"
#include "proc/courier/courier_gate.h"

#define HOST "host.cloister.internal"
#define FAR "93.184.215.14"             /* only asked of a proxy */
#define PIECE_MAX (128 * 1024)
#define TICKS_MAX 30                    /* milliseconds, then it has had its chance */

enum { FROM_SERVER = 1, ASKS_HEAD = 2, ASKS_POST = 4, ASKS_UPGRADE = 8, STAYS_OPEN = 16,
       FROM_PROXY = 32 };

struct state {
	struct courier courier;
	struct loop *loop;
	int gate, supervisor, server;   /* our ends */
	struct loop_source listener;
	struct loop_timer tick;
	size_t ticks;
	uint8_t does;
	const uint8_t *data;
	size_t len;
};

/* ---- what the courier says ---- */

static void
check_frame(uint32_t type, const unsigned char *data, size_t len)
{
	static struct http_head head;
	static struct http_field fields[HTTP_FIELDS_MAX];
	uint32_t number;
	const char *text;
	struct buf b;
	size_t n;

	buf_init_borrowed(&b, data, len);
	switch (type) {
	case MUX_DATA:
		assert(len > 0);
		break;
	case EGRESS_RESPONSE:
		assert(buf_get_u32(&b, &number) == 0 && number <= EGRESS_HAS_BODY);
		assert(http_head_decode(&b, &head, NULL) == 0 && head.status >= 100);
		break;
	case EGRESS_END:
		assert(http_fields_decode(&b, fields, &n, NULL) == 0);
		break;
	case EGRESS_ROUTED:
		assert(buf_get_u32(&b, &number) == 0 && number <= EGRESS_TUNNEL);
		assert(buf_get_str(&b, &text) == 0 && buf_get_str(&b, &text) == 0 && buf_left(&b) == 0);
		break;
	case EGRESS_SSH_KEYS:
	case EGRESS_SSH_SIGNED:
		/* There is no key, so there is nothing in either. */
		assert(len == 4 && memcmp(data, "\0\0\0", 4) == 0);
		break;
	default:
		assert(type == MUX_CREDIT || type == EGRESS_RESOLVED || type == EGRESS_RESET);
		assert(len == 4);
	}
}

static void
check_gate(struct state *s)
{
	OWN(buf_free) struct buf all;
	unsigned char piece[4096];
	uint32_t field[3];
	ssize_t n;

	buf_init(&all, 64 * 1024 * 1024);
	while ((n = recv(s->gate, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		buf_put(&all, piece, (size_t)n);
	while (buf_left(&all) >= sizeof(field)) {
		memcpy(field, all.data + all.pos, sizeof(field));
		all.pos += sizeof(field);
		if (le32toh(field[2]) > buf_left(&all))
			break;          /* was not all written */
		check_frame(le32toh(field[1]), all.data + all.pos, le32toh(field[2]));
		all.pos += le32toh(field[2]);
	}
}

static void
check_event(const char *text)
{
	const char *type;
	size_t len;

	assert(members_check(text, strlen(text), &type, &len));
}

static void
check_supervisor(struct state *s)
{
	static unsigned char message[PIECE_MAX * 2];
	const char *what, *event;
	uint32_t type, n, refused;
	uint64_t awaited;
	struct buf b;
	ssize_t len;

	while ((len = recv(s->supervisor, message, sizeof(message), MSG_DONTWAIT)) > 0) {
		buf_init_borrowed(&b, message, (size_t)len);
		assert(buf_get_u32(&b, &type) == 0 && type == COURIER_EVENTS);
		assert(buf_get_u32(&b, &n) == 0 && n > 0 && n <= COURIER_EVENTS_MAX);
		assert(buf_get_u64(&b, &awaited) == 0 && awaited == 0);
		while (n-- > 0) {
			assert(buf_get_u32(&b, &refused) == 0 && refused <= 1);
			assert(buf_get_str(&b, &what) == 0 && strlen(what) <= COURIER_WHAT_MAX);
			assert(buf_get_str(&b, &event) == 0);
			check_event(event);
		}
		assert(buf_left(&b) == 0);
	}
}

/* ---- a server ---- */

static void
accept_one(void *arg, uint32_t events)
{
	struct state *s = arg;
	int fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	(void)!send(fd, s->data, s->len, MSG_NOSIGNAL);
	if ((s->does & STAYS_OPEN) == 0)
		shutdown(fd, SHUT_WR);
	closep(&s->server);
	s->server = fd;
}

static uint16_t
listen_somewhere(struct state *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
	                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);

	s->listener = (struct loop_source){ .ready = accept_one, .arg = s };
	s->listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert(s->listener.fd >= 0);
	assert(bind(s->listener.fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	assert(listen(s->listener.fd, 4) == 0);
	assert(getsockname(s->listener.fd, (struct sockaddr *)&to, &len) == 0);
	assert(loop_watch(s->loop, &s->listener, EPOLLIN, NULL) == 0);
	return ntohs(to.sin_port);
}

static void
send_frame(struct state *s, uint32_t type, const struct buf *body)
{
	uint32_t field[3] = { htole32(1), htole32(type), htole32((uint32_t)body->len) };

	assert(send(s->gate, field, sizeof(field), 0) == sizeof(field));
	assert(send(s->gate, body->data, body->len, 0) == (ssize_t)body->len);
}

static void
ask_server(struct state *s, uint16_t port)
{
	OWN(buf_free) struct buf frame;
	const char *method = (s->does & ASKS_HEAD) != 0 ? "HEAD" : (s->does & ASKS_POST) != 0
	                                                               ? "POST" : "GET";
	bool far = (s->does & FROM_PROXY) != 0;
	static struct http_head head;

	head = (struct http_head){ .method = { method, strlen(method) },
	                           .host = { far ? FAR : HOST, strlen(far ? FAR : HOST) },
	                           .path = { "/", 1 }, .port = port,
	                           .scheme = far ? HTTP_TLS : HTTP_PLAIN };
	if ((s->does & ASKS_POST) != 0)
		head.length = HTTP_LENGTH_UNKNOWN;
	else if ((s->does & ASKS_UPGRADE) != 0)
		head.upgrade = (struct http_text){ "websocket", 9 };
	buf_init(&frame, PIECE_MAX);
	buf_put_str(&frame, far ? "" : HOST);
	buf_put_str(&frame, far ? FAR : "");
	buf_put_u32(&frame, port);
	buf_put_u32(&frame, EGRESS_TRANSPARENT);
	buf_put_u32(&frame, 11);
	buf_put_u32(&frame, head.length != 0 ? EGRESS_HAS_BODY : 0);
	http_head_encode(&frame, &head);
	send_frame(s, EGRESS_REQUEST, &frame);
}

/* ---- one run ---- */

static void
tick(void *arg)
{
	struct state *s = arg;
	bool idle = (s->does & FROM_SERVER) == 0 || s->courier.n_exchanges == 0;

	/* A few more, for what the end of an exchange leaves behind. */
	if (s->ticks++ > TICKS_MAX || (idle && s->ticks > 3))
		loop_quit(s->loop);
	else
		loop_set_timer(s->loop, &s->tick, 1);
}

static struct policy *
make_policy(uint16_t port)
{
	struct policy *policy = NULL;
	struct policy_limits limits;
	char text[512];

	/* Port 1 is closed everywhere, so that nobody else is spoken with. */
	snprintf(text, sizeof(text), "version: 1\negress:\n"
	         "  - allow: " HOST ":2\n    protocol: tcp\n"
	         "  - allow: " HOST ":3\n    protocol: tls\n"
	         "  - deny: bad.example\n    reason: because\n"
	         "  - allow: " HOST "\n    ports: [1]\n    body: {json: {/a: [b]}}\n"
	         "  - allow: [" HOST ", " FAR "]\n    ports: [%u]\n    websocket: true\n", port);
	assert(policy_load_text("fuzz.yaml", text, strlen(text), &policy, &limits, NULL) == 0);
	return policy;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct state state;
	struct state *s = &state;
	char proxy[64];
	char *environment[] = { proxy, NULL };
	int gate[2], supervisor[2];
	uint16_t port = 1;

	if (size < 1 || size > PIECE_MAX)
		return 0;
	*s = (struct state){ .does = data[0], .data = data + 1, .len = size - 1, .server = -1,
	                     .listener = { .fd = -1 } };
	s->tick = (struct loop_timer){ .due = tick, .arg = s };
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supervisor) == 0);
	s->gate = gate[1];
	s->supervisor = supervisor[1];
	assert(loop_new(&s->loop, NULL) == 0);
	if ((s->does & FROM_SERVER) != 0)
		port = listen_somewhere(s);
	snprintf(proxy, sizeof(proxy), "HTTPS_PROXY=http://me:pass@127.0.0.1:%u", port);
	assert(courier_init(&s->courier, make_policy(port), false, environment, NULL, 0, NULL) == 0);
	assert(courier_start(&s->courier, s->loop, supervisor[0], gate[0], &courier_gate_handler, -1, NULL) == 0);
	if ((s->does & FROM_SERVER) != 0)
		ask_server(s, port);
	else
		(void)!send(s->gate, s->data, s->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	loop_set_timer(s->loop, &s->tick, 1);
	assert(loop_run(s->loop, NULL) == 0);
	courier_close(&s->courier);
	check_gate(s);
	check_supervisor(s);
	if (s->listener.fd >= 0)
		loop_unwatch(s->loop, &s->listener);
	loop_free(s->loop);
	for (size_t i = 0; i < 2; i++) {
		close(gate[i]);
		close(supervisor[i]);
	}
	closep(&s->listener.fd);
	closep(&s->server);
	return 0;
}
