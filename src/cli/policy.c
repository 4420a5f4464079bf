/* policy.c - `cloister policy`: check, test, explain, presets, schema, and the policies of running
 * cells; cloister-registry handles registration. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "boundary/boundary.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_hook.h"
#include "policy/policy_preset.h"
#include "vault/secret_wants.h"

enum { OPT_HEADER, OPT_WITHIN, OPT_CELL };

const struct cli_option cli_policy_options[] = {
	{ "cases", 0, "FILE", "test: read the cases from FILE, not from NAME.test.yaml",
	  CLI_TEXT(struct policy_cli, cases) },
	{ "header", 'H', "NAME:VALUE", "explain: add a header to the request", OPT_HEADER },
	{ "body", 'b', "TEXT|@FILE", "explain: the body of the request", CLI_TEXT(struct policy_cli, body) },
	{ "within", 0, "FILE", "allow only what this policy allows too (repeat: outermost last)", OPT_WITHIN },
	{ "principal", 0, "TEXT", "on whose behalf the cell acts", CLI_TEXT(struct policy_cli, principal) },
	{ "chain", 0, "A/B/C", "the agents that led to the cell, the outermost first",
	  CLI_TEXT(struct policy_cli, chain) },
	{ "cell", 'c', NULL, "show: the argument is a running cell", OPT_CELL },
	{ "now", 0, NULL, "set, edit: cut off requests under way that are now refused",
	  CLI_FLAG(struct policy_cli, now) },
	{ "why", 0, "TEXT", "set, edit: a reason for the audit log", CLI_TEXT(struct policy_cli, why) },
	{ "dry-run", 0, NULL, "set: only show what would change", CLI_FLAG(struct policy_cli, dry_run) },
	CLI_REGISTRY_OPTIONS,
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct policy_cli *cli = arg;

	if (strcmp(option->name, "json") == 0) {
		cli->json = true;
		return 0;
	}
	switch (option->id) {
	case CLI_REGISTRY_FIRST:
		return err_set(err, EINVAL, "the option '--%s' is only for registered policies: put it "
		               "after `register`, `list` ...", option->name);
	case OPT_WITHIN:
		if (cli->n_within == ARRAY_LEN(cli->within))
			return err_set(err, E2BIG, "--within is given more than %zu times", ARRAY_LEN(cli->within));
		cli->within[cli->n_within++] = value;
		break;
	case OPT_HEADER:
		if (cli->n_headers == HTTP_FIELDS_MAX)
			return err_set(err, E2BIG, "--header is given more than %d times", HTTP_FIELDS_MAX);
		cli->headers[cli->n_headers++] = value;
		break;
	}
	return cli_check_why(arg, option, value, err);
}

/* ---- check ---- */

/* Splits off the start of the message: "file:line:column: ". */
static const char *
split_place(const char *text, uint64_t *ret_line, uint64_t *ret_column)
{
	const char *c = text;
	unsigned long long line, column;
	int n;

	for (; (c = strchr(c, ':')) != NULL; c++) {
		n = 0;
		if (sscanf(c, ":%llu:%llu: %n", &line, &column, &n) == 2 && n > 0) {
			*ret_line = line;
			*ret_column = column;
			return c + n;
		}
	}
	return NULL;
}

static void
json_fault(struct json *out, const struct err *err)
{
	uint64_t line = 0, column = 0;
	const char *message = split_place(err->text, &line, &column);

	if (message != NULL) {
		OWN(freep) char *at = strndup(err->text, strcspn(err->text, ":"));

		json_str(out, "at", at);
		json_u64(out, "line", line);
		json_u64(out, "column", column);
	}
	json_str(out, "error", message != NULL ? message : err->text);
}

/* In the format of compilers, so that editors find the place. */
static void
print_fault(const struct err *err)
{
	text_print_safe(stderr, err->text, strlen(err->text), false);
	fputc('\n', stderr);
}

int
policy_cli_refuse(const struct policy_cli *cli, const char *file, const struct err *err)
{
	if (cli->json) {
		struct json out = { .out = stdout };

		json_open(&out, NULL, '{');
		json_str(&out, "file", file);
		json_bool(&out, "ok", false);
		json_fault(&out, err);
		json_close(&out, '}');
		printf("\n");
	} else {
		print_fault(err);
	}
	return POLICY_CLI_WRONG;
}

static void
print_faults(const struct policy_faults *faults)
{
	for (size_t i = 0; i < faults->n; i++)
		print_fault(&faults->list[i]);
	if (faults->more)
		fprintf(stderr, "there are more errors after these %zu: fix these first\n", faults->n);
}

