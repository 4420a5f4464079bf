/* e2b_watch.c - changes of a folder in a sandbox of E2B's API: as a stream, or kept until they are asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_spec.h"
#include "ipc/init_channel.h"
#include "proc/serve/e2b.h"
#include "proc/serve/sandbox.h"

#define PIECE (16 * 1024)
#define LINE_BYTES_MAX 16384
#define LINES_MAX (64 * 1024)
#define ALIVE_MS 20000
#define KEPT_MAX 10000                  /* events that nobody asks for */
#define KEPT_BYTES (4u << 20)           /* of their lines */
#define WATCHES_MAX 256
#define KEPT_MS 60000                   /* of one that is polled, and is over */
#define LAST_PIECES 32

struct e2b_watch {
	struct e2b_watch *next, **at;
	struct e2b *e2b;
	char of[API_ID_MAX];
	char id[CELL_ID_LEN + 1];       /* of one that is polled; "" else */
	struct serve_request *q;        /* the stream, or the request that waits for the start; NULL: it is polled */
	bool began, streams, full;
	struct inside *inside;
	char *path;
	struct buf got;
	json_t *events;                 /* of one that is polled */
	size_t kept;                    /* bytes of their lines */
	struct err lost;                /* why it sees no more; code 0: it does */
	struct loop_source out;
	struct loop_timer alive, late;
};

static struct loop *
loop_of(const struct e2b_watch *w)
{
	return w->e2b->api->loop;
}

static void
drop(struct e2b_watch *w)
{
	loop_unwatch(loop_of(w), &w->out);
	loop_cancel_timer(loop_of(w), &w->alive);
	loop_cancel_timer(loop_of(w), &w->late);
	*w->at = w->next;
	if (w->next != NULL)
		w->next->at = w->at;
	inside_free(w->inside);
	json_decref(w->events);
	buf_free(&w->got);
	free(w->path);
	free(w);
}

static void
gone(struct serve_request *q)
{
	drop(q->app);
	serve_end(q, false);
}

/* The time is over that the client has for the stream. */
static void
expire(void *arg)
{
	struct serve_request *q = ((struct e2b_watch *)arg)->q;

	e2b_send_late(q);
	gone(q);
}

static void
writable(struct serve_request *q)
{
	struct e2b_watch *w = q->app;

	w->full = false;
	(void)loop_watch(loop_of(w), &w->out, EPOLLIN, NULL);
}

static void
forget(void *arg)
{
	drop(arg);
}

/* The watch sees nothing any more. */
static void
end_watch(struct e2b_watch *w, const struct err *error)
{
	struct serve_request *q = TAKE(w->q);
	struct err copy = *error;
	const bool streams = w->streams;

	w->lost = copy;
	loop_unwatch(loop_of(w), &w->out);
	/* Who asks for its events hears of it. */
	if (q == NULL) {
		loop_prepare_timer(&w->alive, forget, w);
		loop_set_timer(loop_of(w), &w->alive, KEPT_MS);
		return;
	}
	drop(w);
	if (!streams) {
		api_refuse_request(q, &copy);
		return;
	}
	e2b_send_end(q, copy.code == EALREADY ? "unavailable" : "internal", copy.text);
	serve_end(q, false);
}

/* ---- events ---- */

static void
begin(struct e2b_watch *w)
{
	struct serve_request *q = w->q;
	const uint64_t timeout_ms = e2b_read_timeout(q);
	OWN(freep) char *text = NULL;

	if (w->id[0] != '\0') {
		OWN(json_decrefp) json_t *answer = json_pack("{s:s}", "watcherId", w->id);

		w->q = NULL;
		text = json_dumps(answer, JSON_COMPACT);
		serve_answer(q, 200, "application/json", text, text != NULL ? strlen(text) : 0);
		return;
	}
	w->streams = true;
	q->app = w;
	q->writable = writable;
	q->gone = gone;
	serve_stream(q, 200, E2B_STREAM);
	if (q->is_gone) {
		(void)err_set(&w->lost, EPIPE, "the client is gone");
		return;
	}
	w->full = !e2b_send(q, json_pack("{s:{}}", "start"));
	loop_set_timer(loop_of(w), &w->alive, ALIVE_MS);
	if (timeout_ms > 0)
		loop_set_timer(loop_of(w), &w->late, timeout_ms);
}

