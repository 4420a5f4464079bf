/* budget.c - `cloister budget`: shows how much of its budgets a cell has used, and raises them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_budget.h"
#include "cli/cli.h"

#define LINES_MAX 4096
#define BAR 20                          /* characters */
#define RAISES_MAX 16
#define WHICH "which budget is to be raised? cloister budget %s --raise NAME %s, with a NAME from the first " \
	"column of `cloister budget %s`"

struct asked {
	bool json;
	const char *raise, *why;
};

const struct cli_option cli_budget_options[] = {
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct asked, json) },
	{ "raise", 'r', "NAME", "raise this budget to each KIND=VALUE, or by KIND=+VALUE",
	  CLI_TEXT(struct asked, raise) },
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct asked, why) },
	{0}
};

static struct cell_budgets *
get(const char *word, struct err *err)
{
	struct cell_budgets *b = NULL;
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(word, &entry, err);

	return fd < 0 || cell_budgets_get(fd, &b, err) < 0 ? NULL : b;
}

/* ---- showing ---- */

static void
put_bar(const struct cell_budget_line *line)
{
	double part = (double)line->used / (double)line->limit;
	size_t full = part >= 1 ? BAR : (size_t)(part * BAR);

	printf("  [");
	for (size_t i = 0; i < BAR; i++)
		putchar(i < full ? '#' : '-');
	printf("]");
}

static void
put_line(const struct cell_budget_line *line, int width, bool bar)
{
	char used[POLICY_AMOUNT_TEXT], limit[POLICY_AMOUNT_TEXT], percent[8];
	double part = 100 * (double)line->used / (double)line->limit;

	snprintf(percent, sizeof(percent), "%.0f%%", part < 999 ? part : 999);
	text_print_safe(stdout, line->name, strlen(line->name), false);
	printf("%*s  %-9s  %12s  %12s  %5s  %-6s", width - (int)strlen(line->name), "",
	       policy_kind_name(line->kind), policy_amount_format(used, line->kind, line->used),
	       policy_amount_format(limit, line->kind, line->limit), percent,
	       policy_then_name(line->then));
	if (bar)
		put_bar(line);
	printf("%s%s\n", line->raised ? "  raised" : "", line->reached ? "  used up" : "");
}

static void
show(const struct cell_budgets *b)
{
	OWN(freep) struct cell_budget_line *lines = calloc(LINES_MAX, sizeof(*lines));
	bool bar = isatty(STDOUT_FILENO);
	char in[POLICY_AMOUNT_TEXT], out[POLICY_AMOUNT_TEXT];
	uint64_t used[POLICY_KINDS];
	int width = 6;
	size_t n;

	if (lines == NULL)
		return;
	n = cell_budgets_read(b, lines, LINES_MAX);
	n = n < LINES_MAX ? n : LINES_MAX;
	for (size_t i = 0; i < n; i++)
		width = (int)strlen(lines[i].name) > width ? (int)strlen(lines[i].name) : width;
	if (n > 0)
		printf("%-*s  %-9s  %12s  %12s  %5s  %s\n", width, "BUDGET", "KIND", "USED", "LIMIT", "",
		       "THEN");
	for (size_t i = 0; i < n; i++)
		put_line(&lines[i], width, bar);
	cell_budgets_used(b, used);
	printf("%s%llu request%s, %s out, %s in\n", n > 0 ? "in all: " : "no budgets; so far: ",
	       (unsigned long long)used[POLICY_REQUESTS], used[POLICY_REQUESTS] == 1 ? "" : "s",
	       policy_amount_format(out, POLICY_BYTES_OUT, used[POLICY_BYTES_OUT]),
	       policy_amount_format(in, POLICY_BYTES_IN, used[POLICY_BYTES_IN]));
}

