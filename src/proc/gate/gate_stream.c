/* gate_stream.c - the channel to the courier: passes each stream's frames to its owner. */
#include <errno.h>

#include "proc/gate/gate.h"

bool
gate_stream_open(struct gate *g, struct gate_stream *s,
                 const struct gate_stream_handler *handler, void *owner)
{
	s->handler = handler;
	s->owner = owner;
	s->is_shut = false;
	s->mux = mux_open(g->mux, s);
	return s->mux != NULL;
}

void
gate_stream_forget(struct gate_stream *s)
{
	if (s->mux != NULL)
		mux_close(s->mux);
	s->mux = NULL;
}

void
gate_stream_reset(struct gate_stream *s, enum egress_reset why)
{
	unsigned char code[4] = { (unsigned char)why };
	struct buf body;

	if (s->mux == NULL)
		return;
	buf_init_borrowed(&body, code, sizeof(code));
	mux_send(s->mux->mux, s->mux->id, EGRESS_RESET, &body);
	gate_stream_forget(s);
}

void
gate_stream_end(struct gate *g, struct gate_stream *s, const struct http_field *trailers,
                size_t n)
{
	buf_reset(&g->frame);
	http_fields_encode(&g->frame, trailers, n);
	mux_send(g->mux, s->mux->id, EGRESS_END, &g->frame);
}

void
gate_stream_shut(struct gate_stream *s)
{
	if (s->mux == NULL || s->is_shut)
		return;
	s->is_shut = true;
	mux_send(s->mux->mux, s->mux->id, EGRESS_SHUT, NULL);
}

/* ---- callbacks of the mux ---- */

static int
stream_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
             struct buf *body)
{
	struct gate_stream *s;

	(void)arg;
	(void)id;
	if (stream == NULL)             /* the courier's frame crossed with our reset */
		return 0;
	s = stream->arg;
	return s->handler->frame(s->owner, type, body);
}

static int
stream_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct gate_stream *s = stream->arg;

	(void)arg;
	if (s->handler->data == NULL)
		return -EBADMSG;
	s->handler->data(s->owner, data, len);
	return 0;
}

static void
stream_writable(void *arg, struct mux_stream *stream)
{
	struct gate_stream *s = stream->arg;

	(void)arg;
	if (s->handler->writable != NULL)
		s->handler->writable(s->owner);
}

/* Gate and courier end together. */
static void
stream_ended(void *arg, int error)
{
	struct gate *g = arg;

	(void)error;
	loop_quit(g->loop);
}

const struct mux_handler gate_mux_handler = {
	.frame = stream_frame, .data = stream_data,
	.writable = stream_writable, .ended = stream_ended,
};
