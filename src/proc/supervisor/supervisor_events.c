/* supervisor_events.c - what the courier reports, one line of JSON each, in the cell's
 * timeline.
 *
 * The courier reads the world's answers and may be compromised: what it sends must not
 * be able to forge a line, or to do anything to a terminal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "ipc/courier_channel.h"
#include "proc/supervisor/supervisor.h"

#define HEAD_MAX 128                    /* what is put before an event */
#define BATCH_MAX 16                    /* messages in one round */

/* Members of an object, in UTF-8, with nothing in them that is not shown. */
static bool
is_event(const char *text)
{
	size_t len = strlen(text), at = 0, n;
	uint32_t code;

	if (len == 0 || text[0] != '"')
		return false;
	for (; at < len; at += n) {
		if (text[at] >= ' ' && text[at] < 0x7f) {
			n = 1;
			continue;
		}
		n = utf8_next(text + at, len - at, &code);
		if (n == 0 || utf8_is_control(code))
			return false;
	}
	return true;
}

void
supervisor_format_time(const struct timespec *time, char ret_text[40])
{
	struct tm tm;
	size_t n;

	gmtime_r(&time->tv_sec, &tm);
	n = strftime(ret_text, 40, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret_text + n, 40 - n, ".%03ldZ", time->tv_nsec / 1000000);
}

static void
format_time(char text[40])
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	supervisor_format_time(&now, text);
}

/* The policy too, so that what was refused can be understood later. */
static int
keep_policy(struct supervisor *sv, struct err *err)
{
	OWN(closep) int fd = openat(sv->state, CELL_POLICY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	                            0600);
	char bytes[16384];
	off_t at = 0;
	ssize_t n;
	int r = 0;

	if (fd < 0)
		return err_errno(err, "cannot keep the policy");
	while (r == 0 && (n = pread(sv->egress.policy, bytes, sizeof(bytes), at)) > 0) {
		r = write_all(fd, bytes, (size_t)n, err);
		at += n;
	}
	/* Half of it would be taken for all, and be in the way of the next try. */
	if (r < 0)
		unlinkat(sv->state, CELL_POLICY, 0);
	return r;
}

