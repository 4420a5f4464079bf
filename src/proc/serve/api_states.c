/* api_states.c - versioned states over the API: their names, and how far they are from a tag.
 *
 * cloister-state, a locked-down child, reads what agents wrote. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/since.h"
#include "proc/serve/api.h"
#include "state/state_read.h"

static json_t *
one_state(const char *name)
{
	OWN(freep) struct state_ref *refs = NULL;
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1];
	json_t *tags = json_array();
	size_t n = 0;

	/* One that cannot be read does not hide the others: `cloister state list` explains it. */
	if (state_open(name, &state, NULL) < 0 || state_head(&state, NULL, commit, NULL) < 0 ||
	    state_ref_list(state.dir, &refs, &n, NULL) < 0)
		commit[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (strncmp(refs[i].ref, "refs/tags/", 10) == 0)
			json_array_append_new(tags, json_string(refs[i].ref + 10));
	return json_pack("{s:s,s:s,s:o}", "state", name, "commit", commit, "tags", tags);
}

int
api_states_list(struct api_call *c)
{
	OWN(strv_freep) char **names = NULL;
	json_t *list;

	if (state_list(&names, &c->err) < 0)
		return api_fail(c);
	list = json_array();
	for (size_t i = 0; names[i] != NULL; i++)
		json_array_append_new(list, one_state(names[i]));
	c->answer = json_pack("{s:o}", "states", list);
	return 0;
}

static json_t *
history_json(const struct state_drift_point *points, size_t n)
{
	json_t *history = json_array();
	char time[SINCE_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		since_format((uint64_t)points[i].time * 1000, time);
		json_array_append_new(history, json_pack("{s:s,s:s,s:I,s:I}", "commit", points[i].commit, "time", time, "files",
		                                         (json_int_t)points[i].drift.files, "bytes",
		                                         (json_int_t)points[i].drift.bytes));
	}
	return history;
}

int
api_state_drift(struct api_call *c)
{
	const char *name = c->params.at[0], *tag = c->query[0] != NULL ? c->query[0] : STATE_KNOWN_GOOD;
	OWN(freep) struct state_drift_point *points = NULL;
	OWN(state_close) struct state state = {0};
	char from[STATE_ID + 1], head[STATE_ID + 1];
	uint64_t limit;
	size_t n = 0;
	int r;

	if (api_query_number(c, "limit", 1, API_PAGE_MAX, API_PAGE, &limit) < 0)
		return -EINVAL;
	points = calloc(limit, sizeof(*points));
	r = points == NULL ? err_set(&c->err, ENOMEM, "out of memory") : state_check_name("state", name, &c->err);
	r = r == 0 ? state_open(name, &state, &c->err) : r;
	r = r == 0 ? state_head(&state, NULL, head, &c->err) : r;
	r = r == 0 ? state_resolve(&state, tag, from, &c->err) : r;
	r = r == 0 ? state_drift_history(&state, from, head, limit, points, &n, &c->err) : r;
	if (r < 0)
		return api_fail(c);
	c->answer = json_pack("{s:s,s:s,s:s,s:o}", "state", name, "tag", tag, "from", from, "history", history_json(points, n));
	return 0;
}
