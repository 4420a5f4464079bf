/* raw.c - passes bytes both ways: TCP that a rule allows, TLS that is passed through, and
 * connections after an upgrade.  Each side may end before the other. */
#include <errno.h>
#include <string.h>

#include "upstream/upstream.h"

/* Finish when both sides have ended. */
static void
raw_check_end(struct upstream *up, struct transfer *t)
{
	if (!t->server_ended || !t->sent_all)
		return;
	up->transfer = NULL;
	t->upstream = NULL;
	upstream_drop(up, false);
	t->owner->end(t, NULL, 0);
}

static void
raw_start(struct upstream *up, struct transfer *t)
{
	t->owner->moved(t, TRANSFER_RAW);
	transfer_touch(t, TRANSFER_RAW_IDLE_S);
	conn_resume_reading(&up->conn);
}

static size_t
raw_send(struct upstream *up, struct transfer *t, const void *data, size_t len)
{
	(void)t;
	if (len == 0 || conn_is_full(&up->conn))
		return 0;
	return upstream_write(up, data, len) ? len : 0;
}

static void
raw_more(struct upstream *up, struct transfer *t)
{
	if (!upstream_write_held(up, t, upstream_write))
		return;
	t->owner->emptied(t);
	if (t->came_all && !t->sent_all) {
		t->sent_all = true;
		conn_shut(&up->conn);
		raw_check_end(up, t);
	}
}

/* As conn_read(), and passes the bytes on. */
static ssize_t
raw_read(struct upstream *up, struct transfer *t)
{
	struct pool *pool = up->pool;
	unsigned char *at;
	size_t room;
	ssize_t n;

	if (t->owner->is_changed(t)) {
		if (buf_left(&t->pending) > 0 || pool->owner->is_slowed(pool->arg))
			return -ENOBUFS;
		n = conn_read(&up->conn, pool->in, sizeof(pool->in));
		if (n > 0 && !t->owner->give_raw(t, pool->in, (size_t)n))
			n = -EPROTO;
		pool_wipe_in(pool, sizeof(pool->in));
		return n;
	}
	at = t->owner->reserve(t, &room);
	if (at == NULL)
		return -ENOBUFS;
	n = conn_read(&up->conn, at, room);
	if (n > 0)
		t->owner->heard(t, at, (size_t)n);
	t->owner->commit(t, n > 0 ? (size_t)n : 0);
	return n;
}

static void
raw_readable(struct upstream *up)
{
	struct transfer *t = up->transfer;
	struct failure failure;
	ssize_t n;

	if (t->server_ended)
		return;
	while ((n = raw_read(up, t)) > 0)
		transfer_touch(t, TRANSFER_RAW_IDLE_S);
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
	t->server_ended = true;
	if (t->sent_all)
		raw_check_end(up, t);
	else
		t->owner->end(t, NULL, 0);
}

static void
raw_writable(struct upstream *up)
{
	if (up->transfer != NULL && !up->transfer->sent_all)
		raw_more(up, up->transfer);
}

static void
raw_resume(struct upstream *up, struct transfer *t)
{
	if (t->server_ended)
		return;
	conn_resume_reading(&up->conn);
	raw_readable(up);
}

const struct upstream_kind upstream_raw = {
	.start = raw_start, .send = raw_send, .more = raw_more, .resume = raw_resume,
	.cancel = upstream_cancel, .readable = raw_readable, .writable = raw_writable,
	.broken = upstream_broken,
};
