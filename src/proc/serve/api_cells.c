/* api_cells.c - lists, ends and freezes running cells, through their supervisors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "audit/operator.h"
#include "base/data.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "boundary/halt.h"
#include "cell/cell_control.h"
#include "cell/cell_steer.h"
#include "proc/serve/api.h"
#include "proc/serve/api_steer.h"
#include "proc/serve/follow.h"

#define GRACE_MAX_MS (60 * 1000)

int
api_open_state(const char *word, bool bare, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = -1;
	int dir, r;

	if (state < 0)
		return err_set(err, ENOENT, "there is no cell '%s'", word);
	r = cell_find(state, false, word, ret_entry, err);
	ended = r == -ENOENT && bare ? cell_ended_open(state) : -1;
	if (ended >= 0)
		r = cell_find(ended, false, word, ret_entry, err);
	if (r < 0)
		return r;
	dir = openat(ended >= 0 ? ended : state, ret_entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	             O_NOFOLLOW);
	return dir < 0 ? err_set(err, ENOENT, "there is no cell '%s'", word) : dir;
}

int
api_find_running(struct api_call *c, struct cell_entry *ret_entry)
{
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	int r = runtime;

	if (r >= 0)
		r = cell_find(runtime, true, c->params.at[0], ret_entry, &c->err);
	if (r == -ENOENT) {
		OWN(closep) int ended = api_open_state(c->params.at[0], true, ret_entry, NULL);

		if (ended >= 0)
			return api_fail_with(c, 409, "over", "the cell '%s' has ended", ret_entry->id);
	}
	if (r < 0)
		return api_fail(c);
	snprintf(c->id, sizeof(c->id), "%s", ret_entry->id);
	return TAKE_FD(runtime);
}

int
api_reach(struct api_call *c, unsigned patience_s)
{
	const struct timeval patience = { .tv_sec = patience_s };
	struct cell_entry entry;
	OWN(closep) int runtime = api_find_running(c, &entry);
	int fd;

	if (runtime < 0)
		return runtime;
	fd = cell_connect(runtime, &entry, &c->err);
	if (fd < 0)
		return api_fail(c);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* ---- looking ---- */

/* The caller frees *ret_put: the entries of those that were listed. */
static void
put_running(struct json *w, int runtime, struct cell_entry **ret_put, size_t *ret_n)
{
	struct cell_entry *entries = NULL;
	struct cell_info info;
	size_t n = 0, put = 0;

	if (cell_list(runtime, true, &entries, &n, NULL) < 0)
		return;
	/* A cell that ended meanwhile is no longer running. */
	for (size_t i = 0; i < n; i++) {
		if (cell_control_info(runtime, &entries[i], &info, NULL) < 0)
			continue;
		cell_info_json(w, &info);
		cell_spec_free(&info.spec);
		entries[put++] = entries[i];
	}
	*ret_put = entries;
	*ret_n = put;
}

static bool
is_among(const struct cell_entry *entries, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(entries[i].id, id) == 0)
			return true;
	return false;
}

/* Except those in PUT: at its end a cell may still run when its record already exists. */
static void
put_ended(struct json *w, const struct cell_entry *put, size_t n_put)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	if (state < 0 || cell_list(state, false, &entries, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		OWN(closep) int dir = openat(state, entries[i].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		OWN(cell_record_free) struct cell_record record = {0};

		if (dir >= 0 && !is_among(put, n_put, entries[i].id) &&
		    cell_record_read(dir, &record, NULL) == 0)
			cell_record_json(w, &record);
	}
}

int
api_cells_list(struct api_call *c)
{
	OWN(freep) struct cell_entry *put = NULL;
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	struct json w;
	size_t n = 0;
	bool all;

	if (api_query_bool(c, "all", false, &all) < 0)
		return -EINVAL;
	if (runtime < 0)
		return api_fail(c);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	w = (struct json){ .out = out };
	json_open(&w, NULL, '{');
	json_open(&w, "cells", '[');
	put_running(&w, runtime, &put, &n);
	if (all)
		put_ended(&w, put, n);
	json_close(&w, ']');
	json_close(&w, '}');
	fputc('\n', out);
	fclose(out);
	return api_answer_text(c, text, size, "application/json");
}

static int
put_cell(struct api_call *c, struct json *w)
{
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	OWN(closep) int dir = -1;
	struct cell_entry entry;
	struct cell_info info;
	struct cell_record record;
	int r = runtime;

	if (r >= 0)
		r = cell_find(runtime, true, c->params.at[0], &entry, &c->err);
	if (r >= 0)
		r = cell_control_info(runtime, &entry, &info, &c->err);
	if (r >= 0) {
		cell_info_json(w, &info);
		cell_spec_free(&info.spec);
		return 0;
	}
	if (r != -ENOENT)
		return r;
	dir = api_open_state(c->params.at[0], false, &entry, &c->err);
	r = dir < 0 ? dir : cell_record_read(dir, &record, &c->err);
	if (r < 0)
		return err_set(&c->err, r == -ENOTUNIQ ? ENOTUNIQ : ENOENT, r == -ENOTUNIQ ?
		               "'%s' matches several cells" : "there is no cell '%s'", c->params.at[0]);
	cell_record_json(w, &record);
	cell_record_free(&record);
	return 0;
}

int
api_cell_show(struct api_call *c)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	struct json w = { .out = out };
	int r;

	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	r = put_cell(c, &w);
	fputc('\n', out);
	fclose(out);
	if (r < 0) {
		free(text);
		return api_fail(c);
	}
	return api_answer_text(c, text, size, "application/json");
}

