/* event.c - see event.h. */
#include "egress/event.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc/courier_channel.h"
#include "ipc/ipc.h"

#define BATCH_ROOM (EVENT_MAX + COURIER_WHAT_MAX + 64)

void
event_text(struct events *e, const char *key, const char *text, size_t len)
{
	members_text(&e->line, key, text, len, EVENT_TEXT_MAX);
}

void
event_str(struct events *e, const char *key, const char *text)
{
	if (text != NULL && text[0] != '\0')
		event_text(e, key, text, strlen(text));
}

void
event_u64(struct events *e, const char *key, uint64_t value)
{
	members_u64(&e->line, key, value);
}

void
event_true(struct events *e, const char *key)
{
	members_bool(&e->line, key, true);
}

void
event_list(struct events *e, const char *key, const char *const *texts, size_t n)
{
	members_list(&e->line, key, texts, n, EVENT_ITEM_MAX);
}

void
event_begin(struct events *e, const char *type)
{
	members_reset(&e->line);
	e->n_kind = 0;
	e->times = 1;
	event_str(e, "type", type);
}

void
event_resume(struct events *e, const struct members *begun)
{
	members_copy(&e->line, begun, begun->n);
	e->n_kind = 0;
	e->times = 1;
}

void
event_kind_ends(struct events *e)
{
	e->n_kind = e->line.n;
}

void
event_times(struct events *e, uint64_t times)
{
	e->times = times;
	if (times > 1)
		event_u64(e, "count", times);
}

static void
put_length(struct buf *b, const char *text, size_t len)
{
	buf_put_u32(b, (uint32_t)len);
	buf_put(b, text, len);
	buf_put(b, "", 1);
}

/* As a string of the message; its length is known only afterwards. */
static void
put_members(struct buf *b, const struct members *m)
{
	size_t at = b->len, len;

	buf_put_u32(b, 0);
	members_put(m, b);
	len = b->len - at - 4;
	for (size_t i = 0; i < 4 && !buf_failed(b); i++)
		b->data[at + i] = (unsigned char)(len >> (8 * i));
	buf_put(b, "", 1);
}

static void
put_event(struct events *e, bool refused, const char *what)
{
	size_t len = what == NULL ? 0 : strnlen(what, COURIER_WHAT_MAX);

	if (e->n >= COURIER_EVENTS_MAX || IPC_MESSAGE_MAX - e->batch.len < BATCH_ROOM)
		events_flush(e, true);
	if (e->n == 0) {
		buf_reset(&e->batch);
		buf_put_u32(&e->batch, COURIER_EVENTS);
		buf_put_u32(&e->batch, 0);
		buf_put_u64(&e->batch, 0);
	}
	buf_put_u32(&e->batch, refused);
	put_length(&e->batch, what, refused ? len : 0);
	put_members(&e->batch, &e->line);
	e->n++;
	e->urgent |= refused;
}

void
event_done_awaited(struct events *e, uint64_t number)
{
	if (members_failed(&e->line))
		return;
	put_event(e, false, NULL);
	e->awaited = number;
	e->urgent = true;
}

void
event_done(struct events *e, bool refused, const char *what)
{
	/* Texts are cut so that this cannot happen. */
	if (members_failed(&e->line)) {
		members_reset(&e->line);
		return;
	}
	if (refused && e->halted) {
		e->n_halted += e->times;
		return;
	}
	if (refused && e->repeats_timer.at_ms == 0)
		loop_set_timer(e->loop, &e->repeats_timer, REPEATS_EVERY_MS);
	if (!refused || repeats_take(&e->repeats, &e->line, e->n_kind > 0 ? e->n_kind : e->line.n,
	                             e->times, REPEATS_EACH))
		put_event(e, refused, what);
}

/* Write counted refusals as one event per kind, and one for all other kinds. */
static void
tell_repeats(struct events *e)
{
	for (size_t i = 0; i < e->repeats.n; i++) {
		const struct repeat *kind = &e->repeats.kinds[i];
		uint64_t times = repeats_untold(kind);

		if (times == 0)
			continue;
		members_copy(&e->line, &kind->members, kind->members.n);
		event_u64(e, "count", times);
		put_event(e, true, "");
	}
	if (e->repeats.untold > 0) {
		event_begin(e, "many");
		event_str(e, "verdict", "deny");
		event_str(e, "why", "many");
		event_u64(e, "count", e->repeats.untold);
		event_str(e, "note", "so many more were refused that they are not told one by one");
		put_event(e, true, "");
	}
	repeats_reset(&e->repeats);
}

