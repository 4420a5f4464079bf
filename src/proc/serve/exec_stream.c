/* exec_stream.c - see exec_stream.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/num.h"
#include "base/own.h"
#include "base/utf8.h"
#include "proc/serve/exec_stream.h"
#include "proc/serve/follow.h"

#define PIECE 16384                     /* bytes of output in one event */
#define LAST_PIECES 64                  /* read after its end: more than its pipes hold */
#define DEATH_MS 2000                   /* of a killed command */

/* ---- the end ---- */

static void
release_feeder(struct exec_stream *e, bool fed)
{
	struct serve_request *q = TAKE(e->feeder);

	if (q != NULL && fed)
		serve_answer(q, 204, NULL, NULL, 0);
	else if (q != NULL)
		serve_refuse(q, 409, "over", NULL, "no more input is taken");
}

static void
drop(struct exec_stream *e)
{
	struct loop *loop = e->api->loop;

	for (size_t i = 0; i < INSIDE_STREAMS; i++)
		loop_unwatch(loop, &e->out[i]);
	loop_unwatch(loop, &e->in);
	loop_cancel_timer(loop, &e->late);
	loop_cancel_timer(loop, &e->ping);
	release_feeder(e, false);
	*e->at = e->next;
	if (e->next != NULL)
		e->next->at = e->at;
	inside_free(e->inside);
	free(e->owned);
	free(e);
}

static void
gone(struct serve_request *q)
{
	drop(q->app);
	serve_end(q, false);
}

/* ---- events ---- */

enum event { STARTED, OUTPUT, EXITED, LOST };

static void
send_event(struct exec_stream *e, enum event kind, json_t *event)
{
	static const char *const names[][4] = { { "exec.started", "exec.output", "exec.exited", "exec.lost" },
		{ "attach.started", "attach.output", "attach.exited", "attach.lost" } };
	const char *name = names[e->kind != EXEC_COMMAND][kind];
	char *line;

	json_object_set_new(event, "event", json_string(name));
	json_object_set_new(event, "n", json_integer((json_int_t)++e->n));
	line = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	if (line != NULL)
		e->full |= !follow_send_line(e->q, e->sse, e->n, name, line, strlen(line));
	free(line);
	json_decref(event);
}

/* How many of the LEN bytes are whole characters; *ret_text: all of those are UTF-8. */
static size_t
whole(const char *data, size_t len, bool *ret_text)
{
	size_t at = 0, step;
	uint32_t code;

	*ret_text = true;
	for (; at < len; at += step) {
		step = utf8_next(data + at, len - at, &code);
		if (step > 0)
			continue;
		/* The rest of this character may follow. */
		if (at > 0 && len - at <= EXEC_TAIL_MAX && (unsigned char)data[at] >= 0xc0)
			return at;
		*ret_text = at == 0 && len <= EXEC_TAIL_MAX && (unsigned char)data[0] >= 0xc0;
		return *ret_text ? 0 : len;
	}
	return len;
}

static void
send_output(struct exec_stream *e, enum inside_stream stream, const char *data, size_t len, bool is_text)
{
	OWN(freep) char *base64 = is_text ? NULL : malloc(CODEC_BASE64_LEN(len) + 1);
	json_t *event = json_pack("{s:I, s:I}", "offset", (json_int_t)e->offset[stream], "size", (json_int_t)len);

	if (e->kind == EXEC_COMMAND)
		json_object_set_new(event, "stream", json_string(stream == INSIDE_OUT ? "stdout" : "stderr"));
	if (base64 != NULL)
		codec_base64(CODEC_BASE64, data, len, base64);
	json_object_set_new(event, is_text ? "text" : "base64", is_text ? json_stringn(data, len) :
	                    json_string(base64 != NULL ? base64 : ""));
	e->offset[stream] += len;
	send_event(e, OUTPUT, event);
}

/* False: there is nothing more for now. */
static bool
carry(struct exec_stream *e, enum inside_stream stream)
{
	char data[EXEC_TAIL_MAX + PIECE];
	size_t had = e->tail_len[stream], len;
	ssize_t n = inside_read(e->inside, stream, data + had, PIECE);
	bool is_text;

	if (n == -EAGAIN)
		return false;
	memcpy(data, e->tail[stream], had);
	e->tail_len[stream] = 0;
	if (n == 0) {
		loop_unwatch(e->api->loop, &e->out[stream]);
		close_fd(&e->inside->from[stream]);
		if (had > 0)
			send_output(e, stream, data, had, false);
		return false;
	}
	len = whole(data, had + (size_t)n, &is_text);
	e->tail_len[stream] = had + (size_t)n - len;
	memcpy(e->tail[stream], data + len, e->tail_len[stream]);
	if (len > 0)
		send_output(e, stream, data, len, is_text);
	return true;
}

