/* freeze.c - `cloister freeze` and `thaw`: cells stop where they are, and go on. */
#include "base/own.h"
#include "cell/cell_control.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

static int
ask(const char *word, uint32_t type, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(word, &entry, err);

	return fd < 0 ? fd : cell_control_do(fd, type, err);
}

static int
each(int argc, char **argv, uint32_t type)
{
	struct err err = {0};
	int rest, status = 0;

	if (cli_parse(cli_no_options, argc, argv, false, NULL, NULL, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("which cell? cloister %s CELL...", argv[0]);
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
