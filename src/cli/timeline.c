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

/* The entry with the file that was written last, of those called NAME or (NULL) of all. */
static int
find_newest(int state, const char *name, struct cell_entry *ret_entry, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	struct timespec newest = {0};
	size_t n = 0;
	bool found = false;
	int r;

	r = state < 0 ? 0 : cell_list(state, false, &entries, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		char path[CELL_ENTRY_MAX + sizeof(CELL_EVENTS) + 1];
		struct stat st;

		if (name != NULL && strcmp(entries[i].name, name) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/" CELL_EVENTS, entries[i].dir);
		if (fstatat(state, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (!found || st.st_mtim.tv_sec > newest.tv_sec ||
		    (st.st_mtim.tv_sec == newest.tv_sec && st.st_mtim.tv_nsec > newest.tv_nsec)) {
			newest = st.st_mtim;
			*ret_entry = entries[i];
			found = true;
		}
	}
	return found ? 0 : err_set(err, ENOENT, "nothing is recorded of any cell: only cells with a "
	                           "policy have events, see `cloister help run`");
}

/* A running cell of which nothing is recorded yet has no state entry. */
static bool
find_running(const char *word, struct cell_entry *ret_entry)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	return runtime >= 0 && cell_find(runtime, true, word, ret_entry, NULL) == 0;
}

static void
open_dir(struct timeline *t)
{
	struct cell_entry entry;

	if (t->state < 0)
		t->state = cell_state_open(false, NULL);
	if (t->state < 0 || t->dir >= 0 || cell_find(t->state, false, t->entry.id, &entry, NULL) < 0)
		return;
	t->dir = openat(t->state, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int
timeline_open(const char *word, struct timeline *ret_timeline, struct err *err)
{
	OWN(timeline_close) struct timeline t = { .state = -1, .dir = -1, .fd = -1 };
	int r;

	t.state = cell_state_open(false, NULL);
	if (word == NULL)
		r = find_newest(t.state, NULL, &t.entry, err);
	else if (t.state >= 0)
		r = cell_find(t.state, false, word, &t.entry, err);
	else
		r = err_set(err, ENOENT, "there is no cell '%s': see `cloister ps -a`", word);
	if (r == -ENOENT && word != NULL && find_running(word, &t.entry))
		r = 0;
	/* A name that was used again means the one who has it now. */
	if (r == -ENOTUNIQ && find_newest(t.state, word, &t.entry, NULL) == 0)
		r = 0;
	if (r < 0)
		return r;
	t.data = malloc(TIMELINE_LINE_MAX);
	if (t.data == NULL)
		return err_errno(err, "cannot read the events");
	open_dir(&t);
	*ret_timeline = t;
	t = (struct timeline){ .state = -1, .dir = -1, .fd = -1 };
	return 0;
}

void
timeline_close(struct timeline *t)
{
	closep(&t->state);
	closep(&t->dir);
	closep(&t->fd);
	free(t->data);
	*t = (struct timeline){ .state = -1, .dir = -1, .fd = -1 };
}

/* Begin with the older half, if there are two. */
static bool
open_first(struct timeline *t)
{
	if (t->fd >= 0)
		return true;
	open_dir(t);
	if (t->dir < 0)
		return false;
	if (!t->from_the_start) {
		t->fd = open_file(t, CELL_EVENTS ".1");
		t->from_the_start = t->fd >= 0;
	}
	if (t->fd < 0)
		t->fd = open_file(t, CELL_EVENTS);
	t->from_the_start |= t->fd >= 0;
	return t->fd >= 0;
}

static bool
is_turned_over(const struct timeline *t)
{
	struct stat now, latest;

	return fstat(t->fd, &now) == 0 &&
	       fstatat(t->dir, CELL_EVENTS, &latest, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (now.st_ino != latest.st_ino || now.st_dev != latest.st_dev);
}

/* More bytes behind those that are there: how many, 0 at the end. */
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
		/* Asked before reading: what was written before the turn is read. */
		over = is_turned_over(t);
		n = read(t->fd, t->data + t->len, TIMELINE_LINE_MAX - t->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != 0 || !over)
			break;
		close(t->fd);
		t->fd = open_file(t, CELL_EVENTS);
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

static bool
parse(const char *line, size_t len, struct timeline_event *ret_event)
{
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		return false;
	}
	*ret_event = (struct timeline_event){
		.json = o,
		.n = number_of(o, "n", INT64_MAX),
		.time = text_of(o, "time"), .type = text_of(o, "type"),
		.verdict = text_of(o, "verdict"), .why = text_of(o, "why"),
		.rule = text_of(o, "rule"), .rule_text = text_of(o, "rule_text"),
		.reason = text_of(o, "reason"), .method = text_of(o, "method"),
		.scheme = text_of(o, "scheme"), .host = text_of(o, "host"),
		.path = text_of(o, "path"), .note = text_of(o, "note"),
		.secret = text_of(o, "secret"), .did = text_of(o, "did"), .user = text_of(o, "user"),
		.sign = text_of(o, "sign"),
		.port = (uint16_t)number_of(o, "port", UINT16_MAX),
		.status = (uint16_t)number_of(o, "status", 999),
		.has_query = json_is_true(json_object_get(o, "query")),
		.is_upgrade = json_is_true(json_object_get(o, "upgrade")),
		.has_push_options = json_is_true(json_object_get(o, "push_options")),
		.refs = join_texts(json_object_get(o, "refs")),
		.has_sizes = json_object_get(o, "received") != NULL,
		.sent = number_of(o, "sent", INT64_MAX),
		.received = number_of(o, "received", INT64_MAX),
		.ms = number_of(o, "ms", INT64_MAX),
		.count = number_of(o, "count", INT64_MAX),
	};
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
			if (whole && parse(line, (size_t)(end - line), ret_event))
				return 1;
			t->left_out += whole;
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

	return t->dir >= 0 ? cell_state_is_live(t->dir) : find_running(t->entry.id, &entry);
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
	*e = (struct timeline_event){0};
}
