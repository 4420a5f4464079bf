/* e2b_process.c - commands of E2B's sandboxes: they outlive the requests that follow them.
 *
 * Output goes to whoever follows, no faster than the slowest of them takes it.  While nobody does, it is read and
 * dropped, as envd does. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "proc/serve/e2b.h"

#define PIECE 16384                     /* bytes of output in one message */
#define LAST_PIECES 64                  /* read after its end: more than its pipes hold */
#define ALIVE_MS 20000                  /* between two signs of life */
#define KEPT_MS 30000                   /* its end is kept for followers that come late */
#define INPUTS_MAX 16                   /* that wait, of one process */
#define SIZE_MAX_CELLS 1000             /* rows or columns of a terminal */
#define TAG_MAX 256

struct viewer {
	struct viewer *next, **at;
	struct e2b_process *of;
	struct serve_request *q;
	struct loop_timer late;         /* of one that joined */
	bool full, started_it;
};

/* Bytes for it, or the end of its input. */
struct input {
	struct input *next;
	struct serve_request *q;
	unsigned char *data;
	size_t len, done;
	bool ends;
};

struct e2b_process {
	struct e2b_process *next, **at;
	struct e2b *e2b;
	char of[API_ID_MAX];            /* its sandbox's dispatch */
	uint32_t pid;                   /* this service's number, not the cell's */
	json_t *config;
	char *tag;                      /* NULL: none */
	struct inside *inside;          /* NULL: it is over */
	bool pty, takes_input;
	struct serve_request *starter;  /* until it has started */
	struct viewer *viewers;
	struct input *inputs, **last_input;
	size_t n_inputs;
	struct loop_source out[INSIDE_STREAMS], in;
	struct loop_timer late, alive, forget;
	uint64_t timeout_ms;
	int status;
	struct err lost;                /* code 0: it exited */
};

static struct loop *
loop_of(const struct e2b_process *p)
{
	return p->e2b->api->loop;
}

/* ---- those who follow ---- */

static void watch_output(struct e2b_process *p);

static void
drop_viewer(struct viewer *v)
{
	loop_cancel_timer(loop_of(v->of), &v->late);
	*v->at = v->next;
	if (v->next != NULL)
		v->next->at = v->at;
	free(v);
}

static void
gone(struct serve_request *q)
{
	struct viewer *v = q->app;
	struct e2b_process *p = v->of;

	drop_viewer(v);
	serve_end(q, false);
	watch_output(p);
}

static void
writable(struct serve_request *q)
{
	struct viewer *v = q->app;

	v->full = false;
	watch_output(v->of);
}

/* The time is over that the client has for this stream. */
static void
expire(void *arg)
{
	struct viewer *v = arg;
	struct e2b_process *p = v->of;
	struct serve_request *q = v->q;

	e2b_send_late(q);
	drop_viewer(v);
	serve_end(q, false);
	watch_output(p);
}

static json_t *
event_of(const char *kind, json_t *of)
{
	return json_pack("{s:{s:o}}", "event", kind, of);
}

/* Begins the stream of Q with the process's number. */
static struct viewer *
add_viewer(struct e2b_process *p, struct serve_request *q)
{
	struct viewer *v = calloc(1, sizeof(*v));

	if (v == NULL) {
		serve_refuse(q, 503, "unavailable", NULL, "out of memory");
		return NULL;
	}
	*v = (struct viewer){ .next = p->viewers, .at = &p->viewers, .of = p, .q = q };
	if (v->next != NULL)
		v->next->at = &v->next;
	p->viewers = v;
	loop_prepare_timer(&v->late, expire, v);
	q->app = v;
	q->writable = writable;
	q->gone = gone;
	serve_stream(q, 200, E2B_STREAM);
	if (q->is_gone) {
		gone(q);
		return NULL;
	}
	v->full = !e2b_send(q, event_of("start", json_pack("{s:I}", "pid", (json_int_t)p->pid)));
	return v;
}

