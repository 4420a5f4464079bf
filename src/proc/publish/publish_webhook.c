/* publish_webhook.c - one webhook request from outside: reads it completely, has the courier check
 * it, forwards it as the courier directs, and returns the response as it comes.
 *
 * Each connection carries one request.  Input is parsed as strictly as requests that leave a cell.
 * Only the checked request, written anew, reaches the cell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/h1.h"
#include "ipc/ipc.h"
#include "ipc/webhook_channel.h"
#include "proc/publish/publish.h"

#define IN_MAX (64 * 1024)              /* read at once */

enum webhook_step { READS, ASKS, CONNECTS, ANSWERS, LINGERS, GONE };

struct webhook {
	struct webhook *next, **at;     /* of all; then of ended ones */
	enum webhook_step step;
	uint32_t number;                /* of its request to the courier */
	uint16_t port;
	struct loop_source host, cell;
	struct publish_dial dial;       /* in CONNECTS */
	struct loop_timer late;
	struct h1_reader reader;        /* for the request, then for the response */
	struct buf head, body;          /* the request: its head encoded */
	struct buf to_cell, to_host;    /* not written yet */
	bool is_head;
	bool answers;                   /* the response has begun */
	bool blind;                     /* unknown HTTP: the response ends with the connection */
	bool ends;                      /* all of it is in TO_HOST */
};

static struct webhook *webhooks, *gone;
static struct loop_round bury;
static struct loop_source channel = { .fd = PUBLISH_WEBHOOK_FD };
static uint32_t next_number;
static size_t held;                     /* see WEBHOOK_HELD_ALL */
static char in[IN_MAX];

static void refuse(struct webhook *w, uint16_t status, const char *reason);
static void begin_connect(struct webhook *w);

/* ---- ending ---- */

static void
bury_gone(void *arg)
{
	struct webhook *w;

	(void)arg;
	while ((w = gone) != NULL) {
		gone = w->next;
		h1_reader_free(&w->reader);
		buf_free(&w->head);
		buf_free(&w->to_cell);
		buf_free(&w->to_host);
		free(w);
	}
}

static void
forget_body(struct webhook *w)
{
	held -= w->body.len;
	buf_free(&w->body);
	buf_init(&w->body, WEBHOOK_BODY_MAX);
}

static void
close_side(struct loop_source *source)
{
	if (source->fd < 0)
		return;
	loop_unwatch(publish_loop, source);
	close(source->fd);
	source->fd = -1;
}

static void
drop(struct webhook *w)
{
	if (w->step == GONE)
		return;
	if (w->step == CONNECTS)
		publish_dial_drop(&w->dial);
	w->step = GONE;
	loop_cancel_timer(publish_loop, &w->late);
	close_side(&w->host);
	close_side(&w->cell);
	forget_body(w);
	*w->at = w->next;
	if (w->next != NULL)
		w->next->at = w->at;
	w->next = gone;
	gone = w;
	loop_at_round_end(publish_loop, &bury);
	publish_went();
}

static void
watch(struct webhook *w, struct loop_source *source, uint32_t events)
{
	if (loop_watch(publish_loop, source, events, NULL) < 0)
		drop(w);
}

static void
set_late(struct webhook *w, unsigned seconds)
{
	loop_set_timer(publish_loop, &w->late, (uint64_t)seconds * 1000);
}

/* Closing at once would discard data that the client has not read yet. */
static void
linger(struct webhook *w)
{
	close_side(&w->cell);
	w->step = LINGERS;
	shutdown(w->host.fd, SHUT_WR);
	set_late(w, WEBHOOK_LINGER_S);
	watch(w, &w->host, EPOLLIN);
}

static void
late(void *arg)
{
	struct webhook *w = arg;

	if (w->step == READS)
		refuse(w, 408, "the request is incomplete");
	else if (w->step == ASKS)
		refuse(w, 503, "the signature could not be checked in time");
	else
		drop(w);
}

/* ---- to the client ---- */

/* False: there is more to write, or the peer is gone. */
static bool
flush(struct loop_source *to, struct buf *b)
{
	while (buf_left(b) > 0) {
		ssize_t n = send(to->fd, b->data + b->pos, buf_left(b), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		b->pos += (size_t)n;
	}
	buf_reset(b);
	return true;
}

static void
flush_host(struct webhook *w)
{
	if (!flush(&w->host, &w->to_host)) {
		if (errno != EAGAIN) {
			drop(w);
			return;
		}
		if (w->cell.fd >= 0)
			watch(w, &w->cell, buf_left(&w->to_cell) > 0 ? EPOLLOUT : 0);
		if (w->step != GONE)
			watch(w, &w->host, EPOLLOUT);
		return;
	}
	if (w->ends) {
		linger(w);
		return;
	}
	watch(w, &w->host, 0);
	if (w->step == ANSWERS)
		watch(w, &w->cell, EPOLLIN | (buf_left(&w->to_cell) > 0 ? EPOLLOUT : 0));
}

static void
put_safe(struct buf *b, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			buf_put(b, "\\", 1);
		buf_put(b, *text < 0x20 || *text == 0x7f ? "?" : text, 1);
	}
}