static void
show_json(const struct cell_budgets *b)
{
	OWN(freep) struct cell_budget_line *lines = calloc(LINES_MAX, sizeof(*lines));
	struct json out = { .out = stdout };
	uint64_t used[POLICY_KINDS];
	size_t n;

	if (lines == NULL)
		return;
	n = cell_budgets_read(b, lines, LINES_MAX);
	json_open(&out, NULL, '{');
	json_open(&out, "budgets", '[');
	for (size_t i = 0; i < n && i < LINES_MAX; i++) {
		json_open(&out, NULL, '{');
		json_str(&out, "name", lines[i].name);
		json_str(&out, "per", policy_per_name(lines[i].per));
		json_str(&out, "of", lines[i].of);
		json_str(&out, "kind", policy_kind_name(lines[i].kind));
		json_u64(&out, "used", lines[i].used);
		json_u64(&out, "limit", lines[i].limit);
		json_str(&out, "then", policy_then_name(lines[i].then));
		json_bool(&out, "reached", lines[i].reached);
		json_bool(&out, "raised", lines[i].raised);
		json_str(&out, "place", lines[i].place);
		json_close(&out, '}');
	}
	json_close(&out, ']');
	cell_budgets_used(b, used);
	json_open(&out, "used", '{');
	for (unsigned k = 0; k < POLICY_KINDS; k++)
		json_u64(&out, policy_kind_name(k), used[k]);
	json_close(&out, '}');
	json_close(&out, '}');
	printf("\n");
}

/* ---- raising ---- */

struct raise {
	struct cell_budget_line line;
	uint64_t limit;
};

/* "requests=200": checked before anything changes. */
static int
read_raise(const struct cell_budgets *b, const char *name, const char *word, struct raise *ret_raise,
           struct err *err)
{
	char kind[16];
	size_t n = strcspn(word, "=");
	int found;

	snprintf(kind, sizeof(kind), "%.*s", n < sizeof(kind) ? (int)n : 0, word);
	found = policy_kind_find(kind);
	if (word[n] == '\0' || found < 0)
		return err_set(err, EINVAL, "'%.40s' is not KIND=VALUE: requests, bytes_in, bytes_out, hosts, "
		               "time, cpu or money, such as money=10 or requests=+100", word);
	if (cell_budgets_find(b, name, (enum policy_kind)found, &ret_raise->line, err) < 0)
		return -ENOENT;
	return cell_budget_parse(&ret_raise->line, word + n + 1, &ret_raise->limit, err);
}

static int
raise_one(const char *cell, const struct raise *raise, const char *why, struct err *err)
{
	const struct cell_steer_who who = { .why = why };
	char before[POLICY_AMOUNT_TEXT], after[POLICY_AMOUNT_TEXT];
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(cell, &entry, err);
	int r = fd < 0 ? fd : cell_budget_raise(fd, &raise->line, raise->limit, &who, err);

	if (r == 0)
		printf("%s %s: %s, before %s\n", raise->line.name, policy_kind_name(raise->line.kind),
		       policy_amount_format(after, raise->line.kind, raise->limit),
		       policy_amount_format(before, raise->line.kind, raise->line.limit));
	return r;
}

static int
raise_all(const struct asked *a, const struct cell_budgets *b, const char *cell, char **words, int n)
{
	struct raise raises[RAISES_MAX];
	struct err err = {0};

	if (strchr(a->raise, '=') != NULL)
		return cli_failf(WHICH, cell, a->raise, cell);
	if (n < 1 || n > RAISES_MAX)
		return cli_failf("no new value is given: cloister budget %s --raise %s KIND=VALUE...", cell, a->raise);
	for (int i = 0; i < n; i++)
		if (read_raise(b, a->raise, words[i], &raises[i], &err) < 0)
			return cli_fail(&err);
	for (int i = 0; i < n; i++)
		if (raise_one(cell, &raises[i], a->why, &err) < 0)
			return cli_fail(&err);
	return 0;
}

int
cmd_budget(int argc, char **argv)
{
	OWN(cell_budgets_freep) struct cell_budgets *b = NULL;
	struct asked a = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_budget_options, argc, argv, true, cli_check_why, &a, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no cell is given: cloister budget CELL");
	if (a.raise == NULL && rest + 1 < argc)
		return cli_failf(WHICH, argv[rest], argv[rest + 1], argv[rest]);
	b = get(argv[rest], &err);
	if (b == NULL)
		return cli_fail(&err);
	if (a.raise != NULL)
		return raise_all(&a, b, argv[rest], argv + rest + 1, argc - rest - 1);
	if (a.json)
		show_json(b);
	else
		show(b);
	return 0;
}