/* ---- ending and freezing ----
 *
 * Recorded before the action; but a cell can be ended even if nothing can be recorded. */

/* Answers how it ended.  If the supervisor did not answer, only the death is known. */
static int
answer_end(struct api_call *c, int runtime, struct halt *h, uint32_t grace_ms)
{
	char cause[256] = "";
	uint32_t status = 128 + SIGKILL;
	int r = halt_await_end(runtime, h, grace_ms, &status, cause, &c->err);

	if (h->forced)
		halt_describe(h, cause);
	else if (r < 0)
		return h->state == HALT_FAILED ? api_fail(c) : api_fail_as(c, 409, "over");
	c->answer = json_pack("{s:i, s:s?}", "status", (int)status, "cause",
	                      cause[0] != '\0' ? cause : NULL);
	return 0;
}

int
api_cell_stop(struct api_call *c)
{
	const char *grace = api_query(c, "grace");
	const struct cell_steer_who who = { .by = c->q->who, .tells = true };
	uint64_t grace_ms = 10 * 1000;
	struct halt h = {0};
	OWN(closep) int runtime = -1;
	int r;

	if (grace != NULL && (num_parse_duration(grace, &grace_ms, &c->err) < 0 ||
	                      grace_ms > GRACE_MAX_MS))
		return api_fail_with(c, 400, "invalid", "the parameter 'grace' is a time of up to 60s, such as 10s");
	runtime = api_find_running(c, &h.entry);
	if (runtime < 0)
		return runtime;
	api_steer_note(c, NULL, NULL);
	r = halt_stop(runtime, &h, (uint32_t)grace_ms, &who, &c->err);
	r = r < 0 ? api_fail(c) : answer_end(c, runtime, &h, (uint32_t)grace_ms);
	halt_close(&h, 1);
	return r;
}

int
api_cell_kill(struct api_call *c)
{
	const struct cell_steer_who who = { .by = c->q->who, .tells = true };
	struct halt h = {0};
	OWN(closep) int runtime = api_find_running(c, &h.entry);
	int r;

	if (runtime < 0)
		return runtime;
	api_steer_note(c, NULL, NULL);
	halt_kill(runtime, &h, 1, &who);
	if (h.state == HALT_GONE || h.state == HALT_FAILED) {
		c->err = h.err;
		r = api_fail(c);
	} else {
		r = answer_end(c, runtime, &h, 0);
	}
	halt_close(&h, 1);
	return r;
}

int
api_cell_freeze_or_thaw(struct api_call *c)
{
	const struct cell_steer_who who = { .by = c->q->who, .tells = true };
	struct cell_entry entry;
	OWN(closep) int runtime = api_find_running(c, &entry);

	if (runtime < 0)
		return runtime;
	api_steer_note(c, NULL, NULL);
	if (cell_control_ask_one(runtime, &entry, c->route->verb, &who, &c->err) < 0)
		return api_fail(c);
	return api_cell_show(c);
}

/* ---- events ---- */

/* Without a state entry yet, there is nothing to follow until there is one. */
int
api_cell_events(struct api_call *c)
{
	const char *types = api_query(c, "type");
	struct cell_entry entry;
	int dir = api_open_state(c->params.at[0], true, &entry, &c->err);

	if (dir < 0)
		return api_fail(c);
	c->source = follow_source_new(dir, CELL_EVENTS);
	if (c->source == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	if (types != NULL && strlen(types) >= sizeof(c->source->types))
		return api_fail_with(c, 400, "invalid", "the parameter 'type' is at most %d bytes long",
		                     FOLLOW_TYPES_MAX - 1);
	snprintf(c->source->types, sizeof(c->source->types), "%s", types != NULL ? types : "");
	c->source->is_live = cell_state_is_live;
	return api_follow_prepare(c, false);
}

/* ---- what operators did ---- */

int
api_operator_events(struct api_call *c)
{
	int dir = data_folder("audit", true, &c->err);

	if (dir < 0)
		return api_fail(c);
	c->source = follow_source_new(dir, OPERATOR_LOG);
	if (c->source == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	return api_follow_prepare(c, false);
}
