/* operator.c - `cloister operator`: becomes cloister-fleet, which alone has an engine's credentials. */
#include "cli/cli.h"

const struct cli_option cli_operator_options[] = {
	{ "namespace", 'n', "NAME", "serve the objects of this namespace alone", 0 },
	{ "context", 0, "NAME", "use this context of the kubeconfig", 0 },
	{ "agents-socket", 0, "PATH", "the service's socket for agents (RUNTIME/agents.sock)", 0 },
	{0}
};

int
cmd_operator(int argc, char **argv)
{
	return cli_hand_over("cloister-fleet", cli_operator_options, argc, argv);
}
