/* plan.c - `cloister plan` and `cloister rebuild`: become cloister-plan. */
#include "cli/cli.h"

const struct cli_option cli_plan_options[] = {
	{ "output", 'o', "FILE", "export: write the plan to this file instead of standard output", 0 },
	{ "with-data", 0, NULL, "export: make a folder that has the contents of all files, too", 0 },
	{0}
};

const struct cli_option cli_rebuild_options[] = {
	{ "dry-run", 0, NULL, "only report what differs", 0 },
	{ "replace", 0, NULL, "change what differs from the plan", 0 },
	{ "key", 0, "HEX", "the key that must have signed the plan (this machine's)", 0 },
	{ "json", 0, NULL, "print JSON for programs", 0 },
	{0}
};

int
cmd_plan(int argc, char **argv)
{
	return cli_hand_over("cloister-plan", cli_plan_options, argc, argv);
}

int
cmd_rebuild(int argc, char **argv)
{
	return cli_hand_over("cloister-plan", cli_rebuild_options, argc, argv);
}
