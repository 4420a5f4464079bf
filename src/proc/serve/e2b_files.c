/* e2b_files.c - files of E2B's sandboxes: one of init's own programs reads, writes, describes or changes them in the
 * cell, as the agent.  What it prints may be the agent's word, so it is checked member by member. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/own.h"
#include "canon/canon.h"
#include "ipc/init_channel.h"
#include "proc/serve/e2b.h"
#include "proc/serve/sandbox.h"

#define PIECE (32 * 1024)
#define ENTRIES_MAX 10000
#define LINES_MAX (16u << 20)
#define DEPTH_MAX 32
#define TIME_MS 60000
#define LAST_PIECES 64                  /* read after its end: more than its pipe holds */
#define PARTS_MAX 1024                  /* files of one upload */
#define BOUNDARY_MAX 200
#define FIELD_MAX 512

void
e2b_call_free(struct e2b_call *e)
{
	if (e == NULL)
		return;
	json_decref(e->record);
	json_decref(e->config);
	json_decref(e->written);
	free(e->tag);
	free(e->path);
	free(e->to);
	if (e->map != NULL)
		munmap(e->map, e->map_len);
	buf_free(&e->got);
	free(e);
}

/* ---- one of init's own programs, in the loop ---- */

static void
leave(struct api_call *c)
{
	struct e2b_call *e = c->e2b;

	loop_unwatch(c->api->loop, &e->out);
	loop_unwatch(c->api->loop, &e->in);
	loop_cancel_timer(c->api->loop, &e->late);
	inside_free(TAKE(c->inside));
}

static void
fail_later(struct api_call *c, const struct err *error)
{
	c->err = *error;
	leave(c);
	api_go_on(c, api_fail);
}

/* False: there is nothing more for now. */
static bool
gather(struct api_call *c)
{
	char data[PIECE];
	ssize_t n = inside_read(c->inside, INSIDE_OUT, data, sizeof(data));

	if (n == 0)
		loop_unwatch(c->api->loop, &c->e2b->out);
	if (n > 0)
		buf_put(&c->e2b->got, data, (size_t)n);
	return n > 0;
}

static void
out_ready(void *arg, uint32_t events)
{
	(void)events;
	(void)gather(arg);
}

static void
feed(struct api_call *c)
{
	struct e2b_call *e = c->e2b;

	while (e->part_len > 0) {
		ssize_t n = inside_write(c->inside, e->part, e->part_len < PIECE ? e->part_len : PIECE);

		if (n == -EAGAIN) {
			e->in.fd = c->inside->to;
			(void)loop_watch(c->api->loop, &e->in, EPOLLOUT, NULL);
			return;
		}
		if (n < 0)
			break;
		e->part += n;
		e->part_len -= (size_t)n;
	}
	loop_unwatch(c->api->loop, &e->in);
	inside_close_input(c->inside);
}

static void
can_feed(void *arg, uint32_t events)
{
	(void)events;
	feed(arg);
}

static void
started(void *arg, const struct err *error)
{
	struct api_call *c = arg;

	if (error != NULL) {
		fail_later(c, error);
		return;
	}
	c->e2b->out.fd = c->inside->from[INSIDE_OUT];
	(void)loop_watch(c->api->loop, &c->e2b->out, EPOLLIN, NULL);
	feed(c);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct api_call *c = arg;

	if (error != NULL) {
		fail_later(c, error);
		return;
	}
	for (c->e2b->last = 0; c->e2b->last < LAST_PIECES && gather(c); c->e2b->last++)
		;
	c->e2b->status = status;
	leave(c);
	api_go_on(c, c->e2b->after);
}

/* In a frozen cell nothing ends. */
static void
late(void *arg)
{
	struct api_call *c = arg;
	struct err error = {0};

	(void)err_set(&error, ETIMEDOUT, "the sandbox takes too long for this");
	fail_later(c, &error);
}

