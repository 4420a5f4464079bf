/* state.c - `cloister state`: the verbs about versioned states. */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/state.h"

const struct cli_option cli_state_options[] = {
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct state_words, json) },
	{0}
};

#define VERBS "create (see `cloister help state`)"

static const struct verb {
	const char *name;
	int min, max;                   /* words behind it */
	const char *words;
	int (*run)(const struct state_words *words, struct err *err);
} verbs[] = {
	{ "create", 1, 1, "NAME", state_do_create },
};

static int
run(struct state_words *words, int argc, char **argv, struct err *err)
{
	const char *verb = argc > 0 ? argv[0] : "";

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verb, verbs[i].name) != 0)
			continue;
		if (argc - 1 < verbs[i].min || argc - 1 > verbs[i].max)
			return err_set(err, EINVAL, "it is `cloister state %s %s`: see `cloister help state`", verb, verbs[i].words);
		words->words = argv + 1;
		words->n = argc - 1;
		return verbs[i].run(words, err);
	}
	return *verb == '\0' ? err_set(err, EINVAL, "say what to do: " VERBS) :
	       err_set(err, EINVAL, "`cloister state` has no verb '%.40s': it has " VERBS, verb);
}

int
cmd_state(int argc, char **argv)
{
	struct state_words words = {0};
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_state_options, argc, argv, true, NULL, &words, &rest, &err) < 0)
		return cli_fail(&err);
	r = run(&words, argc - rest, argv + rest, &err);
	return r < 0 ? cli_fail(&err) : r;
}