static void
refuse(struct webhook *w, uint16_t status, const char *reason)
{
	static const char begin[] = "{\"error\":\"refused by cloister\",\"reason\":\"";
	struct http_head head = { .status = status, .n_fields = 1,
		.fields = { { { "content-type", 12 }, { "application/json", 16 } } } };
	OWN(buf_free) struct buf body = BUF(4096);

	close_side(&w->cell);
	buf_put(&body, begin, sizeof(begin) - 1);
	put_safe(&body, reason);
	buf_put(&body, "\"}\n", 3);
	head.length = body.len;
	buf_reset(&w->to_host);
	h1_write_head(&w->to_host, &head, (struct h1_style){ .keep_alive = false });
	buf_put(&w->to_host, body.data, body.len);
	forget_body(w);
	w->ends = true;
	w->step = ANSWERS;
	set_late(w, WEBHOOK_READ_S);
	flush_host(w);
}

/* ---- the response ---- */

/* How many of the LEN bytes in IN belong to the response. */
static size_t
follow(struct webhook *w, size_t len)
{
	struct http_text piece;
	size_t used, at = 0;

	while (!w->blind) {
		enum h1_event event = h1_read(&w->reader, in + at, len - at, &used, &piece, NULL);

		at += used;
		if (event == H1_MORE)
			return len;
		w->blind = event == H1_BAD;
		if (event == H1_END) {
			w->ends = true;
			return at;
		}
	}
	return len;
}

static void
take_answer(struct webhook *w)
{
	ssize_t n = read(w->cell.fd, in, sizeof(in));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 && !w->answers) {
		refuse(w, 502, "the server in the cell did not answer");
		return;
	}
	w->answers = true;
	if (n <= 0)
		w->ends = true;
	else
		buf_put(&w->to_host, in, follow(w, (size_t)n));
	if (buf_failed(&w->to_host)) {
		drop(w);
		return;
	}
	set_late(w, WEBHOOK_ANSWER_S);
	flush_host(w);
}

/* ---- to the cell ---- */

static void
flush_cell(struct webhook *w)
{
	if (!flush(&w->cell, &w->to_cell) && errno == EAGAIN) {
		watch(w, &w->cell, EPOLLOUT | (buf_left(&w->to_host) > 0 ? 0 : EPOLLIN));
		return;
	}
	/* A server that reads no more may have answered already. */
	buf_free(&w->to_cell);
	buf_init(&w->to_cell, 0);
	if (buf_left(&w->to_host) == 0)
		watch(w, &w->cell, EPOLLIN);
	else
		watch(w, &w->cell, 0);
}

static void
cell_ready(void *arg, uint32_t events)
{
	struct webhook *w = arg;

	if ((events & EPOLLOUT) != 0)
		flush_cell(w);
	if (w->step == ANSWERS && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
	    buf_left(&w->to_host) == 0)
		take_answer(w);
}

static void
dialed(void *arg, int fd)
{
	struct webhook *w = arg;

	w->step = ANSWERS;
	if (fd < 0) {
		refuse(w, 502, "nothing listens on this port in the cell");
		return;
	}
	w->cell.fd = fd;
	set_late(w, WEBHOOK_ANSWER_S);
	flush_cell(w);
}

static void
begin_connect(struct webhook *w)
{
	w->step = CONNECTS;
	w->dial = (struct publish_dial){ .done = dialed, .arg = w };
	publish_dial(&w->dial, w->port);
}

/* ---- the courier ---- */

static int
body_file(const struct webhook *w, int *ret_fd)
{
	OWN(closep) int fd = memfd_create("webhook", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write_all(fd, w->body.data, w->body.len, NULL) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void
ask(struct webhook *w)
{
	static struct http_head head;
	OWN(closep) int fd = -1;
	OWN(buf_free) struct buf question;
	int r;

	loop_unwatch(publish_loop, &w->host);
	/* This process encoded it. */
	if (http_head_decode(&w->head, &head, NULL) < 0)
		abort();
	head.length = w->body.len;
	w->is_head = http_text_is(head.method, "HEAD");
	w->number = ++next_number;
	ipc_begin(&question, WEBHOOK_CHECK);
	buf_put_u32(&question, w->number);
	buf_put_u32(&question, w->port);
	http_head_encode(&question, &head);
	r = w->body.len > 0 ? body_file(w, &fd) : 0;
	if (r == 0)
		r = ipc_send(channel.fd, &question, &fd, fd >= 0 ? 1 : 0, NULL);
	if (r < 0) {
		refuse(w, 503, "too many webhooks wait to be checked");
		return;
	}
	w->step = ASKS;
	set_late(w, WEBHOOK_CHECK_S);
}

static int
take_checked(struct ipc_message *message)
{
	static struct http_head head;
	struct webhook *w = webhooks;
	uint32_t number, status;
	const char *reason;

	if (message->type != WEBHOOK_CHECKED || buf_get_u32(&message->body, &number) < 0 ||
	    buf_get_u32(&message->body, &status) < 0 || (status != 0 && (status < 400 || status > 599)))
		return -EBADMSG;
	while (w != NULL && (w->step != ASKS || w->number != number))
		w = w->next;
	if (w == NULL)
		return 0;
	if (status != 0) {
		if (buf_get_str(&message->body, &reason) < 0)
			return -EBADMSG;
		refuse(w, (uint16_t)status, reason);
		return 0;
	}
	if (http_head_decode(&message->body, &head, NULL) < 0 || head.length != w->body.len)
		return -EBADMSG;
	buf_init(&w->to_cell, WEBHOOK_BODY_MAX + 2 * HTTP_HEAD_MAX);
	h1_write_head(&w->to_cell, &head, (struct h1_style){ .keep_alive = false });
	buf_put(&w->to_cell, w->body.data, w->body.len);
	forget_body(w);
	h1_reader_free(&w->reader);
	h1_reader_init(&w->reader, H1_RESPONSES);
	h1_reader_expect(&w->reader, w->is_head);
	if (buf_failed(&w->to_cell))
		refuse(w, 503, "out of memory");
	else
		begin_connect(w);
	return 0;
}

static void
channel_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1 } };
	int r = ipc_receive(channel.fd, &message, NULL);

	(void)arg;
	(void)events;
	if (r == 0)
		r = take_checked(&message);
	if (r < 0 && r != -EAGAIN)
		loop_quit(publish_loop);
}

