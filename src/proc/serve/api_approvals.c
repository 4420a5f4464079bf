/* api_approvals.c - requests that wait for approval, in all cells: lists and answers them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_approvals.h"
#include "cell/cell_dirs.h"
#include "proc/serve/api.h"
#include "proc/serve/api_steer.h"

#define APPROVALS_MAX 4096              /* in one list */
#define PATIENCE_S 2                    /* a supervisor that does not answer must not hang a list */

/* Adds those of one cell that are in STATE (NULL: any) to LIST. */
static void
add_of(int runtime, const struct cell_entry *entry, const char *state, json_t *list)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	OWN(closep) int fd = cell_connect(runtime, entry, NULL);
	uint64_t seen = 0;

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (fd >= 0 && json_array_size(list) < APPROVALS_MAX) {
		OWN(freep) char *text = NULL;
		const char *its;
		json_t *one;

		if (cell_approvals_ask(fd, seen, false, NULL) < 0 || cell_approvals_take(fd, &seen, &text, NULL) != 1)
			return;
		one = canon_value(text, strlen(text));
		its = json_string_value(json_object_get(one, "state"));
		/* An approval that was too long for the message is an empty object. */
		if (its != NULL && (state == NULL || strcmp(its, state) == 0))
			json_array_append(list, one);
		json_decref(one);
	}
}

static int
by_time(const void *a, const void *b)
{
	const char *one = json_string_value(json_object_get(*(json_t *const *)a, "asked"));
	const char *other = json_string_value(json_object_get(*(json_t *const *)b, "asked"));

	return strcmp(one != NULL ? one : "", other != NULL ? other : "");
}

static void
sort(json_t *list)
{
	size_t n = json_array_size(list);
	OWN(freep) json_t **items = calloc(n + 1, sizeof(json_t *));

	if (items == NULL)
		return;
	for (size_t i = 0; i < n; i++)
		items[i] = json_incref(json_array_get(list, i));
	qsort(items, n, sizeof(json_t *), by_time);
	json_array_clear(list);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, items[i]);
}

int
api_approvals_list(struct api_call *c)
{
	const char *word = api_query(c, "cell"), *state = api_query(c, "state");
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	OWN(freep) struct cell_entry *entries = NULL;
	struct cell_entry one;
	size_t n = 0;
	json_t *list;

	if (state != NULL && strcmp(state, "pending") != 0 && strcmp(state, "approved") != 0 &&
	    strcmp(state, "refused") != 0 && strcmp(state, "timed_out") != 0 && strcmp(state, "gone") != 0)
		return api_fail_with(c, 400, "invalid", "there is no state '%.32s': use pending, approved, "
		                     "refused, timed_out or gone", state);
	if (runtime < 0 || (word != NULL ? cell_find(runtime, true, word, &one, &c->err) :
	                                   cell_list(runtime, true, &entries, &n, &c->err)) < 0)
		return api_fail(c);
	list = json_array();
	if (word != NULL)
		add_of(runtime, &one, state, list);
	for (size_t i = 0; i < n; i++)
		add_of(runtime, &entries[i], state, list);
	sort(list);
	c->answer = json_pack("{s:o}", "approvals", list);
	return 0;
}

/* ---- answering ---- */