void
e2b_run_begin(struct api_call *c)
{
	struct e2b_call *e = c->e2b;

	/* Nothing is left to do. */
	if (c->inside == NULL) {
		api_answer(c);
		return;
	}
	buf_free(&e->got);
	buf_init(&e->got, LINES_MAX);
	e->out = (struct loop_source){ .fd = -1, .ready = out_ready, .arg = c };
	e->in = (struct loop_source){ .fd = -1, .ready = can_feed, .arg = c };
	loop_prepare_timer(&e->late, late, c);
	c->inside->started = started;
	c->inside->ended = ended;
	c->inside->arg = c;
	if (inside_watch(c->inside, c->api->loop, &c->err) < 0) {
		(void)api_fail(c);
		return;
	}
	c->kept = true;
	loop_set_timer(c->api->loop, &e->late, TIME_MS);
}

/* ---- entries ---- */

static const char *
type_word(const char *type)
{
	return type == NULL ? "FILE_TYPE_UNSPECIFIED" : strcmp(type, "file") == 0 ? "FILE_TYPE_FILE" :
	       strcmp(type, "folder") == 0 ? "FILE_TYPE_DIRECTORY" :
	       strcmp(type, "link") == 0 ? "FILE_TYPE_SYMLINK" : "FILE_TYPE_UNSPECIFIED";
}

/* As Go, in which envd is written, prints a mode. */
static void
put_permissions(char text[16], const char *type, unsigned mode)
{
	static const char letters[] = "rwxrwxrwx";
	size_t n = 0;

	text[n++] = type == NULL || strcmp(type, "file") == 0 ? '-' : strcmp(type, "folder") == 0 ? 'd' :
	            strcmp(type, "link") == 0 ? 'L' : strcmp(type, "pipe") == 0 ? 'p' : strcmp(type, "socket") == 0 ? 'S' : 'D';
	for (int i = 0; i < 9; i++)
		text[n++] = (mode >> (8 - i) & 1) != 0 ? letters[i] : '-';
	text[n] = '\0';
}

static uint64_t
number(const json_t *said, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(said, name));

	return n > 0 ? (uint64_t)n : 0;
}

/* A line of init's own program as an EntryInfo; NULL: it is none.  A path that is no text is left out by the caller. */
static json_t *
read_entry(const char *line, size_t len)
{
	OWN(json_decrefp) json_t *said = canon_value(line, len);
	const char *path = e2b_text(said, "path"), *type = e2b_text(said, "type"), *target = e2b_text(said, "target");
	const char *owner = e2b_text(said, "owner"), *group = e2b_text(said, "group"), *slash;
	const unsigned mode = (unsigned)number(said, "mode") & 07777;
	char permissions[16], size[24];
	json_t *entry;

	if (!json_is_object(said) || type == NULL || (path == NULL && e2b_text(said, "path_base64") == NULL))
		return NULL;
	path = path != NULL ? path : "";
	slash = strrchr(path, '/');
	put_permissions(permissions, type, mode);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)number(said, "size"));
	entry = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s}", "name", slash != NULL && slash[1] != '\0' ? slash + 1 : path,
		"path", path, "size", size, "type", type_word(target != NULL ? e2b_text(said, "target_type") : type),
		"mode", (json_int_t)(target != NULL ? number(said, "target_mode") & 07777 : mode) & 0777, "permissions", permissions,
		"owner", owner != NULL ? owner : "", "group", group != NULL ? group : "");
	if (entry == NULL)
		return NULL;
	json_object_set_new(entry, "modifiedTime", e2b_time(number(said, "modified_ms")));
	if (target != NULL)
		json_object_set_new(entry, "symlinkTarget", json_string(target));
	return entry;
}

static int
is_forged(struct api_call *c)
{
	return api_fail_with(c, 502, "forged", "the sandbox's answer is none");
}

/* Whether the program VERB failed; then the call has. */
static bool
has_failed(struct api_call *c, const char *verb)
{
	if (!sandbox_failed(c->e2b->status, verb, c->e2b->path, &c->err))
		return false;
	(void)api_fail(c);
	return true;
}

static int
answer_entry(struct api_call *c, const char *verb)
{
	const struct buf *got = &c->e2b->got;
	json_t *entry;

	if (has_failed(c, verb))
		return -EIO;
	entry = got->len > 0 ? read_entry((char *)got->data, got->len) : NULL;
	if (entry == NULL)
		return is_forged(c);
	c->answer = json_pack("{s:o}", "entry", entry);
	return 0;
}

