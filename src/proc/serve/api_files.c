/* api_files.c - files of a sandbox: reads, writes, lists and watches them.
 *
 * One of init's own programs does this in the cell, as the agent.  The service opens no file of a cell.  It checks
 * whatever it passes on as anything but bytes, because the agent may have written it. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/own.h"
#include "canon/canon.h"
#include "ipc/init_channel.h"
#include "proc/serve/follow.h"
#include "proc/serve/sandbox.h"

#define PIECE (32 * 1024)
#define ENTRIES_MAX 10000
#define LIST_MAX (8u << 20)             /* bytes of its lines */
#define LINE_BYTES_MAX 16384            /* a line of `watch`: a path in base64 fits */
#define LINES_MAX (64 * 1024)
#define TIME_MS 60000                   /* for a file or a folder */
#define LAST_PIECES 32                  /* read after its end: more than its pipe holds */

enum kind { READS, WRITES, LISTS, WATCHES };

struct job {
	struct api *api;
	struct api_call *call;          /* of LISTS; else NULL */
	struct serve_request *q;
	struct inside *inside;
	enum kind kind;
	char *path;
	bool sse, full, streams, exited, timed_out;
	int status;
	unsigned last;                  /* pieces read after its end */
	uint64_t n;                     /* events; of READS: bytes */
	struct buf got;                 /* of LISTS and WATCHES */
	struct loop_source out, in;
	struct loop_timer late, ping;
	/* Of WRITES: what is left of the body. */
	uint64_t at;
	unsigned char piece[PIECE];
	size_t piece_at, piece_len;
};

static const char *const verbs[] = { "read", "write", "list", "watch" };

static void
drop(struct job *j)
{
	struct loop *loop = j->api->loop;

	loop_unwatch(loop, &j->out);
	loop_unwatch(loop, &j->in);
	loop_cancel_timer(loop, &j->late);
	loop_cancel_timer(loop, &j->ping);
	inside_free(j->inside);
	buf_free(&j->got);
	free(j->path);
	free(j);
}

static void
refuse(struct job *j, const struct err *error)
{
	struct serve_request *q = j->q;
	struct api_call *c = j->call;
	struct err copy = *error;

	if (j->streams) {
		drop(j);
		serve_end(q, true);
		return;
	}
	drop(j);
	if (c != NULL) {
		c->err = copy;
		api_go_on(c, api_fail);
	} else {
		api_refuse_request(q, &copy);
	}
}

static void
gone(struct serve_request *q)
{
	drop(q->app);
	serve_end(q, false);
}

/* ---- lists ---- */

/* Whether its name is one: a client may join it with the folder's path. */
static bool
has_name(const json_t *entry)
{
	const char *plain = json_string_value(json_object_get(entry, "name"));
	const char *coded = json_string_value(json_object_get(entry, "name_base64")), *name;
	unsigned char bytes[NAME_MAX + 1];
	size_t len = plain != NULL ? strlen(plain) : 0;

	if ((plain == NULL) == (coded == NULL))
		return false;
	if (coded != NULL && codec_unbase64(CODEC_BASE64, coded, strlen(coded), bytes, sizeof(bytes), &len) < 0)
		return false;
	name = plain != NULL ? plain : (const char *)bytes;
	return len > 0 && memchr(name, '/', len) == NULL &&
	       !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* An entry with only the members that it may have; NULL: it is none. */
static json_t *
check_entry(const char *line, size_t len)
{
	static const struct {
		const char *name;
		json_type type;
	} known[] = {
		{ "name", JSON_STRING }, { "name_base64", JSON_STRING }, { "type", JSON_STRING }, { "size", JSON_INTEGER },
		{ "mode", JSON_INTEGER }, { "modified_ms", JSON_INTEGER }, { "target", JSON_STRING },
		{ "target_base64", JSON_STRING },
	};
	OWN(json_decrefp) json_t *said = canon_value(line, len);
	OWN(json_decrefp) json_t *entry = json_object();

	if (!json_is_object(said) || !has_name(said) ||
	    !json_is_string(json_object_get(said, "type")))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		json_t *value = json_object_get(said, known[i].name);

		if (value != NULL && json_typeof(value) != known[i].type)
			return NULL;
		if (value != NULL)
			json_object_set(entry, known[i].name, value);
	}
	return TAKE(entry);
}