/* Connects to the cell of the approval in the path, and gets its number. */
static int
reach(struct api_call *c, uint64_t *ret_n)
{
	char cell[CELL_NAME_MAX + 1];
	char *word;

	if (!cell_approval_split(c->params.at[0], cell, ret_n))
		return api_fail_with(c, 404, "not_found", "there is no approval '%.64s': its id is CELL-N, see GET "
		                     "/v1/approvals", c->params.at[0]);
	word = strdup(cell);
	if (word == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	free(c->params.at[1]);
	c->params.at[1] = c->params.at[0];      /* the id, for the answer */
	c->params.at[0] = word;
	return api_reach(c, CELL_STEER_S);
}

/* Answers with its current state. */
static int
answer_approval(struct api_call *c, uint64_t n)
{
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	json_t *list = json_array(), *one;
	struct cell_entry entry;
	size_t i;

	if (runtime >= 0 && cell_find(runtime, true, c->id, &entry, NULL) == 0)
		add_of(runtime, &entry, NULL, list);
	json_array_foreach (list, i, one) {
		const char *id = json_string_value(json_object_get(one, "id"));
		const char *dash = id == NULL ? NULL : strrchr(id, '-');

		if (dash != NULL && strtoull(dash + 1, NULL, 10) == n)
			c->answer = json_incref(one);
	}
	json_decref(list);
	if (c->answer == NULL)
		c->answer = json_pack("{s:s, s:s, s:s}", "id", c->params.at[1], "cell", c->id, "state", "gone");
	return 0;
}

static int
fail_to_answer(struct api_call *c, int r)
{
	if (r == -EALREADY || r == -ESTALE)
		return api_fail_as(c, 409, "over");
	if (r == -EACCES || r == -EPERM)
		return api_fail_as(c, 403, "forbidden");
	return api_fail(c);
}

static int
read_how(struct api_call *c, enum control_approve *ret_how, uint64_t *ret_ms)
{
	static const char *const words[] = { [CONTROL_APPROVE_ONCE] = "once", [CONTROL_APPROVE_FOR] = "for",
	                                     [CONTROL_APPROVE_RULE] = "rule" };
	const char *how = c->body == NULL ? NULL : json_string_value(api_body_get(c, "how"));
	const char *time = c->body == NULL ? NULL : json_string_value(api_body_get(c, "for"));
	size_t i = 0;

	*ret_ms = 0;
	while (how != NULL && i < ARRAY_LEN(words) && strcmp(words[i], how) != 0)
		i++;
	if (i == ARRAY_LEN(words))
		return api_body_wrong(c, "how", api_fail_with(c, 400, "invalid", "'how' must be once, for "
		                                              "or rule"));
	*ret_how = (enum control_approve)i;
	if ((*ret_how == CONTROL_APPROVE_FOR) != (time != NULL))
		return api_body_wrong(c, "for", api_fail_with(c, 400, "invalid", time == NULL ? "'for' is missing: a "
		                      "time such as 10m" : "'for' needs \"how\": \"for\""));
	if (time != NULL && (num_parse_duration(time, ret_ms, NULL) < 0 || *ret_ms == 0 ||
	                     *ret_ms > CONTROL_APPROVE_MS))
		return api_body_wrong(c, "for", api_fail_with(c, 400, "invalid", "'for' is a time of up to 7 days, "
		                                              "such as 10m"));
	return 0;
}

int
api_approve(struct api_call *c)
{
	static const struct api_member members[] = { { "how", API_TEXT, false }, { "for", API_TEXT, false },
		{ "why", API_TEXT, false }, {0} };
	struct cell_steer_who who;
	enum control_approve how = CONTROL_APPROVE_ONCE;
	OWN(closep) int fd = -1;
	uint64_t ms, n;
	bool enough;
	int r;

	if (api_steer_who(c, members, &who) < 0 || read_how(c, &how, &ms) < 0)
		return -EINVAL;
	fd = reach(c, &n);
	if (fd < 0)
		return fd;
	r = cell_approve(fd, n, how, ms, &who, &enough, &c->err);
	if (r < 0)
		return fail_to_answer(c, r);
	api_steer_note(c, "approval", c->params.at[1]);
	return answer_approval(c, n);
}

int
api_refuse(struct api_call *c)
{
	static const struct api_member members[] = { { "reason", API_TEXT, true }, {0} };
	struct cell_steer_who who;
	OWN(closep) int fd = -1;
	uint64_t n;
	int r;

	if (api_steer_who(c, members, &who) < 0)
		return -EINVAL;
	who.why = json_string_value(api_body_get(c, "reason"));
	if (cell_steer_check_why(who.why, &c->err) < 0)
		return api_body_wrong(c, "reason", api_fail_as(c, 400, "invalid"));
	fd = reach(c, &n);
	if (fd < 0)
		return fd;
	r = cell_refuse(fd, n, &who, &c->err);
	if (r < 0)
		return fail_to_answer(c, r);
	api_steer_note(c, "approval", c->params.at[1]);
	return answer_approval(c, n);
}
