/* freeze.c - `cloister freeze`, `thaw`, `pause` and `resume`: cells stand still, with their memory or without. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_secrets.h"
#include "cell/cell_series.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"
#include "policy/policy_boundary.h"

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
move_one(const char *word, enum steer_verb verb, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(word, &entry, err);

	return fd < 0 ? fd : cell_control_do(fd, verb, NULL, err);
}

/* Whether VERB has something to do for that cell.  A cell that cannot be paused is none of `pause --all`. */
static bool
is_meant(int runtime, const struct cell_entry *entry, enum steer_verb verb)
{
	struct cell_info info = {0};
	const bool known = !entry->far && cell_control_info(runtime, entry, &info, NULL) == 0;
	const bool is = known && (verb == VERB_RESUME ? info.state == CONTROL_STATE_PAUSED :
	                          strcmp(info.spec.boundary, BOUNDARY_MICROVM) == 0 && info.spec.fork_of.id[0] == '\0' &&
	                          info.state != CONTROL_STATE_DEAD && info.state != CONTROL_STATE_PAUSED);

	if (known)
		cell_spec_free(&info.spec);
	return is;
}

static int
move_every(enum steer_verb verb)
{
	struct err err = {0};
	OWN(closep) int runtime = cell_runtime_open(&err);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0, moved = 0;
	int status = 0;

	if (runtime < 0 || cell_list(runtime, true, &entries, &n, &err) < 0)
		return cli_fail(&err);
	for (size_t i = 0; i < n; i++) {
		if (!is_meant(runtime, &entries[i], verb))
			continue;
		if (move_one(entries[i].id, verb, &err) < 0)
			status = cli_fail(&err);
		else
			moved++;
	}
	printf("%s %zu %s\n", verb == VERB_PAUSE ? "paused" : "resumed", moved, moved == 1 ? "cell" : "cells");
	return status;
}

static int
move_memory(int argc, char **argv, enum steer_verb verb)
{
	struct err err = {0};
	bool all = false;
	int rest, status = 0;

	if (cli_parse(cli_freeze_options, argc, argv, true, NULL, &all, &rest, &err) < 0)
		return cli_fail(&err);
	if (all && rest < argc)
		return cli_failf("--all means every cell: remove '%s'", argv[rest]);
	if (all)
		return move_every(verb);
	if (rest == argc)
		return cli_failf("no cell is given: cloister %s CELL..., or cloister %s --all", argv[0], argv[0]);
	for (int i = rest; i < argc; i++)
		if (move_one(argv[i], verb, &err) < 0)
			status = cli_fail(&err);
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