static int
answer_stat(struct api_call *c)
{
	return answer_entry(c, "look at");
}

static int
answer_make(struct api_call *c)
{
	return answer_entry(c, "make");
}

static int
answer_move(struct api_call *c)
{
	return answer_entry(c, "rename");
}

static int
answer_remove(struct api_call *c)
{
	if (has_failed(c, "remove"))
		return -EIO;
	c->answer = json_object();
	return 0;
}

static int
answer_list(struct api_call *c)
{
	const struct buf *got = &c->e2b->got;
	OWN(json_decrefp) json_t *list = json_array();
	size_t len;

	if (has_failed(c, "list"))
		return -EIO;
	if (buf_failed(got))
		return api_fail_with(c, 413, "too_large", "the folder '%.200s' has too many entries", c->e2b->path);
	for (const char *at = (char *)got->data, *end = at + got->len;
	     at != NULL && at < end && json_array_size(list) <= ENTRIES_MAX; at += len + 1) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		json_t *entry;

		len = (size_t)((stop != NULL ? stop : end) - at);
		entry = read_entry(at, len);
		if (entry == NULL)
			return is_forged(c);
		if (e2b_text(entry, "path")[0] == '\0')
			json_decref(entry);
		else
			json_array_append_new(list, entry);
	}
	if (json_array_size(list) > ENTRIES_MAX)
		return api_fail_with(c, 413, "too_large", "the folder '%.200s' has more than %d entries: list its folders one by "
		                     "one", c->e2b->path, ENTRIES_MAX);
	c->answer = json_pack("{s:O}", "entries", list);
	return 0;
}

/* ---- requests for entries ---- */

/* A path of the message, absolute, in *AT. */
static int
take_path(struct api_call *c, const char *cell, const char *member, char **at)
{
	const char *path = e2b_text(c->body, member);

	if (path == NULL || path[0] == '\0')
		return api_fail_with(c, 400, "invalid", "'%s' is missing: a path in the sandbox", member);
	return e2b_resolve(c, cell, path, at);
}

static int
enter_for_path(struct api_call *c, const char *member, char ret_cell[CELL_ID_LEN + 1])
{
	if (e2b_enter(c, ret_cell) < 0 || e2b_check_user(c, ret_cell, NULL) < 0)
		return -EIO;
	return take_path(c, ret_cell, member, &c->e2b->path);
}

static int
run_own(struct api_call *c, const char *cell, char *const *argv, int (*after)(struct api_call *c))
{
	c->e2b->after = after;
	return e2b_run(c, cell, &(struct inside_order){ .argv = argv, .own = true });
}

int
e2b_entry_stat(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return enter_for_path(c, "path", cell) < 0 ? -EIO :
	       run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_STAT }, c->e2b->path, NULL }, answer_stat);
}

int
e2b_entry_make(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return enter_for_path(c, "path", cell) < 0 ? -EIO :
	       run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_MAKE_FOLDER }, c->e2b->path, NULL }, answer_make);
}

int
e2b_entry_remove(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return enter_for_path(c, "path", cell) < 0 ? -EIO :
	       run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_REMOVE }, c->e2b->path, NULL }, answer_remove);
}

int
e2b_entry_move(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return enter_for_path(c, "source", cell) < 0 || take_path(c, cell, "destination", &c->e2b->to) < 0 ? -EIO :
	       run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_MOVE }, c->e2b->path, c->e2b->to, NULL }, answer_move);
}

int
e2b_entry_list(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1], max[16], depth[16];
	json_int_t wanted = json_integer_value(json_object_get(c->body, "depth"));

	if (wanted < 0 || wanted > DEPTH_MAX)
		return api_fail_with(c, 400, "invalid", "'depth' is %d at most", DEPTH_MAX);
	snprintf(max, sizeof(max), "%d", ENTRIES_MAX + 1);
	snprintf(depth, sizeof(depth), "%d", wanted == 0 ? 1 : (int)wanted);
	return enter_for_path(c, "path", cell) < 0 ? -EIO :
	       run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_TREE }, c->e2b->path, max, depth, NULL }, answer_list);
}

