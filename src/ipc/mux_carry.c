/* mux_carry.c - see mux_carry.h. */
#include "ipc/mux_carry.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void
close_source(struct mux_carry *c, struct loop_source *source)
{
	if (source->fd < 0)
		return;
	loop_unwatch(c->loop, source);
	/* Another descriptor of the same socket may stay open. */
	if (source == &c->to)
		(void)shutdown(source->fd, SHUT_WR);
	close(source->fd);
	source->fd = -1;
}

static void
tell_emptied(struct mux_carry *c)
{
	if (!c->last)
		return;
	c->last = false;
	c->emptied(c->arg);
}

static void
tell_over(struct mux_carry *c)
{
	if (c->over != NULL && mux_carry_is_over(c))
		c->over(c->arg);
}

static void
send_frame(struct mux_carry *c, uint32_t type)
{
	if (c->stream != NULL)
		mux_send(c->stream->mux, c->stream->id, type, NULL);
}

static void
end_from(struct mux_carry *c)
{
	if (c->from.fd >= 0) {
		close_source(c, &c->from);
		send_frame(c, c->types->end);
	}
	tell_emptied(c);
	tell_over(c);
}

/* Reads once.  False: there is nothing to read, no room for it, or it is over. */
static bool
read_from(struct mux_carry *c)
{
	unsigned char *room;
	size_t size;
	ssize_t n;

	if (c->from.fd < 0 || c->stream == NULL) {
		tell_emptied(c);
		return false;
	}
	room = mux_reserve(c->stream, &size);
	if (room == NULL) {
		/* mux_carry_writable() goes on. */
		loop_unwatch(c->loop, &c->from);
		return false;
	}
	n = read(c->from.fd, room, size);
	mux_commit(c->stream, n > 0 ? (size_t)n : 0);
	if (n > 0)
		return true;
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN) {
		tell_emptied(c);
		return false;
	}
	/* The end, or a terminal that every process has closed. */
	end_from(c);
	return false;
}

static void
from_ready(void *arg, uint32_t events)
{
	(void)events;
	(void)read_from(arg);
}

/* What cannot be watched, such as /dev/null, is always ready. */
static void
watch_from(struct mux_carry *c)
{
	if (c->from.fd >= 0 && c->from.events == 0 && loop_watch(c->loop, &c->from, EPOLLIN, NULL) < 0)
		while (read_from(c))
			;
}

static void
forget_pending(struct mux_carry *c)
{
	if (c->stream != NULL && buf_left(&c->pending) > 0)
		mux_consumed(c->stream, buf_left(&c->pending));
	buf_reset(&c->pending);
}

/* TO takes no more bytes. */
static void
end_to(struct mux_carry *c, bool is_broken)
{
	bool was_open = c->to.fd >= 0;

	forget_pending(c);
	close_source(c, &c->to);
	if (was_open && is_broken)
		send_frame(c, c->types->shut);
	if (c->ends && c->hangs_up)
		end_from(c);
	if (c->written != NULL)
		c->written(c->arg);
	tell_over(c);
}

static void
write_to(struct mux_carry *c)
{
	while (buf_left(&c->pending) > 0) {
		ssize_t n = write(c->to.fd, c->pending.data + c->pending.pos, buf_left(&c->pending));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && loop_watch(c->loop, &c->to, EPOLLOUT, NULL) == 0)
			return;
		if (n < 0) {
			end_to(c, true);
			return;
		}
		c->pending.pos += (size_t)n;
		if (c->stream != NULL)
			mux_consumed(c->stream, (size_t)n);
	}
	buf_reset(&c->pending);
	loop_unwatch(c->loop, &c->to);
	if (c->ends)
		end_to(c, false);
	else if (c->written != NULL)
		c->written(c->arg);
}

static void
to_ready(void *arg, uint32_t events)
{
	(void)events;
	write_to(arg);
}

void
mux_carry_start(struct mux_carry *carry, struct loop *loop, struct mux_stream *stream,
                const struct mux_carry_types *types, int from, int to)
{
	carry->loop = loop;
	carry->stream = stream;
	carry->types = types;
	carry->from = (struct loop_source){ .fd = from, .ready = from_ready, .arg = carry };
	carry->to = (struct loop_source){ .fd = to, .ready = to_ready, .arg = carry };
	buf_init(&carry->pending, MUX_WINDOW);
	stream->arg = carry;
	watch_from(carry);
}

int
mux_carry_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct mux_carry *carry = stream->arg;

	(void)arg;
	/* Sent before the other side learned that nobody takes it. */
	if (carry->to.fd < 0) {
		mux_consumed(carry->stream, len);
		return 0;
	}
	if (carry->ends)
		return -EBADMSG;
	/* Only what is left counts against the window. */
	if (carry->pending.pos > 0) {
		size_t left = buf_left(&carry->pending);

		memmove(carry->pending.data, carry->pending.data + carry->pending.pos, left);
		carry->pending.len = left;
		carry->pending.pos = 0;
	}
	buf_put(&carry->pending, data, len);
	if (buf_failed(&carry->pending))
		return -ENOMEM;
	if (carry->to.events == 0)
		write_to(carry);
	return 0;
}

void
mux_carry_writable(void *arg, struct mux_stream *stream)
{
	struct mux_carry *carry = stream->arg;

	(void)arg;
	if (carry->last)
		mux_carry_drain(carry);
	else
		watch_from(carry);
}

void
mux_carry_ended(struct mux_carry *carry)
{
	carry->ends = true;
	if (carry->to.events == 0)
		end_to(carry, false);
}

void
mux_carry_shut(struct mux_carry *carry)
{
	close_source(carry, &carry->from);
	tell_emptied(carry);
	tell_over(carry);
}

void
mux_carry_cut(struct mux_carry *carry)
{
	if (carry->stream != NULL)
		mux_close(carry->stream);
	carry->stream = NULL;
	close_source(carry, &carry->from);
	tell_emptied(carry);
	mux_carry_ended(carry);
}

void
mux_carry_drain(struct mux_carry *carry)
{
	while (carry->last && read_from(carry))
		;
	if (carry->last)
		return;
	watch_from(carry);
}

bool
mux_carry_is_over(const struct mux_carry *carry)
{
	return carry->from.fd < 0 && carry->to.fd < 0;
}

void
mux_carry_drop(struct mux_carry *carry)
{
	close_source(carry, &carry->from);
	close_source(carry, &carry->to);
	buf_free(&carry->pending);
	if (carry->stream != NULL)
		mux_close(carry->stream);
	carry->stream = NULL;
}
