/* conn.c - see conn.h: the socket's side of a connection. */
#include "tls/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "tls/conn_parts.h"

/* Encryption adds to the bytes that CONN_OUT_MAX permits. */
#define CONN_WIRE_SLACK (128 * 1024)
/* A piece of this size is sent or encrypted in place instead of collected. */
#define CONN_LARGE (8 * 1024)
#define CONN_RECORD (16 * 1024)         /* bytes in a TLS record */

/* The conn whose handlers are being called; NULL once it is closed. */
static struct conn *telling;

static void conn_finish(struct conn *c);

static size_t
conn_pending(const struct conn *c)
{
	return c->out.len - c->out_at;
}

bool
conn_is_full(const struct conn *c)
{
	return c->held.len + conn_pending(c) >= CONN_OUT_FULL;
}

void
conn_fail(struct conn *c, int code, const char *text)
{
	if (c->fault != 0 || c->dead)
		return;
	c->fault = code;
	c->fault_text = text;
	c->fault_due = true;
	loop_at_round_end(c->loop, &c->round);
}

static void
conn_watch(struct conn *c, uint32_t events)
{
	if (loop_watch(c->loop, &c->source, events, NULL) < 0)
		conn_fail(c, errno, NULL);
}

/* ---- writing ---- */

static void
conn_keep(struct conn *c, const unsigned char *data, size_t len)
{
	if (c->out_at > 0 && c->out.len + len > c->out.cap) {
		memmove(c->out.data, c->out.data + c->out_at, conn_pending(c));
		c->out.len -= c->out_at;
		c->out_at = 0;
	}
	buf_put(&c->out, data, len);
	if (buf_failed(&c->out))
		conn_fail(c, ENOMEM, NULL);
}

/* How many of LEN bytes the socket takes; all, if it takes none any more. */
static size_t
conn_push(struct conn *c, const unsigned char *data, size_t len)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < len && c->fault_out == 0) {
		n = send(c->source.fd, data + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			sent += (size_t)n;
		} else if (errno == EAGAIN) {
			return sent;
		} else if (errno != EINTR) {
			c->fault_out = errno;
			loop_at_round_end(c->loop, &c->round);
		}
	}
	return len;
}

static void
conn_flush(struct conn *c)
{
	c->out_at += conn_push(c, c->out.data + c->out_at, conn_pending(c));
	if (conn_pending(c) > 0) {
		conn_watch(c, c->source.events | EPOLLOUT);
		return;
	}
	buf_free(&c->out);
	c->out_at = 0;
	if ((c->source.events & EPOLLOUT) != 0)
		conn_watch(c, c->source.events & ~(uint32_t)EPOLLOUT);
}

void
conn_send(struct conn *c, const unsigned char *data, size_t len)
{
	/* With TLS, the bytes were collected before they came here. */
	bool corked = c->corked && c->ssl == NULL && len < CONN_LARGE;
	size_t sent = 0;

	if (c->dead || c->sent_fin || c->fault != 0)
		return;
	if (conn_pending(c) > 0 && c->corked && !corked)
		conn_flush(c);
	if (conn_pending(c) == 0 && !corked)
		sent = conn_push(c, data, len);
	if (sent == len || c->fault != 0)
		return;
	conn_keep(c, data + sent, len - sent);
	if (!corked)
		conn_watch(c, c->source.events | EPOLLOUT);
}

static void
conn_release_held(struct conn *c)
{
	if (c->held.len == 0 || c->handshaking)
		return;
	conn_tls_write(c, c->held.data, c->held.len);
	if (c->held.cap > CONN_OUT_FULL / 4)
		buf_free(&c->held);
	else
		buf_reset(&c->held);
}

/* Held bytes are encrypted in whole records while more may follow. */
static void
conn_hold(struct conn *c, const void *data, size_t len)
{
	size_t whole;

	buf_put(&c->held, data, len);
	if (buf_failed(&c->held)) {
		conn_fail(c, ENOMEM, NULL);
		return;
	}
	whole = c->held.len - c->held.len % CONN_RECORD;
	if (c->handshaking || whole == 0)
		return;
	conn_tls_write(c, c->held.data, whole);
	memmove(c->held.data, c->held.data + whole, c->held.len - whole);
	c->held.len -= whole;
}

static void
conn_write_tls(struct conn *c, const void *data, size_t len)
{
	if (!c->handshaking && c->held.len == 0 && (!c->corked || len >= CONN_LARGE)) {
		conn_tls_write(c, data, len);
		return;
	}
	conn_hold(c, data, len);
	if (!c->corked)
		conn_release_held(c);
}

