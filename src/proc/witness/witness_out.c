/* witness_out.c - sends events to the supervisor, many at a time. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "proc/witness/witness_proc.h"

#define BATCH_BYTES (96 * 1024)         /* one event more fits a message */
#define N_AT 4                          /* where the number of events is: behind the type */

static struct witness_batch *
last(struct witness_out *out)
{
	return out->n == 0 ? NULL : &out->batches[(out->first + out->n - 1) % WITNESS_BATCHES_MAX];
}

/* -EAGAIN: the supervisor has to read first. */
static int
send_first(struct witness_out *out)
{
	struct witness_batch *b = &out->batches[out->first];
	unsigned char n[4] = { (unsigned char)b->n, (unsigned char)(b->n >> 8), 0, 0 };
	int r;

	memcpy(b->message.data + N_AT, n, sizeof(n));
	r = ipc_send(out->channel.fd, &b->message, NULL, 0, NULL);
	if (r == -EAGAIN)
		return r;
	buf_free(&b->message);
	out->first = (out->first + 1) % WITNESS_BATCHES_MAX;
	out->n--;
	return 0;
}

static void
send_all(struct witness_out *out)
{
	int r = 0;

	while (out->n > 0 && r == 0)
		r = send_first(out);
	(void)loop_watch(out->loop, &out->channel, EPOLLIN | (r == -EAGAIN ? EPOLLOUT : 0), NULL);
}

void
witness_out_writable(struct witness_out *out)
{
	send_all(out);
}

static void
gathered(void *arg)
{
	send_all(arg);
}

static struct witness_batch *
new_batch(struct witness_out *out)
{
	struct witness_batch *b;

	if (out->n == WITNESS_BATCHES_MAX)
		send_all(out);
	if (out->n == WITNESS_BATCHES_MAX)
		return NULL;
	out->n++;
	b = last(out);
	b->n = 0;
	ipc_begin(&b->message, WITNESS_EVENTS);
	buf_put_u32(&b->message, 0);
	return b;
}

int
witness_out_event(struct witness_out *out, const char *text, size_t len)
{
	struct witness_batch *b = last(out);

	if (b == NULL || b->n == WITNESS_EVENTS_MAX || b->message.len + len > BATCH_BYTES)
		b = new_batch(out);
	if (b == NULL)
		return -ENOBUFS;
	/* As buf_put_str() does; TEXT has no NUL. */
	buf_put_u32(&b->message, (uint32_t)len);
	buf_put(&b->message, text, len);
	buf_put(&b->message, "", 1);
	b->n++;
	if (out->gather.at_ms == 0) {
		out->gather.due = gathered;
		out->gather.arg = out;
		loop_set_timer(out->loop, &out->gather, WITNESS_GATHER_MS);
	}
	return 0;
}

static void
wait_writable(const struct witness_out *out)
{
	struct pollfd p = { .fd = out->channel.fd, .events = POLLOUT };

	(void)poll(&p, 1, -1);
}

static void
send_one(const struct witness_out *out, const struct buf *message, bool waits)
{
	while (ipc_send(out->channel.fd, message, NULL, 0, NULL) == -EAGAIN && waits)
		wait_writable(out);
}

void
witness_out_connected(struct witness_out *out, uint32_t pid, uint16_t local, bool waits)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, WITNESS_CONNECTED);
	buf_put_u32(&message, pid);
	buf_put_u32(&message, local);
	send_one(out, &message, waits);
}

void
witness_out_say(struct witness_out *out, const struct buf *message)
{
	while (out->n > 0)
		if (send_first(out) == -EAGAIN)
			wait_writable(out);
	send_one(out, message, true);
}

void
witness_out_free(struct witness_out *out)
{
	for (; out->n > 0; out->n--, out->first = (out->first + 1) % WITNESS_BATCHES_MAX)
		buf_free(&out->batches[out->first].message);
}
