/* dispatch.c - `cloister dispatch` and `cloister dispatches`: become cloister-dispatch.
 *
 * What was said is handed over as words, VERB, then NAME or NAME=VALUE for each option, "--" and
 * the rest: SQLite and all that stays out of this program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/cli.h"

#define WORDS_MAX 256

const struct cli_option cli_dispatch_options[] = {
	{ "env", 'e', "ENV", "give it the values of this env too", 1 },
	{ "input", 'i', "FILE", "its standard input; - is ours", 0 },
	{ "on-behalf-of", 0, "PRINCIPAL", "for whom it acts", 0 },
	{ "target", 0, "TARGET", "where it runs: local", 0 },
	{ "wait", 0, NULL, "show what happens until it is over (default)", 0 },
	{ "detach", 'd', NULL, "print its id, and let it go on in the background", 0 },
	{ "retries", 0, "N", "when it fails, try again so many times (0)", 0 },
	{ "timeout", 0, "TIME", "end each attempt after this long", 0 },
	{ "key", 0, "KEY", "the same key again is the same dispatch again, not another one", 0 },
	{ "dry-run", 'n', NULL, "only show what it would be given", 0 },
	{ "json", 0, NULL, "events as JSON lines", 0 },
	{0}
};

const struct cli_option cli_dispatches_options[] = {
	{ "state", 0, "STATE", "list: only these: queued, running, finished ...", 0 },
	{ "limit", 0, "N", "list: the newest N (20)", 0 },
	{ "follow", 'f', NULL, "events: until it is over", 0 },
	{ "stderr", 0, NULL, "output: what it wrote to standard error", 0 },
	{ "to", 0, "FOLDER", "files: write them all to this new folder", 0 },
	{ "time", 't', "TIME", "cancel: how long it may take before it is killed (10s)", 0 },
	{ "json", 0, NULL, "for programs", 0 },
	{0}
};

struct words {
	char *at[WORDS_MAX + 4];
	size_t n;
};

static int
add(struct words *words, char *owned, struct err *err)
{
	if (owned == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (words->n == WORDS_MAX)
		return err_set(err, E2BIG, "there are over %d words", WORDS_MAX);
	words->at[words->n++] = owned;
	return 0;
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	const bool may_repeat = option->id == 1;
	struct words *words = arg;
	size_t len = strlen(option->name);

	for (size_t i = 2; !may_repeat && i < words->n; i++)
		if (strncmp(words->at[i], option->name, len) == 0 &&
		    (words->at[i][len] == '=' || words->at[i][len] == '\0'))
			return err_set(err, EINVAL, "the option '--%s' is given twice", option->name);
	return add(words, value == NULL ? strdup(option->name) :
	           str_format("%s=%s", option->name, value), err);
}

static int
become(const struct cli_option *options, int argc, char **argv)
{
	static char name[] = "cloister-dispatch";
	struct words words = { .at = { name, argv[0] }, .n = 2 };
	struct err err = {0};
	int rest, r;

	r = cli_parse(options, argc, argv, true, take_option, &words, &rest, &err);
	if (r == 0)
		r = add(&words, strdup("--"), &err);
	for (int i = rest; r == 0 && i < argc; i++)
		r = add(&words, argv[i], &err);
	if (r == 0)
		(void)cli_become_with(name, words.at, environ, &err);
	return cli_fail(&err);
}

int
cmd_dispatch(int argc, char **argv)
{
	return become(cli_dispatch_options, argc, argv);
}

int
cmd_dispatches(int argc, char **argv)
{
	return become(cli_dispatches_options, argc, argv);
}
