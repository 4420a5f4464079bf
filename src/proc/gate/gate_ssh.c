/* gate_ssh.c - an SSH agent without keys: passes clients' requests to the courier, which has the
 * keys and decides.
 *
 * A client gets one response after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/gate/gate.h"
#include "ssh/ssh_agent.h"

#define LENGTH 4                        /* before each message */

struct gate_ssh {
	struct gate_conn *gc;
	struct gate_stream stream;      /* the pending request to the courier */
	uint32_t awaits;                /* the type of its response */
	struct ssh_bind bind;           /* the client's session as it described it, in BOUND */
	char *bound;                    /* NULL: none */
	bool forwarded;                 /* the client is on another machine */
	size_t len;                     /* of DATA */
	unsigned char data[LENGTH + SSH_AGENT_MESSAGE_MAX];
};

/* ---- responses ---- */

static void
answer(struct gate_ssh *s, enum ssh_agent_answer type, const void *body, size_t len)
{
	struct buf *text = &s->gc->gate->text;

	buf_reset(text);
	ssh_put_u32(text, (uint32_t)(1 + len));
	ssh_put_u8(text, (uint8_t)type);
	buf_put(text, body, len);
	gate_conn_write(s->gc, text->data, text->len);
}

static void
fail(struct gate_ssh *s)
{
	answer(s, SSH_AGENT_FAILURE, NULL, 0);
}

static int
ssh_frame(void *owner, uint32_t type, struct buf *body)
{
	static const unsigned char empty[4];
	struct gate_ssh *s = owner;

	if (type != s->awaits)
		return -EBADMSG;
	gate_stream_forget(&s->stream);
	/* Its fields are those of the SSH response. */
	if (type == EGRESS_SSH_KEYS)
		answer(s, SSH_AGENT_IDENTITIES, body->data, body->len);
	else if (body->len <= sizeof(empty))
		fail(s);
	else
		answer(s, SSH_AGENT_SIGNATURE, body->data, body->len);
	if (!s->gc->is_dead)
		conn_resume_reading(&s->gc->conn);
	return 0;
}

static const struct gate_stream_handler ssh_handler = { .frame = ssh_frame };

/* ---- requests ---- */

/* Send the request in the gate's frame. */
static void
ask(struct gate_ssh *s, uint32_t type, uint32_t awaits)
{
	struct gate *g = s->gc->gate;

	if (buf_failed(&g->frame) || !gate_stream_open(g, &s->stream, &ssh_handler, s)) {
		fail(s);
		return;
	}
	s->awaits = awaits;
	mux_send(g->mux, s->stream.mux->id, type, &g->frame);
}

static void
ask_list(struct gate_ssh *s)
{
	if (s->forwarded) {
		answer(s, SSH_AGENT_IDENTITIES, (unsigned char[4]){0}, 4);
		return;
	}
	buf_reset(&s->gc->gate->frame);
	ask(s, EGRESS_SSH_LIST, EGRESS_SSH_KEYS);
}

static void
ask_login(struct gate_ssh *s, const struct ssh_request *r)
{
	struct buf *frame = &s->gc->gate->frame;

	/* Both come from the client, and the courier gets only one of them. */
	if (r->host_key.at != NULL && s->bound != NULL &&
	    (r->host_key.len != s->bind.host_key.len ||
	     memcmp(r->host_key.at, s->bind.host_key.at, r->host_key.len) != 0)) {
		gate_note(s->gc->gate, NULL, EGRESS_NOTE_SSH, 0, "the login is for another host than the "
		          "session");
		fail(s);
		return;
	}
	buf_reset(frame);
	ssh_put_u32(frame, EGRESS_SSH_LOGIN);
	ssh_put_string(frame, r->key);
	ssh_put_str(frame, r->algorithm);
	ssh_put_string(frame, r->session);
	ssh_put_str(frame, r->user);
	ssh_put_u8(frame, r->host_key.at != NULL);
	ssh_put_string(frame, s->bind.session);
	ssh_put_string(frame, s->bind.host_key);
	ssh_put_string(frame, s->bind.signature);
	ssh_put_u8(frame, s->forwarded);
	ask(s, EGRESS_SSH_SIGN, EGRESS_SSH_SIGNED);
}