static const char *
type_of(const char *change)
{
	static const char *const types[][2] = {
		{ "created", "EVENT_TYPE_CREATE" }, { "modified", "EVENT_TYPE_WRITE" }, { "removed", "EVENT_TYPE_REMOVE" },
		{ "renamed", "EVENT_TYPE_RENAME" }, { "attributes", "EVENT_TYPE_CHMOD" },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i][0], change) == 0)
			return types[i][1];
	return NULL;
}

/* PATH as seen from the folder. */
static const char *
relative(const struct e2b_watch *w, const char *path)
{
	size_t len = strlen(w->path);

	if (strncmp(path, w->path, len) != 0)
		return path;
	path += len;
	path += *path == '/';
	return *path != '\0' ? path : ".";
}

static bool
take_line(struct e2b_watch *w, const char *line, size_t len)
{
	OWN(json_decrefp) json_t *said = canon_value(line, len);
	const char *change = e2b_text(said, "change"), *path = e2b_text(said, "path");
	json_t *event;

	if (change == NULL)
		return false;
	if (strcmp(change, "watching") == 0) {
		/* The agent can write this, too. */
		if (w->began)
			return false;
		w->began = true;
		begin(w);
		return true;
	}
	if (strcmp(change, "overflow") == 0) {
		(void)err_set(&w->lost, EIO, "changes were missed");
		return true;
	}
	if (type_of(change) == NULL)
		return false;
	/* A name that is no text cannot be in a message. */
	if (path == NULL)
		return true;
	event = json_pack("{s:s, s:s}", "name", relative(w, path), "type", type_of(change));
	if (w->streams)
		w->full |= !e2b_send(w->q, json_pack("{s:o}", "filesystem", event));
	else if (json_array_size(w->events) < KEPT_MAX && (w->kept += len) <= KEPT_BYTES)
		json_array_append_new(w->events, event);
	else {
		json_decref(event);
		(void)err_set(&w->lost, EIO, "changes were missed: nobody asked for them");
	}
	return true;
}

/* False: the watch is over. */
static bool
take_lines(struct e2b_watch *w)
{
	const char *data = (char *)w->got.data;
	struct err error = {0};
	size_t at = 0;

	for (const char *stop; at < w->got.len && (stop = memchr(data + at, '\n', w->got.len - at)) != NULL;) {
		if (!take_line(w, data + at, (size_t)(stop - data) - at))
			break;
		at = (size_t)(stop - data) + 1;
		if (w->lost.code != 0) {
			error = w->lost;
			end_watch(w, &error);
			return false;
		}
	}
	if (at > 0) {
		memmove(w->got.data, data + at, w->got.len - at);
		w->got.len -= at;
	}
	if (w->got.len <= LINE_BYTES_MAX && memchr(w->got.data, '\n', w->got.len) == NULL)
		return true;
	(void)err_set(&error, EIO, "the sandbox's answer is none");
	end_watch(w, &error);
	return false;
}

/* 1: there may be more; 0: not for now; -1: the watch is over. */
static int
carry(struct e2b_watch *w)
{
	char data[PIECE];
	ssize_t n = inside_read(w->inside, INSIDE_OUT, data, sizeof(data));

	if (n == 0)
		loop_unwatch(loop_of(w), &w->out);
	if (n <= 0)
		return 0;
	buf_put(&w->got, data, (size_t)n);
	return take_lines(w) ? 1 : -1;
}

static void
readable(void *arg, uint32_t events)
{
	struct e2b_watch *w = arg;

	(void)events;
	if (w->full)
		(void)loop_watch(loop_of(w), &w->out, 0, NULL);
	else
		(void)carry(w);
}

/* ---- its life ---- */

static void
started(void *arg, const struct err *error)
{
	struct e2b_watch *w = arg;

	if (error != NULL) {
		end_watch(w, error);
		return;
	}
	inside_close_input(w->inside);
	w->out.fd = w->inside->from[INSIDE_OUT];
	(void)loop_watch(loop_of(w), &w->out, EPOLLIN, NULL);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct e2b_watch *w = arg;
	struct err copy = {0};
	int r = 1;

	for (int n = 0; r > 0 && n < LAST_PIECES; n++)
		r = carry(w);
	if (r < 0)
		return;
	if (error != NULL)
		copy = *error;
	else if (WIFEXITED(status) && WEXITSTATUS(status) == ENOTDIR)
		(void)err_set(&copy, EINVAL, "path '%.200s' is not a directory", w->path);
	else if (!sandbox_failed(status, "watch", w->path, &copy))
		(void)err_set(&copy, ENOENT, "the folder '%.200s' is gone", w->path);
	end_watch(w, &copy);
}

