/* timeline.c - finds a cell's recorded events and reads them line by line. */
#include "cli/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

static int
open_file(const struct timeline *t, const char *name)
{
	return openat(t->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* The state folder, and the folder of ended cells in it. */
enum { PLACES = 2 };

static int
open_place(int state, int place)
{
	return state < 0 ? -1 : place == 0 ? openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) :
	       cell_ended_open(state);
}

struct newest {
	struct cell_entry entry;
	struct timespec time;
	bool found, networked;
};

/* Prefers a cell that used the network, and then the one whose timeline was written last. */
static void
look_at(int folder, const struct cell_entry *entry, struct newest *newest)
{
	char path[CELL_ENTRY_MAX + sizeof(CELL_EVENTS) + 1];
	struct timespec *than = &newest->time;
	bool networked, later;
	struct stat st;

	snprintf(path, sizeof(path), "%s/" CELL_POLICY, entry->dir);
	networked = faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	snprintf(path, sizeof(path), "%s/" CELL_EVENTS, entry->dir);
	if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	later = st.st_mtim.tv_sec > than->tv_sec ||
	        (st.st_mtim.tv_sec == than->tv_sec && st.st_mtim.tv_nsec > than->tv_nsec);
	if (!newest->found || networked > newest->networked ||
	    (networked == newest->networked && later))
		*newest = (struct newest){ *entry, st.st_mtim, true, networked };
}

/* Among those called NAME or (NULL) all. */
static int
find_newest(int state, const char *name, struct cell_entry *ret_entry, struct err *err)
{
	struct newest newest = {0};

	for (int place = 0; place < PLACES; place++) {
		OWN(closep) int folder = open_place(state, place);
		OWN(freep) struct cell_entry *entries = NULL;
		size_t n = 0;

		if (folder < 0 || cell_list(folder, false, &entries, &n, NULL) < 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (name == NULL || strcmp(entries[i].name, name) == 0)
				look_at(folder, &entries[i], &newest);
	}
	if (!newest.found)
		return err_set(err, ENOENT, "no cell has any records");
	*ret_entry = newest.entry;
	return 0;
}

/* -ENOTUNIQ also if there is one in each place. */
static int
find_any(int state, const char *word, struct cell_entry *ret_entry, struct err *err)
{
	int r = -ENOENT;

	for (int place = 0; place < PLACES; place++) {
		OWN(closep) int folder = open_place(state, place);
		struct cell_entry entry;
		int one = folder < 0 ? -ENOENT : cell_find(folder, false, word, &entry, err);

		if (one == -ENOTUNIQ || (one == 0 && r == 0 && strcmp(entry.id, ret_entry->id) != 0))
			return -ENOTUNIQ;
		if (one == 0) {
			*ret_entry = entry;
			r = 0;
		}
	}
	return r == 0 ? 0 : err_set(err, ENOENT, "there is no cell '%s': see `cloister ps -a`, or "
	                            "`cloister audit verify` for cells with only events left", word);
}

/* A running cell without any record yet has no state entry. */
static bool
find_running(const char *word, struct cell_entry *ret_entry)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	return runtime >= 0 && cell_find(runtime, true, word, ret_entry, NULL) == 0;
}

static void
open_dir(struct timeline *t)
{
	if (t->state <= 0)
		t->state = cell_state_open(false, NULL);
	/* In this order: the entry moves from the first to the second when the cell ends. */
	for (int place = 0; t->dir <= 0 && place < PLACES; place++) {
		OWN(closep) int folder = open_place(t->state, place);
		struct cell_entry entry;

		if (folder >= 0 && cell_find(folder, false, t->entry.id, &entry, NULL) == 0)
			t->dir = openat(folder, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
}

int
timeline_open(const char *word, struct timeline *ret_timeline, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	int r;

	t.state = cell_state_open(false, err);
	if (t.state < 0 && t.state != -ENOENT)
		return t.state;
	if (word == NULL)
		r = find_newest(t.state, NULL, &t.entry, err);
	else
		r = find_any(t.state, word, &t.entry, err);
	if (r == -ENOENT && word != NULL && find_running(word, &t.entry))
		r = 0;
	/* If a name was used again, it means the cell that has it now. */
	if (r == -ENOTUNIQ && find_newest(t.state, word, &t.entry, NULL) == 0)
		r = 0;
	if (r < 0)
		return r;
	t.data = malloc(TIMELINE_LINE_MAX);
	if (t.data == NULL)
		return err_errno(err, "cannot read the events");
	open_dir(&t);
	*ret_timeline = t;
	t = (struct timeline){0};
	return 0;
}

void
timeline_finish(struct timeline *t)
{
	close_fd(&t->state);
	close_fd(&t->dir);
	close_fd(&t->fd);
	free(t->data);
	t->data = NULL;
}

void
timeline_close(struct timeline *t)
{
	timeline_finish(t);
	*t = (struct timeline){0};
}

/* Opens the next file: a numbered one, or the newest, which will get that number. */
static int
open_next(struct timeline *t)
{
	char name[sizeof(CELL_EVENTS) + 12];
	int fd;

	snprintf(name, sizeof(name), CELL_EVENTS ".%u", t->number + 1);
	fd = open_file(t, name);
	t->is_numbered = fd >= 0;
	if (fd < 0)
		fd = open_file(t, CELL_EVENTS);
	/* The file was rotated in between. */
	if (fd >= 0 && !t->is_numbered && faccessat(t->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		close(fd);
		fd = open_file(t, name);
		t->is_numbered = true;
	}
	t->number += fd >= 0;
	return fd;
}

static bool
open_first(struct timeline *t)
{
	if (t->fd > 0)
		return true;
	open_dir(t);
	if (t->dir > 0)
		t->fd = open_next(t);
	return t->fd > 0;
}

static bool
is_turned_over(const struct timeline *t)
{
	struct stat now, latest;

	return t->is_numbered ||
	       (fstat(t->fd, &now) == 0 &&
	        fstatat(t->dir, CELL_EVENTS, &latest, AT_SYMLINK_NOFOLLOW) == 0 &&
	        (now.st_ino != latest.st_ino || now.st_dev != latest.st_dev));
}

/* Reads more bytes behind the existing ones: returns how many, 0 at the end. */
static ssize_t
fill(struct timeline *t, struct err *err)
{
	bool over;
	ssize_t n;

	memmove(t->data, t->data + t->at, t->len - t->at);
	t->len -= t->at;
	t->at = 0;
	if (t->len == TIMELINE_LINE_MAX) {
		t->left_out += !t->skipping;
		t->skipping = true;
		t->len = 0;
	}
	for (;;) {
		/* Ask before reading, so that records from before the rotation are not missed. */
		over = is_turned_over(t);
		n = read(t->fd, t->data + t->len, TIMELINE_LINE_MAX - t->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != 0 || !over)
			break;
		close(t->fd);
		t->fd = open_next(t);
		if (t->fd < 0)
			break;
	}
	if (n < 0)
		return err_errno(err, "cannot read the events of cell %s", t->entry.id);
	t->len += (size_t)n;
	return n;
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static uint64_t
number_of(const json_t *object, const char *key, uint64_t max)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n < 0 ? 0 : (uint64_t)n > max ? max : (uint64_t)n;
}

/* A list's texts with spaces between them; NULL if there are none. */
static char *
join_texts(const json_t *list)
{
	char *all = NULL;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		OWN(freep) char *before = all;

		all = str_format("%s%s%s", before != NULL ? before : "", before != NULL ? " " : "",
		                 text != NULL ? text : "");
		if (all == NULL)
			return NULL;
	}
	return all;
}

/* Brings a record into a flat form: its number, time and cell, and then the members of its event.
 * Events from before there were records are flat already. */
static json_t *
flatten(json_t *record)
{
	static const char *const first[] = { "n", "time", "cell" };
	json_t *event = json_object_get(record, "event"), *flat;

	if (!json_is_object(event))
		return record;
	flat = json_object();
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		(void)json_object_set(flat, first[i], json_object_get(record, first[i]));
	(void)json_object_update_missing(flat, event);
	json_decref(record);
	return flat;
}

static bool
parse(const char *line, size_t len, struct timeline_event *ret_event)
{
	/* Not canon_value(): numbers of any size are shown as they are. */
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		return false;
	}
	o = flatten(o);
	*ret_event = (struct timeline_event){
		.json = o,
		.n = number_of(o, "n", INT64_MAX),
		.time = text_of(o, "time"), .type = text_of(o, "type"),
		.verdict = text_of(o, "verdict"), .why = text_of(o, "why"),
		.rule = text_of(o, "rule"), .rule_text = text_of(o, "rule_text"),
		.reason = text_of(o, "reason"), .method = text_of(o, "method"),
		.scheme = text_of(o, "scheme"), .host = text_of(o, "host"),
		.path = text_of(o, "path"), .note = text_of(o, "note"), .of = text_of(o, "of"),
		.cause = text_of(o, "cause"), .by = text_of(o, "by"),
		.argv = join_texts(json_is_array(json_object_get(o, "argv")) ? json_object_get(o, "argv") :
		                   json_object_get(json_object_get(o, "grant"), "argv")),
		.secret = text_of(o, "secret"), .did = text_of(o, "did"), .user = text_of(o, "user"),
		.sign = text_of(o, "sign"),
		.tool = text_of(o, "tool"), .prompt = text_of(o, "prompt"), .resource = text_of(o, "resource"),
		.port = (uint16_t)number_of(o, "port", UINT16_MAX),
		.status = (uint16_t)number_of(o, "status", 999),
		.has_query = json_is_true(json_object_get(o, "query")),
		.is_upgrade = json_is_true(json_object_get(o, "upgrade")),
		.has_push_options = json_is_true(json_object_get(o, "push_options")),
		.refs = join_texts(json_object_get(o, "refs")),
		.has_sizes = json_object_get(o, "received") != NULL,
		.size = number_of(o, "size", INT64_MAX),
		.sent = number_of(o, "sent", INT64_MAX),
		.received = number_of(o, "received", INT64_MAX),
		.ms = number_of(o, "ms", INT64_MAX),
		.count = number_of(o, "count", INT64_MAX),
	};
	/* Only a refusal has a cause: with these it is an operator's reason, and how records were lost. */
	if (strcmp(ret_event->type, "steer") == 0 || strcmp(ret_event->type, "lost") == 0) {
		if (ret_event->note[0] == '\0')
			ret_event->note = ret_event->why;
		ret_event->why = "";
	}
	return true;
}

int
timeline_next(struct timeline *t, struct timeline_event *ret_event, struct err *err)
{
	ssize_t n;

	if (!open_first(t))
		return 0;
	for (;;) {
		char *line = t->data + t->at;
		char *end = memchr(line, '\n', t->len - t->at);

		if (end != NULL) {
			bool whole = !t->skipping;

			t->at = (size_t)(end - t->data) + 1;
			t->skipping = false;
			if (!whole)
				continue;
			if (!parse(line, (size_t)(end - line), ret_event)) {
				t->left_out++;
				continue;
			}
			ret_event->before = t->seen;
			t->seen = ret_event->n;
			/* A checkpoint vouches for the other records, and is no event of the cell. */
			if (strcmp(ret_event->type, "checkpoint") != 0)
				return 1;
			timeline_event_free(ret_event);
			continue;
		}
		n = fill(t, err);
		if (n <= 0)
			return (int)n;
	}
}

bool
timeline_is_live(const struct timeline *t)
{
	struct cell_entry entry;

	return t->dir > 0 ? cell_state_is_live(t->dir) : find_running(t->entry.id, &entry);
}

const char *
timeline_cell(const struct timeline *t)
{
	return t->entry.name[0] != '\0' ? t->entry.name : t->entry.id;
}

void
timeline_event_free(struct timeline_event *e)
{
	json_decref(e->json);
	free(e->refs);
	free(e->argv);
	*e = (struct timeline_event){0};
}
