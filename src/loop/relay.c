/* relay.c - see relay.h. */
#include "loop/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"

#define BEHIND_MS 200

int
relay_reopen(int fd, int flags)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool
relay_is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) == 1;
}

ssize_t
relay_read_pipe(int fd, void *data, size_t len)
{
	struct iovec iov = { .iov_base = data, .iov_len = len };
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	if (n >= 0 || errno != EOPNOTSUPP)
		return n;
	/* Before Linux 6.4 there is a race: another reader may empty the pipe after the check. */
	if (!relay_is_ready(fd, POLLIN)) {
		errno = EAGAIN;
		return -1;
	}
	return read(fd, data, len);
}

/* Neither call may block.  Sockets get a flag for that.  Everything else is polled first, and
 * written in pieces that a writable pipe must accept. */
static ssize_t
relay_read(struct relay *relay, void *data, size_t len)
{
	ssize_t n = recv(relay->from.fd, data, len, MSG_DONTWAIT);

	if (n >= 0 || errno != ENOTSOCK)
		return n;
	if (relay->from_pipe)
		return relay_read_pipe(relay->from.fd, data, len);
	if (!relay->always_from && !relay_is_ready(relay->from.fd, POLLIN)) {
		errno = EAGAIN;
		return -1;
	}
	return read(relay->from.fd, data, len);
}

static ssize_t
relay_write(struct relay *relay, const void *data, size_t len)
{
	ssize_t n;

	if (relay->sink != NULL)
		return relay->sink(relay->sink_arg, data, len);
	n = send(relay->to.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != ENOTSOCK)
		return n;
	if (relay->may_block && !relay_is_ready(relay->to.fd, POLLOUT)) {
		errno = EAGAIN;
		return -1;
	}
	if (relay->may_block && len > PIPE_BUF)
		len = PIPE_BUF;
	return write(relay->to.fd, data, len);
}

static void
relay_finish(struct relay *relay)
{
	relay_drop(relay);
	if (relay->done != NULL)
		relay->done(relay->arg, relay);
}

static bool
relay_would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* A terminal that is not this session's own stops nobody. */
static bool
relay_look_behind(struct relay *relay)
{
	pid_t front = relay->group == 0 ? -1 : tcgetpgrp(relay->from.fd);

	relay->is_behind = front >= 0 && front != relay->group;
	return relay->is_behind;
}

/* ---- silence ---- */

/* A test of an hour takes an hour; tests have the mutant build. */
static uint64_t
idle_ms(void)
{
#ifdef CLOISTER_MUTANT
	if (!control_is_on("idle-hour"))
		return 1500;
#endif
	return RELAY_IDLE_S * 1000ull;
}

/* The timer is not moved with each byte. */
static void
idle_look(void *arg)
{
	struct relay_idle *idle = arg;
	uint64_t silent = loop_now_ms() - idle->last_ms, most = idle_ms();

	if (silent < most)
		loop_set_timer(idle->loop, &idle->timer, most - silent);
	else
		idle->due(idle->arg);
}

void
relay_idle_start(struct relay_idle *idle, struct loop *loop)
{
	idle->loop = loop;
	idle->last_ms = loop_now_ms();
	loop_prepare_timer(&idle->timer, idle_look, idle);
	loop_set_timer(loop, &idle->timer, idle_ms());
}

void
relay_idle_stop(struct relay_idle *idle)
{
	if (idle->loop != NULL)
		loop_cancel_timer(idle->loop, &idle->timer);
}

/* ---- carrying ---- */