/* A port alone does not imply encryption, which is easily overlooked.  Returns how many notes. */
static size_t
note_schemes(const struct policy *p, struct err *ret_note)
{
	int first = policy_rule_of_any_scheme(p, 0), next = first;
	size_t n = 0;

	while (next >= 0) {
		n++;
		next = policy_rule_of_any_scheme(p, (size_t)next + 1);
	}
	if (n == 0)
		return 0;
	err_set(ret_note, EINVAL, "%s: a rule with a port and without a scheme allows plain HTTP and "
	        "TLS; `scheme: https` allows only TLS", policy_rule_place(p, first));
	if (n > 1)
		err_set(ret_note, EINVAL, "%s and %zu more: a rule with a port and without a scheme "
		        "allows plain HTTP and TLS; `scheme: https` allows only TLS",
		        policy_rule_place(p, first), n - 1);
	return 1;
}

/* A policy that is found by itself may have no hook.  Returns how many notes. */
static size_t
note_hooks(const struct policy *p, struct err *ret_note)
{
	for (size_t i = 0; i < policy_n_own(p); i++)
		if (policy_hook_of(p, (int)i) != NULL) {
			err_set(ret_note, EINVAL, "%s: `cloister run` accepts a policy with a hook only with -p or "
			        "--within", policy_rule_place(p, (int)i));
			return 1;
		}
	return 0;
}

static void
json_checked(struct json *out, const char *file, const struct policy *p,
             const struct policy_faults *faults)
{
	json_open(out, NULL, '{');
	json_str(out, "file", file);
	json_bool(out, "ok", p != NULL);
	if (p != NULL) {
		struct err notes[POLICY_CLI_NOTES + 2];
		size_t n = policy_cli_freezing(p, boundary_find("", NULL), false, notes);

		n += note_schemes(p, &notes[n]);
		n += note_hooks(p, &notes[n]);
		json_u64(out, "rules", policy_n_own(p));
		if (policy_n_behaviours(p) > 0)
			json_u64(out, "watch", policy_n_behaviours(p));
		if (policy_outer(p) != NULL)
			json_u64(out, "within", policy_n_rules(p) - policy_n_own(p));
		if (n > 0)
			json_open(out, "notes", '[');
		for (size_t i = 0; i < n; i++)
			json_str(out, NULL, notes[i].text);
		if (n > 0)
			json_close(out, ']');
	} else {
		json_open(out, "errors", '[');
		for (size_t i = 0; i < faults->n; i++) {
			json_open(out, NULL, '{');
			json_fault(out, &faults->list[i]);
			json_close(out, '}');
		}
		json_close(out, ']');
	}
	json_close(out, '}');
}

/* The rules of the first layer that somebody wrote. */
static size_t
count_written(const struct policy *p)
{
	size_t n = 0;

	for (size_t i = 0; i < policy_n_own(p); i++)
		n += !policy_rule_is_built_in(p, (int)i);
	return n;
}

static void
print_checked(const struct policy_cli *cli, const char *file, const struct policy *p)
{
	const struct policy *all = p;
	size_t n = count_written(p), outer;
	struct err note;

	printf("%s: %zu rule%s", file, n, n == 1 ? "" : "s");
	if (policy_n_behaviours(p) > 0)
		printf(", %zu of `watch`", policy_n_behaviours(p));
	for (size_t i = 0; i < cli->n_within; i++) {
		p = policy_outer(p);
		outer = count_written(p);
		printf("%s %s (%zu rule%s)", i == 0 ? ", within" : " and", cli->within[i], outer,
		       outer == 1 ? "" : "s");
	}
	printf("\n");
	fflush(stdout);
	policy_cli_tell_freezing(all, boundary_find("", NULL), false);
	if (note_schemes(all, &note) > 0)
		fprintf(stderr, "%s\n", note.text);
	if (note_hooks(all, &note) > 0)
		fprintf(stderr, "%s\n", note.text);
}

static int
check_one(const struct policy_cli *cli, struct json *out, const char *file)
{
	OWN(secret_wants_free) struct secret_wants wants = {0};
	const struct policy_reader reader = { .secrets = secret_wants_read, .hook = policy_any_hook,
	                                      .arg = &wants };
	OWN(policy_freep) struct policy *p = NULL;
	struct err list[POLICY_FAULTS_MAX], err = {0};
	struct policy_faults faults = { .list = list };
	int r = policy_load_file_all(AT_FDCWD, file, &reader, &p, &faults, &err);

	if (r == 0 && policy_cli_within(cli, p, &err) < 0) {
		policy_free(TAKE(p));
		r = -EINVAL;
	}
	/* A fault that ends the parsing at once is the only one. */
	if (r < 0 && faults.n == 0)
		list[faults.n++] = err;
	if (cli->json)
		json_checked(out, file, p, &faults);
	else if (p != NULL)
		print_checked(cli, file, p);
	else
		print_faults(&faults);
	return p != NULL ? 0 : POLICY_CLI_WRONG;
}

