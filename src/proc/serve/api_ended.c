/* api_ended.c - lists cells that have ended, from their timelines: the newest first. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/ends.h"
#include "base/json.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "proc/serve/api.h"
#include "proc/serve/tallies.h"

#define ENDED_PAGE 50

struct ended {
	int folder;                     /* borrowed */
	struct cell_entry entry;
	struct timespec last;           /* when its timeline was last written to */
};

struct ended_list {
	struct ended *at;
	size_t n;
};

static void
list_free(struct ended_list *list)
{
	free(list->at);
}

/* ---- finding them ---- */

static int
add_folder(struct ended_list *list, int folder, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	struct ended *more;
	size_t n = 0;
	int r = folder < 0 ? 0 : cell_list(folder, false, &entries, &n, err);

	if (r < 0 || n == 0)
		return r;
	more = reallocarray(list->at, list->n + n, sizeof(*more));
	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	list->at = more;
	for (size_t i = 0; i < n; i++) {
		char path[CELL_ENTRY_MAX + sizeof(CELL_EVENTS) + 1];
		struct stat st;

		snprintf(path, sizeof(path), "%s/" CELL_EVENTS, entries[i].dir);
		if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			list->at[list->n++] = (struct ended){ folder, entries[i], st.st_mtim };
	}
	return 0;
}

static int
by_time(const void *a, const void *b)
{
	const struct timespec *x = &((const struct ended *)a)->last, *y = &((const struct ended *)b)->last;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

/* ---- one of them ---- */

static json_t *
refusal_json(const struct audit_refusal *refusal)
{
	return refusal->time[0] == '\0' ? json_null() :
	       json_pack("{s:s, s:s, s:s}", "time", refusal->time, "what", refusal->what, "why", refusal->why);
}

/* What it did and used; unknown numbers are left out. */
static void
put_acts(const struct audit_tally *t, json_t *to)
{
	const struct audit_acts *acts = &t->acts;

	json_object_update_new(to, json_pack("{s:I, s:I, s:I, s:I, s:I, s:o?}", "programs", (json_int_t)acts->programs,
		"calls_refused", (json_int_t)acts->refused, "calls_dangerous", (json_int_t)acts->dangerous,
		"acts_lost", (json_int_t)acts->lost, "watches", (json_int_t)acts->watches,
		"last_watch", refusal_json(&t->watch)));
	for (int i = 0; i < AUDIT_MEASURES; i++)
		if ((t->sample.known & 1u << i) != 0)
			json_object_set_new(to, audit_measure_name(i), json_integer((json_int_t)t->sample.at[i]));
}

static void
put_sums(struct api_call *c, int dir, const char *id, json_t *to)
{
	const struct tally *tally = tallies_get_whole(c->api->tallies, dir, ".", id);

	if (tally != NULL) {
		const struct audit_slot *sum = &tally->sum.total;

		json_object_update_new(to, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o?, s:o?, s:o?}",
			"requests", (json_int_t)sum->requests, "refused", (json_int_t)sum->refused,
			"bytes_in", (json_int_t)sum->bytes_in, "bytes_out", (json_int_t)sum->bytes_out,
			"thefts", (json_int_t)sum->thefts, "misplaced", (json_int_t)sum->misplaced,
			"last_refusal", refusal_json(&tally->sum.refusal),
			"last_theft", refusal_json(&tally->sum.theft),
			"last_misplaced", refusal_json(&tally->sum.misplaced)));
		put_acts(&tally->sum, to);
	}
	tallies_done(c->api->tallies);
}

/* Whether changes wait to be applied or discarded. */
static bool
has_changes(int dir)
{
	OWN(cell_record_free) struct cell_record record = {0};

	return cell_record_read(dir, &record, NULL) == 0 && record.n_changes > 0;
}

/* DIR is its state entry.  NULL: out of memory. */
static json_t *
describe(struct api_call *c, int dir, const struct cell_entry *entry)
{
	OWN(audit_ends_free) struct audit_ends ends = {0};
	const json_t *end, *grant;
	json_t *out;

	audit_ends_read(&ends, dir, CELL_EVENTS);
	end = json_object_get(ends.end, "event");
	grant = json_object_get(json_object_get(ends.boot, "event"), "grant");
	out = json_pack("{s:s, s:s?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:b}", "id", entry->id,
		"name", entry->name[0] != '\0' ? entry->name : NULL,
		"command", json_object_get(grant, "argv"), "principal", json_object_get(grant, "principal"),
		"chain", json_object_get(grant, "chain"), "started", json_object_get(ends.boot, "time"),
		"ended", json_object_get(ends.end, "time"), "status", json_object_get(end, "status"),
		"cause", json_object_get(end, "cause"), "changes", (int)has_changes(dir));
	if (out != NULL)
		put_sums(c, dir, entry->id, out);
	return out;
}

/* A cell that runs, or is gone by now, is left out. */
static void
add_one(struct api_call *c, const struct ended *e, json_t *cells)
{
	OWN(closep) int dir = openat(e->folder, e->entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir >= 0 && !cell_state_is_live(dir))
		(void)json_array_append_new(cells, describe(c, dir, &e->entry));
}

int
api_ended_one(struct api_call *c)
{
	struct cell_entry entry;
	OWN(closep) int dir = api_open_state(c->params.at[0], true, &entry, &c->err);

	if (dir < 0)
		return api_fail(c);
	if (cell_state_is_live(dir))
		return api_fail_with(c, 409, "running", "the cell '%s' runs", entry.id);
	c->answer = describe(c, dir, &entry);
	return 0;
}

int
api_ended(struct api_call *c)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	OWN(list_free) struct ended_list list = {0};
	json_t *cells = json_array();
	uint64_t limit;

	if (api_query_number(c, "limit", 1, API_PAGE_MAX, ENDED_PAGE, &limit) < 0 ||
	    add_folder(&list, state, &c->err) < 0 || add_folder(&list, ended, &c->err) < 0) {
		json_decref(cells);
		return c->code != NULL ? -EINVAL : api_fail(c);
	}
	if (list.n > 0)
		qsort(list.at, list.n, sizeof(*list.at), by_time);
	for (size_t i = 0; i < list.n && json_array_size(cells) < limit; i++)
		add_one(c, &list.at[i], cells);
	c->answer = json_pack("{s:o}", "cells", cells);
	return 0;
}
