/* api_exec.c - commands in a sandbox: a stream of events for each, and requests that send it input and signals.
 *
 * A command ends with its stream: if the client hangs up, the command is killed.  Output is read no faster than the
 * client takes it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "proc/serve/follow.h"
#include "proc/serve/sandbox.h"

#define PIECE 16384                     /* bytes of output in one event */
#define TAIL_MAX 3                      /* of a character that is not complete yet */
#define LAST_PIECES 64                  /* read after its end: more than its pipes hold */
#define TIMEOUT_MAX_MS (7ull * 24 * 3600 * 1000)
#define SIZE_MAX_TTY 1000
#define DEATH_MS 2000                   /* of a killed command */

struct exec_stream {
	struct exec_stream *next, **at;
	struct api *api;
	struct serve_request *q;
	struct inside *inside;
	char dispatch[API_ID_MAX], id[CELL_ID_LEN + 1];
	bool sse;
	struct loop_source out[INSIDE_STREAMS], in;
	struct loop_timer late, ping;
	uint64_t timeout_ms;
	/* Output. */
	uint64_t n, offset[INSIDE_STREAMS];
	char tail[INSIDE_STREAMS][TAIL_MAX];
	size_t tail_len[INSIDE_STREAMS];
	bool full;                      /* the client takes no more for now */
	/* Input: what is left of the first, or of the request that brings more. */
	void *owned;
	const unsigned char *input;
	size_t input_len;
	struct serve_request *feeder;
	bool keeps_open, ends;          /* more may come; this was the last */
	bool exited, timed_out;
	unsigned last[INSIDE_STREAMS];  /* pieces read after its end */
	int status;
	struct err lost;                /* code 0: it exited */
};

/* ---- the end ---- */

static void
release_feeder(struct exec_stream *e, bool fed)
{
	struct serve_request *q = TAKE(e->feeder);

	if (q != NULL && fed)
		serve_answer(q, 204, NULL, NULL, 0);
	else if (q != NULL)
		serve_refuse(q, 409, "over", NULL, "the command takes no more input");
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

static void
send_event(struct exec_stream *e, const char *name, json_t *event)
{
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
		if (at > 0 && len - at <= TAIL_MAX && (unsigned char)data[at] >= 0xc0)
			return at;
		*ret_text = at == 0 && len <= TAIL_MAX && (unsigned char)data[0] >= 0xc0;
		return *ret_text ? 0 : len;
	}
	return len;
}

static void
send_output(struct exec_stream *e, enum inside_stream stream, const char *data, size_t len, bool is_text)
{
	OWN(freep) char *base64 = is_text ? NULL : malloc(CODEC_BASE64_LEN(len) + 1);
	json_t *event = json_pack("{s:s, s:I, s:I}", "stream", stream == INSIDE_OUT ? "stdout" : "stderr", "offset",
	                          (json_int_t)e->offset[stream], "size", (json_int_t)len);

	if (base64 != NULL)
		codec_base64(CODEC_BASE64, data, len, base64);
	json_object_set_new(event, is_text ? "text" : "base64", is_text ? json_stringn(data, len) :
	                    json_string(base64 != NULL ? base64 : ""));
	e->offset[stream] += len;
	send_event(e, "exec.output", event);
}

