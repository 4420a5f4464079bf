/* mux.c - see mux.h. */
#include "ipc/mux.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/mux_parts.h"

/* ---- streams ---- */

static struct mux_stream **
mux_place(struct mux *mux, uint32_t id)
{
	struct mux_stream **at = &mux->streams[id % MUX_BUCKETS];

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

struct mux_stream *
mux_open_as(struct mux *mux, uint32_t id, void *arg)
{
	struct mux_stream **at = mux_place(mux, id), *stream;

	assert(*at == NULL);
	if (id == 0 || mux->n_streams >= MUX_STREAMS_MAX)
		return NULL;
	stream = malloc(sizeof(*stream));
	if (stream == NULL)
		return NULL;
	*stream = (struct mux_stream){ .mux = mux, .id = id, .arg = arg,
	                               .may_send = MUX_WINDOW, .may_receive = MUX_WINDOW };
	*at = stream;
	mux->n_streams++;
	return stream;
}

struct mux_stream *
mux_open(struct mux *mux, void *arg)
{
	do
		mux->last_id++;
	while (mux->last_id == 0 || *mux_place(mux, mux->last_id) != NULL);
	return mux_open_as(mux, mux->last_id, arg);
}

void
mux_close(struct mux_stream *stream)
{
	struct mux *mux = stream->mux;
	struct mux_stream **at = mux_place(mux, stream->id);

	assert(*at == stream);
	*at = stream->next;
	mux->n_streams--;
	free(stream);
}

/* ---- receiving ---- */

static uint32_t
get_u32(const unsigned char *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

/* The stream may have been closed since the frame began. */
static int
mux_take_data(struct mux *mux, const unsigned char *data, size_t len)
{
	struct mux_stream *stream = *mux_place(mux, mux->data_id);

	mux->data_left -= (uint32_t)len;
	return stream == NULL ? 0 : mux->handler->data(mux->arg, stream, data, len);
}

static int
mux_begin_data(struct mux *mux, uint32_t id, uint32_t len)
{
	struct mux_stream *stream = *mux_place(mux, id);

	if (len == 0 || (stream != NULL && len > stream->may_receive))
		return -EBADMSG;
	if (stream != NULL)
		stream->may_receive -= len;
	/* Bytes for a stream that is opened only after their frame began are for nobody: no stream is 0. */
	mux->data_id = stream == NULL ? 0 : id;
	mux->data_left = len;
	return 0;
}

static int
mux_take_credit(struct mux *mux, uint32_t id, const unsigned char *body, uint32_t len)
{
	struct mux_stream *stream = *mux_place(mux, id);
	uint32_t credit, had;

	if (len != 4)
		return -EBADMSG;
	credit = get_u32(body);
	if (credit == 0 || credit > MUX_WINDOW)
		return -EBADMSG;
	if (stream == NULL)
		return 0;
	had = stream->may_send;
	if (credit > MUX_WINDOW - had)
		return -EBADMSG;
	stream->may_send += credit;
	/* If the mux is full, all streams are called later, when it no longer is. */
	if (had == 0 && !mux->was_full)
		mux->handler->writable(mux->arg, stream);
	return 0;
}

static int
mux_take_frame(struct mux *mux, uint32_t id, uint32_t type, const unsigned char *data,
               uint32_t len)
{
	struct buf body;

	if (type == MUX_CREDIT)
		return mux_take_credit(mux, id, data, len);
	if (type < MUX_TYPES)
		return -EBADMSG;
	buf_init_borrowed(&body, data, len);
	return mux->handler->frame(mux->arg, id, *mux_place(mux, id), type, &body);
}

/* Process all complete frames, and data as far as it has arrived. */
static int
mux_take(struct mux *mux)
{
	const unsigned char *at;
	uint32_t id, type, len;
	size_t left;
	int r = 0;

	while (r >= 0 && !mux->over && (left = mux->in_len - mux->in_at) > 0) {
		at = mux->in + mux->in_at;
		if (mux->data_left > 0) {
			left = left < mux->data_left ? left : mux->data_left;
			mux->in_at += left;
			r = mux_take_data(mux, at, left);
			continue;
		}
		if (left < MUX_HEADER)
			break;
		id = get_u32(at);
		type = get_u32(at + 4);
		len = get_u32(at + 8);
		if (len > MUX_FRAME_MAX)
			return -EBADMSG;
		if (type == MUX_DATA) {
			mux->in_at += MUX_HEADER;
			r = mux_begin_data(mux, id, len);
			continue;
		}
		if (left < MUX_HEADER + len)
			break;
		mux->in_at += MUX_HEADER + len;
		r = mux_take_frame(mux, id, type, at + MUX_HEADER, len);
	}
	return r;
}

/* Returns 1 when there may be more, 0 when all was read. */
static int
mux_read(struct mux *mux)
{
	size_t room;
	ssize_t n;
	int r;

	if (mux->in == NULL)
		mux->in = malloc(MUX_IN_SIZE);
	if (mux->in == NULL)
		return -ENOMEM;
	room = MUX_IN_SIZE - mux->in_len;
	n = mux->is_device ? read(mux->source.fd, mux->in + mux->in_len, room)
	                   : recv(mux->source.fd, mux->in + mux->in_len, room, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		mux_fail(mux, mux->in_len > 0 || mux->data_left > 0 ? -ECONNRESET : 0);
		return 0;
	}
	mux->in_len += (size_t)n;
	r = mux_take(mux);
	if (r < 0 || mux->over)
		return r;
	mux->in_len -= mux->in_at;
	if (mux->in_len > 0 && mux->in_at > 0)
		memmove(mux->in, mux->in + mux->in_at, mux->in_len);
	mux->in_at = 0;
	return (size_t)n == room;
}

/* ---- callbacks of the loop ---- */

static void
mux_leave(struct mux *mux)
{
	mux->busy = false;
	if (!mux->freed)
		return;
	free(mux->in);
	free(mux->out);
	free(mux);
}

/* A handler may close any stream, also its own: start again from the beginning. */
static void
mux_tell_bucket(struct mux *mux, size_t bucket)
{
	struct mux_stream *stream = mux->streams[bucket];

	while (stream != NULL && !mux->over && !mux_is_full(mux)) {
		if (stream->told == mux->telling) {
			stream = stream->next;
			continue;
		}
		stream->told = mux->telling;
		if (stream->may_send > 0)
			mux->handler->writable(mux->arg, stream);
		stream = mux->freed ? NULL : mux->streams[bucket];
	}
}

static void
mux_tell_all(struct mux *mux)
{
	size_t start;

	if (mux->over || !mux->was_full || mux_pending(mux) > MUX_OUT_FULL / 2)
		return;
	/* The streams called first fill the mux again, so the next time others come first. */
	mux->was_full = false;
	start = ++mux->telling;
	for (size_t i = 0; i < MUX_BUCKETS && !mux->over && !mux_is_full(mux); i++)
		mux_tell_bucket(mux, (start * 37 + i) % MUX_BUCKETS);
}

static void
mux_round_over(void *arg)
{
	struct mux *mux = arg;

	mux->busy = true;
	mux_flush(mux);
	mux_tell_all(mux);
	if (!mux->freed)
		mux_flush(mux);
	if (mux->telling_end) {
		mux->telling_end = false;
		loop_unwatch(mux->loop, &mux->source);
		mux->handler->ended(mux->arg, mux->error);
	}
	mux_leave(mux);
}

static void
mux_ready(void *arg, uint32_t events)
{
	struct mux *mux = arg;
	int r = 1;

	mux->busy = true;
	mux_touch(mux);
	if ((events & EPOLLOUT) != 0) {
		mux_write(mux);
		if (mux->was_full)
			loop_at_round_end(mux->loop, &mux->round);
	}
	if ((events & ~(uint32_t)EPOLLOUT) != 0)
		for (int i = 0; r > 0 && !mux->over && i < MUX_READS_MAX; i++)
			r = mux_read(mux);
	if (r < 0)
		mux_fail(mux, r);
	if (mux->over && !mux->freed)
		loop_unwatch(mux->loop, &mux->source);
	mux_leave(mux);
}

static void
mux_idle(void *arg)
{
	struct mux *mux = arg;

	if (!mux->used) {
		if (mux->in_len == 0) {
			free(mux->in);
			mux->in = NULL;
		}
		if (mux->out_len == 0 && mux->reserved == 0) {
			free(mux->out);
			mux->out = NULL;
			mux->out_cap = 0;
		}
	}
	mux->used = false;
	if (mux->in != NULL || mux->out != NULL)
		loop_set_timer(mux->loop, &mux->idle, MUX_IDLE_MS);
}

int
mux_new(struct loop *loop, int fd, const struct mux_handler *handler, void *arg,
        struct mux **ret_mux, struct err *err)
{
	OWN(freep) struct mux *mux = calloc(1, sizeof(*mux));
	int r;

	if (mux == NULL)
		return err_errno(err, "cannot make a channel");
	mux->loop = loop;
	mux->handler = handler;
	mux->arg = arg;
	mux->source = (struct loop_source){ .fd = fd, .ready = mux_ready, .arg = mux };
	loop_prepare_round(&mux->round, mux_round_over, mux);
	loop_prepare_timer(&mux->idle, mux_idle, mux);
	r = loop_watch(loop, &mux->source, EPOLLIN, err);
	if (r < 0)
		return r;
	*ret_mux = TAKE(mux);
	return 0;
}

void
mux_set_device(struct mux *mux)
{
	mux->is_device = true;
}

void
mux_free(struct mux *mux)
{
	struct mux_stream *stream;

	if (mux == NULL)
		return;
	assert(!mux->freed);
	loop_unwatch(mux->loop, &mux->source);
	loop_cancel_round(mux->loop, &mux->round);
	loop_cancel_timer(mux->loop, &mux->idle);
	for (size_t i = 0; i < MUX_BUCKETS; i++)
		while ((stream = mux->streams[i]) != NULL) {
			mux->streams[i] = stream->next;
			free(stream);
		}
	mux->over = mux->freed = true;
	mux->telling_end = false;
	if (!mux->busy)
		mux_leave(mux);
}
