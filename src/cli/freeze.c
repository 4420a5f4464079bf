/* freeze.c - `cloister freeze`, `thaw`, `pause` and `resume`: cells stand still, with their memory or without. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_secrets.h"
#include "cell/cell_series.h"
#include "cli/cli.h"

static int
ask(const char *word, enum steer_verb verb, struct err *err)
{
	OWN(closep) int all = cell_runtime_open(NULL);
	/* First, as in cell_do_every(). */
	const size_t waits = all < 0 ? 0 : cell_series_hold_each(all, word, verb == VERB_FREEZE);
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, err);

	return runtime == -ENOENT && waits > 0 ? 0 : runtime < 0 ? runtime :
	       cell_control_ask_one(runtime, &entry, verb, NULL, err);
}

const struct cli_option cli_freeze_options[] = {
	{ "all", 0, NULL, "every cell of this user", CLI_BOOL },
	{0}
};

static int
every(enum steer_verb verb)
{
	struct err err = {0};
	OWN(closep) int runtime = cell_runtime_open(&err);
	static const struct cell_steer_who who;
	bool freezes = verb == VERB_FREEZE;
	struct cell_every every;

	if (runtime < 0 || cell_do_every(runtime, verb, &who, &every, &err) < 0 ||
	    cli_note_every(verb, every.n, NULL, NULL, &err) < 0)
		return cli_fail(&err);
	if (every.failed == 0)
		printf("%s %zu %s\n", freezes ? "froze" : "thawed", every.n,
		       every.n == 1 ? "cell" : "cells");
	return every.failed == 0 ? 0 :
	       cli_failf("%zu of %zu cells could not be %s: %s%s", every.failed, every.failed + every.n,
	                 freezes ? "frozen" : "thawed", every.first.text,
	                 freezes ? "; `cloister kill --all` ends them" : "");
}

static int
each(int argc, char **argv, enum steer_verb verb)
{
	struct err err = {0};
	bool all = false;
	int rest, status = 0;

	if (cli_parse(cli_freeze_options, argc, argv, true, NULL, &all, &rest, &err) < 0)
		return cli_fail(&err);
	if (all && rest < argc)
		return cli_failf("--all means every cell: remove '%s'", argv[rest]);
	if (all)
		return every(verb);
	if (rest == argc)
		return cli_failf("no cell is given: cloister %s CELL..., or cloister %s --all", argv[0], argv[0]);
	for (int i = rest; i < argc; i++)
		if (ask(argv[i], verb, &err) < 0)
			status = cli_fail(&err);
	return status;
}

int
cmd_freeze(int argc, char **argv)
{
	return each(argc, argv, VERB_FREEZE);
}

int
cmd_thaw(int argc, char **argv)
{
	return each(argc, argv, VERB_THAW);
}

/* Without patience: it takes as long as the disk does. */
static int
move_memory(int argc, char **argv, enum steer_verb verb)
{
	struct err err = {0};
	int rest, status = 0;

	if (cli_parse(cli_no_options, argc, argv, true, NULL, NULL, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no cell is given: cloister %s CELL...", argv[0]);
	for (int i = rest; i < argc; i++) {
		struct cell_entry entry;
		OWN(closep) int fd = cli_connect(argv[i], &entry, &err);

		if (fd < 0 || cell_control_do(fd, verb, NULL, &err) < 0)
			status = cli_fail(&err);
	}
	return status;
}

int
cmd_pause(int argc, char **argv)
{
	return move_memory(argc, argv, VERB_PAUSE);
}

int
cmd_resume(int argc, char **argv)
{
	return move_memory(argc, argv, VERB_RESUME);
}
