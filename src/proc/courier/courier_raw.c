/* courier_raw.c - passes bytes both ways: TCP that a rule allows, TLS that is passed through, and
 * connections after an upgrade.  Each side may end before the other. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/courier/courier_upstream.h"

/* Finish when both sides have ended. */
static void
raw_check_end(struct upstream *up, struct exchange *ex)
{
	if (!ex->upstream_ended || !ex->sent_all)
		return;
	up->exchange = NULL;
	ex->upstream = NULL;
	upstream_drop(up, false);
	exchange_end(ex, NULL, 0);
}

static void
raw_start(struct upstream *up, struct exchange *ex)
{
	ex->step = STEP_RAW;
	ex->first_ms = loop_now_ms();
	exchange_touch(ex, COURIER_RAW_IDLE_S);
	exchange_routed(ex, ex->wire != NULL ? EGRESS_REDIS : EGRESS_TUNNEL, "", "");
	conn_resume_reading(&up->conn);
}

static size_t
raw_send(struct upstream *up, struct exchange *ex, const void *data, size_t len)
{
	(void)ex;
	if (len == 0 || conn_is_full(&up->conn))
		return 0;
	return upstream_write(up, data, len) ? len : 0;
}

static void
raw_more(struct upstream *up, struct exchange *ex)
{
	size_t n;

	while ((n = buf_left(&ex->body)) > 0) {
		if (conn_is_full(&up->conn))
			return;
		if (n > MUX_FRAME_MAX)
			n = MUX_FRAME_MAX;
		if (!upstream_write(up, ex->body.data + ex->body.pos, n))
			return;
		exchange_took(ex, n);
	}
	exchange_wire_went(ex);
	if (ex->came_all && !ex->sent_all) {
		ex->sent_all = true;
		conn_shut(&up->conn);
		raw_check_end(up, ex);
	}
}

/* As conn_read(), and passes the bytes on. */
static ssize_t
raw_read(struct upstream *up, struct exchange *ex)
{
	struct courier *c = up->courier;
	unsigned char *at;
	size_t room;
	ssize_t n;

	if (exchange_is_scrubbed(ex)) {
		if (buf_left(&ex->pending) > 0 || courier_is_slowed(c))
			return -ENOBUFS;
		n = conn_read(&up->conn, c->in, sizeof(c->in));
		if (n > 0) {
			exchange_came_in(ex, c->in, (size_t)n);
			exchange_ssh_hear(ex, c->in, (size_t)n);
		}
		if (n > 0 && !exchange_scrub_raw(ex, c->in, (size_t)n))
			n = -EPROTO;
		courier_wipe_in(c, sizeof(c->in));
		return n;
	}
	at = exchange_reserve(ex, &room);
	if (at == NULL)
		return -ENOBUFS;
	n = conn_read(&up->conn, at, room);
	if (n > 0)
		exchange_ssh_hear(ex, at, (size_t)n);
	exchange_commit(ex, n > 0 ? (size_t)n : 0);
	return n;
}

static void
raw_readable(struct upstream *up)
{
	struct exchange *ex = up->exchange;
	struct courier_failure failure;
	ssize_t n;

	if (ex->upstream_ended)
		return;
	while ((n = raw_read(up, ex)) > 0)
		exchange_touch(ex, COURIER_RAW_IDLE_S);
	if (n == -ENOBUFS)
		conn_pause_reading(&up->conn);
	if (n == -EAGAIN || n == -ENOBUFS)
		return;
	if (n < 0) {
		upstream_failure(&failure, up, (int)-n);
		upstream_fail(up, &failure);
		return;
	}
	conn_pause_reading(&up->conn);
	ex->upstream_ended = true;
	if (ex->sent_all)
		raw_check_end(up, ex);
	else
		exchange_end(ex, NULL, 0);
}

static void
raw_writable(struct upstream *up)
{
	if (up->exchange != NULL && !up->exchange->sent_all)
		raw_more(up, up->exchange);
}

static void
raw_resume(struct upstream *up, struct exchange *ex)
{
	if (ex->upstream_ended)
		return;
	conn_resume_reading(&up->conn);
	raw_readable(up);
}

const struct upstream_kind upstream_raw = {
	.start = raw_start, .send = raw_send, .more = raw_more, .resume = raw_resume,
	.cancel = upstream_cancel, .readable = raw_readable, .writable = raw_writable,
	.broken = upstream_broken,
};
