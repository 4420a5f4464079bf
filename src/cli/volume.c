/* volume.c - `cloister volume`: becomes cloister-volume. */
#include "cli/cli.h"

const struct cli_option cli_volume_options[] = {
	{ "size", 0, "SIZE", "create: limit the volume (1G)", 0 },
	{ "ttl", 0, "TIME", "create: the volume expires after this time without use", 0 },
	{ "json", 0, NULL, "all but remove: print JSON for programs", 0 },
	{0}
};

int
cmd_volume(int argc, char **argv)
{
	return cli_hand_over("cloister-volume", cli_volume_options, argc, argv);
}
