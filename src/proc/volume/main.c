/* main.c - cloister-volume: makes, lists and removes volumes and caches.
 *
 * `cloister volume` and `cloister cache` become it; see base/args.h for its arguments.  For `cloister run`,
 * `cloister-volume --settle NAME` makes the changes of a cell that has ended part of the volume NAME.  For `cloister cache
 * fill`, `cloister-volume --keep VOLUME ...` makes them a version of a cache.
 *
 * Agents chose the names and modes of the files in volumes, so before it opens one it is held to the folder of volumes
 * and the operator's timeline.  It reads the contents of files only to hash those of caches. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/io.h"
#include "base/own.h"
#include "base/progress.h"
#include "base/tell.h"
#include "base/text.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "proc/volume/volume_proc.h"

#define VERBS "create, list, show, clone, snapshot, restore, remove or prune (see `cloister help volume`)"
#define CACHE_VERBS "fill, list, show, use, remove, prune or verify (see `cloister help cache`)"

static const struct verb {
	const char *name, *options;     /* OPTIONS: those it has, with blanks around them */
	size_t min, max;                /* words behind it */
	bool makes;                     /* the folder, if there is none */
	volume_command *run;
	const char *words;
} verbs[] = {
	{ "create", " size ttl json ", 1, 1, true, cmd_create, "the name of the new volume" },
	{ "list", " json ", 0, 0, false, cmd_list, "no words" },
	{ "show", " json ", 1, 1, false, cmd_show, "the name of a volume" },
	{ "clone", " json ", 2, 2, false, cmd_clone, "NAME or NAME@LABEL, and the name of the new volume" },
	{ "snapshot", " json ", 1, 1, false, cmd_snapshot, "NAME or NAME@LABEL" },
	{ "restore", " json ", 1, 1, false, cmd_restore, "NAME@LABEL" },
	{ "remove", " ", 1, 64, false, cmd_remove, "names of volumes, or of snapshots as NAME@LABEL" },
	{ "prune", " json ", 0, 0, false, cmd_prune, "no words" },
	{0}
}, cache_verbs[] = {
	{ "list", " json ", 0, 0, false, cmd_cache_list, "no words" },
	{ "show", " json ", 1, 1, false, cmd_cache_show, "NAME or NAME@VERSION" },
	{ "use", " json ", 2, 2, false, cmd_cache_use, "the name of a cache, and a version" },
	{ "remove", " ", 1, 64, false, cmd_cache_remove, "names of caches, or of versions as NAME@VERSION" },
	{ "prune", " json ", 0, 0, false, cmd_cache_prune, "no words" },
	{ "verify", " json ", 0, 64, false, cmd_cache_verify, "names of caches, or of versions as NAME@VERSION" },
	{0}
};

/* A command, and what it says if there is nothing yet. */
static const struct subject {
	const char *name, *has;
	const struct verb *verbs;
	const char *none;
} subjects[] = {
	{ "volume", VERBS, verbs, "there are no volumes yet: `cloister volume create NAME` makes one" },
	{ "cache", CACHE_VERBS, cache_verbs, "there are no caches yet: `cloister cache fill NAME --kind KIND -- CMD` makes one" },
};

/* As root it opens folders of the cells' own ids, and gives their files to root. */
#define OWNER_RIGHTS (1u << CAP_DAC_OVERRIDE | 1u << CAP_CHOWN | 1u << CAP_FOWNER)

static int
lock_down(struct err *err)
{
	OWN(freep) char *own = data_path(VOLUME_FOLDER, err), *audit = data_path("audit", err);
	OWN(closep) int fd = -1;
	int r;

	if (own == NULL || audit == NULL)
		return -ENOMEM;
	/* Reads the rules of the time zone. */
	tzset();
	r = privileges_keep(geteuid() == 0 ? OWNER_RIGHTS : 0, err);
	if (r == 0 && (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = err_errno(err, "cannot give up privileges");
	if (r == 0)
		r = landlock_make(LANDLOCK_FILES_TOO, (const char *const[]){ own, audit, NULL }, &fd, err);
	if (r == 0)
		r = landlock_enforce(fd, err);
	return r < 0 ? r : filter_load(FILTER_VOLUME, err);
}

static int
run_without(const struct subject *subject, const struct verb *verb, const struct args *args, struct err *err)
{
	if (verb->min > 0)
		return err_set(err, ENOENT, "there is no %s '%.200s': there are none yet", subject->name, args->words[1]);
	if (args_get(args, "json") != NULL && strcmp(verb->name, "prune") != 0)
		puts("[]");
	else
		fprintf(stderr, "%s\n", subject->none);
	return 0;
}

/* The folders of a first use are made before the lockdown, which only lets paths be written that exist. */
static int
open_all(bool make, struct volumes *ret_volumes, struct err *err)
{
	OWN(closep) int audit = data_folder("audit", true, err);
	int r = audit < 0 ? audit : volumes_open(make, ret_volumes, err);

	return r < 0 ? r : lock_down(err);
}

static int
run(const struct args *args, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	const char *word = args->n_words > 0 ? args->words[0] : "";
	const struct subject *subject = &subjects[strcmp(args->command, "cache") == 0];
	const struct verb *verb = subject->verbs;
	char what[64];
	int r;

	while (verb->name != NULL && strcmp(verb->name, word) != 0)
		verb++;
	if (verb->name == NULL && word[0] != '\0')
		return err_set(err, EINVAL, "`cloister %s` has no '%.100s': it has %s", subject->name, word, subject->has);
	if (verb->name == NULL)
		return err_set(err, EINVAL, "say what to do: %s", subject->has);
	if (args->n_words - 1 < verb->min || args->n_words - 1 > verb->max)
		return err_set(err, EINVAL, "`cloister %s %s` takes %s", subject->name, verb->name, verb->words);
	snprintf(what, sizeof(what), "%s %s", subject->name, verb->name);
	r = args_check(args, what, verb->options, err);
	if (r < 0)
		return r;
	r = open_all(verb->makes, &v, err);
	if (r == -ENOENT && !verb->makes)
		return run_without(subject, verb, args, err);
	return r < 0 ? r : verb->run(&v, args, err);
}

static int
run_settle(const char *name, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = open_all(false, &v, err);

	return r < 0 ? r : volume_do_settle(&v, name, err);
}

static int
run_keep(char *const *words, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = open_all(false, &v, err);

	return r < 0 ? r : volume_do_keep(&v, words, err);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	struct args args;
	int status;

	/* It has some open for each folder on the way down. */
	io_raise_files();
	if (argc == 3 && strcmp(argv[1], "--settle") == 0 && volume_name_ok(argv[2]))
		status = run_settle(argv[2], &err);
	else if (argc == 2 + VOLUME_KEEP_WORDS && strcmp(argv[1], "--keep") == 0)
		status = run_keep(argv + 2, &err);
	else if (args_parse(argc, argv, &args))
		status = run(&args, &err);
	else
		status = err_set(&err, EINVAL, "cloister-volume is started by cloister only");
	progress_end();
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_set(&err, EIO, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}
