/* tools_lines.c - the three streams of a server: messages to it, messages from it, and its errors, a line each. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/tools/tools_worker.h"

#define PIECE (64 * 1024)
#define ERROR_LINE 1000                 /* bytes of a line of errors */
#define PIECES 16                       /* read in one round from one server */

static size_t
line_max(const struct instance *i)
{
	size_t most = i->server->result_max > GATEWAY_MESSAGE_MAX ? i->server->result_max : GATEWAY_MESSAGE_MAX;

	return most + PIECE;
}

/* ---- to the server ---- */

static void
write_more(struct instance *i)
{
	struct buf *b = &i->to;

	while (buf_left(b) > 0) {
		ssize_t n = write(i->in.fd, b->data + b->pos, buf_left(b));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		b->pos += (size_t)n;
	}
	if (buf_left(b) == 0)
		buf_reset(b);
	(void)loop_watch(gateway_loop, &i->in, buf_left(b) > 0 ? EPOLLOUT : 0, NULL);
}

static void
in_ready(void *arg, uint32_t events)
{
	struct instance *i = arg;

	/* It reads no more.  Its output shows whether it has ended. */
	if ((events & EPOLLERR) != 0)
		(void)loop_watch(gateway_loop, &i->in, 0, NULL);
	else
		write_more(i);
}

/* Make room at the front. */
static void
compact(struct buf *b)
{
	if (b->pos == 0)
		return;
	memmove(b->data, b->data + b->pos, buf_left(b));
	b->len -= b->pos;
	b->pos = 0;
}

bool
lines_put(struct instance *i, const char *text)
{
	size_t len = strlen(text);

	if (i->in.fd < 0 || len >= GATEWAY_WAITING_MAX - buf_left(&i->to))
		return false;
	compact(&i->to);
	buf_put(&i->to, text, len);
	buf_put(&i->to, "\n", 1);
	if (buf_failed(&i->to))
		return false;
	write_more(i);
	return true;
}

/* ---- from the server ---- */

static void
keep_tail(struct instance *i, const char *text, size_t len)
{
	size_t n = len < sizeof(i->tail) - 1 ? len : sizeof(i->tail) - 1;
	size_t old = i->n_tail + n > sizeof(i->tail) - 1 ? sizeof(i->tail) - 1 - n : i->n_tail;

	memmove(i->tail, i->tail + i->n_tail - old, old);
	memcpy(i->tail + old, text + len - n, n);
	i->n_tail = old + n;
	i->tail[i->n_tail] = '\0';
}

static void
end_cut(struct instance *i)
{
	char head[128];
	size_t n = i->from.len < sizeof(head) - 1 ? i->from.len : sizeof(head) - 1;

	memcpy(head, i->from.data, n);
	head[n] = '\0';
	i->skips = false;
	i->n_tail = 0;
	buf_free(&i->from);
	buf_init(&i->from, line_max(i));
	instance_hear_cut(i, head, i->tail);
}

/* A line may be spread over several pieces; one that is too long is passed over. */
static void
take(struct instance *i, const char *text, size_t len)
{
	while (len > 0 && i->step != INSTANCE_ENDS) {
		const char *end = memchr(text, '\n', len);
		size_t n = end != NULL ? (size_t)(end - text) : len;

		if (!i->skips && i->from.len + n >= line_max(i)) {
			i->skips = true;
			keep_tail(i, (char *)i->from.data, i->from.len);
		}
		if (i->skips) {
			keep_tail(i, text, n);
		} else if (end != NULL && i->from.len == 0) {
			instance_hear(i, text, n);
		} else {
			buf_put(&i->from, text, n);
			if (end != NULL && !buf_failed(&i->from)) {
				struct buf line = i->from;

				buf_init(&i->from, line_max(i));
				instance_hear(i, (char *)line.data, line.len);
				buf_free(&line);
			}
		}
		if (i->skips && end != NULL)
			end_cut(i);
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
}

static void
out_ready(void *arg, uint32_t events)
{
	static char piece[PIECE];
	struct instance *i = arg;

	(void)events;
	for (int n = 0; n < PIECES && i->step != INSTANCE_ENDS && i->out.fd >= 0; n++) {
		ssize_t got = read(i->out.fd, piece, sizeof(piece));

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			instance_closed(i);
			return;
		}
		take(i, piece, (size_t)got);
	}
}

/* ---- errors ---- */

static void
take_errors(struct instance *i, const char *text, size_t len)
{
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end != NULL ? (size_t)(end - text) : len;
		size_t room = ERROR_LINE - i->errors.len;

		buf_put(&i->errors, text, n < room ? n : room);
		if (end != NULL && i->errors.len > 0)
			instance_hear_error(i, (char *)i->errors.data, i->errors.len);
		if (end != NULL)
			buf_reset(&i->errors);
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
}

static void
err_ready(void *arg, uint32_t events)
{
	struct instance *i = arg;
	char piece[4096];
	ssize_t n = read(i->err.fd, piece, sizeof(piece));

	(void)events;
	if (n > 0)
		take_errors(i, piece, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		loop_unwatch(gateway_loop, &i->err);
}

/* ---- begin, end ---- */

bool
lines_begin(struct instance *i, int fds[3])
{
	i->in = (struct loop_source){ .fd = TAKE_FD(fds[0]), .ready = in_ready, .arg = i };
	i->out = (struct loop_source){ .fd = TAKE_FD(fds[1]), .ready = out_ready, .arg = i };
	i->err = (struct loop_source){ .fd = TAKE_FD(fds[2]), .ready = err_ready, .arg = i };
	buf_init(&i->to, GATEWAY_WAITING_MAX + 1);
	buf_init(&i->from, line_max(i));
	buf_init(&i->errors, ERROR_LINE);
	return loop_watch(gateway_loop, &i->out, EPOLLIN, NULL) == 0 &&
	       loop_watch(gateway_loop, &i->err, EPOLLIN, NULL) == 0;
}

void
lines_close(struct instance *i)
{
	struct loop_source *const sources[] = { &i->in, &i->out, &i->err };

	if (i->err.fd >= 0 && i->errors.len > 0)
		instance_hear_error(i, (char *)i->errors.data, i->errors.len);
	for (size_t n = 0; n < ARRAY_LEN(sources); n++) {
		loop_unwatch(gateway_loop, sources[n]);
		closep(&sources[n]->fd);
		sources[n]->fd = -1;
	}
	buf_free(&i->to);
	buf_free(&i->from);
	buf_free(&i->errors);
}
