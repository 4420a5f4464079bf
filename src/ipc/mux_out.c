/* mux_out.c - sends frames of a mux: collects them and writes them when the round is over. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/mux_parts.h"

void
mux_fail(struct mux *mux, int error)
{
	if (mux->over)
		return;
	mux->over = mux->telling_end = true;
	mux->error = error;
	loop_at_round_end(mux->loop, &mux->round);
}

void
mux_touch(struct mux *mux)
{
	mux->used = true;
	if (mux->idle.at_ms == 0)
		loop_set_timer(mux->loop, &mux->idle, MUX_IDLE_MS);
}

/* Make room for MORE bytes behind the pending ones; NULL: failed, and the channel ends. */
static unsigned char *
mux_room(struct mux *mux, size_t more)
{
	size_t pending = mux_pending(mux), cap = mux->out_cap > 0 ? mux->out_cap : MUX_OUT_MIN;
	unsigned char *out;

	if (mux->over || mux->cannot_write)
		return NULL;
	if (mux->out_len + more <= mux->out_cap)
		return mux->out + mux->out_len;
	if (pending + more > MUX_OUT_MAX) {
		mux_fail(mux, -ENOBUFS);
		return NULL;
	}
	/* Moving is cheap while fewer bytes move than were written. */
	if (pending + more > mux->out_cap || pending > mux->out_at) {
		while (cap < pending + more || cap < 2 * pending)
			cap *= 2;
		out = malloc(cap);
		if (out == NULL) {
			mux_fail(mux, -ENOMEM);
			return NULL;
		}
		if (pending > 0)
			memcpy(out, mux->out + mux->out_at, pending);
		free(mux->out);
		mux->out = out;
		mux->out_cap = cap;
	} else if (pending > 0) {
		memmove(mux->out, mux->out + mux->out_at, pending);
	}
	mux->out_at = 0;
	mux->out_len = pending;
	mux_touch(mux);
	return mux->out + mux->out_len;
}

static size_t
may_write(const struct mux *mux)
{
	const size_t pending = mux_pending(mux);

	return mux->held && mux->passes < pending ? mux->passes : pending;
}

void
mux_write(struct mux *mux)
{
	ssize_t n;

	while (may_write(mux) > 0 && !mux->cannot_write && !mux->over) {
		n = mux->is_device ? write(mux->source.fd, mux->out + mux->out_at, may_write(mux))
		                   : send(mux->source.fd, mux->out + mux->out_at, may_write(mux),
		                          MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			mux->out_at += (size_t)n;
			mux->passes -= mux->held ? (size_t)n : 0;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			if (!mux->blocked)
				(void)loop_watch(mux->loop, &mux->source, EPOLLIN | EPOLLOUT, NULL);
			mux->blocked = true;
			return;
		}
		/* Read the peer's last messages first; the end comes behind them. */
		mux->cannot_write = true;
	}
	if (!mux->held || mux->cannot_write || mux->over || mux_pending(mux) == 0)
		mux->out_at = mux->out_len = 0;
	if (mux->blocked && !mux->over)
		(void)loop_watch(mux->loop, &mux->source, EPOLLIN, NULL);
	mux->blocked = false;
}

void
mux_flush(struct mux *mux)
{
	if (!mux->blocked)
		mux_write(mux);
}

void
mux_finish(struct mux *mux)
{
	struct pollfd peer = { .fd = mux->source.fd, .events = POLLOUT };

	for (mux_write(mux); mux_pending(mux) > 0; mux_write(mux))
		(void)poll(&peer, 1, -1);
}

void
mux_hold(struct mux *mux)
{
	mux->held = true;
	mux->passes = mux_pending(mux);
	mux_flush(mux);
}

void
mux_release(struct mux *mux)
{
	mux->held = false;
	mux_flush(mux);
}

static void
put_u32(unsigned char *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

/* LEN bytes behind a header are in place at mux_room(): make them a frame. */
static void
mux_append(struct mux *mux, uint32_t id, uint32_t type, size_t len)
{
	unsigned char *header = mux->out + mux->out_len;

	put_u32(header, id);
	put_u32(header + 4, type);
	put_u32(header + 8, (uint32_t)len);
	mux->out_len += MUX_HEADER + len;
	loop_at_round_end(mux->loop, &mux->round);
	if (mux_pending(mux) >= MUX_OUT_FULL)
		mux->was_full = true;
}

void
mux_send(struct mux *mux, uint32_t id, uint32_t type, const struct buf *body)
{
	size_t len = body == NULL ? 0 : body->len;
	unsigned char *room;

	assert(type >= MUX_TYPES && len <= MUX_FRAME_MAX && (body == NULL || !buf_failed(body)));
	assert(mux->reserved == 0);
	room = mux_room(mux, MUX_HEADER + len);
	if (room == NULL)
		return;
	if (len > 0)
		memcpy(room + MUX_HEADER, body->data, len);
	mux_append(mux, id, type, len);
}

unsigned char *
mux_reserve(struct mux_stream *stream, size_t *ret_room)
{
	struct mux *mux = stream->mux;
	size_t len = stream->may_send < MUX_FRAME_MAX ? stream->may_send : MUX_FRAME_MAX;
	unsigned char *room;

	assert(mux->reserved == 0);
	if (len == 0 || mux_is_full(mux))
		return NULL;
	room = mux_room(mux, MUX_HEADER + len);
	if (room == NULL)
		return NULL;
	*ret_room = mux->reserved = len;
	return room + MUX_HEADER;
}

void
mux_commit(struct mux_stream *stream, size_t len)
{
	struct mux *mux = stream->mux;

	assert(mux->reserved > 0 && len <= mux->reserved);
	mux->reserved = 0;
	if (len == 0)
		return;
	stream->may_send -= (uint32_t)len;
	mux_append(mux, stream->id, MUX_DATA, len);
	if (mux_pending(mux) >= MUX_FLUSH_AT)
		mux_flush(mux);
}

size_t
mux_send_data(struct mux_stream *stream, const void *data, size_t len)
{
	const unsigned char *from = data;
	unsigned char *room;
	size_t taken = 0, n;

	while (taken < len && (room = mux_reserve(stream, &n)) != NULL) {
		if (n > len - taken)
			n = len - taken;
		memcpy(room, from + taken, n);
		mux_commit(stream, n);
		taken += n;
	}
	return taken;
}

void
mux_consumed(struct mux_stream *stream, size_t len)
{
	struct mux *mux = stream->mux;
	unsigned char *room;

	assert(len <= MUX_WINDOW - stream->may_receive - stream->unreturned);
	assert(mux->reserved == 0);
	stream->unreturned += (uint32_t)len;
	if (stream->unreturned < MUX_WINDOW / 4)
		return;
	room = mux_room(mux, MUX_HEADER + 4);
	if (room == NULL)
		return;
	put_u32(room + MUX_HEADER, stream->unreturned);
	mux_append(mux, stream->id, MUX_CREDIT, 4);
	stream->may_receive += stream->unreturned;
	stream->unreturned = 0;
}

bool
mux_is_flushed(const struct mux *mux)
{
	return mux_pending(mux) == 0;
}

bool
mux_is_full(const struct mux *mux)
{
	return mux_pending(mux) >= MUX_OUT_FULL;
}
