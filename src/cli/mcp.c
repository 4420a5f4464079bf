/* mcp.c - `cloister mcp`: becomes cloister-mcp, which speaks MCP with an orchestrating agent. */
#include "cli/cli.h"

const struct cli_option cli_mcp_options[] = {
	{ "http", 0, "127.0.0.1:PORT", "serve HTTP at /mcp instead of standard input", 0 },
	{ "token-file", 0, "FILE", "the token for --http; created if it does not exist", 0 },
	{ "as", 0, "PRINCIPAL", "the principal of all dispatches", 0 },
	{0}
};

int
cmd_mcp(int argc, char **argv)
{
	return cli_hand_over("cloister-mcp", cli_mcp_options, argc, argv);
}