static int
compare_names(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *p = json_string_value(json_object_get(*x, "name")), *q = json_string_value(json_object_get(*y, "name"));

	return strcmp(p != NULL ? p : "", q != NULL ? q : "");
}

/* In a thread: the answer from the lines in C->text. */
static int
answer_list(struct api_call *c)
{
	OWN(freep) json_t **entries = calloc(ENTRIES_MAX + 1, sizeof(json_t *));
	OWN(freep) char *text = TAKE(c->text);
	json_t *list = json_array();
	size_t n = 0, len;
	bool bad = entries == NULL;

	for (const char *at = text, *end = text + c->text_len; !bad && at < end && n <= ENTRIES_MAX; at += len + 1) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		len = (size_t)((stop != NULL ? stop : end) - at);
		entries[n] = check_entry(at, len);
		bad = entries[n] == NULL;
		n += !bad;
	}
	if (entries != NULL && n > 0)
		qsort(entries, n < ENTRIES_MAX ? n : ENTRIES_MAX, sizeof(*entries), compare_names);
	for (size_t i = 0; i < n && i < ENTRIES_MAX; i++)
		json_array_append_new(list, entries[i]);
	if (n > ENTRIES_MAX)
		json_decref(entries[ENTRIES_MAX]);
	c->answer = json_pack("{s:o, s:b}", "entries", list, "truncated", n > ENTRIES_MAX);
	return !bad ? 0 : api_fail_with(c, 502, "forged", "the cell's answer is no list of files");
}

static void
finish_list(struct job *j)
{
	struct api_call *c = j->call;

	c->text = (char *)TAKE(j->got.data);
	c->text_len = j->got.len;
	buf_init(&j->got, 0);
	drop(j);
	if (c->text == NULL)
		c->text = strdup("");
	api_go_on(c, answer_list);
}

/* ---- changes ---- */

static void
send_event(struct job *j, const char *change, const json_t *said)
{
	char name[32], *line;
	json_t *event = json_object();
	const char *const paths[] = { "path", "path_base64" };

	snprintf(name, sizeof(name), "file.%s", change);
	json_object_set_new(event, "event", json_string(name));
	json_object_set_new(event, "n", json_integer((json_int_t)++j->n));
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (json_is_string(json_object_get(said, paths[i])))
			json_object_set(event, paths[i], json_object_get(said, paths[i]));
	line = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	if (line != NULL)
		j->full |= !follow_send_line(j->q, j->sse, j->n, name, line, strlen(line));
	free(line);
	json_decref(event);
}

/* False: it is none of ours. */
static bool
send_change(struct job *j, const char *line, size_t len)
{
	static const char *const changes[] = { "watching", "created", "modified", "removed", "overflow" };
	OWN(json_decrefp) json_t *said = canon_value(line, len);
	const char *change = json_string_value(json_object_get(said, "change"));

	for (size_t i = 0; change != NULL && i < ARRAY_LEN(changes); i++)
		if (strcmp(change, changes[i]) == 0) {
			send_event(j, changes[i], said);
			return true;
		}
	return false;
}

static int
send_changes(struct job *j)
{
	const char *data = (char *)j->got.data;
	size_t at = 0;

	for (const char *stop; at < j->got.len && (stop = memchr(data + at, '\n', j->got.len - at)) != NULL;) {
		if (!send_change(j, data + at, (size_t)(stop - data) - at))
			return -EBADMSG;
		at = (size_t)(stop - data) + 1;
	}
	if (at > 0) {
		memmove(j->got.data, data + at, j->got.len - at);
		j->got.len -= at;
	}
	return j->got.len > LINE_BYTES_MAX ? -EBADMSG : 0;
}

/* ---- output ---- */

static void writable(struct serve_request *q);

static int
begin_stream(struct job *j)
{
	const char *type = j->kind == READS ? "application/octet-stream" : j->sse ? "text/event-stream" :
	                   "application/x-ndjson";

	if (j->streams)
		return 0;
	j->streams = true;
	j->q->app = j;
	j->q->writable = writable;
	j->q->gone = gone;
	serve_stream(j->q, 200, type);
	if (j->kind == WATCHES)
		loop_set_timer(j->api->loop, &j->ping, FOLLOW_PING_MS);
	return j->q->is_gone ? -EPIPE : 0;
}