static void
tell_halted(struct events *e)
{
	if (e->n_halted == 0)
		return;
	event_begin(e, "many");
	event_str(e, "verdict", "deny");
	event_str(e, "why", "audit");
	event_u64(e, "count", e->n_halted);
	put_event(e, true, "");
	e->n_halted = 0;
}

void
events_halt(struct events *e, bool halted)
{
	e->halted = halted;
	if (!halted)
		tell_halted(e);
}

static void
repeats_due(void *arg)
{
	struct events *e = arg;

	/* Counts are kept until there is room. */
	if (e->halted) {
		loop_set_timer(e->loop, &e->repeats_timer, REPEATS_EVERY_MS);
		return;
	}
	tell_repeats(e);
	/* Run once more, to notice the end of a flood. */
	if (e->repeats.flooded)
		loop_set_timer(e->loop, &e->repeats_timer, REPEATS_EVERY_MS);
	events_flush(e, false);
}

/* 0, or -EAGAIN if the supervisor has to read first, or -ENOBUFS if out of memory. */
static int
send_batch(struct events *e)
{
	ssize_t n;

	for (size_t i = 0; i < 4; i++)
		e->batch.data[4 + i] = (unsigned char)(e->n >> (8 * i));
	for (size_t i = 0; i < 8; i++)
		e->batch.data[8 + i] = (unsigned char)(e->awaited >> (8 * i));
	do
		n = send(e->fd, e->batch.data, e->batch.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM))
		return errno == EAGAIN ? -EAGAIN : -ENOBUFS;
	/* If the supervisor has gone, the end of the channel reveals it. */
	e->n = 0;
	e->awaited = 0;
	e->urgent = false;
	e->sent_ms = loop_now_ms();
	if (e->batch.cap > EVENTS_FLUSH_AT + BATCH_ROOM)
		buf_free(&e->batch);
	return 0;
}

void
events_flush(struct events *e, bool all)
{
	struct pollfd pollfd = { .fd = e->fd, .events = POLLOUT };
	int r;

	if (e->n == 0)
		return;
	if (!all && !e->urgent && e->batch.len < EVENTS_FLUSH_AT &&
	    loop_now_ms() - e->sent_ms < EVENTS_EVERY_MS) {
		if (e->timer.at_ms == 0)
			loop_set_timer(e->loop, &e->timer, EVENTS_EVERY_MS);
		return;
	}
	while ((r = send_batch(e)) < 0) {
		if (!all && IPC_MESSAGE_MAX - e->batch.len >= BATCH_ROOM) {
			loop_set_timer(e->loop, &e->timer, EVENTS_EVERY_MS);
			return;
		}
		/* An action that cannot be recorded must not happen: everything waits. */
		(void)poll(&pollfd, r == -EAGAIN, r == -EAGAIN ? -1 : EVENTS_EVERY_MS);
	}
}

void
events_finish(struct events *e)
{
	tell_halted(e);
	tell_repeats(e);
	events_flush(e, true);
}

static void
timer_due(void *arg)
{
	events_flush(arg, false);
}

void
events_init(struct events *e, struct loop *loop, int fd)
{
	*e = (struct events){ .loop = loop, .fd = fd };
	members_init(&e->line, EVENT_MAX);
	buf_init(&e->batch, IPC_MESSAGE_MAX);
	loop_prepare_timer(&e->timer, timer_due, e);
	loop_prepare_timer(&e->repeats_timer, repeats_due, e);
}

void
events_free(struct events *e)
{
	if (e->loop != NULL) {
		loop_cancel_timer(e->loop, &e->timer);
		loop_cancel_timer(e->loop, &e->repeats_timer);
	}
	repeats_free(&e->repeats);
	members_free(&e->line);
	buf_free(&e->batch);
}