/* Takes EVENT. */
static void
tell(struct e2b_process *p, json_t *event)
{
	for (struct viewer *v = p->viewers; v != NULL; v = v->next)
		v->full |= !e2b_send(v->q, json_incref(event));
	json_decref(event);
}

static bool
is_full(const struct e2b_process *p)
{
	for (const struct viewer *v = p->viewers; v != NULL; v = v->next)
		if (v->full)
			return true;
	return false;
}

/* ---- output ---- */

/* False: there is nothing more for now. */
static bool
carry(struct e2b_process *p, enum inside_stream stream)
{
	char data[PIECE], text[CODEC_BASE64_LEN(PIECE) + 1];
	ssize_t n = inside_read(p->inside, stream, data, sizeof(data));

	if (n <= 0) {
		if (n == 0) {
			loop_unwatch(loop_of(p), &p->out[stream]);
			close_fd(&p->inside->from[stream]);
		}
		return false;
	}
	if (p->viewers == NULL)
		return true;
	codec_base64(CODEC_BASE64, data, (size_t)n, text);
	tell(p, event_of("data", json_pack("{s:s}", p->pty ? "pty" : stream == INSIDE_OUT ? "stdout" : "stderr", text)));
	return true;
}

static void
watch_output(struct e2b_process *p)
{
	const uint32_t events = is_full(p) ? 0 : EPOLLIN;

	for (int i = 0; p->inside != NULL && p->starter == NULL && i < INSIDE_STREAMS; i++) {
		p->out[i].fd = p->inside->from[i];
		if (p->inside->from[i] > 0)
			(void)loop_watch(loop_of(p), &p->out[i], events, NULL);
	}
}

