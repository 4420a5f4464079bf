/* serve.c - `cloister serve`: becomes cloister-serve, which answers for all of this user's cells. */
#include "cli/cli.h"

const struct cli_option cli_serve_options[] = {
	{ "socket", 's', "PATH", "the operator's socket (serve.sock in the runtime folder)", 0 },
	{ "agents-socket", 0, "PATH", "the agents' socket (agents.sock in the runtime folder)", 0 },
	{ "listen", 'l', "127.0.0.1:PORT", "TCP too, on this machine only", 0 },
	{ "token-file", 0, "FILE", "TCP: the operator's token; made if it is missing", 0 },
	{ "agent-token-file", 0, "FILE", "TCP: one more token, which has an agent's rights", 0 },
	{ "tls-cert", 0, "FILE", "TCP: the certificate, PEM; one is made if there is none", 0 },
	{ "tls-key", 0, "FILE", "TCP: its key", 0 },
	{ "no-tls", 0, NULL, "TCP: not encrypted", 0 },
	{ "mcp", 0, "127.0.0.1:PORT", "let agents in cells dispatch others: MCP, for them only", 0 },
	{ "concurrency", 'c', "N", "how many dispatches run at a time", 0 },
	{ "retain", 0, "TIME", "remove dispatches that ended longer ago (30d); 0: none", 0 },
	{ "idle-exit", 0, "TIME", "end when nobody asks and nothing runs for so long", 0 },
	{ "routes", 0, NULL, "only print what can be asked, and by whom", 0 },
	{0}
};

int
cmd_serve(int argc, char **argv)
{
	return cli_hand_over("cloister-serve", cli_serve_options, argc, argv);
}
