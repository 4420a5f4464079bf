/* hook_serve.c - takes a courier's questions, and sends it the answers. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/hook/hook.h"

static_assert(POLICY_HOOK_ANSWER_MAX + 16 <= MUX_FRAME_MAX, "an answer fits a frame");

struct asked {
	struct hook_courier *courier;
	struct mux_stream *stream;
	struct hook_question *question;
	struct asked *next;
};

struct hook_courier {
	struct hook_server *server;
	int fd;
	struct mux *mux;
	struct asked *asked;
	struct hook_courier *next;
};

static void
send_answer(struct hook_courier *c, uint32_t id, enum hook_result result, const char *text)
{
	OWN(buf_free) struct buf answer = BUF(MUX_FRAME_MAX);

	buf_put_u32(&answer, result);
	buf_put_str(&answer, text);
	/* Without memory the courier gets no answer, and the request does not leave. */
	if (!buf_failed(&answer))
		mux_send(c->mux, id, HOOK_ANSWER, &answer);
}

static void
asked_free(struct asked *a)
{
	struct asked **at = &a->courier->asked;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	mux_close(a->stream);
	free(a);
}

static void
answered(void *arg, enum hook_result result, const char *text)
{
	struct asked *a = arg;

	send_answer(a->courier, a->stream->id, result, text);
	asked_free(a);
}

static void
asked_drop(struct asked *a)
{
	hook_question_drop(a->question);
	asked_free(a);
}

static int
take_question(struct hook_courier *c, uint32_t id, struct buf *body)
{
	OWN(freep) struct asked *a = calloc(1, sizeof(*a));
	uint64_t timeout_ms;
	struct err err = {0};

	if (buf_get_u64(body, &timeout_ms) < 0 || timeout_ms == 0 || timeout_ms > HOOK_TIMEOUT_MAX_MS ||
	    id == 0)
		return -EBADMSG;
	if (a == NULL) {
		send_answer(c, id, HOOK_FAILED, "out of memory");
		return 0;
	}
	if (hook_question_new(c->server->pool, body->data + body->pos, buf_left(body), timeout_ms,
	                      answered, a, &a->question, &err) < 0) {
		send_answer(c, id, HOOK_FAILED, err.text);
		return 0;
	}
	a->courier = c;
	a->stream = mux_open_as(c->mux, id, a);
	if (a->stream == NULL) {
		hook_question_drop(a->question);
		return -EBADMSG;
	}
	a->next = c->asked;
	c->asked = TAKE(a);
	return 0;
}

static int
take_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct asked *a = stream != NULL ? stream->arg : NULL;

	switch (type) {
	case HOOK_ASK:
		return a == NULL ? take_question(arg, id, body) : -EBADMSG;
	case HOOK_END:
		return a != NULL ? hook_question_end(a->question) : 0;
	case HOOK_DROP:
		if (a != NULL)
			asked_drop(a);
		return 0;
	default:
		return -EBADMSG;
	}
}

/* The stream may be gone after the bytes are added. */
static int
take_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct asked *a = stream->arg;

	(void)arg;
	mux_consumed(stream, len);
	return hook_question_add(a->question, data, len);
}

static void
is_writable(void *arg, struct mux_stream *stream)
{
	(void)arg, (void)stream;
}

static void
courier_free(struct hook_courier *c)
{
	struct hook_courier **at = &c->server->couriers;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->server->n_couriers--;
	while (c->asked != NULL)
		asked_drop(c->asked);
	mux_free(c->mux);
	close(c->fd);
	free(c);
}

static void
courier_is_gone(void *arg, int error)
{
	(void)error;
	courier_free(arg);
}

int
hook_serve(struct hook_server *server, int fd, struct err *err)
{
	static const struct mux_handler handler = {
		.frame = take_frame, .data = take_data, .writable = is_writable,
		.ended = courier_is_gone,
	};
	OWN(closep) int taken = fd;
	OWN(freep) struct hook_courier *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL || server->n_couriers >= HOOK_COURIERS_MAX)
		return err_set(err, EBUSY, "cloister-hook has %d couriers already", HOOK_COURIERS_MAX);
	*c = (struct hook_courier){ .server = server, .fd = fd, .next = server->couriers };
	r = mux_new(server->loop, fd, &handler, c, &c->mux, err);
	if (r < 0)
		return r;
	(void)TAKE_FD(taken);
	server->n_couriers++;
	server->couriers = TAKE(c);
	return 0;
}

void
hook_serve_end(struct hook_server *server)
{
	while (server->couriers != NULL)
		courier_free(server->couriers);
}
