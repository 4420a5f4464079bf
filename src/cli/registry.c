/* registry.c - `cloister capability`, `agent`, `env`, `target`, `assign` and `store`, and the registry verbs of `policy`:
 * becomes cloister-registry. */
#include <string.h>

#include "cli/cli.h"

const struct cli_option cli_registry_options[] = { CLI_REGISTRY_OPTIONS, {0} };

const struct cli_option cli_assign_options[] = {
	{ "json", 0, NULL, "print JSON for programs", 0 },
	{0}
};

const struct cli_option cli_store_options[] = {
	{ "to", 0, "STORE", "copy the rows to postgres://USER@HOST/DATABASE, or to sqlite", 0 },
	{ "to-blobs", 0, "PLACE", "copy the blobs to s3://BUCKET/PREFIX, or to folder", 0 },
	{ "json", 0, NULL, "print JSON for programs", 0 },
	{0}
};

const char *const cli_registry_verbs[CLI_REGISTRY_VERBS + 1] = {
	"register", "list", "show", "diff", "history", "retire", NULL
};

int
cmd_registry(int argc, char **argv)
{
	/* Others of its options are for other verbs. */
	return cli_hand_over("cloister-registry", strcmp(argv[0], "policy") == 0 ? cli_registry_options :
	                     cli_current->options, argc, argv);
}

bool
cli_is_registry_verb(const char *word)
{
	for (size_t i = 0; cli_registry_verbs[i] != NULL; i++)
		if (strcmp(word, cli_registry_verbs[i]) == 0)
			return true;
	return false;
}