static void
out_ready(struct e2b_process *p, enum inside_stream stream)
{
	(void)carry(p, stream);
	if (is_full(p))
		watch_output(p);
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

/* ---- input ---- */

/* The first of its inputs is done. */
static void
answer_input(struct e2b_process *p, bool taken)
{
	struct input *i = p->inputs;

	p->inputs = i->next;
	p->n_inputs--;
	if (p->inputs == NULL)
		p->last_input = &p->inputs;
	if (taken)
		serve_answer(i->q, 200, "application/json", "{}", 2);
	else
		serve_refuse(i->q, 404, "not_found", NULL, "the process takes no more input");
	free(i->data);
	free(i);
}

static void
feed(struct e2b_process *p)
{
	while (p->inputs != NULL) {
		struct input *i = p->inputs;
		ssize_t n = i->done == i->len ? 0 : inside_write(p->inside, i->data + i->done, i->len - i->done);

		if (n == -EAGAIN) {
			p->in.fd = p->inside->to;
			(void)loop_watch(loop_of(p), &p->in, EPOLLOUT, NULL);
			return;
		}
		i->done += n > 0 ? (size_t)n : 0;
		if (i->ends || n < 0) {
			loop_unwatch(loop_of(p), &p->in);
			inside_close_input(p->inside);
			p->takes_input = false;
		}
		if (n < 0 || i->done == i->len)
			answer_input(p, n >= 0);
	}
	loop_unwatch(loop_of(p), &p->in);
}

static void
can_feed(void *arg, uint32_t events)
{
	(void)events;
	feed(arg);
}

/* ---- its life ---- */

static void
drop(struct e2b_process *p)
{
	for (int i = 0; i < INSIDE_STREAMS; i++)
		loop_unwatch(loop_of(p), &p->out[i]);
	loop_unwatch(loop_of(p), &p->in);
	loop_cancel_timer(loop_of(p), &p->late);
	loop_cancel_timer(loop_of(p), &p->alive);
	loop_cancel_timer(loop_of(p), &p->forget);
	while (p->inputs != NULL)
		answer_input(p, false);
	while (p->viewers != NULL)
		gone(p->viewers->q);
	*p->at = p->next;
	if (p->next != NULL)
		p->next->at = p->at;
	inside_free(p->inside);
	json_decref(p->config);
	free(p->tag);
	free(p);
}

static void
forget(void *arg)
{
	drop(arg);
}

/* As Go, in which envd is written, puts it. */
static json_t *
end_of(const struct e2b_process *p)
{
	char status[64];
	const bool killed = WIFSIGNALED(p->status);
	json_t *end;

	if (killed)
		snprintf(status, sizeof(status), "signal: %s", WTERMSIG(p->status) == SIGKILL ? "killed" :
		         WTERMSIG(p->status) == SIGTERM ? "terminated" : strsignal(WTERMSIG(p->status)));
	else
		snprintf(status, sizeof(status), "exit status %d", WEXITSTATUS(p->status));
	end = json_pack("{s:i, s:b, s:s}", "exitCode", killed ? -1 : WEXITSTATUS(p->status), "exited", !killed, "status", status);
	if (p->status != 0)
		json_object_set_new(end, "error", json_string(status));
	return event_of("end", end);
}

static void
end_viewer(struct e2b_process *p, struct viewer *v)
{
	struct serve_request *q = v->q;

	if (p->lost.code == 0)
		(void)e2b_send(q, end_of(p));
	e2b_send_end(q, p->lost.code == 0 ? NULL : "unavailable", p->lost.text);
	drop_viewer(v);
	serve_end(q, false);
}

/* Whatever its pipes held at its end is there now; what others write later is not its output. */
static void
finish(struct e2b_process *p)
{
	for (int i = 0; i < INSIDE_STREAMS; i++)
		for (int n = 0; n < LAST_PIECES && carry(p, (enum inside_stream)i); n++)
			;
	for (int i = 0; i < INSIDE_STREAMS; i++)
		loop_unwatch(loop_of(p), &p->out[i]);
	loop_unwatch(loop_of(p), &p->in);
	loop_cancel_timer(loop_of(p), &p->late);
	loop_cancel_timer(loop_of(p), &p->alive);
	while (p->inputs != NULL)
		answer_input(p, false);
	while (p->viewers != NULL)
		end_viewer(p, p->viewers);
	inside_free(TAKE(p->inside));
	loop_set_timer(loop_of(p), &p->forget, KEPT_MS);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct e2b_process *p = arg;

	p->status = status;
	if (error != NULL)
		p->lost = *error;
	finish(p);
}

static void
late(void *arg)
{
	struct e2b_process *p = arg;

	inside_signal(p->inside, SIGKILL);
	for (struct viewer *v = p->viewers, *next; v != NULL; v = next) {
		next = v->next;
		if (v->started_it)
			expire(v);
	}
}

static void
alive(void *arg)
{
	struct e2b_process *p = arg;

	loop_set_timer(loop_of(p), &p->alive, ALIVE_MS);
	for (struct viewer *v = p->viewers; v != NULL; v = v->next)
		if (!v->full)
			v->full = !e2b_send(v->q, event_of("keepalive", json_object()));
}

static void
started(void *arg, const struct err *error)
{
	struct e2b_process *p = arg;
	struct serve_request *q = TAKE(p->starter);
	struct viewer *v;

	if (error != NULL) {
		struct err copy = *error;

		drop(p);
		api_refuse_request(q, &copy);
		return;
	}
	if (p->timeout_ms > 0)
		loop_set_timer(loop_of(p), &p->late, p->timeout_ms);
	loop_set_timer(loop_of(p), &p->alive, ALIVE_MS);
	if (!p->takes_input)
		inside_close_input(p->inside);
	v = add_viewer(p, q);
	if (v != NULL)
		v->started_it = true;
	watch_output(p);
}

/* ---- starting ---- */

/* Variables of the sandbox, and then those of the command. */
static char **
join_env(const json_t *first, const json_t *second)
{
	const json_t *const all[] = { first, second };
	char **env = calloc(json_object_size(first) + json_object_size(second) + 1, sizeof(char *));
	const char *name;
	json_t *value;
	size_t n = 0;

	for (size_t i = 0; env != NULL && i < ARRAY_LEN(all); i++)
		json_object_foreach ((json_t *)(uintptr_t)all[i], name, value) {
			if (i == 0 && json_object_get(second, name) != NULL)
				continue;
			if (!json_is_string(value) || asprintf(&env[n], "%s=%s", name, json_string_value(value)) < 0) {
				env[n] = NULL;
				strv_free(env);
				return NULL;
			}
			n++;
		}
	return env;
}

static int
read_env(struct api_call *c, const json_t *process, char ***ret_env)
{
	const json_t *first = json_object_get(c->e2b->record, "envs"), *second = json_object_get(process, "envs");
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)second, name, value)
		if (name[0] == '\0' || strchr(name, '=') != NULL || !json_is_string(value))
			return api_fail_with(c, 400, "invalid", "'envs' must be names and texts");
	if (json_object_size(first) + json_object_size(second) > CELL_ARGS_MAX / 2)
		return api_fail_with(c, 400, "invalid", "there are too many variables");
	*ret_env = join_env(first, second);
	return *ret_env != NULL ? 0 : api_fail_with(c, 503, "unavailable", "out of memory");
}