static void
finish(struct exec_stream *e)
{
	struct serve_request *q = e->q;

	for (int i = 0; i < INSIDE_STREAMS; i++)
		if (e->tail_len[i] > 0)
			send_output(e, (enum inside_stream)i, e->tail[i], e->tail_len[i], false);
	if (e->lost.code != 0)
		send_event(e, LOST, json_pack("{s:s}", "reason", e->lost.text));
	else if (e->kind == EXEC_COMMAND)
		send_event(e, EXITED, json_pack("{s:i, s:b}", "exit_code", inside_status(e->status), "timed_out",
		                                e->timed_out));
	else
		send_event(e, EXITED, json_pack("{s:i, s:s}", "exit_code", inside_status(e->status), "cause",
		                                e->inside->cause));
	drop(e);
	serve_end(q, false);
}

/* Whatever its pipes held at its end is there now; what others write later is not its output. */
static void
finish_if_done(struct exec_stream *e)
{
	for (int i = 0; i < INSIDE_STREAMS && !e->full; i++)
		while (!e->full && e->last[i] < LAST_PIECES && carry(e, (enum inside_stream)i))
			e->last[i]++;
	if (!e->full)
		finish(e);
}

/* ---- input ---- */

static void
feed(struct exec_stream *e)
{
	while (e->input_len > 0) {
		ssize_t n = inside_write(e->inside, e->input, e->input_len);

		if (n == -EAGAIN) {
			e->in.fd = e->inside->to;
			(void)loop_watch(e->api->loop, &e->in, EPOLLOUT, NULL);
			return;
		}
		if (n < 0) {
			e->input_len = 0;
			e->ends = true;
			loop_unwatch(e->api->loop, &e->in);
			inside_close_input(e->inside);
			release_feeder(e, false);
			return;
		}
		e->input += n;
		e->input_len -= (size_t)n;
	}
	loop_unwatch(e->api->loop, &e->in);
	if (e->ends || !e->keeps_open)
		inside_close_input(e->inside);
	release_feeder(e, true);
}

static void
can_feed(void *arg, uint32_t events)
{
	(void)events;
	feed(arg);
}

/* ---- its life ---- */

static void
out_ready(struct exec_stream *e, enum inside_stream stream)
{
	if (e->full)
		(void)loop_watch(e->api->loop, &e->out[stream], 0, NULL);
	else
		(void)carry(e, stream);
}

static void
stdout_ready(void *arg, uint32_t events)
{
	(void)events;
	out_ready(arg, INSIDE_OUT);
}

static void
stderr_ready(void *arg, uint32_t events)
{
	(void)events;
	out_ready(arg, INSIDE_ERR);
}

static void
look(struct exec_stream *e)
{
	for (int i = 0; i < INSIDE_STREAMS; i++) {
		e->out[i].fd = e->inside->from[i];
		if (e->inside->from[i] > 0)
			(void)loop_watch(e->api->loop, &e->out[i], EPOLLIN, NULL);
	}
}

static void
writable(struct serve_request *q)
{
	struct exec_stream *e = q->app;

	if (!e->full)
		return;
	e->full = false;
	if (e->exited)
		finish_if_done(e);
	else
		look(e);
}

static void
late(void *arg)
{
	struct exec_stream *e = arg;

	/* In a frozen cell nothing dies. */
	if (e->timed_out) {
		e->exited = true;
		e->status = SIGKILL;
		e->full = false;
		finish(e);
		return;
	}
	e->timed_out = true;
	inside_signal(e->inside, SIGKILL);
	loop_set_timer(e->api->loop, &e->late, DEATH_MS);
}

static void
ping(void *arg)
{
	struct exec_stream *e = arg;

	loop_set_timer(e->api->loop, &e->ping, FOLLOW_PING_MS);
	if (e->sse && !e->full)
		e->full |= !serve_send(e->q, ": still here\n\n", 14);
}

/* The old output of a terminal, which the service made: it is no text if a character was cut. */
static void
send_before(struct exec_stream *e)
{
	OWN(freep) void *text = TAKE(e->owned);
	size_t len = e->input_len, done, part;
	bool is_text;

	e->input = NULL;
	e->input_len = 0;
	for (done = 0; done < len; done += part) {
		part = len - done < PIECE ? len - done : PIECE;
		part = whole((char *)text + done, part, &is_text);
		is_text = is_text && part > 0;
		part = part > 0 ? part : len - done;
		send_output(e, INSIDE_OUT, (char *)text + done, part, is_text);
	}
}

