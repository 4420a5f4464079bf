/* main.c - cloister-volume: makes, lists and removes volumes.
 *
 * `cloister volume` becomes it; see base/args.h for its arguments.  For `cloister run`, `cloister-volume --settle NAME`
 * makes the changes of a cell that has ended part of the volume NAME.
 *
 * Agents chose the names and modes of the files in volumes, so before it opens one it is held to the folder of volumes
 * and the operator's timeline.  It reads the contents of no file in a volume. */
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
run_without(const struct verb *verb, const struct args *args, struct err *err)
{
	if (verb->run == cmd_list && args_get(args, "json") != NULL)
		puts("[]");
	else if (verb->run == cmd_list || verb->run == cmd_prune)
		fputs("there are no volumes yet: `cloister volume create NAME` makes one\n", stderr);
	else
		return err_set(err, ENOENT, "there is no volume '%.200s': there are none yet", args->words[1]);
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
	const struct verb *verb = NULL;
	char what[64];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, word) == 0)
			verb = &verbs[i];
	if (verb == NULL && word[0] != '\0')
		return err_set(err, EINVAL, "`cloister volume` has no '%.100s': it has " VERBS, word);
	if (verb == NULL)
		return err_set(err, EINVAL, "say what to do: " VERBS);
	if (args->n_words - 1 < verb->min || args->n_words - 1 > verb->max)
		return err_set(err, EINVAL, "`cloister volume %s` takes %s", verb->name, verb->words);
	snprintf(what, sizeof(what), "volume %s", verb->name);
	r = args_check(args, what, verb->options, err);
	if (r < 0)
		return r;
	r = open_all(verb->makes, &v, err);
	if (r == -ENOENT && !verb->makes)
		return run_without(verb, args, err);
	return r < 0 ? r : verb->run(&v, args, err);
}

static int
run_settle(const char *name, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = open_all(false, &v, err);

	return r < 0 ? r : volume_do_settle(&v, name, err);
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
	else if (args_parse(argc, argv, &args))
		status = run(&args, &err);
	else
		status = err_set(&err, EINVAL, "cloister-volume is started by cloister only");
	progress_end();
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_set(&err, EIO, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}
