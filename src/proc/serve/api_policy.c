/* api_policy.c - the policy of a running cell: shows it, checks drafts, changes it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "cell/cell_policy.h"
#include "policy/policy_load.h"
#include "proc/serve/api.h"
#include "proc/serve/api_steer.h"

static int
fail(struct api_call *c)
{
	return c->err.code == EOPNOTSUPP ? api_fail_as(c, 409, "no_policy") : api_fail(c);
}

int
api_cell_policy(struct api_call *c)
{
	OWN(cell_policy_now_free) struct cell_policy_now now = {0};
	struct cell_entry entry;
	OWN(closep) int runtime = api_find_running(c, &entry);
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	struct json w;

	if (runtime < 0)
		return runtime;
	if (cell_policy_get(runtime, &entry, &now, &c->err) < 0)
		return fail(c);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	w = (struct json){ .out = out };
	cell_policy_json(&w, &now);
	fputc('\n', out);
	fclose(out);
	return api_answer_text(c, text, size, "application/json");
}

/* ---- checking ---- */

/* Splits "live policy:5:3: what is wrong"; line 0: no particular place. */
static json_t *
one_fault(const char *text)
{
	size_t n = strlen(CELL_POLICY_LIVE);
	long line = 0, column = 0;
	char *end = NULL;

	if (strncmp(text, CELL_POLICY_LIVE ":", n + 1) == 0) {
		line = strtol(text + n + 1, &end, 10);
		if (*end == ':')
			column = strtol(end + 1, &end, 10);
		if (end[0] == ':' && end[1] == ' ')
			text = end + 2;
	}
	return json_pack("{s:i, s:i, s:s}", "line", (int)line, "column", (int)column, "message", text);
}

static int
answer_check(struct api_call *c, const struct policy_faults *faults, int r, const char *diff)
{
	json_t *list = json_array();

	for (size_t i = 0; i < faults->n; i++)
		json_array_append_new(list, one_fault(faults->list[i].text));
	if (r < 0 && faults->n == 0)
		json_array_append_new(list, one_fault(c->err.text));
	c->answer = json_pack("{s:b, s:o, s:s}", "ok", r == 0, "faults", list, "diff", r == 0 ? diff : "");
	return 0;
}

/* A fault of the text is the response; a fault of the cell is an error. */
static bool
is_of_the_text(int r)
{
	return r == -EINVAL || r == -EBADMSG || r == -EILSEQ || r == -ERANGE || r == -E2BIG || r == -EFBIG ||
	       r == -EPERM || r == -EEXIST;
}

int
api_cell_policy_check(struct api_call *c)
{
	static const struct api_member members[] = { { "text", API_TEXT, true }, {0} };
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	struct err list[POLICY_FAULTS_MAX] = {0};
	struct policy_faults faults = { .list = list };
	OWN(closep) int runtime = -1;
	struct cell_entry entry;
	const char *text;
	int r;

	if (api_body_check(c, members) < 0)
		return -EINVAL;
	runtime = api_find_running(c, &entry);
	if (runtime < 0)
		return runtime;
	text = json_string_value(api_body_get(c, "text"));
	r = cell_policy_plan_text(runtime, &entry, NULL, text, strlen(text), &faults, &plan, &c->err);
	if (r < 0 && faults.n == 0 && !is_of_the_text(r))
		return fail(c);
	return answer_check(c, &faults, r, plan.diff);
}

/* ---- changing ---- */

static int
answer_changed(struct api_call *c, const char *hash, const char *diff)
{
	c->answer = json_pack("{s:s, s:s}", "hash", hash, "diff", diff);
	return 0;
}

static int
refuse_stale(struct api_call *c)
{
	return api_fail_with(c, 409, "conflict", "somebody else has changed the cell's policy in the "
	                     "meantime: read it again");
}

static int
plan_text(struct api_call *c, int runtime, const struct cell_entry *entry, struct cell_policy_plan *ret_plan)
{
	const char *text = json_string_value(api_body_get(c, "text"));
	const char *hash = json_string_value(api_body_get(c, "hash"));
	struct err list[POLICY_FAULTS_MAX] = {0};
	struct policy_faults faults = { .list = list };
	int r = cell_policy_plan_text(runtime, entry, NULL, text, strlen(text), &faults, ret_plan, &c->err);

	if (r < 0 && (faults.n > 0 || is_of_the_text(r))) {
		if (faults.n > 0)
			c->err = list[0];
		api_fail_as(c, 400, "invalid");
		return api_body_wrong(c, "text", -EINVAL);
	}
	if (r < 0)
		return fail(c);
	return hash != NULL && strcmp(hash, ret_plan->now.hash) != 0 ? refuse_stale(c) : 0;
}

int
api_cell_policy_set(struct api_call *c)
{
	static const struct api_member members[] = { { "text", API_TEXT, true }, { "why", API_TEXT, false },
		{ "now", API_TRUTH, false }, { "hash", API_TEXT, false }, {0} };
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	struct cell_policy_order order = { .verb = VERB_POLICY, .rule = "" };
	OWN(closep) int runtime = -1;
	struct cell_entry entry;
	char hash[HASH_NAME + 1];
	int r;

	if (api_steer_who(c, members, &order.who) < 0)
		return -EINVAL;
	order.cut = json_is_true(api_body_get(c, "now"));
	runtime = api_find_running(c, &entry);
	if (runtime < 0)
		return runtime;
	if (plan_text(c, runtime, &entry, &plan) < 0)
		return -EINVAL;
	if (plan.diff[0] == '\0')
		return answer_changed(c, plan.now.hash, "");
	r = cell_policy_carry_out(runtime, &entry, &plan, &order, hash, &c->err);
	if (r == -ESTALE)
		return refuse_stale(c);
	if (r < 0)
		return api_fail(c);
	api_steer_note(c, "policy", hash);
	return answer_changed(c, hash, plan.diff);
}

int
api_cell_add_rule(struct api_call *c)
{
	static const struct api_member members[] = { { "rule", API_TEXT, true }, { "why", API_TEXT, false },
		{ "now", API_TRUTH, false }, {0} };
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	OWN(closep) int runtime = -1;
	struct cell_steer_who who;
	struct cell_entry entry;
	char hash[HASH_NAME + 1];
	const char *rule;
	bool cut;
	int r;

	if (api_steer_who(c, members, &who) < 0)
		return -EINVAL;
	rule = json_string_value(api_body_get(c, "rule"));
	runtime = api_find_running(c, &entry);
	if (runtime < 0)
		return runtime;
	cut = json_is_true(api_body_get(c, "now"));
	r = cell_policy_add_rule(runtime, &entry, c->route->verb, rule, cut, &who, &plan, hash, &c->err);
	if (r < 0 && is_of_the_text(r)) {
		api_fail_as(c, 400, "invalid");
		return api_body_wrong(c, "rule", -EINVAL);
	}
	if (r < 0)
		return r == -ESTALE ? refuse_stale(c) : fail(c);
	if (plan.diff[0] != '\0' || cut)
		api_steer_note(c, "rule", rule);
	return answer_changed(c, hash, plan.diff);
}