static int
read_words(struct api_call *c, const json_t *process, char **argv)
{
	const json_t *args = json_object_get(process, "args"), *word;
	const char *cmd = e2b_text(process, "cmd");
	size_t i;

	if (cmd == NULL || cmd[0] == '\0' || json_array_size(args) >= CELL_ARGS_MAX)
		return api_fail_with(c, 400, "invalid", "'process' must have a 'cmd', and not too many 'args'");
	argv[0] = (char *)(uintptr_t)cmd;
	json_array_foreach (args, i, word) {
		if (!json_is_string(word))
			return api_fail_with(c, 400, "invalid", "'args' must be texts");
		argv[i + 1] = (char *)(uintptr_t)json_string_value(word);
	}
	return 0;
}

/* 0 if it is none. */
static unsigned
size_of(const json_t *pty, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(json_object_get(pty, "size"), name));

	return n >= 1 && n <= SIZE_MAX_CELLS ? (unsigned)n : 0;
}

static int
read_terminal(struct api_call *c, struct inside_order *order)
{
	const json_t *pty = json_object_get(c->body, "pty");

	if (!json_is_object(pty))
		return 0;
	order->tty = true;
	order->rows = size_of(pty, "rows");
	order->columns = size_of(pty, "cols");
	return order->rows > 0 && order->columns > 0 ? 0 :
	       api_fail_with(c, 400, "invalid", "'cols' and 'rows' must be numbers up to %d", SIZE_MAX_CELLS);
}

static int
run(struct api_call *c, const char *cell, const json_t *process, struct inside_order *order)
{
	OWN(strv_freep) char **env = NULL;
	OWN(freep) char *cwd = NULL;
	const char *wanted = e2b_text(process, "cwd");

	if (read_env(c, process, &env) < 0)
		return -EIO;
	if (wanted != NULL && wanted[0] != '\0' && e2b_resolve(c, cell, wanted, &cwd) < 0)
		return -EIO;
	order->env = env;
	order->cwd = cwd;
	return e2b_run(c, cell, order);
}

int
e2b_process_start(struct api_call *c)
{
	char *argv[CELL_ARGS_MAX + 1] = { NULL };
	struct inside_order order = { .argv = argv };
	const json_t *process;
	const char *tag;
	char cell[CELL_ID_LEN + 1];

	if (e2b_enter(c, cell) < 0 || e2b_read_message(c) < 0 || e2b_check_user(c, cell, NULL) < 0)
		return -EIO;
	process = json_object_get(c->body, "process");
	tag = e2b_text(c->body, "tag");
	if (tag != NULL && strlen(tag) > TAG_MAX)
		return api_fail_with(c, 400, "invalid", "'tag' is over %d bytes long", TAG_MAX);
	if (read_words(c, process, argv) < 0 || read_terminal(c, &order) < 0)
		return -EIO;
	c->e2b->timeout_ms = e2b_read_timeout(c->q);
	c->e2b->config = json_deep_copy(process);
	c->e2b->tag = tag != NULL ? strdup(tag) : NULL;
	return run(c, cell, process, &order);
}

static size_t
count(const struct e2b *e)
{
	size_t n = 0;

	for (const struct e2b_process *p = e->processes; p != NULL; p = p->next)
		n++;
	return n;
}

