/* top.c - `cloister top`: becomes cloister-top, which has the terminal to itself. */
#include "cli/cli.h"

int
cmd_top(int argc, char **argv)
{
	return cli_hand_over("cloister-top", cli_no_options, argc, argv);
}