/* ---- reading ---- */

int
e2b_file_read(struct api_call *c)
{
	const char *path = api_query(c, "path");
	char cell[CELL_ID_LEN + 1], max[16];

	if (e2b_enter(c, cell) < 0 || e2b_check_user(c, cell, api_query(c, "username")) < 0)
		return -EIO;
	if (path == NULL || path[0] == '\0')
		return api_fail_with(c, 400, "invalid", "the parameter 'path' is missing: a path in the sandbox");
	if (e2b_resolve(c, cell, path, &c->e2b->path) < 0)
		return -EIO;
	snprintf(max, sizeof(max), "%u", API_FILE_MAX);
	return e2b_run(c, cell, &(struct inside_order){ .own = true,
		.argv = (char *[]){ (char[]){ INIT_OWN_READ }, c->e2b->path, max, NULL } });
}

/* ---- writing ---- */

static int
read_whole_body(struct api_call *c, const char **ret_data, size_t *ret_len)
{
	const struct serve_body *body = &c->q->body;
	struct e2b_call *e = c->e2b;

	*ret_data = (char *)body->data.data;
	*ret_len = body->len;
	if (body->fd <= 0 || body->len == 0)
		return 0;
	if (e->map == NULL) {
		void *map = mmap(NULL, body->len, PROT_READ, MAP_PRIVATE, body->fd, 0);

		if (map == MAP_FAILED)
			return api_fail_with(c, 503, "unavailable", "there is no memory for the body");
		e->map = map;
		e->map_len = body->len;
	}
	*ret_data = e->map;
	return 0;
}

/* The value of the parameter NAME of a field such as `form-data; name="file"; filename="a"`. */
static bool
read_parameter(const char *field, size_t len, const char *name, char *out, size_t size)
{
	char wanted[64];
	const char *at, *end = field + len;
	size_t n = 0;

	snprintf(wanted, sizeof(wanted), "; %s=\"", name);
	at = memmem(field, len, wanted, strlen(wanted));
	if (at == NULL)
		return false;
	for (at += strlen(wanted); at < end && *at != '"' && n + 1 < size; at++) {
		int byte = *at == '%' && end - at > 2 ? codec_hex_byte(at + 1) : -1;

		/* Browsers and Node escape exactly these. */
		if (byte == '"' || byte == '\r' || byte == '\n') {
			out[n++] = (char)byte;
			at += 2;
		} else if (*at == '\\' && at + 1 < end) {
			out[n++] = *++at;
		} else {
			out[n++] = *at;
		}
	}
	out[n] = '\0';
	return at < end && *at == '"' && memchr(out, '\0', n) == NULL;
}

/* The boundary of a multipart body, with the "--" before it. */
static bool
read_boundary(const struct serve_request *q, char ret_boundary[BOUNDARY_MAX])
{
	char type[FIELD_MAX];
	const char *at;
	size_t len;

	if (!serve_read_field(q, "content-type", type, sizeof(type)) || strncasecmp(type, "multipart/form-data", 19) != 0)
		return false;
	at = strcasestr(type, "boundary=");
	if (at == NULL)
		return false;
	at += strlen("boundary=");
	at += *at == '"';
	len = strcspn(at, "\";, ");
	if (len == 0 || len > 70)
		return false;
	snprintf(ret_boundary, BOUNDARY_MAX, "--%.*s", (int)len, at);
	return true;
}