void
e2b_process_start_begin(struct api_call *c)
{
	struct e2b *e = c->api->e2b;
	const json_t *takes = json_object_get(c->body, "stdin");
	struct e2b_process *p = count(e) < E2B_PROCESSES_MAX ? calloc(1, sizeof(*p)) : NULL;

	if (p == NULL) {
		(void)api_fail_with(c, 429, "busy", "too many commands run: end some of them");
		return;
	}
	*p = (struct e2b_process){ .next = e->processes, .at = &e->processes, .e2b = e, .pid = ++e->last_pid,
		.config = TAKE(c->e2b->config), .tag = TAKE(c->e2b->tag), .inside = TAKE(c->inside),
		.pty = json_is_object(json_object_get(c->body, "pty")), .starter = TAKE(c->q),
		.timeout_ms = c->e2b->timeout_ms, .last_input = &p->inputs };
	snprintf(p->of, sizeof(p->of), "%s", c->id);
	/* An old SDK that does not say expects that it does. */
	p->takes_input = p->pty || takes == NULL || json_is_true(takes);
	p->out[INSIDE_OUT] = (struct loop_source){ .fd = -1, .ready = stdout_ready, .arg = p };
	p->out[INSIDE_ERR] = (struct loop_source){ .fd = -1, .ready = stderr_ready, .arg = p };
	p->in = (struct loop_source){ .fd = -1, .ready = can_feed, .arg = p };
	loop_prepare_timer(&p->late, late, p);
	loop_prepare_timer(&p->alive, alive, p);
	loop_prepare_timer(&p->forget, forget, p);
	p->inside->started = started;
	p->inside->ended = ended;
	p->inside->arg = p;
	if (p->next != NULL)
		p->next->at = &p->next;
	e->processes = p;
	if (inside_watch(p->inside, c->api->loop, &c->err) < 0)
		started(p, &c->err);
}

/* ---- requests to a process ---- */

/* By its number or its tag; OVER: also if it ended a moment ago.  Otherwise the call has failed. */
static struct e2b_process *
find(struct api_call *c, bool over)
{
	const json_t *selector = json_object_get(c->body, "process");
	const json_int_t pid = json_integer_value(json_object_get(selector, "pid"));
	const char *tag = e2b_text(selector, "tag");

	for (struct e2b_process *p = c->api->e2b->processes; p != NULL; p = p->next)
		if (strcmp(p->of, c->id) == 0 && p->starter == NULL && (p->inside != NULL || over) &&
		    (tag != NULL ? p->tag != NULL && strcmp(p->tag, tag) == 0 : p->pid == pid))
			return p;
	if (tag != NULL)
		(void)api_fail_with(c, 404, "not_found", "process with tag %.64s not found", tag);
	else
		(void)api_fail_with(c, 404, "not_found", "process with pid %lld not found", (long long)pid);
	return NULL;
}

int
e2b_process_use(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return e2b_enter(c, cell);
}

int
e2b_process_connect(struct api_call *c)
{
	return e2b_process_use(c) < 0 || e2b_read_message(c) < 0 ? -EIO : 0;
}

void
e2b_process_connect_begin(struct api_call *c)
{
	const uint64_t timeout_ms = e2b_read_timeout(c->q);
	struct e2b_process *p = find(c, true);
	struct viewer *v = p != NULL ? add_viewer(p, TAKE(c->q)) : NULL;

	if (v != NULL && p->inside == NULL)
		end_viewer(p, v);
	else if (v != NULL && timeout_ms > 0)
		loop_set_timer(loop_of(p), &v->late, timeout_ms);
}

void
e2b_process_list_begin(struct api_call *c)
{
	json_t *list = json_array();

	for (const struct e2b_process *p = c->api->e2b->processes; p != NULL; p = p->next) {
		json_t *one;

		if (strcmp(p->of, c->id) != 0 || p->starter != NULL || p->inside == NULL)
			continue;
		one = json_pack("{s:O, s:I}", "config", p->config, "pid", (json_int_t)p->pid);
		if (p->tag != NULL)
			json_object_set_new(one, "tag", json_string(p->tag));
		json_array_insert_new(list, 0, one);
	}
	c->answer = json_pack("{s:o}", "processes", list);
	api_answer(c);
}

