/* dispatch.c - `cloister dispatch` and `cloister dispatches`: become cloister-dispatch. */
#include "cli/cli.h"

const struct cli_option cli_dispatch_options[] = {
	{ "env", 'e', "ENV", "give it the values of this env too", 0 },
	{ "input", 'i', "FILE", "its standard input; - is ours", 0 },
	{ "on-behalf-of", 0, "PRINCIPAL", "for whom it acts", 0 },
	{ "parent", 0, "ID", "as the dispatch ID would: with no more than that one has", 0 },
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
	{ "older", 0, "TIME", "prune: what ended longer ago (30d)", 0 },
	{ "keep", 0, "N", "prune: and all but the newest N that are over (10000)", 0 },
	{ "dry-run", 'n', NULL, "prune: only tell how many", 0 },
	{ "json", 0, NULL, "for programs", 0 },
	{0}
};

int
cmd_dispatch(int argc, char **argv)
{
	return cli_hand_over("cloister-dispatch", cli_dispatch_options, argc, argv);
}

int
cmd_dispatches(int argc, char **argv)
{
	return cli_hand_over("cloister-dispatch", cli_dispatches_options, argc, argv);
}