/* False: there is nothing more for now. */
static bool
carry(struct exec_stream *e, enum inside_stream stream)
{
	char data[TAIL_MAX + PIECE];
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
	if (e->lost.code == 0)
		send_event(e, "exec.exited", json_pack("{s:i, s:b}", "exit_code", inside_status(e->status), "timed_out",
		                                       e->timed_out));
	else
		send_event(e, "exec.lost", json_pack("{s:s}", "reason", e->lost.text));
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

static void
started(void *arg, const struct err *error)
{
	struct exec_stream *e = arg;
	struct serve_request *q = e->q;

	if (error != NULL) {
		struct err copy = *error;

		drop(e);
		api_refuse_request(q, &copy);
		return;
	}
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
	send_event(e, "exec.started", json_pack("{s:s}", "exec", e->id));
	look(e);
	feed(e);
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

static const struct api_member members[] = {
	{ "command", API_TEXTS, true }, { "env", API_ANY, false }, { "cwd", API_TEXT, false },
	{ "input", API_TEXT, false }, { "input_base64", API_TEXT, false }, { "stdin", API_TRUTH, false },
	{ "timeout", API_TEXT, false }, { "tty", API_ANY, false }, {0}
};

struct asked {
	char *argv[CELL_ARGS_MAX + 1];
	char **env;
	struct inside_order order;
};

static void
asked_free(struct asked *a)
{
	strv_free(a->env);
}

static int
wrong(struct api_call *c, const char *member, const char *text)
{
	return api_body_wrong(c, member, api_fail_with(c, 400, "invalid", "%s", text));
}

static int
read_command(struct api_call *c, struct asked *a)
{
	const json_t *words = api_body_get(c, "command"), *word;
	size_t i;

	if (json_array_size(words) == 0 || json_array_size(words) > CELL_ARGS_MAX)
		return wrong(c, "command", "'command' has at least one word, the program");
	json_array_foreach (words, i, word)
		a->argv[i] = (char *)(uintptr_t)json_string_value(word);
	a->order.argv = a->argv;
	return 0;
}

static int
read_env(struct api_call *c, struct asked *a)
{
	json_t *env = (json_t *)(uintptr_t)api_body_get(c, "env"), *value;
	const char *name;
	size_t n = 0;

	if (json_is_null(env))
		return 0;
	if (!json_is_object(env) || json_object_size(env) > CELL_ARGS_MAX / 2)
		return wrong(c, "env", "'env' must be an object: {\"NAME\": \"value\"}");
	a->env = calloc(json_object_size(env) + 1, sizeof(char *));
	json_object_foreach (env, name, value) {
		if (!json_is_string(value) || name[0] == '\0' || strchr(name, '=') != NULL)
			return wrong(c, "env", "'env' must be an object: {\"NAME\": \"value\"}");
		if (a->env == NULL || asprintf(&a->env[n], "%s=%s", name, json_string_value(value)) < 0)
			return api_fail_with(c, 503, "unavailable", "out of memory");
		n++;
	}
	a->order.env = a->env;
	return 0;
}

static bool
is_size(const json_t *n)
{
	return json_is_integer(n) && json_integer_value(n) >= 1 && json_integer_value(n) <= SIZE_MAX_TTY;
}

static int
read_terminal(struct api_call *c, struct asked *a)
{
	const json_t *tty = api_body_get(c, "tty");
	const json_t *rows = json_object_get(tty, "rows"), *columns = json_object_get(tty, "columns");

	if (json_is_null(tty))
		return 0;
	if (json_object_size(tty) != 2 || !is_size(rows) || !is_size(columns))
		return wrong(c, "tty", "'tty' must be an object: {\"rows\": 24, \"columns\": 80}");
	a->order.tty = true;
	a->order.rows = (unsigned)json_integer_value(rows);
	a->order.columns = (unsigned)json_integer_value(columns);
	return 0;
}

static int
read_rest(struct api_call *c, struct asked *a)
{
	const char *timeout = json_string_value(api_body_get(c, "timeout"));
	uint64_t ms;

	a->order.cwd = json_string_value(api_body_get(c, "cwd"));
	if (a->order.cwd != NULL && (a->order.cwd[0] != '/' || strlen(a->order.cwd) >= PATH_MAX))
		return wrong(c, "cwd", "'cwd' must be an absolute path in the cell");
	if (timeout != NULL && (num_parse_duration(timeout, &ms, &c->err) < 0 || ms > TIMEOUT_MAX_MS))
		return wrong(c, "timeout", "'timeout' must be a time such as 30s, a week at most");
	return 0;
}

/* The input, in C->text until the command runs. */
static int
read_input(struct api_call *c)
{
	const void *data = NULL;
	void *owned = NULL;
	int r = api_body_bytes(c, "input", "input_base64", &data, &c->text_len, &owned);

	c->text = owned;
	if (r < 0 || owned != NULL || c->text_len == 0)
		return r;
	c->text = malloc(c->text_len);
	if (c->text == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	memcpy(c->text, data, c->text_len);
	return 0;
}

int
api_sandbox_exec(struct api_call *c)
{
	OWN(asked_free) struct asked a = {0};

	if (api_body_check(c, members) < 0 || read_command(c, &a) < 0 || read_env(c, &a) < 0 ||
	    read_terminal(c, &a) < 0 || read_rest(c, &a) < 0 || read_input(c) < 0)
		return -EIO;
	return sandbox_run(c, &a.order);
}

static void
prepare(struct exec_stream *e, struct api_call *c)
{
	const char *timeout = json_string_value(api_body_get(c, "timeout"));

	*e = (struct exec_stream){ .next = c->api->execs, .at = &c->api->execs, .api = c->api, .q = c->q,
		.inside = TAKE(c->inside), .owned = c->text, .input = (unsigned char *)c->text,
		.input_len = c->text_len, .sse = api_accepts(c->q, "text/event-stream"),
		.keeps_open = json_is_true(api_body_get(c, "stdin")) || json_is_object(api_body_get(c, "tty")) };
	snprintf(e->dispatch, sizeof(e->dispatch), "%s", c->id);
	if (timeout != NULL)
		(void)num_parse_duration(timeout, &e->timeout_ms, NULL);
	e->out[INSIDE_OUT] = (struct loop_source){ .fd = -1, .ready = stdout_ready, .arg = e };
	e->out[INSIDE_ERR] = (struct loop_source){ .fd = -1, .ready = stderr_ready, .arg = e };
	e->in = (struct loop_source){ .fd = -1, .ready = can_feed, .arg = e };
	e->late = (struct loop_timer){ .due = late, .arg = e };
	e->ping = (struct loop_timer){ .due = ping, .arg = e };
	e->inside->started = started;
	e->inside->ended = ended;
	e->inside->arg = e;
	if (e->next != NULL)
		e->next->at = &e->next;
	c->api->execs = e;
	c->text = NULL;
	c->q = NULL;
}

void
api_sandbox_exec_begin(struct api_call *c)
{
	struct exec_stream *e = calloc(1, sizeof(*e));
	struct serve_request *q = c->q;
	struct err err = {0};

	if (e == NULL) {
		(void)api_fail_with(c, 503, "unavailable", "out of memory");
		return;
	}
	prepare(e, c);
	if (cell_make_id(e->id, &err) == 0 && inside_watch(e->inside, c->api->loop, &err) == 0)
		return;
	drop(e);
	api_refuse_request(q, &err);
}

/* ---- requests to a running command ---- */

int
api_sandbox_use(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return sandbox_find(c, cell);
}

/* The command in the path's second parameter; otherwise the request is refused. */
static struct exec_stream *
find_exec(struct api_call *c)
{
	struct exec_stream *e = c->api->execs;

	while (e != NULL && (strcmp(e->dispatch, c->id) != 0 || strcmp(e->id, c->params.at[1]) != 0))
		e = e->next;
	if (e == NULL || e->exited)
		(void)api_fail_with(c, 404, "not_found", "no command '%.32s' runs in the sandbox %s", c->params.at[1], c->id);
	return e == NULL || e->exited ? NULL : e;
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
api_sandbox_input_begin(struct api_call *c)
{
	struct exec_stream *e = find_exec(c);
	bool end;

	if (e == NULL || api_query_bool(c, "end", false, &end) < 0 || !may_feed(c, e))
		return;
	e->feeder = c->q;
	e->input = e->feeder->body.data.data;
	e->input_len = e->feeder->body.data.len;
	e->ends = end;
	c->q = NULL;
	feed(e);
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT }, { "KILL", SIGKILL }, { "TERM", SIGTERM },
	{ "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "STOP", SIGSTOP }, { "CONT", SIGCONT },
};

static int
find_signal(const struct api_call *c)
{
	const char *name = json_string_value(api_body_get(c, "signal"));

	for (size_t i = 0; name != NULL && i < ARRAY_LEN(signals); i++)
		if (strcmp(signals[i].name, name) == 0)
			return signals[i].number;
	return 0;
}

int
api_sandbox_signal(struct api_call *c)
{
	static const struct api_member ones[] = { { "signal", API_TEXT, true }, {0} };

	if (api_body_check(c, ones) < 0)
		return -EIO;
	if (find_signal(c) == 0)
		return wrong(c, "signal", "'signal' must be HUP, INT, QUIT, KILL, TERM, USR1, USR2, STOP or CONT");
	return api_sandbox_use(c);
}

void
api_sandbox_signal_begin(struct api_call *c)
{
	struct exec_stream *e = find_exec(c);

	if (e == NULL)
		return;
	inside_signal(e->inside, find_signal(c));
	api_answer(c);
}

int
api_sandbox_resize(struct api_call *c)
{
	static const struct api_member ones[] = { { "rows", API_NUMBER, true }, { "columns", API_NUMBER, true }, {0} };

	if (api_body_check(c, ones) < 0)
		return -EIO;
	if (!is_size(api_body_get(c, "rows")) || !is_size(api_body_get(c, "columns")))
		return wrong(c, "rows", "'rows' and 'columns' must be numbers up to 1000");
	return api_sandbox_use(c);
}

void
api_sandbox_resize_begin(struct api_call *c)
{
	struct exec_stream *e = find_exec(c);

	if (e == NULL)
		return;
	inside_resize(e->inside, (unsigned)json_integer_value(api_body_get(c, "rows")),
	              (unsigned)json_integer_value(api_body_get(c, "columns")));
	api_answer(c);
}