/* 1: there may be more; 0: not for now; or -errno. */
static int
carry(struct job *j)
{
	char data[PIECE];
	ssize_t n = inside_read(j->inside, INSIDE_OUT, data, sizeof(data));

	if (n <= 0) {
		if (n == 0)
			loop_unwatch(j->api->loop, &j->out);
		return 0;
	}
	if (j->kind != LISTS && begin_stream(j) < 0)
		return -EPIPE;
	if (j->kind == READS) {
		j->n += (uint64_t)n;
		if (j->n > API_FILE_MAX)
			return -EBADMSG;
		j->full |= !serve_send(j->q, data, (size_t)n);
		return 1;
	}
	buf_put(&j->got, data, (size_t)n);
	if (buf_failed(&j->got))
		return -E2BIG;
	return j->kind == WATCHES && send_changes(j) < 0 ? -EBADMSG : 1;
}

static void
finish(struct job *j)
{
	struct serve_request *q = j->q;
	struct err error = {0};
	const bool streams = j->streams;
	const enum kind kind = j->kind;

	if (j->timed_out)
		(void)err_set(&error, EAGAIN, "cannot %s '%.200s': it takes too long", verbs[j->kind], j->path);
	if (j->timed_out || sandbox_failed(j->status, verbs[j->kind], j->path, &error)) {
		refuse(j, &error);
		return;
	}
	if (j->kind == LISTS) {
		finish_list(j);
		return;
	}
	drop(j);
	if (streams)
		serve_end(q, false);
	else if (kind == READS)
		serve_answer(q, 200, "application/octet-stream", "", 0);
	else
		serve_answer(q, 204, NULL, NULL, 0);
}

/* The client is gone, or the cell's answer cannot be used. */
static void
fail(struct job *j, int r)
{
	struct err error = {0};

	if (r == -EPIPE) {
		gone(j->q);
		return;
	}
	(void)err_set(&error, EAGAIN, r == -E2BIG ? "cannot %s '%.200s': it has too many entries" :
	              "cannot %s '%.200s': the cell's answer is none", verbs[j->kind], j->path);
	refuse(j, &error);
}

/* After its end.  Whatever its pipe held then is there now; the agent may hold the pipe open, and write forever. */
static void
go_on(struct job *j)
{
	int r = 1;

	for (; r > 0 && !j->full && j->last < LAST_PIECES; j->last++)
		r = carry(j);
	if (r < 0)
		fail(j, r);
	else if (j->exited && !j->full)
		finish(j);
}

static void
readable(void *arg, uint32_t events)
{
	struct job *j = arg;
	int r;

	(void)events;
	if (j->full) {
		(void)loop_watch(j->api->loop, &j->out, 0, NULL);
		return;
	}
	r = carry(j);
	if (r < 0)
		fail(j, r);
}

static void
writable(struct serve_request *q)
{
	struct job *j = q->app;

	if (!j->full)
		return;
	j->full = false;
	if (!j->exited)
		(void)loop_watch(j->api->loop, &j->out, EPOLLIN, NULL);
	else
		go_on(j);
}

/* ---- input ---- */

/* The next bytes of the body. */
static void
fill(struct job *j)
{
	const struct serve_body *body = &j->q->body;
	size_t want = body->len - j->at < PIECE ? (size_t)(body->len - j->at) : PIECE;
	ssize_t n = (ssize_t)want;

	if (body->fd > 0)
		n = pread(body->fd, j->piece, want, (off_t)j->at);
	else
		memcpy(j->piece, body->data.data + j->at, want);
	j->piece_at = 0;
	j->piece_len = n > 0 ? (size_t)n : 0;
	j->at += j->piece_len;
}

static void
feed(struct job *j)
{
	while (j->piece_at < j->piece_len || j->at < j->q->body.len) {
		ssize_t n;

		if (j->piece_at == j->piece_len)
			fill(j);
		n = j->piece_len == 0 ? -EPIPE : inside_write(j->inside, j->piece + j->piece_at, j->piece_len - j->piece_at);
		if (n == -EAGAIN) {
			j->in.fd = j->inside->to;
			(void)loop_watch(j->api->loop, &j->in, EPOLLOUT, NULL);
			return;
		}
		if (n < 0)
			break;
		j->piece_at += (size_t)n;
	}
	loop_unwatch(j->api->loop, &j->in);
	inside_close_input(j->inside);
}

static void
can_feed(void *arg, uint32_t events)
{
	(void)events;
	feed(arg);
}

/* ---- its life ---- */

static void
late(void *arg)
{
	struct job *j = arg;

	/* In a frozen cell nothing dies, so there is no end to wait for. */
	j->timed_out = true;
	finish(j);
}

