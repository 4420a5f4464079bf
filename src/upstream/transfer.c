/* transfer.c - see transfer.h: what an owner may ask of the connection of a transfer. */
#include "upstream/transfer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/own.h"
#include "upstream/upstream.h"

void
failure_set(struct failure *f, uint16_t status, const char *why, const char *error,
            const char *format, ...)
{
	va_list args;

	f->status = status;
	f->why = why;
	f->error = error;
	va_start(args, format);
	vsnprintf(f->note, sizeof(f->note), format, args);
	va_end(args);
}

void
transfer_touch(struct transfer *t, uint64_t seconds)
{
	t->deadline_s = t->pool->now_s + seconds + 1;
}

size_t
transfer_send(struct transfer *t, const void *data, size_t len)
{
	return t->upstream->kind->send(t->upstream, t, data, len);
}

bool
transfer_is_connected(const struct transfer *t)
{
	return t->upstream != NULL && t->upstream->step == UP_READY;
}

void
transfer_more(struct transfer *t)
{
	if (transfer_is_connected(t))
		t->upstream->kind->more(t->upstream, t);
}

void
transfer_given(struct transfer *t)
{
	if (t->upstream != NULL && t->upstream->kind != NULL && t->upstream->kind->given != NULL)
		t->upstream->kind->given(t->upstream, t);
}

void
transfer_resume(struct transfer *t)
{
	if (transfer_is_connected(t))
		t->upstream->kind->resume(t->upstream, t);
}

void
transfer_detach(struct transfer *t)
{
	struct upstream *up = TAKE(t->upstream);

	pool_forget(t);
	if (up == NULL)
		return;
	if (up->step == UP_READY)
		up->kind->cancel(up, t);
	else
		upstream_drop(up, true);
}
