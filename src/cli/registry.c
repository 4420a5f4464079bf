/* registry.c - `cloister capability`, `agent` and `env`, and the registry verbs of `policy`:
 * becomes cloister-registry. */
#include <string.h>

#include "cli/cli.h"

const struct cli_option cli_registry_options[] = { CLI_REGISTRY_OPTIONS, {0} };

const struct cli_option cli_assign_options[] = {
	{ "json", 0, NULL, "print JSON for programs", 0 },
	{0}
};

const char *const cli_registry_verbs[CLI_REGISTRY_VERBS + 1] = {
	"register", "list", "show", "diff", "history", "retire", NULL
};

int
cmd_registry(int argc, char **argv)
{
	return cli_hand_over("cloister-registry", strcmp(argv[0], "assign") == 0 ? cli_assign_options :
	                     cli_registry_options, argc, argv);
}

bool
cli_is_registry_verb(const char *word)
{
	for (size_t i = 0; cli_registry_verbs[i] != NULL; i++)
		if (strcmp(word, cli_registry_verbs[i]) == 0)
			return true;
	return false;
}
