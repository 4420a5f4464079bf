/* mux.c - see mux.h. */
#include "ipc/mux.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"

#define MUX_HEADER 12
#define MUX_BUCKETS 256
#define MUX_IN_SIZE (256 * 1024)
#define MUX_READS_MAX 4                 /* of MUX_IN_SIZE, before others have their turn */
#define MUX_OUT_MIN (16 * 1024)
#define MUX_FLUSH_AT (64 * 1024)        /* is written without waiting for the round's end */
#define MUX_IDLE_MS 1000                /* buffers go when nothing came or went so long */

struct mux {
	struct loop *loop;
	struct loop_source source;
	struct loop_round round;
	struct loop_timer idle;
	const struct mux_handler *handler;
	void *arg;

	unsigned char *in;              /* MUX_IN_SIZE, or NULL */
	size_t in_at, in_len;
	uint32_t data_id, data_left;    /* of the MUX_DATA frame that is being read */

	unsigned char *out;
	size_t out_at, out_len, out_cap;
	size_t reserved;                /* room that mux_reserve() gave, 0 if none */
	bool blocked;                   /* the socket takes no more for now */
	bool was_full;                  /* and nobody was told yet that it no longer is */
	bool cannot_write;

	bool used;                      /* since the idle timer looked last */
	bool over;                      /* nothing is sent or taken in any more */
	bool telling_end;               /* with ERROR, when the round is over */
	int error;
	bool busy;                      /* handlers may be running: */
	bool freed;                     /* the memory goes when they are done */

	uint32_t last_id, telling;
	size_t n_streams;
	struct mux_stream *streams[MUX_BUCKETS];
};

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

/* ---- the way out ---- */

static size_t
mux_pending(const struct mux *mux)
{
	return mux->out_len - mux->out_at;
}

/* The handler hears of it at the end of the round. */
static void
mux_fail(struct mux *mux, int error)
{
	if (mux->over)
		return;
	mux->over = mux->telling_end = true;
	mux->error = error;
	loop_at_round_end(mux->loop, &mux->round);
}

static void
mux_touch(struct mux *mux)
{
	mux->used = true;
	if (mux->idle.at_ms == 0)
		loop_set_timer(mux->loop, &mux->idle, MUX_IDLE_MS);
}

/* Room for MORE bytes behind what waits; NULL ends the channel. */
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
	/* Moving is cheap as long as what moves is less than what was written. */
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

static void
mux_write(struct mux *mux)
{
	ssize_t n;

	while (mux_pending(mux) > 0 && !mux->cannot_write && !mux->over) {
		n = send(mux->source.fd, mux->out + mux->out_at, mux_pending(mux),
		         MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			mux->out_at += (size_t)n;
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
		/* What the peer still said is read first; the end comes behind it. */
		mux->cannot_write = true;
	}
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

static void
put_u32(unsigned char *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

/* LEN bytes behind a header are where mux_room() said: that is a frame. */
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
mux_is_full(const struct mux *mux)
{
	return mux_pending(mux) >= MUX_OUT_FULL;
}

/* ---- the way in ---- */

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
	mux->data_id = id;
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
	/* If it is full, all are told when it no longer is. */
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

/* Whatever is whole of what was read, and data as far as it has come. */
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
	n = recv(mux->source.fd, mux->in + mux->in_len, room, MSG_DONTWAIT);
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

/* ---- what the loop calls ---- */

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

/* A stream that is told may close others, or itself: look again from the start. */
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
	/* Those that are told fill it again; others begin then. */
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
	mux->round = (struct loop_round){ .run = mux_round_over, .arg = mux };
	mux->idle = (struct loop_timer){ .due = mux_idle, .arg = mux };
	r = loop_watch(loop, &mux->source, EPOLLIN, err);
	if (r < 0)
		return r;
	*ret_mux = TAKE(mux);
	return 0;
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
