/* hand_over.c - for commands that are separate programs: checks the options, and becomes the program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"

/* As base/args.h describes it. */
struct handing {
	char **words;
	size_t n, max;
};

static int
add(struct handing *h, char *word, struct err *err)
{
	if (word == NULL || h->n == h->max) {
		free(word);
		return err_set(err, ENOMEM, "there are too many arguments");
	}
	h->words[h->n++] = word;
	return 0;
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	return add(arg, value == NULL ? str_format("--%s", option->name) :
	                                str_format("--%s=%s", option->name, value), err);
}

int
cli_hand_over(const char *helper, const struct cli_option *options, int argc, char **argv)
{
	OWN(strv_freep) char **words = calloc((size_t)argc + 4, sizeof(*words));
	struct handing h = { .words = words, .max = (size_t)argc + 3 };
	struct err err = {0};
	int rest = argc, r;

	if (words == NULL)
		return cli_failf("out of memory");
	r = add(&h, strdup(helper), &err);
	r = r == 0 ? add(&h, strdup(argv[0]), &err) : r;
	r = r == 0 ? cli_parse(options, argc, argv, true, take_option, &h, &rest, &err) : r;
	r = r == 0 ? add(&h, strdup("--"), &err) : r;
	for (int i = rest; r == 0 && i < argc; i++)
		r = add(&h, strdup(argv[i]), &err);
	if (r == 0)
		spawn_become(&(struct spawn){ .argv = words }, &err);
	return cli_fail(&err);
}