/* One read and one write.  Returns whether any bytes moved; sets *ret_over at the relay's end. */
static bool
relay_step(struct relay *relay, bool *ret_over)
{
	bool moved = false;
	ssize_t n;

	if (relay->len == 0 && !relay->from_ended && !relay_look_behind(relay)) {
		/* Leave room for the filter's held bytes before the bytes read now. */
		unsigned char *to = relay->data + (relay->filter != NULL ? RELAY_HELD_MAX : 0);

		n = relay_read(relay, to, (size_t)(relay->data + RELAY_BUFFER - to));
		if (n > 0) {
			relay->start = 0;
			relay->len = relay->filter == NULL ? (size_t)n :
			             relay->filter(relay->filter_arg, to, (size_t)n, relay->data);
			moved = true;
		} else if (n == 0 || !relay_would_block()) {
			/* A pty whose other side is closed returns EIO: that is its end too. */
			relay->from_ended = true;
		}
	}
	if (relay->len > 0) {
		n = relay_write(relay, relay->data + relay->start, relay->len);
		if (n > 0) {
			relay->start += (size_t)n;
			relay->len -= (size_t)n;
			moved = true;
		} else if (n == 0 || !relay_would_block()) {
			relay->error = n < 0 && errno != EPIPE ? errno : 0;
			*ret_over = true;
			return false;
		}
	}
	*ret_over = relay->from_ended && relay->len == 0;
	if (moved && relay->idle != NULL)
		relay->idle->last_ms = loop_now_ms();
	return moved;
}

static void
relay_rewatch(struct relay *relay)
{
	bool wants_read = relay->len == 0 && !relay->from_ended && !relay->is_behind;
	bool wants_write = relay->len > 0;

	if (!relay->always_from)
		(void)loop_watch(relay->loop, &relay->from, wants_read ? EPOLLIN : 0, NULL);
	if (!relay->always_to)
		(void)loop_watch(relay->loop, &relay->to, wants_write ? EPOLLOUT : 0, NULL);
	if ((wants_read && relay->always_from) || (wants_write && relay->always_to && !relay->sink_wakes))
		loop_set_timer(relay->loop, &relay->again, 0);
	else if (relay->is_behind && !wants_write)
		/* No event tells that the group is in front. */
		loop_set_timer(relay->loop, &relay->again, BEHIND_MS);
}

static void
relay_advance(void *arg)
{
	struct relay *relay = arg;
	bool over = false;

	(void)relay_step(relay, &over);
	if (over)
		relay_finish(relay);
	else
		relay_rewatch(relay);
}

static void
relay_ready(void *arg, uint32_t events)
{
	(void)events;
	relay_advance(arg);
}

int
relay_start(struct relay *relay, struct loop *loop, int from, int to, struct err *err)
{
	struct stat st;

	relay->loop = loop;
	relay->from = (struct loop_source){ .fd = from, .ready = relay_ready, .arg = relay };
	relay->to = (struct loop_source){ .fd = to, .ready = relay_ready, .arg = relay };
	loop_prepare_timer(&relay->again, relay_advance, relay);
	relay->start = relay->len = 0;
	relay->from_ended = relay->is_behind = false;
	relay->data = malloc(RELAY_BUFFER);
	if (relay->data == NULL)
		return err_errno(err, "cannot carry the cell's input and output");
	relay->always_from = loop_watch(loop, &relay->from, EPOLLIN, NULL) == -EPERM;
	/* Test whether TO can be watched, without watching it yet. */
	relay->always_to = to < 0 || loop_watch(loop, &relay->to, EPOLLOUT, NULL) == -EPERM;
	relay->from_pipe = fstat(from, &st) == 0 && S_ISFIFO(st.st_mode);
	relay->may_block = !relay->always_to && (fcntl(to, F_GETFL) & O_NONBLOCK) == 0;
	relay_rewatch(relay);
	return 0;
}

void
relay_flush_some(struct relay *relay, size_t steps)
{
	bool over = false;

	if (relay->data == NULL)
		return;
	for (; steps > 0 && !over && relay_step(relay, &over); steps--)
		;
	if (over)
		relay_finish(relay);
	else
		relay_rewatch(relay);
}

void
relay_flush(struct relay *relay)
{
	relay_flush_some(relay, SIZE_MAX);
}

void
relay_drop(struct relay *relay)
{
	if (relay->data == NULL)
		return;
	if (!relay->always_from)
		loop_unwatch(relay->loop, &relay->from);
	if (!relay->always_to)
		loop_unwatch(relay->loop, &relay->to);
	loop_cancel_timer(relay->loop, &relay->again);
	free(relay->data);
	relay->data = NULL;
}