int
conn_write(struct conn *c, const void *data, size_t len)
{
	if (c->dead || c->shut_out)
		return -EPIPE;
	if (c->fault != 0)
		return -c->fault;
	if (len == 0)
		return 0;
	if (len > CONN_OUT_MAX || c->held.len + conn_pending(c) > CONN_OUT_MAX - len)
		return -ENOBUFS;
	if (c->ssl == NULL)
		conn_send(c, data, len);
	else
		conn_write_tls(c, data, len);
	if (conn_is_full(c))
		c->was_full = true;
	c->fault_due = false;           /* the return value reports it */
	return -c->fault;
}

void
conn_cork(struct conn *c)
{
	c->corked = true;
}

void
conn_uncork(struct conn *c)
{
	if (!c->corked)
		return;
	c->corked = false;
	if (c->dead || c->fault != 0)
		return;
	if (c->ssl == NULL && conn_pending(c) > 0)
		conn_flush(c);
	conn_release_held(c);
	conn_tls_send(c);
	if (c->was_full && !conn_is_full(c))
		loop_at_round_end(c->loop, &c->round);
	conn_finish(c);
}

void
conn_shut(struct conn *c)
{
	if (c->dead || c->shut_out)
		return;
	c->shut_out = true;
	conn_finish(c);
}

