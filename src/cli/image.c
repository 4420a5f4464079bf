/* image.c - `cloister image`: becomes cloister-image. */
#include "cli/cli.h"

const struct cli_option cli_image_options[] = {
	{ "name", 'n', "NAME", "load: give the image this name", 0 },
	{ "platform", 0, "OS/ARCH", "pull: the image for this platform instead of this machine's", 0 },
	{ "ca", 0, "FILE", "pull: trust these certificate authorities too", 0 },
	{ "key", 0, "FILE", "pull: a public key that must have signed the image", 0 },
	{ "require", 0, "WHAT", "pull: refuse an image without a signature or digest", 0 },
	{ "json", 0, NULL, "load, pull, list, show, diff, prune: print JSON for programs", 0 },
	{0}
};

int
cmd_image(int argc, char **argv)
{
	return cli_hand_over("cloister-image", cli_image_options, argc, argv);
}
