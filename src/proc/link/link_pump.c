/* link_pump.c - carries bytes between a TLS connection and a socket of this machine. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "proc/link/link_proc.h"

#define PIECE 16384

static void
end(struct link_pump *p, const char *why)
{
	if (p->ended)
		return;
	p->ended = true;
	p->over(p->arg, why);
}

static void
set_near(struct link_pump *p)
{
	uint32_t events = conn_is_full(&p->conn) ? 0 : EPOLLIN;

	if (buf_left(&p->in) > 0)
		events |= EPOLLOUT;
	(void)loop_watch(p->loop, &p->near, events, NULL);
}

/* Gives NEAR what it takes of IN. */
static int
give(struct link_pump *p)
{
	while (buf_left(&p->in) > 0) {
		ssize_t n = send(p->near.fd, p->in.data + p->in.pos, buf_left(&p->in), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		p->in.pos += (size_t)n;
	}
	buf_reset(&p->in);
	return 0;
}

/* ---- from the peer ---- */

static void
readable(void *arg)
{
	struct link_pump *p = arg;
	unsigned char piece[PIECE];
	ssize_t n;

	for (;;) {
		if (p->near.fd > 0 && buf_left(&p->in) > 0) {
			conn_pause_reading(&p->conn);
			break;
		}
		n = conn_read(&p->conn, piece, sizeof(piece));
		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			end(p, n == 0 ? "it has closed the connection" : "the connection is broken");
			return;
		}
		buf_put(&p->in, piece, (size_t)n);
		if (buf_failed(&p->in)) {
			end(p, "it sent something else than cloister does");
			return;
		}
		if (p->near.fd > 0) {
			if (give(p) < 0) {
				end(p, "the stream was closed here");
				return;
			}
			continue;
		}
		p->heard(p->arg);
		if (p->ended)
			return;
	}
	if (p->near.fd > 0)
		set_near(p);
}

static void
ready(void *arg)
{
	struct link_pump *p = arg;

	p->ready(p->arg);
}

static void
writable(void *arg)
{
	struct link_pump *p = arg;

	if (p->near.fd > 0)
		set_near(p);
}

static void
broken(void *arg, const struct err *error)
{
	end(arg, error->text);
}

static const struct conn_handler handler = { .ready = ready, .readable = readable, .writable = writable, .broken = broken };

/* ---- from here ---- */

static void
near_ready(void *arg, uint32_t events)
{
	struct link_pump *p = arg;
	unsigned char piece[PIECE];
	ssize_t n;

	if ((events & EPOLLOUT) != 0) {
		if (give(p) < 0) {
			end(p, "the stream was closed here");
			return;
		}
		if (buf_left(&p->in) == 0)
			conn_resume_reading(&p->conn);
	}
	while (!conn_is_full(&p->conn)) {
		n = recv(p->near.fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			end(p, "the stream was closed here");
			return;
		}
		if (conn_write(&p->conn, piece, (size_t)n) < 0) {
			end(p, "the connection is broken");
			return;
		}
	}
	set_near(p);
}

/* ---- the whole ---- */

void
pump_open(struct link_pump *p, struct loop *loop, int fd, SSL *ssl)
{
	p->loop = loop;
	p->in = BUF(LINK_PENDING_MAX);
	p->near = (struct loop_source){ .ready = near_ready, .arg = p };
	p->is_open = true;
	p->ended = false;
	conn_init(&p->conn, loop, fd, ssl, &handler, p);
}

void
pump_close(struct link_pump *p)
{
	p->ended = true;
	if (!p->is_open)
		return;
	p->is_open = false;
	conn_close(&p->conn, false);
	if (p->near.fd > 0)
		loop_unwatch(p->loop, &p->near);
	close_fd(&p->near.fd);
	buf_free(&p->in);
}

int
pump_say(struct link_pump *p, const struct link_hello_message *message)
{
	OWN(buf_free) struct buf out = BUF(LINK_HELLO_MAX + 4);

	link_hello_put(&out, message);
	return buf_failed(&out) ? -E2BIG : conn_write(&p->conn, out.data, out.len);
}

int
pump_join(struct link_pump *p, size_t len, struct err *err)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot make a stream");
	p->near.fd = ends[0];
	p->in.pos += len;
	r = give(p);
	if (r == 0)
		r = loop_watch(p->loop, &p->near, EPOLLIN | (buf_left(&p->in) > 0 ? (uint32_t)EPOLLOUT : 0), err);
	if (r < 0) {
		close(ends[1]);
		return err_wrap(err, "a stream");
	}
	return ends[1];
}
