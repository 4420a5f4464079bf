/* image.c - `cloister image`: becomes cloister-image, or cloister-build. */
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "image/ref.h"
#include "policy/policy.h"

const struct cli_option cli_image_options[] = {
	{ "name", 'n', "NAME", "load: give the image this name", 0 },
	{ "platform", 0, "OS/ARCH", "pull: the image for this platform instead of this machine's", 0 },
	{ "ca", 0, "FILE", "pull, build: trust these certificate authorities too", 0 },
	{ "key", 0, "FILE", "pull: a public key that must have signed the image", 0 },
	{ "require", 0, "WHAT", "pull: refuse an image without a signature or digest", 0 },
	{ "tag", 't', "NAME", "build: give the image this name", 0 },
	{ "file", 'f', "FILE", "build: the Dockerfile or YAML file (Dockerfile, or image.yaml)", 0 },
	{ "build-arg", 0, "NAME[=VALUE]", "build: the value of an ARG, or the operator's own variable", 0 },
	{ "policy", 'p', "FILE", "build: the policy of the cells; without one, no network", 0 },
	{ "allow", 0, "RULE", "build: also allow this: HOST, or \"GET HOST/PATH/**\"", 0 },
	{ "secret", 's', "NAME[=VARIABLE][:FORMAT][@HOST]", "build: give cells a placeholder for this secret", 0 },
	{ "target", 0, "STAGE", "build: end with this stage", 0 },
	{ "no-cache", 0, NULL, "build: run all steps again", 0 },
	{ "memory", 0, "SIZE", "build: limit the memory of each cell (4G)", 0 },
	{ "disk", 0, "SIZE", "build: limit what each cell may write (2G)", 0 },
	{ "time", 0, "TIME", "build: limit the time of each cell (24h)", 0 },
	{ "json", 0, NULL, "all but remove and save: print JSON for programs", 0 },
	{0}
};

/* Before the first step, whose cell would complain of its options. */
static int
check_build_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	static const char *const of_cells[] = { "secret", "memory", "disk", "time" };
	OWN(policy_freep) struct policy *policy = NULL;
	struct image_name name;

	if (strcmp(option->name, "tag") == 0)
		return image_name_parse_new(value, &name, err);
	if (strcmp(option->name, "allow") == 0)
		return policy_add_short(&policy, value, err);
	for (size_t i = 0; i < ARRAY_LEN(of_cells); i++)
		if (strcmp(option->name, of_cells[i]) == 0)
			return run_take_option(arg, option->name, value, err);
	return 0;
}

static int
check_build(int argc, char **argv, struct err *err)
{
	OWN(run_free) struct run run = {0};
	int rest;

	return cli_parse(cli_image_options, argc, argv, true, check_build_option, &run, &rest, err);
}

int
cmd_image(int argc, char **argv)
{
	const bool builds = argc > 1 && strcmp(argv[1], "build") == 0;
	struct err err = {0};

	if (builds && check_build(argc - 1, argv + 1, &err) < 0)
		return cli_fail(&err);
	if (builds)
		return cli_hand_over("cloister-build", cli_image_options, argc - 1, argv + 1);
	return cli_hand_over("cloister-image", cli_image_options, argc, argv);
}
