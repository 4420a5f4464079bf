/* init_own.c - init's own programs: what clients of the service do in a cell, whatever programs the cell has.
 *
 * Init executes itself again for them, behind all restrictions, as for any other command.  So they have the agent's
 * rights and no others, and see the files that the agent sees.  The agent can trace them and forge their output. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/init/init.h"

static int
wait_for_signal(char **argv)
{
	(void)argv;
	while (pause() < 0)
		;
	return 0;
}

static const struct {
	const char *name;
	int words;                      /* behind the name */
	int (*run)(char **argv);
} programs[] = {
	{ INIT_OWN_WAIT, 0, wait_for_signal },  { INIT_OWN_READ, 2, init_own_read },
	{ INIT_OWN_WRITE, 2, init_own_write },  { INIT_OWN_LIST, 2, init_own_list },
	{ INIT_OWN_WATCH, 2, init_own_watch },  { INIT_OWN_DIAL, 1, init_own_dial },
	{ INIT_OWN_STAT, 1, init_own_stat },    { INIT_OWN_TREE, 3, init_own_tree },
	{ INIT_OWN_MOVE, 2, init_own_move },    { INIT_OWN_REMOVE, 1, init_own_remove },
	{ INIT_OWN_MAKE_FOLDER, 1, init_own_make_folder },
};

bool
init_own_is(char *const *argv)
{
	for (size_t i = 0; argv[0] != NULL && i < ARRAY_LEN(programs); i++)
		if (strcmp(argv[0], programs[i].name) == 0)
			return true;
	return false;
}

int
init_own_main(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (strcmp(argv[0], programs[i].name) == 0)
			return argc == programs[i].words + 1 ? programs[i].run(argv + 1) : EINVAL;
	return EINVAL;
}
