/* main.c - cloister-image: the commands that read and change the store of images.
 *
 * `cloister` becomes it; see base/args.h for its arguments.  For `cloister run`, `cloister-image --resolve
 * [--require TEXT] REF` brings an image if it is missing, unpacks it, and prints one line of JSON.  TEXT is what
 * policies require of it.
 *
 * It parses references, and the documents of images; archives are left to cloister-unpack, and registries to
 * cloister-pull. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/progress.h"
#include "base/tell.h"
#include "proc/image/image_proc.h"

/* cloister-build does the first. */
#define VERBS "build, pull, load, list, show, diff, remove, prune or save (see `cloister help image`)"

static const struct verb {
	const char *name, *options;     /* OPTIONS: those it has, with blanks around them */
	size_t min, max;                /* words behind it */
	bool makes;                     /* the store, if there is none */
	image_command *run;
	const char *words;
} verbs[] = {
	{ "load", " name json ", 1, 1, true, cmd_load, "one image to load" },
	{ "pull", " platform ca key require json ", 1, 64, true, cmd_pull, "names of images" },
	{ "list", " json ", 0, 0, false, cmd_list, "no words" },
	{ "show", " json ", 1, 1, false, cmd_show, "one image" },
	{ "diff", " json ", 1, 2, false, cmd_diff, "one or two images" },
	{ "remove", " ", 1, 64, false, cmd_remove, "names or digests of images" },
	{ "prune", " json ", 0, 0, false, cmd_prune, "no words" },
	{ "save", " ", 2, 2, false, cmd_save, "an image and where to save it" },
};

/* An empty store is as good as none. */
static int
run_without(const struct verb *verb, const struct args *args, struct err *err)
{
	if (verb->run == cmd_list && args_get(args, "json") != NULL)
		puts("[]");
	else if (verb->run == cmd_list || verb->run == cmd_prune)
		fputs("there are no images yet: `cloister image pull` or `load` brings one\n", stderr);
	else
		return err_set(err, ENOENT, "there is no image '%.200s' here: there are none yet", args->words[1]);
	return 0;
}

static int
run(const struct args *args, struct err *err)
{
	OWN(store_closep) struct store *s = NULL;
	const char *word = args->n_words > 0 ? args->words[0] : "";
	const struct verb *verb = NULL;
	char what[64];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, word) == 0)
			verb = &verbs[i];
	if (verb == NULL && word[0] != '\0')
		return err_set(err, EINVAL, "`cloister image` has no '%.100s': it has " VERBS, word);
	if (verb == NULL)
		return err_set(err, EINVAL, "say what to do: " VERBS);
	if (args->n_words - 1 < verb->min || args->n_words - 1 > verb->max)
		return err_set(err, EINVAL, "`cloister image %s` takes %s", verb->name, verb->words);
	snprintf(what, sizeof(what), "image %s", verb->name);
	r = args_check(args, what, verb->options, err);
	if (r < 0)
		return r;
	r = store_open(verb->makes, &s, err);
	if (r == -ENOENT && !verb->makes)
		return run_without(verb, args, err);
	return r < 0 ? r : verb->run(s, args, err);
}

static int
run_resolve(const char *word, const char *require, struct err *err)
{
	OWN(store_closep) struct store *s = NULL;
	int r = store_open(true, &s, err);

	return r < 0 ? r : resolve(s, word, require, err);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	struct args args;
	int status;

	if (argc == 3 && strcmp(argv[1], "--resolve") == 0)
		status = run_resolve(argv[2], NULL, &err);
	else if (argc == 5 && strcmp(argv[1], "--resolve") == 0 && strcmp(argv[2], "--require") == 0)
		status = run_resolve(argv[4], argv[3], &err);
	else if (args_parse(argc, argv, &args))
		status = run(&args, &err);
	else
		status = err_set(&err, EINVAL, "cloister-image is started by cloister only");
	progress_end();
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_set(&err, EIO, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}
