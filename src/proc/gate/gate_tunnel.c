/* gate_tunnel.c - passes raw bytes: TCP that a rule allows, TLS that is passed through, and
 * connections after an upgrade.  Each side may end before the other. */
#include <errno.h>
#include <stdlib.h>

#include "proc/gate/gate.h"

struct gate_tunnel {
	struct gate_conn *gc;
	struct gate_stream stream;
	struct gate_redis *redis;       /* parses the agent's bytes; NULL: not Redis */
	size_t unreturned;              /* bytes received and not yet written */
	bool ended_in, ended_out;       /* of the agent's bytes; of the courier's bytes */
};

static void
tunnel_check_end(struct gate_tunnel *t)
{
	if (!t->ended_in || !t->ended_out)
		return;
	gate_stream_forget(&t->stream);
	gate_conn_finish(t->gc);
}

static void
tunnel_ended(struct gate_conn *gc)
{
	struct gate_tunnel *t = gc->state;

	gate_stream_reset(&t->stream, EGRESS_RESET_CANCEL);
	gate_redis_free(t->redis);
	gc->state = NULL;
	free(t);
}

/* ---- the agent's bytes ---- */

static void
tunnel_end_in(struct gate_tunnel *t)
{
	struct gate_conn *gc = t->gc;

	t->ended_in = gc->has_ended = true;
	conn_pause_reading(&gc->conn);
	gate_stream_end(gc->gate, &t->stream, NULL, 0);
	tunnel_check_end(t);
}

static void
tunnel_pump(struct gate_tunnel *t)
{
	int r = t->ended_in ? 0 : gate_redis_pump(t->redis);

	if (r < 0)
		gate_conn_drop(t->gc, true);
	else if (r > 0)
		tunnel_end_in(t);
}

static void
tunnel_readable(struct gate_conn *gc)
{
	struct gate_tunnel *t = gc->state;
	unsigned char *room;
	size_t size;
	ssize_t n;

	if (t->redis != NULL) {
		tunnel_pump(t);
		return;
	}
	/* Only a few times, so that other tunnels get their turn. */
	for (int i = 0; i < 4; i++) {
		room = mux_is_full(gc->gate->mux) || t->ended_in ? NULL :
			mux_reserve(t->stream.mux, &size);
		if (room == NULL) {
			conn_pause_reading(&gc->conn);
			return;
		}
		n = conn_read(&gc->conn, room, size);
		mux_commit(t->stream.mux, n > 0 ? (size_t)n : 0);
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			gate_conn_drop(gc, true);
			return;
		}
		if (n == 0) {
			tunnel_end_in(t);
			return;
		}
	}
}

static void
tunnel_stream_writable(void *owner)
{
	struct gate_tunnel *t = owner;

	if (t->ended_in)
		return;
	conn_resume_reading(&t->gc->conn);
	if (t->redis != NULL)
		tunnel_pump(t);
}

/* ---- the courier's bytes ---- */

static void
tunnel_return(struct gate_tunnel *t)
{
	if (t->unreturned == 0 || t->stream.mux == NULL || conn_is_full(&t->gc->conn))
		return;
	mux_consumed(t->stream.mux, t->unreturned);
	t->unreturned = 0;
}

static void
tunnel_writable(struct gate_conn *gc)
{
	tunnel_return(gc->state);
}

static void
tunnel_data(void *owner, const unsigned char *data, size_t len)
{
	struct gate_tunnel *t = owner;

	t->unreturned += len;
	if (gate_conn_write(t->gc, data, len))
		tunnel_return(t);
}

static int
tunnel_frame(void *owner, uint32_t type, struct buf *body)
{
	struct gate_tunnel *t = owner;

	(void)body;                     /* there are no trailers */
	if (type == EGRESS_RESET) {
		gate_stream_forget(&t->stream);
		gate_conn_drop(t->gc, true);
		return 0;
	}
	if (type == EGRESS_LOGGED && t->redis != NULL) {
		if (!gate_redis_logged(t->redis))
			return -EBADMSG;
		tunnel_stream_writable(t);
		return 0;
	}
	if (type != EGRESS_END || t->ended_out)
		return -EBADMSG;
	t->ended_out = true;
	conn_shut(&t->gc->conn);
	/* A pending login will get no response. */
	if (t->redis != NULL && !t->ended_in && gate_redis_logged(t->redis))
		tunnel_end_in(t);
	else
		tunnel_check_end(t);
	return 0;
}

static const struct gate_stream_handler tunnel_handler = {
	.frame = tunnel_frame, .data = tunnel_data, .writable = tunnel_stream_writable,
};
static const struct gate_protocol tunnel = {
	.readable = tunnel_readable, .writable = tunnel_writable, .ended = tunnel_ended,
};

static struct gate_tunnel *
tunnel_new(struct gate_conn *gc, struct gate_stream *stream)
{
	struct gate_tunnel *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		gate_conn_drop(gc, true);
		return NULL;
	}
	t->gc = gc;
	t->stream = (struct gate_stream){ .mux = stream->mux, .handler = &tunnel_handler, .owner = t };
	t->stream.mux->arg = &t->stream;
	stream->mux = NULL;
	gate_conn_use(gc, &tunnel, t);
	gate_conn_set_late(gc, 0);
	gate_conn_set_idle(gc, false);
	return t;
}

void
gate_tunnel_start_redis(struct gate_conn *gc, struct gate_stream *stream)
{
	struct gate_tunnel *t = tunnel_new(gc, stream);

	if (t == NULL)
		return;
	t->redis = gate_redis_new(gc, &t->stream);
	if (t->redis == NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	conn_resume_reading(&gc->conn);
	tunnel_pump(t);
}

void
gate_tunnel_start(struct gate_conn *gc, struct gate_stream *stream, const void *data,
                  size_t len)
{
	struct gate_tunnel *t = tunnel_new(gc, stream);

	if (t == NULL)
		return;
	if (len > 0 && mux_send_data(t->stream.mux, data, len) != len) {
		gate_conn_drop(gc, true);
		return;
	}
	conn_resume_reading(&gc->conn);
}
