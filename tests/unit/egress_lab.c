/* egress_lab.c - see egress_lab.h. */
#include "egress_lab.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "test.h"

#define TICKS_MAX 3000                  /* of a millisecond */
#define SETTLE_TICKS 15
#define HEARD_MAX (4 * 1024 * 1024)

/* ---- what the courier says ---- */

static void
take_frame(struct lab *lab, uint32_t id, uint32_t type, struct buf *body)
{
	static struct http_head head;
	struct lab_stream *s = &lab->streams[id];
	uint32_t flags;

	CHECK(id > 0 && id < LAB_STREAMS);
	switch (type) {
	case MUX_DATA:
		buf_put(&s->data, body->data, body->len);
		break;
	case EGRESS_RESPONSE:
		CHECK_OK(buf_get_u32(body, &flags));
		CHECK_OK(http_head_decode(body, &head, NULL));
		s->status = head.status;
		s->has_body = flags != 0;
		s->ended = head.status >= 200 && flags == 0;
		break;
	case EGRESS_ROUTED:
		CHECK_OK(buf_get_u32(body, &s->routed));
		s->routed++;
		break;
	case EGRESS_END:
		s->ended = true;
		break;
	case EGRESS_LOGGED:
		s->logged++;
		break;
	case EGRESS_RESET:
		CHECK_OK(buf_get_u32(body, &s->reset));
		s->is_reset = true;
		break;
	default:
		CHECK(type == MUX_CREDIT);
	}
}

static void
hear_gate(struct lab *lab)
{
	unsigned char piece[16384];
	uint32_t field[3];
	struct buf body;
	ssize_t n;

	while ((n = recv(lab->gate, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		courier_queue(&lab->in, piece, (size_t)n);
	while (buf_left(&lab->in) >= sizeof(field)) {
		memcpy(field, lab->in.data + lab->in.pos, sizeof(field));
		if (buf_left(&lab->in) - sizeof(field) < le32toh(field[2]))
			break;
		lab->in.pos += sizeof(field);
		buf_init_borrowed(&body, lab->in.data + lab->in.pos, le32toh(field[2]));
		lab->in.pos += body.len;
		take_frame(lab, le32toh(field[0]), le32toh(field[1]), &body);
	}
}

static void
hear_supervisor(struct lab *lab)
{
	char message[65536];
	ssize_t n;

	while ((n = recv(lab->supervisor, message, sizeof(message), MSG_DONTWAIT)) > 0)
		buf_put(&lab->events, message, (size_t)n);
}

static void
hear_server(struct lab *lab)
{
	unsigned char piece[16384];
	int fd = accept4(lab->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	ssize_t n;

	if (fd >= 0) {
		closep(&lab->server);
		lab->server = fd;
		lab->connections++;
		buf_reset(&lab->heard);
	}
	while (lab->server >= 0 &&
	       (n = recv(lab->server, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		buf_put(&lab->heard, piece, (size_t)n);
}

/* ---- running ---- */

static void
tick(void *arg)
{
	struct lab *lab = arg;

	hear_gate(lab);
	hear_supervisor(lab);
	hear_server(lab);
	lab->ticks++;
	if (lab->until == NULL ? lab->ticks == SETTLE_TICKS : lab->until(lab)) {
		loop_quit(lab->loop);
		return;
	}
	if (lab->ticks > TICKS_MAX)
		test_fail(__FILE__, __LINE__, "it does not come to that; events: %.*s",
		          (int)lab->events.len, (char *)lab->events.data);
	loop_set_timer(lab->loop, &lab->tick, 1);
}

void
lab_run(struct lab *lab, bool (*until)(struct lab *lab))
{
	lab->until = until;
	lab->ticks = 0;
	loop_set_timer(lab->loop, &lab->tick, 0);
	CHECK_OK(loop_run(lab->loop, NULL));
	lab->gone = lab->courier.gate_error != 0;
	loop_cancel_timer(lab->loop, &lab->tick);
	hear_gate(lab);
}

void
lab_settle(struct lab *lab)
{
	lab_run(lab, NULL);
}

static void
listen_somewhere(struct lab *lab)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
	                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);

	lab->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(lab->listener >= 0);
	CHECK(bind(lab->listener, (struct sockaddr *)&to, sizeof(to)) == 0);
	CHECK(listen(lab->listener, 8) == 0);
	CHECK(getsockname(lab->listener, (struct sockaddr *)&to, &len) == 0);
	lab->port = ntohs(to.sin_port);
}

static struct policy *
make_policy(const char *rules, uint16_t port)
{
	struct policy *policy = NULL;
	struct policy_limits limits;
	char text[2048] = "version: 1\negress:\n", number[8];
	const char *at;

	snprintf(number, sizeof(number), "%u", port);
	for (; (at = strstr(rules, "PORT")) != NULL; rules = at + 4)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s%s",
		         (int)(at - rules), rules, number);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", rules);
	CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &policy, &limits, NULL));
	return policy;
}

void
lab_start(struct lab *lab, const char *rules)
{
	int gate[2], supervisor[2];

	*lab = (struct lab){ .server = -1, .tick = { .due = tick, .arg = lab } };
	buf_init(&lab->in, HEARD_MAX);
	buf_init(&lab->heard, HEARD_MAX);
	buf_init(&lab->events, HEARD_MAX);
	for (size_t i = 0; i < LAB_STREAMS; i++)
		buf_init(&lab->streams[i].data, HEARD_MAX);
	listen_somewhere(lab);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supervisor) == 0);
	lab->gate = gate[1];
	lab->gate_end = gate[0];
	lab->supervisor = supervisor[1];
	lab->supervisor_end = supervisor[0];
	CHECK_OK(loop_new(&lab->loop, NULL));
	CHECK_OK(courier_init(&lab->courier, make_policy(rules, lab->port), false, NULL, NULL, 0,
	                      NULL));
	CHECK_OK(courier_start(&lab->courier, lab->loop, supervisor[0], gate[0],
	                       &courier_gate_handler, -1, NULL));
}