static void
ask_text(struct gate_ssh *s, const struct ssh_request *r)
{
	struct buf *frame = &s->gc->gate->frame;

	buf_reset(frame);
	ssh_put_u32(frame, EGRESS_SSH_TEXT);
	ssh_put_string(frame, r->key);
	ssh_put_str(frame, r->algorithm);
	ssh_put_str(frame, r->space);
	ssh_put_str(frame, r->hash);
	ssh_put_string(frame, r->digest);
	ask(s, EGRESS_SSH_SIGN, EGRESS_SSH_SIGNED);
}

/* A client speaks for one session.  A forwarded agent's session belongs to someone else, who may
 * bind further sessions after it.  None of these is the cell's. */
static bool
take_bind(struct gate_ssh *s, const struct ssh_bind *bind)
{
	const struct http_text from[] = { bind->session, bind->host_key, bind->signature };
	struct http_text *const to[] = { &s->bind.session, &s->bind.host_key, &s->bind.signature };
	char *at;

	if (s->bound != NULL)
		return bind->session.len == s->bind.session.len &&
		       memcmp(bind->session.at, s->bind.session.at, bind->session.len) == 0;
	at = malloc(bind->session.len + bind->host_key.len + bind->signature.len);
	if (at == NULL)
		return false;
	s->bound = at;
	s->forwarded = bind->forwarding;
	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		memcpy(at, from[i].at, from[i].len);
		*to[i] = (struct http_text){ at, from[i].len };
		at += from[i].len;
	}
	return true;
}

static void
take_message(struct gate_ssh *s, struct http_text message)
{
	struct ssh_request r;
	const char *why;

	if (ssh_request_read(message, &r, &why) < 0) {
		gate_note(s->gc->gate, NULL, EGRESS_NOTE_SSH, 0, why);
		fail(s);
		return;
	}
	switch (r.asks) {
	case SSH_ASKS_LIST:
		ask_list(s);
		break;
	case SSH_ASKS_LOGIN:
		ask_login(s, &r);
		break;
	case SSH_ASKS_TEXT:
		ask_text(s, &r);
		break;
	case SSH_ASKS_BIND:
		answer(s, take_bind(s, &r.bind) ? SSH_AGENT_SUCCESS : SSH_AGENT_FAILURE, NULL, 0);
		break;
	case SSH_ASKS_OTHER:
		fail(s);
		break;
	}
}

/* ---- the connection ---- */

static void
ssh_ended(struct gate_conn *gc)
{
	struct gate_ssh *s = gc->state;

	/* The courier still answers, and the response is dropped. */
	gate_stream_forget(&s->stream);
	gc->state = NULL;
	free(s->bound);
	free(s);
}

static bool
ssh_read(struct gate_ssh *s, size_t need)
{
	ssize_t n = conn_read(&s->gc->conn, s->data + s->len, need - s->len);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		gate_conn_drop(s->gc, n < 0);
		return false;
	}
	s->len += (size_t)n;
	return true;
}

static void
ssh_readable(struct gate_conn *gc)
{
	struct gate_ssh *s = gc->state;
	uint32_t size = 0;

	while (!gc->is_dead && s->stream.mux == NULL) {
		struct http_text head = { (char *)s->data, LENGTH };

		if (s->len < LENGTH) {
			if (!ssh_read(s, LENGTH))
				return;
			continue;
		}
		(void)ssh_get_u32(&head, &size);
		if (size == 0 || size > SSH_AGENT_MESSAGE_MAX) {
			gate_note(gc->gate, NULL, EGRESS_NOTE_SSH, 0, "a message to the SSH agent is empty, or "
			          "larger than any that it answers");
			gate_conn_drop(gc, true);
			return;
		}
		if (s->len < LENGTH + size) {
			if (!ssh_read(s, LENGTH + size))
				return;
			continue;
		}
		if (mux_is_full(gc->gate->mux)) {
			gate_conn_wait_for_mux(gc);
			return;
		}
		s->len = 0;
		take_message(s, (struct http_text){ (char *)s->data + LENGTH, size });
	}
	if (!gc->is_dead)
		conn_pause_reading(&gc->conn);
}

static const struct gate_protocol ssh = { .readable = ssh_readable, .ended = ssh_ended };

void
gate_ssh_start(struct gate_conn *gc)
{
	struct gate_ssh *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	s->gc = gc;
	s->bind = (struct ssh_bind){ .host_key = { "", 0 }, .session = { "", 0 },
	                             .signature = { "", 0 } };
	gate_conn_use(gc, &ssh, s);
	/* Clients may keep it open.  When there are too many, these connections are dropped first. */
	gate_conn_set_idle(gc, true);
	conn_resume_reading(&gc->conn);
}