static void
add_input(struct api_call *c, struct e2b_process *p, struct input i)
{
	struct input *kept = p->n_inputs < INPUTS_MAX ? malloc(sizeof(*kept)) : NULL;

	if (kept == NULL) {
		free(i.data);
		(void)api_fail_with(c, 429, "busy", "the process does not take its input: wait for the requests before this one");
		return;
	}
	i.q = TAKE(c->q);
	*kept = i;
	*p->last_input = kept;
	p->last_input = &kept->next;
	p->n_inputs++;
	feed(p);
}

static bool
takes_input(struct api_call *c, const struct e2b_process *p)
{
	if (p != NULL && !p->takes_input)
		(void)api_fail_with(c, 400, "invalid", "the standard input of the process is closed: start it with stdin");
	return p != NULL && p->takes_input;
}

void
e2b_process_input_begin(struct api_call *c)
{
	struct e2b_process *p = find(c, false);
	const json_t *input = json_object_get(c->body, "input");
	const json_t *coded = json_object_get(input, p != NULL && p->pty ? "pty" : "stdin");
	const size_t len = json_string_length(coded);
	struct input i = {0};

	if (!takes_input(c, p))
		return;
	i.data = malloc(CODEC_BYTES_LEN(len) + 1);
	/* An empty one is left out of the message. */
	if (i.data == NULL || (len > 0 && codec_unbase64(CODEC_BASE64, json_string_value(coded), len, i.data,
	                                                 CODEC_BYTES_LEN(len), &i.len) < 0)) {
		free(i.data);
		(void)api_fail_with(c, 400, "invalid", "'input' must have bytes in base64");
		return;
	}
	add_input(c, p, i);
}

void
e2b_process_close_begin(struct api_call *c)
{
	struct e2b_process *p = find(c, false);

	if (p != NULL && p->pty)
		(void)api_fail_with(c, 400, "invalid", "a terminal has no end of input: send the byte 4 (Ctrl-D)");
	else if (takes_input(c, p))
		add_input(c, p, (struct input){ .ends = true });
}

void
e2b_process_signal_begin(struct api_call *c)
{
	struct e2b_process *p = find(c, false);
	const json_t *signal = json_object_get(c->body, "signal");
	const char *name = json_string_value(signal);
	const bool kills = (name != NULL && strcmp(name, "SIGNAL_SIGKILL") == 0) || json_integer_value(signal) == SIGKILL;
	const bool ends = (name != NULL && strcmp(name, "SIGNAL_SIGTERM") == 0) || json_integer_value(signal) == SIGTERM;

	if (p == NULL)
		return;
	if (!kills && !ends) {
		(void)api_fail_with(c, 501, "unsupported", "the signal must be SIGNAL_SIGKILL or SIGNAL_SIGTERM");
		return;
	}
	inside_signal(p->inside, kills ? SIGKILL : SIGTERM);
	c->answer = json_object();
	api_answer(c);
}

void
e2b_process_update_begin(struct api_call *c)
{
	struct e2b_process *p = find(c, false);
	const json_t *pty = json_object_get(c->body, "pty");
	const unsigned rows = size_of(pty, "rows"), columns = size_of(pty, "cols");

	if (p == NULL)
		return;
	if (!p->pty || rows == 0 || columns == 0) {
		(void)api_fail_with(c, 400, "invalid", "only the size of a terminal can be changed, to numbers up to %d",
		                    SIZE_MAX_CELLS);
		return;
	}
	inside_resize(p->inside, rows, columns);
	c->answer = json_object();
	api_answer(c);
}

void
e2b_processes_free(struct e2b *e)
{
	while (e->processes != NULL) {
		struct serve_request *q = TAKE(e->processes->starter);

		drop(e->processes);
		if (q != NULL)
			serve_refuse(q, 503, "unavailable", NULL, "the service stops");
	}
}