static void
conn_set_resets(struct conn *c, bool on)
{
	const struct linger linger = { .l_onoff = on };

	if (c->resets == on)
		return;
	c->resets = on;
	(void)setsockopt(c->source.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

/* Half-close as soon as nothing is pending. */
static void
conn_finish(struct conn *c)
{
	if (!c->shut_out || c->sent_fin || c->corked || c->handshaking || c->held.len > 0 ||
	    c->fault != 0)
		return;
	if (c->ssl != NULL && !c->said_end) {
		c->said_end = true;
		conn_tls_say_end(c);
	}
	if (conn_pending(c) > 0 || c->fault != 0)
		return;
	c->sent_fin = true;
	conn_set_resets(c, false);
	shutdown(c->source.fd, SHUT_WR);
}

/* ---- reading ---- */

ssize_t
conn_read(struct conn *c, void *data, size_t len)
{
	ssize_t n;

	assert(len > 0);
	if (c->dead || c->fault != 0)
		return c->fault != 0 ? -c->fault : -ECONNRESET;
	if (c->ended_in)
		return 0;
	if (c->handshaking)
		return -EAGAIN;
	c->asked = true;
	if (c->ssl != NULL) {
		n = conn_tls_read(c, data, len);
		if (n < 0)
			c->fault_due = false;
		return n;
	}
	if (c->drained)
		return -EAGAIN;
	n = recv(c->source.fd, data, len, MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		c->fault = errno;
		return -errno;
	}
	if (n == 0 && c->fault_out != 0) {
		/* A reset that only a write has reported. */
		c->fault = c->fault_out;
		return -c->fault;
	}
	if (n == 0)
		c->ended_in = true;
	/* A socket that gave less than asked has no more; epoll reports new bytes. */
	c->drained = n < (ssize_t)len;
	return n < 0 ? -EAGAIN : n;
}

static bool
conn_may_read(const struct conn *c)
{
	return c->reading && !c->handshaking && !c->ended_in && !c->dead && c->fault == 0;
}

void
conn_resume_reading(struct conn *c)
{
	c->reading = true;
	if (!conn_may_read(c))
		return;
	conn_watch(c, (c->source.events & ~(uint32_t)EPOLLRDHUP) | EPOLLIN);
	if (c->more)
		loop_at_round_end(c->loop, &c->round);
}

void
conn_pause_reading(struct conn *c)
{
	/* The loop keeps watching until it has an event: most pauses are shorter than that. */
	c->reading = false;
}

/* ---- callbacks of the loop ---- */

static void
conn_break(struct conn *c)
{
	struct err err = {0};

	c->dead = true;
	c->fault_due = false;
	loop_unwatch(c->loop, &c->source);
	loop_cancel_round(c->loop, &c->round);
	if (c->fault == EKEYREJECTED)
		err_set(&err, c->fault, "the certificate is not good: %s", c->fault_text);
	else
		err_set(&err, c->fault, "%s", c->fault_text != NULL ? c->fault_text : strerror(c->fault));
	c->handler->broken(c->arg, &err);
}

/* The peer takes nothing any more.  Its earlier bytes, perhaps a response, can still be read;
 * conn_read() reports their end. */
static void
conn_tell_last_words(struct conn *c)
{
	c->asked = c->drained = false;
	if (c->handshaking)
		conn_tls_handshake(c);          /* there may be an alert */
	else if (conn_may_read(c))
		c->handler->readable(c->arg);
	if (telling != c || c->fault != 0)
		return;
	if (conn_may_read(c) && c->asked)
		loop_at_round_end(c->loop, &c->round);
	else
		conn_fail(c, c->fault_out, NULL);
}

/* Call the handlers that are due.  Each of them may close the conn, or switch it from plain to TLS. */
static void
conn_tell(struct conn *c, bool may_read, bool all_written)
{
	telling = c;
	if (c->is_ready && c->fault == 0) {
		c->is_ready = false;
		if (!c->corked)
			conn_release_held(c);
		conn_finish(c);
		c->handler->ready(c->arg);
	}
	if (telling == c && c->shut_due) {
		c->shut_due = false;
		c->handler->shut(c->arg);
	}
	if (telling == c && c->fault == 0 && c->fault_out == 0 && !c->handshaking &&
	    !conn_is_full(c) && (all_written || c->was_full)) {
		c->was_full = false;
		c->handler->writable(c->arg);
	}
	if (telling == c && c->fault_out != 0 && c->fault == 0)
		conn_tell_last_words(c);
	else if (telling == c && conn_may_read(c) && (may_read || c->more))
		c->handler->readable(c->arg);
	if (telling != c)
		return;
	telling = NULL;
	if (c->fault_due)
		conn_break(c);
	else if (conn_may_read(c) && c->more && conn_tls_has_more(c))
		loop_at_round_end(c->loop, &c->round);
}

static void
conn_round(void *arg)
{
	conn_tell(arg, false, false);
}

/* Reading is paused: stop watching for bytes. */
static void
conn_ignore(struct conn *c, uint32_t events)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if ((events & EPOLLERR) != 0 &&
	    getsockopt(c->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0)
		conn_fail(c, error, NULL);
	/* Except for the end, which nobody would notice otherwise before reading. */
	if (c->handler->shut != NULL && !c->shut_told)
		conn_watch(c, (c->source.events & ~(uint32_t)EPOLLIN) | EPOLLRDHUP);
	else
		conn_watch(c, c->source.events & ~(uint32_t)EPOLLIN);
}

static void
conn_ready(void *arg, uint32_t events)
{
	struct conn *c = arg;
	const uint32_t in = EPOLLIN | EPOLLHUP | EPOLLERR;
	bool kept = conn_pending(c) > 0, may_read = (events & in) != 0;

	if (may_read)
		c->drained = false;
	if (kept && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
		conn_flush(c);
		conn_finish(c);
	}
	if (c->handshaking && c->fault == 0)
		conn_tls_handshake(c);
	else if (may_read && !conn_may_read(c))
		conn_ignore(c, events);
	if ((events & EPOLLRDHUP) != 0 && c->source.fd >= 0) {
		c->shut_due = c->shut_told = true;
		conn_watch(c, c->source.events & ~(uint32_t)EPOLLRDHUP);
	}
	conn_tell(c, may_read, kept && conn_pending(c) == 0);
}

/* ---- beginning and end ---- */

void
conn_init(struct conn *c, struct loop *loop, int fd, SSL *ssl,
          const struct conn_handler *handler, void *arg)
{
	const int yes = 1;

	*c = (struct conn){ .loop = loop, .handler = handler, .arg = arg, .reading = true,
	                    .source = { .fd = fd, .ready = conn_ready, .arg = c },
	                    .round = { .run = conn_round, .arg = c } };
	buf_init_secret(&c->out, CONN_OUT_MAX + CONN_WIRE_SLACK);
	buf_init_secret(&c->held, CONN_OUT_MAX);
	/* Other kinds of sockets do not support it. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	conn_watch(c, EPOLLIN);
	if (ssl != NULL)
		conn_start_tls(c, ssl);
}

void
conn_start_tls(struct conn *c, SSL *ssl)
{
	assert(c->ssl == NULL && !c->dead && !c->shut_out);
	conn_tls_attach(c, ssl);
	c->drained = false;
	conn_watch(c, c->source.events | EPOLLIN);
	if (c->fault == 0)
		conn_tls_handshake(c);
	if (c->is_ready)
		loop_at_round_end(c->loop, &c->round);
}

void
conn_close(struct conn *c, bool abrupt)
{
	if (c->source.fd < 0)
		return;
	if (telling == c)
		telling = NULL;
	if (abrupt) {
		conn_set_resets(c, true);
	} else if (!c->dead) {
		conn_uncork(c);
		conn_shut(c);
	}
	loop_unwatch(c->loop, &c->source);
	loop_cancel_round(c->loop, &c->round);
	conn_tls_detach(c);
	buf_free(&c->out);
	buf_free(&c->held);
	close(c->source.fd);
	c->source.fd = -1;
	c->dead = true;
}
