/* tools.c - `cloister tools`: becomes cloister-lock. */
#include "cli/cli.h"

const struct cli_option cli_tools_options[] = {
	{ "policy", 'p', "FILE", "the policy that names the servers (cloister.yaml)", 0 },
	{ "lock", 0, "FILE", "the lock (tools.lock.yaml, or what the policy names)", 0 },
	{ "allow", 0, "RULE", "lock, check, learn: also let servers reach this", 0 },
	{ "dry-run", 0, NULL, "lock, learn, import: print what would be written", 0 },
	{ "yes", 0, NULL, "import, login: change the vault without asking", 0 },
	{ "no-secrets", 0, NULL, "import: leave credentials where they are", 0 },
	{ "host", 0, "NAME=HOST", "import: the host that this credential may be sent to", 0 },
	{ "client-id", 0, "ID", "login: the id of a client that is registered already", 0 },
	{ "ca", 0, "FILE", "login, token: trust these certificate authorities too", 0 },
	{ "no-run", 0, NULL, "check: do not call any tool", 0 },
	{ "json", 0, NULL, "list, check: print JSON for programs", 0 },
	{ "sarif", 0, NULL, "check: print SARIF 2.1.0", 0 },
	{ "github", 0, NULL, "check: print annotations for GitHub Actions", 0 },
	{0}
};

int
cmd_tools(int argc, char **argv)
{
	return cli_hand_over("cloister-lock", cli_tools_options, argc, argv);
}
