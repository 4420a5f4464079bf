/* mcp_job.c - runs a call: sends its requests to the service, one connection each, until it has its
 * result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/own.h"
#include "http/h1.h"
#include "ipc/ipc.h"
#include "ipc/mcp_channel.h"
#include "proc/mcp/mcp_proc.h"
#include "tls/conn.h"

#define ANSWER_S 120                    /* for a response that is not followed line by line */
#define LINE_MAX_BYTES (1u << 20)       /* a longer one is skipped */
#define TOKEN_MAX 512
#define PIECE_MAX (32 * 1024)

struct link {
	struct conn conn;
	struct h1_reader reader;
	struct job *job;
	struct loop_timer late;
	struct buf body;                /* or the current line */
	uint64_t skipped;
	size_t sent;                    /* of the request's body */
	unsigned status;
	bool is_cut, line_too_long;
};

static struct job *jobs, *waiting, **waiting_end = &waiting;
static size_t n_jobs;
static struct loop_source channel = { .fd = MCP_CHANNEL_FD };
static char common[TOKEN_MAX + 1];      /* the token */
static char in[32 * 1024];

static void go_on(struct job *job, enum mcp_next next);

/* ---- ends ---- */

static void
link_close(struct job *job)
{
	struct link *link = TAKE(job->link);

	if (link == NULL)
		return;
	loop_cancel_timer(mcp_loop, &link->late);
	conn_close(&link->conn, true);
	h1_reader_free(&link->reader);
	buf_free(&link->body);
	free(link);
}

static void
forget(struct job *job)
{
	link_close(job);
	loop_cancel_round(mcp_loop, &job->round);
	if (job->is_waiting) {
		struct job **at = &waiting;

		while (*at != job)
			at = &(*at)->next_waiting;
		*at = job->next_waiting;
		if (*at == NULL)
			waiting_end = at;
	}
	*job->at = job->next;
	if (job->next != NULL)
		job->next->at = job->at;
	mcp_call_free(job->call);
	free(job);
	n_jobs--;
}

static void
finish(void *arg)
{
	struct job *job = arg;
	json_t *result = job->call->cancelled ? NULL : mcp_call_result(job->call);

	job->handler->say(job, result, true);
	forget(job);
}

static void
broken(struct job *job, const struct err *why)
{
	link_close(job);
	go_on(job, mcp_call_broken(job->call, why));
}

/* ---- responses ---- */

static void
take_line(struct link *link)
{
	json_t *progress = NULL;

	if (link->body.len > 0 && !link->line_too_long)
		mcp_call_line(link->job->call, (char *)link->body.data, link->body.len, loop_now_ms(),
		              &progress);
	link->line_too_long = false;
	buf_reset(&link->body);
	if (progress != NULL && !link->job->call->cancelled)
		link->job->handler->say(link->job, progress, false);
	else
		json_decref(progress);
}

static void
take_lines(struct link *link, struct http_text piece)
{
	while (piece.len > 0) {
		const char *end = memchr(piece.at, '\n', piece.len);
		size_t n = end != NULL ? (size_t)(end - piece.at) : piece.len;

		if (link->body.len + n > LINE_MAX_BYTES)
			link->line_too_long = true;
		else
			buf_put(&link->body, piece.at, n);
		if (end != NULL)
			take_line(link);
		n += end != NULL;
		piece = (struct http_text){ piece.at + n, piece.len - n };
	}
}

static void
take_body(struct link *link, struct http_text piece)
{
	const struct mcp_ask *ask = &link->job->call->ask;
	uint64_t left = ask->skip - link->skipped;
	size_t n;

	if (ask->lines && link->status == 200) {
		take_lines(link, piece);
		return;
	}
	/* The text of an error is never skipped. */
	if (link->status == 200 && left > 0) {
		n = piece.len < left ? piece.len : (size_t)left;
		link->skipped += n;
		piece = (struct http_text){ piece.at + n, piece.len - n };
	}
	n = ask->max - link->body.len;
	if (link->status != 200)
		n = MCP_JSON_MAX - link->body.len;
	if (n < piece.len)
		link->is_cut = true;
	buf_put(&link->body, piece.at, n < piece.len ? n : piece.len);
}

