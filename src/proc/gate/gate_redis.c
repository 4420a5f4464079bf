/* gate_redis.c - follows the commands of a Redis client, to recognise logins. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proc/gate/gate.h"
#include "wire/redis.h"

#define IN_MAX (16 * 1024)
#define OUT_MAX (256 * 1024)
#define READS_MAX 8                     /* in a row */

struct gate_redis {
	struct gate_conn *gc;
	struct gate_stream *stream;
	struct redis_reader reader;
	struct buf out;                 /* waits for credit */
	size_t at, len;                 /* of IN, not parsed yet */
	bool ended;                     /* the agent sends no more */
	bool has_login;                 /* LOGIN goes after the bytes in OUT */
	bool logs_in;                   /* the courier has not answered it yet */
	struct redis_login login;       /* its texts belong to the reader */
	unsigned char in[IN_MAX];
};

struct gate_redis *
gate_redis_new(struct gate_conn *gc, struct gate_stream *stream)
{
	struct gate_redis *rd = malloc(sizeof(*rd));

	if (rd == NULL)
		return NULL;
	memset(rd, 0, offsetof(struct gate_redis, in));
	rd->gc = gc;
	rd->stream = stream;
	redis_reader_init(&rd->reader);
	buf_init(&rd->out, OUT_MAX);
	return rd;
}

void
gate_redis_free(struct gate_redis *rd)
{
	if (rd == NULL)
		return;
	redis_reader_free(&rd->reader);
	buf_free(&rd->out);
	free(rd);
}

bool
gate_redis_logged(struct gate_redis *rd)
{
	bool asked = rd->logs_in;

	rd->logs_in = false;
	return asked;
}

/* True: all of OUT was sent. */
static bool
redis_flush(struct gate_redis *rd)
{
	size_t left = buf_left(&rd->out);

	if (left > 0)
		rd->out.pos += mux_send_data(rd->stream->mux, rd->out.data + rd->out.pos, left);
	if (buf_left(&rd->out) > 0)
		return false;
	buf_reset(&rd->out);
	return true;
}

static void
redis_log_in(struct gate_redis *rd)
{
	struct gate *g = rd->gc->gate;

	if (!rd->has_login)
		return;
	rd->has_login = false;
	rd->logs_in = true;
	buf_reset(&g->frame);
	redis_login_encode(&g->frame, &rd->login);
	mux_send(g->mux, rd->stream->mux->id, EGRESS_LOGIN, &g->frame);
}

static int
redis_look(struct gate_redis *rd)
{
	struct redis_text piece;
	struct err err = {0};
	size_t used;
	int r = redis_read(&rd->reader, rd->in + rd->at, rd->len - rd->at, &used, &piece, &rd->login,
	                   &err);

	if (r < 0) {
		gate_note(rd->gc->gate, rd->gc, EGRESS_NOTE_TCP, 0, err.text);
		return r;
	}
	rd->at += used;
	rd->has_login = r == REDIS_LOGIN;
	if (r == REDIS_PASS)
		buf_put(&rd->out, piece.at, piece.len);
	return buf_failed(&rd->out) ? -ENOBUFS : 0;
}

/* Parse as much of IN as there is room for. */
static int
redis_look_on(struct gate_redis *rd)
{
	int r = 0;

	while (r == 0 && rd->at < rd->len && !rd->has_login && buf_left(&rd->out) < OUT_MAX / 4)
		r = redis_look(rd);
	return r;
}

int
gate_redis_pump(struct gate_redis *rd)
{
	struct conn *conn = &rd->gc->conn;
	int r, reads = 0;
	ssize_t n;

	for (;;) {
		if (rd->logs_in || mux_is_full(rd->gc->gate->mux) || !redis_flush(rd)) {
			conn_pause_reading(conn);
			return 0;
		}
		redis_log_in(rd);
		r = rd->logs_in ? 0 : redis_look_on(rd);
		if (r < 0)
			return r;
		if (rd->logs_in || rd->has_login || rd->at < rd->len || buf_left(&rd->out) > 0)
			continue;
		if (rd->ended)
			return 1;
		/* Other connections get their turn.  No byte that was read waits here: the agent
		 * may send no more before it gets a response. */
		if (reads++ == READS_MAX)
			return 0;
		n = conn_read(conn, rd->in, IN_MAX);
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		rd->ended = n == 0;
		rd->at = 0;
		rd->len = (size_t)n;
	}
}