static void
alive(void *arg)
{
	struct e2b_watch *w = arg;

	loop_set_timer(loop_of(w), &w->alive, ALIVE_MS);
	if (!w->full)
		w->full = !e2b_send(w->q, json_pack("{s:{}}", "keepalive"));
}

static int
run(struct api_call *c, const char *cell)
{
	const char *path = e2b_text(c->body, "path");
	const bool all = json_is_true(json_object_get(c->body, "recursive"));

	if (path == NULL || path[0] == '\0')
		return api_fail_with(c, 400, "invalid", "'path' is missing: a folder in the sandbox");
	if (json_is_true(json_object_get(c->body, "includeEntry")))
		return api_fail_with(c, 501, "unsupported", "events have no entries here: leave 'includeEntry' out");
	if (e2b_resolve(c, cell, path, &c->e2b->path) < 0)
		return -EIO;
	return e2b_run(c, cell, &(struct inside_order){ .own = true, .argv = (char *[]){ (char[]){ INIT_OWN_WATCH },
		c->e2b->path, all ? (char[]){ "all-names" } : (char[]){ "names" }, NULL } });
}

int
e2b_watch(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	/* Of a stream the body is read here. */
	if (e2b_enter(c, cell) < 0 || (c->body == NULL && e2b_read_message(c) < 0) || e2b_check_user(c, cell, NULL) < 0)
		return -EIO;
	return run(c, cell);
}

static void
start(struct api_call *c, bool polled)
{
	struct e2b *e = c->api->e2b;
	struct e2b_watch *w;
	size_t n = 0;

	for (w = e->watches; w != NULL; w = w->next)
		n++;
	w = n < WATCHES_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (w == NULL || (polled && cell_make_id(w->id, &c->err) < 0)) {
		free(w);
		(void)api_fail_with(c, 429, "busy", "too many folders are watched: end some of the watches");
		return;
	}
	w->next = e->watches;
	w->at = &e->watches;
	w->e2b = e;
	w->q = TAKE(c->q);
	w->inside = TAKE(c->inside);
	w->path = TAKE(c->e2b->path);
	w->events = polled ? json_array() : NULL;
	w->out = (struct loop_source){ .fd = -1, .ready = readable, .arg = w };
	buf_init(&w->got, LINES_MAX);
	snprintf(w->of, sizeof(w->of), "%s", c->id);
	loop_prepare_timer(&w->alive, alive, w);
	loop_prepare_timer(&w->late, expire, w);
	w->inside->started = started;
	w->inside->ended = ended;
	w->inside->arg = w;
	if (w->next != NULL)
		w->next->at = &w->next;
	e->watches = w;
	if (inside_watch(w->inside, c->api->loop, &c->err) < 0)
		end_watch(w, &c->err);
}

void
e2b_watch_begin(struct api_call *c)
{
	start(c, false);
}

void
e2b_watch_poll_begin(struct api_call *c)
{
	start(c, true);
}

/* ---- requests to one that is polled ---- */

static struct e2b_watch *
find(struct api_call *c)
{
	const char *id = e2b_text(c->body, "watcherId");

	for (struct e2b_watch *w = c->api->e2b->watches; id != NULL && w != NULL; w = w->next)
		if (w->id[0] != '\0' && w->q == NULL && strcmp(w->of, c->id) == 0 && strcmp(w->id, id) == 0)
			return w;
	(void)api_fail_with(c, 404, "not_found", "watcher with id %.64s not found", id != NULL ? id : "");
	return NULL;
}

void
e2b_watch_events_begin(struct api_call *c)
{
	struct e2b_watch *w = find(c);

	if (w == NULL)
		return;
	if (w->lost.code != 0 && json_array_size(w->events) == 0) {
		(void)api_fail_with(c, 500, "internal", "%s", w->lost.text);
		return;
	}
	c->answer = json_pack("{s:o}", "events", w->events);
	w->events = json_array();
	w->kept = 0;
	api_answer(c);
}

void
e2b_watch_remove_begin(struct api_call *c)
{
	struct e2b_watch *w = find(c);

	if (w == NULL)
		return;
	drop(w);
	c->answer = json_object();
	api_answer(c);
}

void
e2b_watches_free(struct e2b *e)
{
	struct err error = {0};

	(void)err_set(&error, EAGAIN, "the service stops");
	while (e->watches != NULL) {
		if (e->watches->q != NULL)
			end_watch(e->watches, &error);
		else
			drop(e->watches);
	}
}