void
lab_end(struct lab *lab)
{
	courier_close(&lab->courier);
	loop_free(lab->loop);
	close(lab->gate);
	close(lab->gate_end);
	close(lab->supervisor);
	close(lab->supervisor_end);
	close(lab->listener);
	closep(&lab->server);
	buf_free(&lab->in);
	buf_free(&lab->heard);
	buf_free(&lab->events);
	for (size_t i = 0; i < LAB_STREAMS; i++)
		buf_free(&lab->streams[i].data);
}

/* ---- what the gate says ---- */

void
lab_send(struct lab *lab, uint32_t id, uint32_t type, const void *data, size_t len)
{
	uint32_t field[3] = { htole32(id), htole32(type), htole32((uint32_t)len) };

	CHECK(send(lab->gate, field, sizeof(field), MSG_NOSIGNAL) == sizeof(field));
	CHECK(len == 0 || send(lab->gate, data, len, MSG_NOSIGNAL) == (ssize_t)len);
}

void
lab_send_end(struct lab *lab, uint32_t id)
{
	lab_send(lab, id, EGRESS_END, "\0\0\0\0", 4);
}

void
lab_give_credit(struct lab *lab, uint32_t id, uint32_t bytes)
{
	bytes = htole32(bytes);
	lab_send(lab, id, MUX_CREDIT, &bytes, sizeof(bytes));
}

void
lab_ask_for(struct lab *lab, uint32_t id, const char *method, const char *host,
            const char *connection, uint64_t length)
{
	OWN(buf_free) struct buf frame;
	static struct http_head head;

	head = (struct http_head){ .method = { method, strlen(method) },
	                           .host = { host, strlen(host) }, .path = { "/x?y", 4 },
	                           .port = lab->port, .length = length };
	buf_init(&frame, MUX_FRAME_MAX);
	buf_put_str(&frame, connection);
	buf_put_str(&frame, "");
	buf_put_u32(&frame, lab->port);
	buf_put_u32(&frame, EGRESS_TRANSPARENT);
	buf_put_u32(&frame, 11);
	buf_put_u32(&frame, length != 0 ? EGRESS_HAS_BODY : 0);
	http_head_encode(&frame, &head);
	lab_send(lab, id, EGRESS_REQUEST, frame.data, frame.len);
}

void
lab_ask(struct lab *lab, uint32_t id, const char *method, uint64_t length)
{
	lab_ask_for(lab, id, method, LAB_HOST, LAB_HOST, length);
}

void
lab_route(struct lab *lab, uint32_t id, enum egress_looks looks, const char *sni)
{
	OWN(buf_free) struct buf frame;

	buf_init(&frame, MUX_FRAME_MAX);
	buf_put_u32(&frame, EGRESS_TRANSPARENT);
	buf_put_str(&frame, LAB_HOST);
	buf_put_str(&frame, "");
	buf_put_u32(&frame, lab->port);
	buf_put_u32(&frame, looks);
	buf_put_str(&frame, sni);
	lab_send(lab, id, EGRESS_ROUTE, frame.data, frame.len);
}

/* ---- the server ---- */

void
lab_answer(struct lab *lab, const char *text)
{
	CHECK(lab->server >= 0);
	CHECK(send(lab->server, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

void
lab_hang_up(struct lab *lab)
{
	close(lab->server);
	lab->server = -1;
}

static bool
has(const struct buf *b, const char *text)
{
	return b->len > 0 && memmem(b->data, b->len, text, strlen(text)) != NULL;
}

bool
lab_heard(const struct lab *lab, const char *text)
{
	return has(&lab->heard, text);
}

bool
lab_recorded(const struct lab *lab, const char *text)
{
	return has(&lab->events, text);
}

const char *
lab_data(struct lab *lab, uint32_t id)
{
	struct buf *b = &lab->streams[id].data;

	buf_put(b, "", 1);
	b->len--;
	return (const char *)b->data;
}