static void
answered(struct job *job)
{
	struct link *link = TAKE(job->link);
	struct mcp_answer answer = { .status = link->status, .is_cut = link->is_cut };
	enum mcp_next next;

	answer.body = link->body.data != NULL && !job->call->ask.lines ? (char *)link->body.data : "";
	answer.len = job->call->ask.lines && link->status == 200 ? 0 : link->body.len;
	if (link->status != 200 && link->body.data != NULL)
		answer.body = (char *)link->body.data;
	next = mcp_call_answer(job->call, &answer);
	job->link = link;
	link_close(job);
	go_on(job, next);
}

/* True: the response is not complete yet. */
static bool
take(struct link *link, size_t len, struct err *err)
{
	struct http_text piece;
	size_t at = 0, used;
	enum h1_event event;

	for (;;) {
		event = h1_read(&link->reader, in + at, len - at, &used, &piece, err);
		at += used;
		if (event == H1_MORE)
			return true;
		if (event == H1_HEAD)
			link->status = link->reader.head.status;
		else if (event == H1_BODY)
			take_body(link, piece);
		else if (event == H1_END)
			return false;
		else
			return err_set(err, EPROTO, "the service sent an invalid HTTP response") == 0;
		/* The rest is not needed. */
		if (link->is_cut)
			return false;
	}
}

static void
readable(void *arg)
{
	struct link *link = arg;
	struct job *job = link->job;
	struct err err = {0};
	ssize_t n;

	for (;;) {
		n = conn_read(&link->conn, in, sizeof(in));
		if (n == -EAGAIN)
			return;
		if (n > 0 && take(link, (size_t)n, &err))
			continue;
		if (n == 0 && h1_read_eof(&link->reader, &err) != H1_END)
			err_set(&err, EPIPE, "the service broke off");
		else if (n < 0)
			err_set(&err, (int)-n, "the service broke off: %s", strerror((int)-n));
		break;
	}
	if (err.code != 0)
		broken(job, &err);
	else
		answered(job);
}

/* The request may be long. */
static void
writable(void *arg)
{
	struct link *link = arg;
	const char *body = link->job->call->ask.body;
	size_t len = body != NULL ? strlen(body) - link->sent : 0, n;

	while (len > 0 && !conn_is_full(&link->conn)) {
		n = len < PIECE_MAX ? len : PIECE_MAX;
		if (conn_write(&link->conn, body + link->sent, n) < 0)
			return;
		link->sent += n;
		len -= n;
	}
}

static void
conn_broken(void *arg, const struct err *error)
{
	broken(((struct link *)arg)->job, error);
}

static void
is_late(void *arg)
{
	struct err err = {0};

	err_set(&err, ETIMEDOUT, "the service has not answered for two minutes");
	broken(((struct link *)arg)->job, &err);
}

/* ---- requests ---- */

static struct http_text
text_of(const char *s)
{
	return (struct http_text){ s, strlen(s) };
}

static void
send_ask(struct link *link)
{
	const struct mcp_ask *ask = &link->job->call->ask;
	struct http_head head = { .method = text_of(ask->method), .host = text_of("localhost"),
		.path = text_of(ask->path), .port = 80, .scheme = HTTP_PLAIN };
	struct http_field *f = head.fields;
	const char *token = link->job->token[0] != '\0' ? link->job->token : common;
	char bearer[TOKEN_MAX + 16];
	OWN(buf_free) struct buf b = BUF(HTTP_HEAD_MAX);

	if (ask->body != NULL) {
		head.length = strlen(ask->body);
		f[head.n_fields++] = (struct http_field){ text_of("content-type"),
		                                          text_of("application/json") };
	}
	f[head.n_fields++] = (struct http_field){ text_of("accept"),
		text_of(ask->lines ? "application/x-ndjson" : "*/*") };
	snprintf(bearer, sizeof(bearer), "Bearer %s", token);
	if (token[0] != '\0')
		f[head.n_fields++] = (struct http_field){ text_of("authorization"), text_of(bearer) };
	h1_write_head(&b, &head, (struct h1_style){ .keep_alive = false });
	if (conn_write(&link->conn, b.data, b.len) == 0)
		writable(link);
}

static const struct conn_handler link_handler = { .readable = readable, .writable = writable,
                                                  .broken = conn_broken };

