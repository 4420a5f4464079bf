/* run_volumes.c - --volume-name: the volumes that a cell has. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/run.h"

/* Cuts ":SUFFIX" off TEXT if it ends so. */
static bool
cut(char *text, const char *suffix)
{
	size_t len = strlen(text), end = strlen(suffix);

	if (len <= end || strcmp(text + len - end, suffix) != 0)
		return false;
	text[len - end] = '\0';
	return true;
}

int
run_add_volume_name(struct run *run, const char *text, struct err *err)
{
	OWN(freep) char *name = strdup(text);
	struct run_volume *volume = &run->volumes[run->n_volumes];
	bool reads, writes;
	char *colon;
	size_t len;
	int r;

	if (name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (run->n_volumes == CELL_VOLUMES_MAX)
		return err_set(err, E2BIG, "there are more than %d volumes", CELL_VOLUMES_MAX);
	reads = cut(name, ":ro");
	writes = !reads && cut(name, ":rw");
	colon = strchr(name, ':');
	if (colon == NULL || colon[1] != '/')
		return err_set(err, EINVAL, "--volume-name '%s' is not NAME:PATH[:MODE], with an absolute PATH and a MODE of ro or rw",
		               text);
	*colon = '\0';
	r = volume_parse(name, volume->name, volume->label, err);
	r = r == 0 ? run_check_inside(colon + 1, err) : r;
	if (r == 0 && writes && volume->label[0] != '\0')
		r = err_set(err, EINVAL, "'%s' is a snapshot, which is read-only: remove :rw, or write to a clone of it (`cloister "
		            "volume clone %s NEW`)", name, name);
	if (r < 0)
		return r;
	volume->writes = !reads && volume->label[0] == '\0';
	volume->cell = strdup(colon + 1);
	if (volume->cell == NULL)
		return err_set(err, ENOMEM, "out of memory");
	len = strlen(volume->cell);
	if (len > 1 && volume->cell[len - 1] == '/')
		volume->cell[len - 1] = '\0';
	run->n_volumes++;
	return 0;
}

/* A writer's locks would be this process's own. */
static int
check_twice(const struct run *run, size_t number, struct err *err)
{
	const struct run_volume *volume = &run->volumes[number];

	for (size_t i = 0; i < number; i++)
		if (strcmp(run->volumes[i].name, volume->name) == 0 && (volume->writes || run->volumes[i].writes))
			return err_set(err, EEXIST, "the volume '%s' is mounted twice: a cell that writes to it has it at one path",
			               volume->name);
	return 0;
}

/* Positive: it has printed why it cannot. */
static int
settle(const char *name, struct err *err)
{
	char *const argv[] = { (char[]){ "cloister-volume" }, (char[]){ "--settle" }, (char *)(uintptr_t)name, NULL };
	int status = spawn_run(&(struct spawn){ .argv = argv, .flags = SPAWN_DIES }, err);

	return status > 0 ? CLI_FAILED : status;
}

static int
take(struct run *run, struct volumes *v, size_t number, struct err *err)
{
	OWN(volume_use_free) struct volume_use use = {0};
	OWN(freep) struct volume *known = calloc(1, sizeof(*known));
	const struct run_volume *volume = &run->volumes[number];
	int r = check_twice(run, number, err);

	if (known == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? volume_load(v, volume->name, known, err) : r;
	/* The changes of the cell before this one are not part of it yet. */
	if (r == 0 && volume_is_unsettled(v, known))
		r = settle(volume->name, err);
	if (r != 0)
		return r;
	r = volume_take(v, volume->name, volume->label, volume->writes, &use, err);
	if (r == -EAGAIN)
		return err_set(err, EAGAIN, "the changes of another cell are being made part of the volume '%s': try again",
		               volume->name);
	return r == 0 ? run_grant_volume(run, &use, volume->cell, err) : r;
}

int
run_finish_volumes(struct run *run, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = 0;

	if (run->n_volumes == 0)
		return 0;
	r = volumes_open(false, &v, err);
	for (size_t i = 0; r == 0 && i < run->n_volumes; i++)
		r = take(run, &v, i, err);
	if (r != 0)
		return r;
	/* It shares the locks, which end with its last copy: the supervisor's. */
	run->volumes_fd = fcntl(v.locks, F_DUPFD_CLOEXEC, CELL_FDS_END);
	return run->volumes_fd < 0 ? err_errno(err, "cannot hold the volumes") : 0;
}
