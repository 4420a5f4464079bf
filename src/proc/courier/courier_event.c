/* courier_event.c - see courier_event.h. */
#include "proc/courier/courier_event.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/utf8.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"

#define BATCH_ROOM (EVENT_MAX + COURIER_WHAT_MAX + 64)
#define BATCH_HEADER 8                  /* type and number of events */

static void
put_code(struct buf *b, uint32_t code)
{
	char text[16];
	int n;

	if (code == '"' || code == '\\')
		n = snprintf(text, sizeof(text), "\\%c", (char)code);
	else if (code > 0xffff)
		n = snprintf(text, sizeof(text), "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)),
		             (unsigned)(0xdc00 + (code & 0x3ff)));
	else
		n = snprintf(text, sizeof(text), "\\u%04x", (unsigned)code);
	buf_put(b, text, (size_t)n);
}

/* How much of TEXT can be taken as it is. */
static size_t
plain_run(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && text[n] >= ' ' && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

void
json_escape_into(struct buf *b, const char *text, size_t len, size_t max)
{
	bool cut = len > max;
	uint32_t code;
	size_t n;

	for (len = cut ? max : len; len > 0; text += n, len -= n) {
		n = plain_run(text, len);
		if (n > 0) {
			buf_put(b, text, n);
			continue;
		}
		n = utf8_next(text, len, &code);
		if (n == 0) {
			buf_put(b, "\xef\xbf\xbd", 3);
			n = 1;
		} else if (code == '"' || code == '\\' || utf8_is_control(code)) {
			put_code(b, code);
		} else {
			buf_put(b, text, n);
		}
	}
	if (cut)
		buf_put(b, "...", 3);
}

static void
put_string(struct events *e, const char *text, size_t len, size_t max)
{
	buf_put(&e->line, "\"", 1);
	json_escape_into(&e->line, text, len, max);
	buf_put(&e->line, "\"", 1);
}

/* Keys are ours, and need no escapes. */
static void
put_key(struct events *e, const char *key)
{
	buf_put(&e->line, e->line.len > 0 ? ",\"" : "\"", e->line.len > 0 ? 2 : 1);
	buf_put(&e->line, key, strlen(key));
	buf_put(&e->line, "\":", 2);
}

void
event_text(struct events *e, const char *key, const char *text, size_t len)
{
	put_key(e, key);
	put_string(e, text, len, EVENT_TEXT_MAX);
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
	char digits[24], *at = digits + sizeof(digits);

	put_key(e, key);
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	buf_put(&e->line, at, (size_t)(digits + sizeof(digits) - at));
}

void
event_true(struct events *e, const char *key)
{
	put_key(e, key);
	buf_put(&e->line, "true", 4);
}

void
event_list(struct events *e, const char *key, const char *const *texts, size_t n)
{
	put_key(e, key);
	for (size_t i = 0; i < n; i++) {
		buf_put(&e->line, i == 0 ? "[" : ",", 1);
		put_string(e, texts[i], strlen(texts[i]), EVENT_ITEM_MAX);
	}
	buf_put(&e->line, "]", 1);
}

void
event_begin(struct events *e, const char *type)
{
	buf_reset(&e->line);
	e->kind_len = 0;
	e->times = 1;
	event_str(e, "type", type);
}

void
event_kind_ends(struct events *e)
{
	e->kind_len = e->line.len;
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
	}
	buf_put_u32(&e->batch, refused);
	put_length(&e->batch, what, refused ? len : 0);
	put_length(&e->batch, (char *)e->line.data, e->line.len);
	e->n++;
	e->urgent |= refused;
}

void
event_done(struct events *e, bool refused, const char *what)
{
	size_t len = e->kind_len > 0 ? e->kind_len : e->line.len;

	/* Texts are cut so that this cannot be. */
	if (buf_failed(&e->line)) {
		buf_reset(&e->line);
		return;
	}
	if (refused && e->repeats_timer.at_ms == 0)
		loop_set_timer(e->loop, &e->repeats_timer, REPEATS_EVERY_MS);
	if (!refused || repeats_take(&e->repeats, e->line.data, len, e->times))
		put_event(e, refused, what);
}

/* What was only counted becomes an event of each kind, and one of all other kinds. */
static void
tell_repeats(struct events *e)
{
	for (size_t i = 0; i < e->repeats.n; i++) {
		const struct repeat *kind = &e->repeats.kinds[i];
		uint64_t times = repeats_untold(kind);

		if (times == 0)
			continue;
		buf_reset(&e->line);
		buf_put(&e->line, kind->text, kind->len);
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
repeats_due(void *arg)
{
	struct events *e = arg;

	tell_repeats(e);
	/* Once more, so that what was a flood is known to be over. */
	if (e->repeats.flooded)
		loop_set_timer(e->loop, &e->repeats_timer, REPEATS_EVERY_MS);
	events_flush(e, false);
}

/* 0, or -EAGAIN if the supervisor has to read first. */
static int
send_batch(struct events *e)
{
	ssize_t n;

	for (size_t i = 0; i < 4; i++)
		e->batch.data[4 + i] = (unsigned char)(e->n >> (8 * i));
	do
		n = send(e->fd, e->batch.data, e->batch.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	/* Of a supervisor that has gone, the channel's end tells. */
	e->n = 0;
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

	if (e->n == 0)
		return;
	if (!all && !e->urgent && e->batch.len < EVENTS_FLUSH_AT &&
	    loop_now_ms() - e->sent_ms < EVENTS_EVERY_MS) {
		if (e->timer.at_ms == 0)
			loop_set_timer(e->loop, &e->timer, EVENTS_EVERY_MS);
		return;
	}
	while (send_batch(e) == -EAGAIN) {
		if (!all && IPC_MESSAGE_MAX - e->batch.len >= BATCH_ROOM) {
			loop_set_timer(e->loop, &e->timer, EVENTS_EVERY_MS);
			return;
		}
		/* What cannot be recorded must not happen: everything waits. */
		(void)poll(&pollfd, 1, -1);
	}
}

void
events_finish(struct events *e)
{
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
	buf_init(&e->line, EVENT_MAX);
	buf_init(&e->batch, IPC_MESSAGE_MAX);
	e->timer = (struct loop_timer){ .due = timer_due, .arg = e };
	e->repeats_timer = (struct loop_timer){ .due = repeats_due, .arg = e };
}

void
events_free(struct events *e)
{
	if (e->loop != NULL) {
		loop_cancel_timer(e->loop, &e->timer);
		loop_cancel_timer(e->loop, &e->repeats_timer);
	}
	repeats_free(&e->repeats);
	buf_free(&e->line);
	buf_free(&e->batch);
}