/* 1: the next part that is a file, its name in *ret_name and its bytes as C->e2b->part; 0: there is none. */
static int
next_part(struct api_call *c, const char *data, size_t len, const char *boundary, char ret_name[PATH_MAX])
{
	struct e2b_call *e = c->e2b;
	const size_t n = strlen(boundary);

	for (;;) {
		const char *at = data + e->at, *end = data + len, *head, *body, *stop, *field, *field_end;
		char name[64];

		if ((size_t)(end - at) < n || memcmp(at, boundary, n) != 0)
			return api_fail_with(c, 400, "invalid", "the body is no multipart form");
		at += n;
		if (end - at >= 2 && memcmp(at, "--", 2) == 0)
			return 0;
		head = at;
		body = memmem(head, (size_t)(end - head), "\r\n\r\n", 4);
		if (body == NULL)
			return api_fail_with(c, 400, "invalid", "the body is no multipart form");
		body += 4;
		stop = body;
		do {
			stop = memmem(stop, (size_t)(end - stop), boundary, n);
			if (stop == NULL)
				return api_fail_with(c, 400, "invalid", "the body is no multipart form");
			if (stop - body >= 2 && stop[-1] == '\n' && stop[-2] == '\r')
				break;
			stop++;
		} while (true);
		e->at = (size_t)(stop - data);
		field = memmem(head, (size_t)(body - head), "form-data", 9);
		field_end = field == NULL ? NULL : memchr(field, '\r', (size_t)(body - field));
		if (field_end == NULL || !read_parameter(field, (size_t)(field_end - field), "name", name, sizeof(name)) ||
		    strcmp(name, "file") != 0)
			continue;
		if (!read_parameter(field, (size_t)(field_end - field), "filename", ret_name, PATH_MAX))
			return api_fail_with(c, 400, "invalid", "a file of the form has no name");
		e->part = body;
		e->part_len = (size_t)(stop - 2 - body);
		return 1;
	}
}

static int note_written(struct api_call *c);

static int
write_part(struct api_call *c, const char *cell, const char *name)
{
	struct e2b_call *e = c->e2b;
	const char *slash;
	char size[24];

	free(TAKE(e->path));
	if (e2b_resolve(c, cell, name, &e->path) < 0)
		return -EIO;
	if (e->part_len > API_FILE_MAX)
		return api_fail_with(c, 413, "too_large", "a file is at most %u MiB long", API_FILE_MAX >> 20);
	slash = strrchr(e->path, '/');
	json_array_append_new(e->written, json_pack("{s:s, s:s, s:s}", "name", slash != NULL ? slash + 1 : e->path, "type", "file",
	                                            "path", e->path));
	snprintf(size, sizeof(size), "%zu", e->part_len);
	return run_own(c, cell, (char *[]){ (char[]){ INIT_OWN_WRITE }, e->path, size, NULL }, note_written);
}

/* The first file, or the one after those that are written. */
static int
go_on_writing(struct api_call *c)
{
	struct e2b_call *e = c->e2b;
	const char *path = api_query(c, "path"), *data;
	char cell[CELL_ID_LEN + 1], boundary[BOUNDARY_MAX], name[PATH_MAX];
	size_t len;
	int r;

	if (e2b_enter(c, cell) < 0 || read_whole_body(c, &data, &len) < 0)
		return -EIO;
	if (read_boundary(c->q, boundary)) {
		if (json_array_size(e->written) == PARTS_MAX)
			return api_fail_with(c, 413, "too_large", "an upload has at most %d files", PARTS_MAX);
		r = next_part(c, data, len, boundary, name);
		if (r < 0)
			return r;
		if (r > 0)
			return write_part(c, cell, path != NULL && path[0] != '\0' ? path : name);
	} else if (json_array_size(e->written) == 0) {
		if (path == NULL || path[0] == '\0')
			return api_fail_with(c, 400, "invalid", "the parameter 'path' is missing: a path in the sandbox");
		e->part = data;
		e->part_len = len;
		return write_part(c, cell, path);
	}
	c->answer = json_incref(e->written);
	return 0;
}

static int
note_written(struct api_call *c)
{
	if (has_failed(c, "write"))
		return -EIO;
	c->again = true;
	return go_on_writing(c);
}

int
e2b_file_write(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1], packed[32];

	if (e2b_enter(c, cell) < 0 || e2b_check_user(c, cell, api_query(c, "username")) < 0)
		return -EIO;
	if (serve_read_field(c->q, "content-encoding", packed, sizeof(packed)) && strcasecmp(packed, "identity") != 0)
		return api_fail_with(c, 400, "invalid", "a compressed upload is not served: leave 'gzip' out");
	c->e2b->written = json_array();
	return go_on_writing(c);
}