static int
open_timeline(struct supervisor *sv, struct err *err)
{
	struct events *e = &sv->events;
	int r = sv->state >= 0 ? 0 : cell_state_make(&sv->spec, &sv->state, err);

	if (r == 0 && !e->has_policy)
		r = keep_policy(sv, err);
	if (r < 0)
		return r;
	e->has_policy = true;
	e->fd = openat(sv->state, CELL_EVENTS, O_WRONLY | O_CREAT | (e->begun ? 0 : O_EXCL) |
	               O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (e->fd < 0)
		return err_errno(err, "cannot make the cell's timeline");
	e->begun = true;
	return 0;
}

/* Its older half is kept; what comes before that is told of as missing. */
static void
turn_over(struct supervisor *sv)
{
	struct events *e = &sv->events;

	close(e->fd);
	e->fd = -1;
	e->size = 0;
	/* What is in the way is not written behind. */
	if (renameat(sv->state, CELL_EVENTS, sv->state, CELL_EVENTS ".1") < 0)
		unlinkat(sv->state, CELL_EVENTS, 0);
}

/* A disk that is full must not stop the cell; but that something is missing is said. */
static void
write_lines(struct supervisor *sv, const struct buf *lines)
{
	struct events *e = &sv->events;
	struct err err = {0};
	int r = 0;

	if (e->size + lines->len > SUPERVISOR_EVENTS_MAX && e->fd >= 0)
		turn_over(sv);
	/* Tried again each time: what failed once need not stay so, and numbers tell the gap. */
	if (e->fd < 0)
		r = open_timeline(sv, &err);
	if (r == 0)
		r = write_all(e->fd, lines->data, lines->len, &err);
	if (r == 0) {
		e->size += lines->len;
		return;
	}
	/* Half a line would spoil the next one. */
	if (e->fd >= 0)
		(void)!ftruncate(e->fd, (off_t)e->size);
	if (!e->failed)
		supervisor_say(sv, "the cell's timeline is incomplete: %s", err.text);
	e->failed = true;
}

static void
put_line(struct supervisor *sv, const char *event, const char *time, struct buf *lines)
{
	char head[HEAD_MAX];

	snprintf(head, sizeof(head), "{\"n\":%llu,\"time\":\"%s\",\"cell\":\"%s\",",
	         (unsigned long long)++sv->events.n, time, sv->spec.id);
	buf_put(lines, head, strlen(head));
	buf_put(lines, event, strlen(event));
	buf_put(lines, "}\n", 2);
}

static int
take_event(struct supervisor *sv, struct buf *body, const char *time, struct buf *lines)
{
	const char *what, *event;
	uint32_t refused;

	if (buf_get_u32(body, &refused) < 0 || refused > 1 || buf_get_str(body, &what) < 0 ||
	    buf_get_str(body, &event) < 0 || !is_event(event))
		return -EBADMSG;
	put_line(sv, event, time, lines);
	if (refused == 1)
		cell_refusals_note(&sv->events.refusals, event);
	return 0;
}

static int
take_events(struct supervisor *sv, struct ipc_message *message)
{
	OWN(buf_free) struct buf lines;
	char time[40];
	uint32_t n;
	int r = 0;

	buf_init(&lines, IPC_MESSAGE_MAX + COURIER_EVENTS_MAX * HEAD_MAX);
	if (buf_get_u32(&message->body, &n) < 0 || n == 0 || n > COURIER_EVENTS_MAX)
		return -EBADMSG;
	format_time(time);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = take_event(sv, &message->body, time, &lines);
	if (r == 0 && buf_left(&message->body) != 0)
		r = -EBADMSG;
	if (lines.len > 0 && !buf_failed(&lines))
		write_lines(sv, &lines);
	return r;
}

static int
take_alarm(struct supervisor *sv, struct ipc_message *message)
{
	if (buf_left(&message->body) != 0 || sv->spec.exfiltration == CELL_REFUSE)
		return -EBADMSG;
	supervisor_alarm(sv);
	return 0;
}

/* What the courier may say; anything else and it is killed. */
static const struct {
	uint32_t type;
	int (*take)(struct supervisor *sv, struct ipc_message *message);
} courier_may_say[] = {
	{ COURIER_EVENTS, take_events },
	{ COURIER_ALARM, take_alarm },
};

static int
take_message(struct supervisor *sv, struct ipc_message *message)
{
	for (size_t i = 0; i < ARRAY_LEN(courier_may_say); i++)
		if (courier_may_say[i].type == message->type && message->n_fds == 0)
			return courier_may_say[i].take(sv, message);
	return -EBADMSG;
}

int
supervisor_hear_courier(struct supervisor *sv)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(sv->egress.courier.fd, &message, NULL);

	if (r == -EAGAIN)
		return r;
	if (r == 0)
		r = take_message(sv, &message);
	if (r < 0)
		supervisor_egress_hung_up(sv, &sv->egress.courier);
	if (r == -EBADMSG) {
		supervisor_say(sv, "the cell's courier broke the rules, so it was killed");
		supervisor_egress_stop(sv);
	}
	return r;
}

void
supervisor_courier_ready(void *arg, uint32_t events)
{
	(void)events;
	for (int i = 0; i < BATCH_MAX && supervisor_hear_courier(arg) == 0; i++)
		;
}

void
supervisor_record(struct supervisor *sv, const char *did, const char *by, const char *note)
{
	OWN(buf_free) struct buf lines;
	OWN(freep) char *text = NULL;
	char time[40];
	size_t len;
	FILE *out = sv->spec.has_policy ? open_memstream(&text, &len) : NULL;
	struct json w = { .out = out };

	if (out == NULL)
		return;
	json_open(&w, NULL, '{');
	json_str(&w, "type", "cell");
	json_str(&w, "verdict", "allow");
	json_str(&w, "did", did);
	json_str(&w, "by", by);
	if (note[0] != '\0')
		json_str(&w, "note", note);
	if (fclose(out) != 0 || text == NULL)
		return;
	buf_init(&lines, ERR_TEXT_MAX + 4 * HEAD_MAX);
	format_time(time);
	/* Members, without the brace in front. */
	put_line(sv, text + 1, time, &lines);
	if (!buf_failed(&lines))
		write_lines(sv, &lines);
}

void
supervisor_tell_refusals(const struct supervisor *sv, const char *cell)
{
	if (!sv->spec.quiet && !sv->spec.detached)
		cell_refusals_print(stderr, &sv->events.refusals, cell);
}
