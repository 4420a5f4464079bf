/* api_budget.c - shows and raises the budgets of a running cell. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cell/cell_budget.h"
#include "proc/serve/api.h"
#include "proc/serve/api_steer.h"

#define LINES_MAX (POLICY_BUDGETS_MAX * POLICY_KINDS)

/* Dollars, seconds, or the raw count. */
static json_t *
amount(enum policy_kind kind, uint64_t value)
{
	if (kind == POLICY_MONEY)
		return json_real((double)value / 1e9);
	if (kind == POLICY_TIME || kind == POLICY_CPU)
		return json_real((double)value / 1e3);
	return json_integer((json_int_t)value);
}

static json_t *
one_line(const struct cell_budget_line *line)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:b, s:b, s:s}", "name", line->name, "per",
	                 policy_per_name(line->per), "of", line->of, "kind", policy_kind_name(line->kind), "used",
	                 amount(line->kind, line->used), "limit", amount(line->kind, line->limit), "then",
	                 policy_then_name(line->then), "reached", (int)line->reached, "raised",
	                 (int)line->raised, "place", line->place);
}

static int
get(struct api_call *c, struct cell_budgets **ret_budgets)
{
	OWN(closep) int fd = api_reach(c, API_PATIENCE_S);

	int r;

	if (fd < 0)
		return fd;
	r = cell_budgets_get(fd, ret_budgets, &c->err);
	if (r == -EOPNOTSUPP)
		return api_fail_as(c, 409, "no_policy");
	return r < 0 ? api_fail(c) : 0;
}

static json_t *
all_lines(const struct cell_budgets *b)
{
	static __thread struct cell_budget_line lines[LINES_MAX];
	size_t n = cell_budgets_read(b, lines, LINES_MAX);
	json_t *list = json_array();

	for (size_t i = 0; i < n && i < LINES_MAX; i++)
		json_array_append_new(list, one_line(&lines[i]));
	return json_pack("{s:o}", "budgets", list);
}

int
api_cell_budget(struct api_call *c)
{
	OWN(cell_budgets_freep) struct cell_budgets *b = NULL;

	if (get(c, &b) < 0 && (c->code == NULL || strcmp(c->code, "no_policy") != 0))
		return -EINVAL;
	c->code = NULL;
	c->status = 0;
	c->answer = b != NULL ? all_lines(b) : json_pack("{s:[]}", "budgets");
	return 0;
}

/* ---- raising ---- */

static int
find_kind(struct api_call *c, const char *word, enum policy_kind *ret_kind)
{
	int kind = policy_kind_find(word);

	*ret_kind = (enum policy_kind)kind;
	return kind >= 0 ? 0 : api_body_wrong(c, "kind", api_fail_with(c, 400, "invalid", "there is no "
	                                               "kind '%.32s': use requests, bytes_in, bytes_out, "
	                                               "hosts, time, cpu or money", word));
}

/* A number is accepted in place of a text. */
static int
read_limit(struct api_call *c, char *text, size_t size)
{
	const json_t *limit = json_object_get(c->body, "limit");

	if (json_is_string(limit))
		snprintf(text, size, "%s", json_string_value(limit));
	else if (json_is_integer(limit))
		snprintf(text, size, "%lld", (long long)json_integer_value(limit));
	else
		return api_body_wrong(c, "limit", api_fail_with(c, 400, "invalid", "'limit' is the new "
		                      "limit, such as \"200\", \"5 USD\" or \"1h\", or an increase, such "
		                      "as \"+100\""));
	return 0;
}

int
api_cell_budget_raise(struct api_call *c)
{
	static const struct api_member members[] = { { "name", API_TEXT, true }, { "kind", API_TEXT, true },
		{ "limit", API_ANY, true }, { "why", API_TEXT, false }, {0} };
	OWN(cell_budgets_freep) struct cell_budgets *b = NULL;
	struct cell_budget_line line;
	struct cell_steer_who who;
	enum policy_kind kind = POLICY_REQUESTS;
	OWN(closep) int fd = -1;
	uint64_t limit;
	char text[64];
	int r;

	if (api_steer_who(c, members, &who) < 0 ||
	    find_kind(c, json_string_value(api_body_get(c, "kind")), &kind) < 0 ||
	    read_limit(c, text, sizeof(text)) < 0 || get(c, &b) < 0)
		return -EINVAL;
	r = cell_budgets_find(b, json_string_value(api_body_get(c, "name")), kind, &line, &c->err);
	if (r < 0)
		return api_body_wrong(c, "name", api_fail(c));
	if (cell_budget_parse(&line, text, &limit, &c->err) < 0) {
		api_fail_as(c, 400, "invalid");
		return api_body_wrong(c, "limit", -EINVAL);
	}
	fd = api_reach(c, CELL_STEER_S);
	if (fd < 0)
		return fd;
	if (cell_budget_raise(fd, &line, limit, &who, &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "budget", line.name);
	c->answer = all_lines(b);
	return 0;
}
