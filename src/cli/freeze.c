/* freeze.c - `cloister freeze` and `thaw`: pause cells and let them go on. */
#include <stdio.h>

#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_secrets.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

static int
ask(const char *word, uint32_t type, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, err);

	return runtime < 0 ? runtime : cell_control_ask_one(runtime, &entry, type, NULL, err);
}

const struct cli_option cli_freeze_options[] = {
	{ "all", 0, NULL, "every cell of this user", 0 },
	{0}
};

static int
every(uint32_t type)
{
	struct err err = {0};
	OWN(closep) int runtime = cell_runtime_open(&err);
	static const struct cell_steer_who who;
	bool freezes = type == CONTROL_FREEZE;
	struct cell_every every;

	if (runtime < 0 || cell_do_every(runtime, type, &who, &every, &err) < 0 ||
	    cli_note_every(freezes ? "cells.freeze" : "cells.thaw", every.n, NULL, NULL, &err) < 0)
		return cli_fail(&err);
	if (every.failed == 0)
		printf("%s %zu %s\n", type == CONTROL_FREEZE ? "froze" : "thawed", every.n,
		       every.n == 1 ? "cell" : "cells");
	return every.failed == 0 ? 0 :
	       cli_failf("%zu of %zu cells could not be %s: %s%s", every.failed, every.failed + every.n,
	                 freezes ? "frozen" : "thawed", every.first.text,
	                 freezes ? "; `cloister kill --all` ends them" : "");
}

static int
each(int argc, char **argv, uint32_t type)
{
	struct err err = {0};
	bool all = false;
	int rest, status = 0;

	if (cli_parse(cli_freeze_options, argc, argv, true, cli_take_flag, &all, &rest, &err) < 0)
		return cli_fail(&err);
	if (all && rest < argc)
		return cli_failf("--all means every cell: remove '%s'", argv[rest]);
	if (all)
		return every(type);
	if (rest == argc)
		return cli_failf("no cell is given: cloister %s CELL..., or cloister %s --all", argv[0], argv[0]);
	for (int i = rest; i < argc; i++)
		if (ask(argv[i], type, &err) < 0)
			status = cli_fail(&err);
	return status;
}

int
cmd_freeze(int argc, char **argv)
{
	return each(argc, argv, CONTROL_FREEZE);
}

int
cmd_thaw(int argc, char **argv)
{
	return each(argc, argv, CONTROL_THAW);
}
