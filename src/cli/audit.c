/* audit.c - `cloister audit`: checks the options, and becomes cloister-audit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit_request.h"
#include "base/own.h"
#include "base/since.h"
#include "base/spawn.h"
#include "base/text.h"
#include "cli/cli.h"

struct audit_cli {
	bool all, operator, json;
	const char *key, *format, *since;
	char since_text[SINCE_TEXT_MAX];
};

const struct cli_option cli_audit_options[] = {
	{ "all", 0, NULL, "verify, export: every cell; verify: the operator's timeline too",
	  CLI_FLAG(struct audit_cli, all) },
	{ "operator", 0, NULL, "use the operator's timeline", CLI_FLAG(struct audit_cli, operator) },
	{ "key", 0, "HEX", "verify: the operator's public key, for files", CLI_TEXT(struct audit_cli, key) },
	{ "format", 0, "FORMAT", "export: jsonl (default), ocsf, otel, or dsse (statements)",
	  CLI_TEXT(struct audit_cli, format) },
	{ "since", 0, "TIME", "show: only records since then: 10m, 2h, 2026-11-18T10:00:00Z",
	  CLI_TEXT(struct audit_cli, since) },
	{ "json", 0, NULL, "verify, key: print JSON; the others always do", CLI_FLAG(struct audit_cli, json) },
	{0}
};

static bool
is_format(const char *word)
{
	static const char *const formats[] = { "jsonl", "ocsf", "otel", "dsse" };

	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i], word) == 0)
			return true;
	return false;
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct audit_cli *cli = arg;

	(void)option;
	if (value == cli->format && value != NULL && !is_format(value))
		return err_set(err, EINVAL, "there is no format '%.32s': use jsonl, ocsf, otel or dsse", value);
	if (value == cli->key && value != NULL && (strlen(value) != 64 || strspn(value, "0123456789abcdef") != 64))
		return err_set(err, EINVAL, "--key takes a public key of 64 hex digits, as `cloister "
		               "audit key` prints it");
	if (value == cli->since && value != NULL) {
		uint64_t ms;

		if (since_parse(value, since_now_ms(), &ms, err) < 0)
			return -EINVAL;
		since_format(ms, cli->since_text);
	}
	return 0;
}

/* The words of each verb: at least and at most, without and with --operator. */
static const struct verb {
	const char *name, *options;     /* letters of its options: all, operator, key, format, json, since */
	int min, max, operator_min, operator_max;
	const char *words;
} verbs[] = {
	{ "verify", "aokj", 0, 4096, 0, 4096, "cells or files" },
	{ "show", "ojs", 1, 2, 0, 1, "a cell or --operator, and the number of one record if that is enough" },
	{ "export", "aofj", 1, 4096, 0, 0, "cells, --all or --operator" },
	{ "prove", "oj", 2, 2, 1, 1, "a cell and the number of a record, or --operator and a number" },
	{ "key", "j", 0, 0, 0, 0, "no arguments" },
};

static int
check(const struct audit_cli *cli, const struct verb *verb, int n, struct err *err)
{
	int min = cli->operator ? verb->operator_min : verb->min;
	int max = cli->operator ? verb->operator_max : verb->max;
	const struct { bool given; char letter; const char *name; } options[] = {
		{ cli->all, 'a', "all" }, { cli->operator, 'o', "operator" },
		{ cli->key != NULL, 'k', "key" }, { cli->format != NULL, 'f', "format" },
		{ cli->json, 'j', "json" }, { cli->since != NULL, 's', "since" },
	};

	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].given && strchr(verb->options, options[i].letter) == NULL)
			return err_set(err, EINVAL, "`audit %s` takes no --%s", verb->name, options[i].name);
	if (cli->all && (n > 0 || cli->operator || cli->key != NULL))
		return err_set(err, EINVAL, "--all takes no cell, file, --operator or --key: remove "
		               "them");
	if (cli->key != NULL && (n == 0 || cli->operator))
		return err_set(err, EINVAL, "--key is for files only: name a file");
	if (!cli->all && (n < min || n > max))
		return err_set(err, EINVAL, "`audit %s` takes %s", verb->name, verb->words);
	return 0;
}

static int
become_audit(const struct audit_cli *cli, const struct verb *verb, int n, char **words)
{
	bool all = cli->all || (strcmp(verb->name, "verify") == 0 && n == 0 && !cli->operator);
	OWN(freep) char **argv = calloc((size_t)n + 6, sizeof(*argv));
	struct err err = {0};
	char flags[8], *at = flags;

	if (argv == NULL)
		return cli_failf("out of memory");
	*at++ = '-';
	if (all)
		*at++ = AUDIT_FLAG_ALL;
	if (cli->operator)
		*at++ = AUDIT_FLAG_OPERATOR;
	if (cli->json)
		*at++ = AUDIT_FLAG_JSON;
	*at = '\0';
	argv[0] = (char *)(uintptr_t)"cloister-audit";
	argv[1] = (char *)(uintptr_t)verb->name;
	argv[2] = flags;
	argv[3] = (char *)(uintptr_t)(cli->format != NULL ? cli->format : "jsonl");
	argv[4] = (char *)(uintptr_t)(cli->key != NULL ? cli->key : cli->since_text);
	memcpy(argv + 5, words, (size_t)n * sizeof(*words));
	(void)spawn_become(&(struct spawn){ .argv = argv }, &err);
	return cli_fail(&err);
}

int
cmd_audit(int argc, char **argv)
{
	const char *names[ARRAY_LEN(verbs) + 1] = { NULL }, *nearest;
	struct audit_cli cli = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_audit_options, argc, argv, true, take_option, &cli, &rest, &err) < 0)
		return cli_fail(&err);
	argc -= rest;
	argv += rest;
	if (argc < 1)
		return cli_failf("`audit` needs a verb: verify, show, export, prove or key");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(argv[0], verbs[i].name) != 0)
			continue;
		if (check(&cli, &verbs[i], argc - 1, &err) < 0)
			return cli_fail(&err);
		return become_audit(&cli, &verbs[i], argc - 1, argv + 1);
	}
	nearest = text_nearest(argv[0], names);
	if (nearest != NULL)
		return cli_failf("there is no `audit %.16s`: did you mean '%s'?", argv[0], nearest);
	return cli_failf("there is no such verb of `audit`: use verify, show, export, prove or key");
}
