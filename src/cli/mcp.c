/* mcp.c - `cloister mcp`: becomes cloister-mcp, which speaks MCP with an orchestrating agent. */
#include "cli/cli.h"

const struct cli_option cli_mcp_options[] = {
	{ "http", 0, "127.0.0.1:PORT", "serve HTTP at /mcp instead of standard input", 0 },
	{ "token-file", 0, "FILE", "what clients of --http have to show; made if it is missing", 0 },
	{ "as", 0, "PRINCIPAL", "on whose behalf all is dispatched", 0 },
	{0}
};

int
cmd_mcp(int argc, char **argv)
{
	return cli_hand_over("cloister-mcp", cli_mcp_options, argc, argv);
}