/* ---- the request ---- */

/* False: it is refused. */
static bool
take_head(struct webhook *w)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_head *head = &w->reader.head;
	struct err err = {0};

	head->scheme = HTTP_PLAIN;
	if (head->host.len == 0)
		head->host = (struct http_text){ "localhost", 9 };
	if (head->port == 0)
		head->port = 80;
	http_head_drop(head, "expect");
	if (http_head_check(head, &err) < 0 || head->upgrade.len > 0 || head->path.at[0] != '/') {
		refuse(w, 400, err.text[0] != '\0' ? err.text : "this is not a webhook request");
		return false;
	}
	if (head->length != HTTP_LENGTH_UNKNOWN && head->length > WEBHOOK_BODY_MAX) {
		refuse(w, 413, "the body of a webhook is at most 1 MiB");
		return false;
	}
	buf_reset(&w->head);
	http_head_encode(&w->head, head);
	if (buf_failed(&w->head)) {
		refuse(w, 431, "the head is too long");
		return false;
	}
	if (w->reader.expects_continue)
		(void)!send(w->host.fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL);
	return true;
}

static bool
take_body(struct webhook *w, struct http_text piece)
{
	if (piece.len > WEBHOOK_BODY_MAX - w->body.len) {
		refuse(w, 413, "the body of a webhook is at most 1 MiB");
		return false;
	}
	if (piece.len > WEBHOOK_HELD_ALL - held) {
		refuse(w, 503, "too many webhooks arrive at once");
		return false;
	}
	buf_put(&w->body, piece.at, piece.len);
	held += piece.len;
	return true;
}

static void
take_request(struct webhook *w, size_t len)
{
	struct http_text piece;
	struct err err = {0};
	size_t used, at = 0;

	for (;; at += used) {
		switch (h1_read(&w->reader, in + at, len - at, &used, &piece, &err)) {
		case H1_MORE:
			return;
		case H1_HEAD:
			if (!take_head(w))
				return;
			break;
		case H1_BODY:
			if (!take_body(w, piece))
				return;
			break;
		case H1_END:
			ask(w);
			return;
		case H1_BAD:
			refuse(w, w->reader.status, err.text);
			return;
		}
	}
}

static void
host_ready(void *arg, uint32_t events)
{
	struct webhook *w = arg;
	ssize_t n;

	if (w->step == ANSWERS) {
		if ((events & EPOLLOUT) != 0)
			flush_host(w);
		else
			drop(w);
		return;
	}
	n = read(w->host.fd, in, sizeof(in));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (w->step != READS && w->step != LINGERS))
		drop(w);
	else if (w->step == READS)
		take_request(w, (size_t)n);
}

void
webhook_take(uint16_t port, int fd)
{
	struct webhook *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		close(fd);
		return;
	}
	publish_came();
	w->port = port;
	w->host = (struct loop_source){ .fd = fd, .ready = host_ready, .arg = w };
	w->cell = (struct loop_source){ .fd = -1, .ready = cell_ready, .arg = w };
	loop_prepare_timer(&w->late, late, w);
	h1_reader_init(&w->reader, H1_REQUESTS);
	buf_init(&w->head, 2 * HTTP_HEAD_MAX);
	buf_init(&w->body, WEBHOOK_BODY_MAX);
	buf_init(&w->to_cell, 0);
	buf_init(&w->to_host, 2 * IN_MAX);
	w->next = webhooks;
	w->at = &webhooks;
	if (webhooks != NULL)
		webhooks->at = &w->next;
	webhooks = w;
	set_late(w, WEBHOOK_READ_S);
	watch(w, &w->host, EPOLLIN);
}

int
webhook_start(struct err *err)
{
	loop_prepare_round(&bury, bury_gone, NULL);
	channel.ready = channel_ready;
	return loop_watch(publish_loop, &channel, EPOLLIN, err);
}
