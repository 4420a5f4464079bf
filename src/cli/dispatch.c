/* dispatch.c - `cloister dispatch`, `dispatches` and `worker`: become cloister-dispatch. */
#include <string.h>

#include "cli/cli.h"

const struct cli_option cli_dispatch_options[] = {
	{ "env", 'e', "ENV", "also give it the values of this env", 0 },
	{ "capability", 0, "CAPABILITY", "also grant it this capability, if its `grantable` names it", 0 },
	{ "secret", 's', "SECRET", "also grant it this secret, if its `grantable` names it", 0 },
	{ "image", 0, "IMAGE", "the root of its cell: an image, or '' for cloister's own", 0 },
	{ "record", 0, "LEVEL", "record at least this of its processes: acts or full", 0 },
	{ "input", 'i', "FILE", "its standard input; - is that of this command", 0 },
	{ "on-behalf-of", 0, "PRINCIPAL", "the principal on whose behalf it acts", 0 },
	{ "parent", 0, "ID", "make it a child of the dispatch ID, with no more rights", 0 },
	{ "target", 0, "TARGET", "where it runs: local, docker, pool:NAME, or a registered target", 0 },
	{ "wait", 0, NULL, "print events until it ends (default)", 0 },
	{ "detach", 'd', NULL, "print its id, and continue in the background", 0 },
	{ "retries", 0, "N", "if it fails, try again up to N times (0)", 0 },
	{ "timeout", 0, "TIME", "end each attempt after this time", 0 },
	{ "key", 0, "KEY", "idempotency key: the same key is the same dispatch", 0 },
	{ "dry-run", 'n', NULL, "only show what it would be given", 0 },
	{ "json", 0, NULL, "print events as JSON lines", 0 },
	{0}
};

const struct cli_option cli_dispatches_options[] = {
	{ "state", 0, "STATE", "list: only in this state: queued, running, finished ...", 0 },
	{ "limit", 0, "N", "list: the newest N (20)", 0 },
	{ "follow", 'f', NULL, "events: continue until it ends", 0 },
	{ "stderr", 0, NULL, "output: print the agent's standard error", 0 },
	{ "to", 0, "FOLDER", "files: write all files to this new folder", 0 },
	{ "time", 't', "TIME", "cancel: the time before the agent is killed (10s)", 0 },
	{ "older", 0, "TIME", "prune: remove those that ended longer ago (30d)", 0 },
	{ "keep", 0, "N", "prune: also all but the newest N that have ended (10000)", 0 },
	{ "dry-run", 'n', NULL, "prune: only print how many", 0 },
	{ "json", 0, NULL, "print JSON for programs", 0 },
	{0}
};

const struct cli_option cli_worker_options[] = {
	{ "pool", 'p', "NAME", "take what waits for the target pool:NAME", 0 },
	{ "store", 0, "URL", "the registry of the services, postgres://USER@HOST/DATABASE", 0 },
	{ "slots", 0, "N", "how many run at a time (4)", 0 },
	{ "once", 0, NULL, "run one dispatch, and exit", 0 },
	{ "boundary", 0, "NAME", "of cells that ask for none; with process, take no others", 0 },
	{ "idle", 0, "TIME", "exit after this time without work", 0 },
	{ "try", 0, NULL, "say whether a worker could work here, and exit", 0 },
	{ "join", 0, "TOKEN", "make this worker known to the service that made the token", 0 },
	{ "ttl", 0, "TIME", "token: how long it can be used (1h)", 0 },
	{ "address", 0, "HOST:PORT", "token: where workers dial this service, if it listens elsewhere", 0 },
	{ "json", 0, NULL, "list: print JSON for programs", 0 },
	{0}
};

int
cmd_worker(int argc, char **argv)
{
	/* Whom the service of this machine lets in. */
	if (argc > 1 && (strcmp(argv[1], "token") == 0 || strcmp(argv[1], "list") == 0 || strcmp(argv[1], "remove") == 0))
		return cli_hand_over("cloister-link", cli_worker_options, argc, argv);
	return cli_hand_over("cloister-dispatch", cli_worker_options, argc, argv);
}

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