bool
policy_cli_default(int *argc, char ***argv)
{
	static char name[PATH_MAX];
	static char *words[] = { name, NULL };
	OWN(closep) int folder = -1;
	unsigned up;

	if (*argc > 0)
		return true;
	folder = policy_cli_find(".", POLICY_CLI_FILE, &up);
	if (folder < 0 || 3 * (size_t)up + sizeof(POLICY_CLI_FILE) > sizeof(name))
		return false;
	for (unsigned i = 0; i < up; i++)
		snprintf(name + 3 * (size_t)i, sizeof("../"), "../");
	memcpy(name + 3 * (size_t)up, POLICY_CLI_FILE, sizeof(POLICY_CLI_FILE));
	*argc = 1;
	*argv = words;
	return true;
}

static int
policy_cli_check(const struct policy_cli *cli, int argc, char **argv)
{
	struct json out = { .out = stdout };
	int status = 0;

	if (!policy_cli_default(&argc, &argv))
		return cli_failf("there is no " POLICY_CLI_FILE " here or above to check: "
		                 "cloister policy check FILE...");
	if (cli->json)
		json_open(&out, NULL, '[');
	for (int i = 0; i < argc; i++)
		if (check_one(cli, &out, argv[i]) != 0)
			status = POLICY_CLI_WRONG;
	if (cli->json) {
		json_close(&out, ']');
		printf("\n");
	}
	return status;
}

/* ---- presets and schema ---- */

static int
show_presets(const struct policy_cli *cli, int argc, char **argv)
{
	struct json out = { .out = stdout };
	const struct policy_preset *preset;
	const char *nearest;

	if (argc > 1)
		return cli_failf("`policy presets` takes at most one name");
	if (argc == 1) {
		preset = policy_find_preset(argv[0]);
		nearest = policy_nearest_preset(argv[0]);
		if (preset == NULL)
			return cli_failf("there is no preset '%.64s'%s%s%s", argv[0],
			                 nearest != NULL ? ": did you mean '" : "",
			                 nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
		fputs(preset->text, stdout);
		return 0;
	}
	if (cli->json)
		json_open(&out, NULL, '[');
	for (preset = policy_presets; preset->name != NULL; preset++) {
		if (!cli->json) {
			printf("%-12s %s\n", preset->name, preset->help);
			continue;
		}
		json_open(&out, NULL, '{');
		json_str(&out, "name", preset->name);
		json_str(&out, "help", preset->help);
		json_str(&out, "text", preset->text);
		json_close(&out, '}');
	}
	if (cli->json) {
		json_close(&out, ']');
		printf("\n");
	}
	return 0;
}

/* ---- the command ---- */

static const struct {
	const char *name;
	int (*run)(const struct policy_cli *cli, int argc, char **argv);
} verbs[] = {
	{ "check", policy_cli_check },
	{ "test", policy_cli_test },
	{ "explain", policy_cli_explain },
	{ "presets", show_presets },
	{ "schema", policy_cli_schema },
	{ "trust", policy_cli_trust },
	{ "set", policy_cli_set },
	{ "edit", policy_cli_edit },
};

int
cmd_policy(int argc, char **argv)
{
	const char *names[ARRAY_LEN(verbs) + CLI_REGISTRY_VERBS + 1] = { NULL };
	struct policy_cli cli = {0};
	struct err err = {0};
	const char *nearest;
	int rest;

	bool is_cells = argc > 1 && strcmp(argv[1], "show") == 0 && policy_cli_is_cells(argc - 1, argv + 1);

	if (argc > 1 && cli_is_registry_verb(argv[1]) && !is_cells)
		return cmd_registry(argc, argv);
	if (cli_parse(cli_policy_options, argc, argv, true, take_option, &cli, &rest, &err) < 0)
		return cli_fail(&err);
	argc -= rest;
	argv += rest;
	if (argc < 1)
		return cli_failf("`policy` needs a verb: check, test, explain, presets, schema, trust, set, edit, "
		                 "register, list, show, diff, history or retire");
	if (is_cells)
		return policy_cli_show(&cli, argc - 1, argv + 1);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(argv[0], verbs[i].name) == 0)
			return verbs[i].run(&cli, argc - 1, argv + 1);
	}
	for (size_t i = 0; i < CLI_REGISTRY_VERBS; i++)
		names[ARRAY_LEN(verbs) + i] = cli_registry_verbs[i];
	nearest = text_nearest(argv[0], names);
	if (nearest != NULL)
		return cli_failf("there is no `policy %.64s`: did you mean '%s'?", argv[0], nearest);
	return cli_failf("there is no `policy %.64s`: check, test, explain, presets, schema, trust, set, edit, "
	                 "register, list, show, diff, history or retire", argv[0]);
}