static void
begin(struct exec_stream *e)
{
	struct serve_request *q = e->q;

	q->app = e;
	q->writable = writable;
	q->gone = gone;
	serve_stream(q, 200, e->sse ? "text/event-stream" : "application/x-ndjson");
	if (q->is_gone) {
		gone(q);
		return;
	}
	if (e->timeout_ms > 0)
		loop_set_timer(e->api->loop, &e->late, e->timeout_ms);
	loop_set_timer(e->api->loop, &e->ping, FOLLOW_PING_MS);
	send_event(e, STARTED, json_pack("{s:s}", e->kind == EXEC_COMMAND ? "exec" : "attach", e->id));
	if (e->kind != EXEC_COMMAND)
		send_before(e);
	look(e);
	feed(e);
}

static void
fail(struct exec_stream *e, const struct err *error)
{
	struct serve_request *q = e->q;
	struct err copy = *error;

	drop(e);
	api_refuse_request(q, &copy);
}

static void
started(void *arg, const struct err *error)
{
	if (error != NULL)
		fail(arg, error);
	else
		begin(arg);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct exec_stream *e = arg;

	e->exited = true;
	e->status = status;
	if (error != NULL)
		e->lost = *error;
	loop_cancel_timer(e->api->loop, &e->late);
	if (!e->full)
		finish_if_done(e);
}

/* ---- beginning ---- */

static void
prepare(struct exec_stream *e, struct api_call *c, enum exec_kind kind)
{
	const char *timeout = json_string_value(api_body_get(c, "timeout"));

	*e = (struct exec_stream){ .next = c->api->execs, .at = &c->api->execs, .api = c->api, .q = c->q, .kind = kind,
		.inside = TAKE(c->inside), .owned = c->text, .input = (unsigned char *)c->text,
		.input_len = c->text_len, .sse = api_accepts(c->q, "text/event-stream"),
		.keeps_open = kind != EXEC_COMMAND || json_is_true(api_body_get(c, "stdin")) ||
		              json_is_object(api_body_get(c, "tty")) };
	snprintf(e->of, sizeof(e->of), "%s", c->id);
	if (timeout != NULL)
		(void)num_parse_duration(timeout, &e->timeout_ms, NULL);
	e->out[INSIDE_OUT] = (struct loop_source){ .fd = -1, .ready = stdout_ready, .arg = e };
	e->out[INSIDE_ERR] = (struct loop_source){ .fd = -1, .ready = stderr_ready, .arg = e };
	e->in = (struct loop_source){ .fd = -1, .ready = can_feed, .arg = e };
	loop_prepare_timer(&e->late, late, e);
	loop_prepare_timer(&e->ping, ping, e);
	e->inside->started = started;
	e->inside->ended = ended;
	e->inside->arg = e;
	if (e->next != NULL)
		e->next->at = &e->next;
	c->api->execs = e;
	c->text = NULL;
	c->q = NULL;
}

struct exec_stream *
exec_stream_new(struct api_call *c, enum exec_kind kind)
{
	struct exec_stream *e = calloc(1, sizeof(*e));

	if (e == NULL)
		(void)api_fail_with(c, 503, "unavailable", "out of memory");
	else
		prepare(e, c, kind);
	return e;
}

void
exec_stream_start(struct exec_stream *e)
{
	struct err err = {0};

	if (cell_make_id(e->id, &err) < 0 || inside_watch(e->inside, e->api->loop, &err) < 0)
		fail(e, &err);
	else if (e->kind != EXEC_COMMAND)
		begin(e);
}

/* ---- requests to a stream ---- */

struct exec_stream *
exec_stream_find(struct api_call *c, enum exec_kind kind)
{
	struct exec_stream *e = c->api->execs;

	while (e != NULL && (e->kind != kind || strcmp(e->of, c->id) != 0 || strcmp(e->id, c->params.at[1]) != 0))
		e = e->next;
	if (e != NULL && !e->exited)
		return e;
	if (kind == EXEC_COMMAND)
		(void)api_fail_with(c, 404, "not_found", "no command '%.32s' runs in the sandbox %s", c->params.at[1], c->id);
	else
		(void)api_fail_with(c, 404, "not_found", "no client '%.32s' is attached to %s", c->params.at[1], c->id);
	return NULL;
}

static bool
may_feed(struct api_call *c, const struct exec_stream *e)
{
	if (e->feeder != NULL || (e->input_len > 0 && !e->ends))
		(void)api_fail_with(c, 409, "busy", "the input before this one is not taken yet: wait for its response");
	else if (e->ends || !e->keeps_open)
		(void)api_fail_with(c, 409, "over", "the command's input is closed: start it with \"stdin\": true, and end "
		                    "the input last");
	return c->code == NULL;
}

void
exec_stream_feed(struct exec_stream *e, struct api_call *c, bool end)
{
	if (!may_feed(c, e))
		return;
	e->feeder = c->q;
	e->input = e->feeder->body.data.data;
	e->input_len = e->feeder->body.data.len;
	e->ends = end;
	c->q = NULL;
	feed(e);
}