static void
begin_link(struct job *job, int fd)
{
	struct link *link = calloc(1, sizeof(*link));
	struct err err = {0};

	if (link == NULL) {
		close(fd);
		err_set(&err, ENOMEM, "out of memory");
		broken(job, &err);
		return;
	}
	job->link = link;
	link->job = job;
	loop_prepare_timer(&link->late, is_late, link);
	h1_reader_init(&link->reader, H1_RESPONSES);
	buf_init(&link->body, MCP_JSON_MAX);
	conn_init(&link->conn, mcp_loop, fd, NULL, &link_handler, link);
	if (!job->call->ask.lines)
		loop_set_timer(mcp_loop, &link->late, ANSWER_S * 1000);
	send_ask(link);
}

static void
ask(struct job *job)
{
	OWN(buf_free) struct buf b;
	struct err err = {0};

	ipc_begin(&b, MCP_CONNECT);
	if (ipc_send(MCP_CHANNEL_FD, &b, NULL, 0, &err) < 0) {
		go_on(job, mcp_call_broken(job->call, &err));
		return;
	}
	job->is_waiting = true;
	job->next_waiting = NULL;
	*waiting_end = job;
	waiting_end = &job->next_waiting;
}

static void
connected(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct job *job = waiting;
	struct err err = {0};
	const char *why;
	int fd;

	(void)arg;
	(void)events;
	/* Without its other half this one can do nothing. */
	if (ipc_receive(MCP_CHANNEL_FD, &message, &err) < 0)
		exit(125);
	fd = ipc_take_fd(&message, 0);
	if (job == NULL) {
		closep(&fd);
		return;
	}
	waiting = job->next_waiting;
	if (waiting == NULL)
		waiting_end = &waiting;
	job->is_waiting = false;
	if (message.type == MCP_CONNECTED && fd >= 0) {
		begin_link(job, fd);
		return;
	}
	closep(&fd);
	if (message.type != MCP_REFUSED || buf_get_str(&message.body, &why) < 0)
		why = "the service cannot be reached";
	err_set(&err, ECONNREFUSED, "%s", why);
	broken(job, &err);
}

static void
go_on(struct job *job, enum mcp_next next)
{
	if (next == MCP_ASK)
		ask(job);
	else if (next == MCP_DONE)
		loop_at_round_end(mcp_loop, &job->round);
}

/* ---- for the transports ---- */

void
job_start(const char *token)
{
	snprintf(common, sizeof(common), "%s", token);
	channel.ready = connected;
	(void)loop_watch(mcp_loop, &channel, EPOLLIN, NULL);
}

/* One agent must not use up what there is for all. */
static bool
has_room(const char *token)
{
	size_t n = 0;

	for (const struct job *job = jobs; job != NULL && token[0] != '\0'; job = job->next)
		n += strcmp(job->token, token) == 0;
	return n_jobs < MCP_JOBS_MAX && n < MCP_GUEST_JOBS_MAX;
}

struct job *
job_new(struct mcp_call *call, const char *token, const struct job_handler *handler, void *arg)
{
	struct job *job = call != NULL && has_room(token) ? calloc(1, sizeof(*job)) : NULL;

	if (job == NULL) {
		mcp_call_free(call);
		return NULL;
	}
	n_jobs++;
	*job = (struct job){ .call = call, .handler = handler, .arg = arg, .next = jobs, .at = &jobs,
	                     .round = { .run = finish, .arg = job } };
	snprintf(job->token, sizeof(job->token), "%s", token);
	if (jobs != NULL)
		jobs->at = &job->next;
	jobs = job;
	go_on(job, call->ask.method != NULL ? MCP_ASK : MCP_DONE);
	return job;
}

void
job_cancel(struct job *job)
{
	enum mcp_next next;

	if (job->call->cancelled)
		return;
	next = mcp_call_cancel(job->call);
	if (next == MCP_WAIT)
		return;
	link_close(job);
	/* If it still waits for a connection, that one will carry the new request. */
	if (next == MCP_DONE || !job->is_waiting)
		go_on(job, next);
}

void
job_drop(struct job *job)
{
	forget(job);
}

bool
job_any_brief(void)
{
	for (struct job *job = jobs; job != NULL; job = job->next)
		if (!job->call->waits || !mcp_call_is_begun(job->call))
			return true;
	return false;
}