static void
ping(void *arg)
{
	struct job *j = arg;

	loop_set_timer(j->api->loop, &j->ping, FOLLOW_PING_MS);
	if (j->sse && !j->full)
		j->full |= !serve_send(j->q, ": still here\n\n", 14);
}

static void
started(void *arg, const struct err *error)
{
	struct job *j = arg;

	if (error != NULL) {
		refuse(j, error);
		return;
	}
	j->out.fd = j->inside->from[INSIDE_OUT];
	(void)loop_watch(j->api->loop, &j->out, EPOLLIN, NULL);
	if (j->kind == WRITES)
		feed(j);
	else
		inside_close_input(j->inside);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct job *j = arg;

	j->exited = true;
	j->status = status;
	/* The watched file is gone, or the cell: nothing more comes. */
	if (error != NULL && (j->kind != WATCHES || !j->streams))
		refuse(j, error);
	else if (!j->full)
		go_on(j);
}

static void
begin(struct api_call *c, enum kind kind)
{
	struct job *j = calloc(1, sizeof(*j));
	struct err err = {0};

	if (j == NULL) {
		(void)api_fail_with(c, 503, "unavailable", "out of memory");
		return;
	}
	*j = (struct job){ .api = c->api, .q = c->q, .inside = TAKE(c->inside), .kind = kind,
		.sse = kind == WATCHES && api_accepts(c->q, "text/event-stream"), .path = strdup(api_query(c, "path")),
		.out = { .fd = -1, .ready = readable, .arg = j }, .in = { .fd = -1, .ready = can_feed, .arg = j },
		.late = { .due = late, .arg = j }, .ping = { .due = ping, .arg = j } };
	buf_init(&j->got, kind == LISTS ? LIST_MAX : LINES_MAX);
	j->inside->started = started;
	j->inside->ended = ended;
	j->inside->arg = j;
	if (j->path == NULL || inside_watch(j->inside, c->api->loop, &err) < 0) {
		drop(j);
		(void)api_fail_with(c, 503, "unavailable", "out of memory");
		return;
	}
	/* The call lives on until its list is made. */
	if (kind == LISTS) {
		j->call = c;
		c->kept = true;
	}
	if (kind != WATCHES)
		loop_set_timer(c->api->loop, &j->late, TIME_MS);
	if (kind != LISTS)
		c->q = NULL;
}

int
api_sandbox_read(struct api_call *c)
{
	const char *path;
	char max[16];

	snprintf(max, sizeof(max), "%u", API_FILE_MAX);
	return sandbox_path(c, &path) < 0 ? -EIO :
	       sandbox_start(c, (char *[]){ (char[]){ INIT_OWN_READ }, (char *)(uintptr_t)path, max, NULL });
}

void
api_sandbox_read_begin(struct api_call *c)
{
	begin(c, READS);
}

int
api_sandbox_write(struct api_call *c)
{
	const char *path;
	char size[24];

	snprintf(size, sizeof(size), "%llu", (unsigned long long)c->q->body.len);
	return sandbox_path(c, &path) < 0 ? -EIO :
	       sandbox_start(c, (char *[]){ (char[]){ INIT_OWN_WRITE }, (char *)(uintptr_t)path, size, NULL });
}

void
api_sandbox_write_begin(struct api_call *c)
{
	begin(c, WRITES);
}

int
api_sandbox_list(struct api_call *c)
{
	const char *path;
	char max[16];

	snprintf(max, sizeof(max), "%d", ENTRIES_MAX + 1);
	return sandbox_path(c, &path) < 0 ? -EIO :
	       sandbox_start(c, (char *[]){ (char[]){ INIT_OWN_LIST }, (char *)(uintptr_t)path, max, NULL });
}

void
api_sandbox_list_begin(struct api_call *c)
{
	begin(c, LISTS);
}

int
api_sandbox_watch(struct api_call *c)
{
	const char *path;
	bool recursive;

	if (sandbox_path(c, &path) < 0 || api_query_bool(c, "recursive", false, &recursive) < 0)
		return -EIO;
	return sandbox_start(c, (char *[]){ (char[]){ INIT_OWN_WATCH }, (char *)(uintptr_t)path,
	                                recursive ? (char[]){ "yes" } : (char[]){ "no" }, NULL });
}

void
api_sandbox_watch_begin(struct api_call *c)
{
	begin(c, WATCHES);
}
