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

_Static_assert(POLICY_VOLUMES_MAX == CELL_VOLUMES_MAX && POLICY_VOLUME_NAME_MAX == VOLUME_NAME_MAX, "they are the same volumes");

int
run_add_volume_name(struct run *run, const char *text, struct err *err)
{
	struct policy_volume *volume = &run->volumes.at[run->volumes.n];
	int r;

	if (run->volumes.n == POLICY_VOLUMES_MAX)
		return err_set(err, E2BIG, "there are more than %d volumes", POLICY_VOLUMES_MAX);
	r = policy_volume_parse(text, volume, err);
	r = r < 0 ? err_wrap(err, "--volume-name") : run_check_inside(volume->path, err);
	if (r == 0)
		run->volumes.n++;
	return r;
}

static bool
is_given(const struct run *run, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(run->volumes.at[i].name, name) == 0)
			return true;
	return false;
}

int
run_take_volumes(struct run *run, const struct policy_volumes *volumes, struct err *err)
{
	const size_t given = run->volumes.n;

	/* Like a state: a stranger's policy must not choose which files its agent gets and changes. */
	if (volumes->n > 0 && run->policy_found && !run->policy_accepted)
		return err_set(err, EPERM, "the policy that was found gives the cell the volume '%s', but it was not named: read it, "
		               "then name it with -p; or use --volume-name, and ignore it with --no-policy", volumes->at[0].name);
	for (size_t i = 0; i < volumes->n; i++) {
		const struct policy_volume *from = &volumes->at[i];
		int r = run_check_inside(from->path, err);

		if (r < 0)
			return err_wrap(err, "the policy's volume '%s'", from->name);
		if (is_given(run, given, from->name))
			continue;
		if (run->volumes.n == POLICY_VOLUMES_MAX)
			return err_set(err, E2BIG, "--volume-name and the policy give more than %d volumes", POLICY_VOLUMES_MAX);
		run->volumes.at[run->volumes.n++] = *from;
	}
	return 0;
}

/* A writer's locks would be this process's own. */
static int
check_twice(const struct run *run, size_t number, struct err *err)
{
	const struct policy_volume *volume = &run->volumes.at[number];

	for (size_t i = 0; i < number; i++)
		if (strcmp(run->volumes.at[i].name, volume->name) == 0 && (volume->writes || run->volumes.at[i].writes))
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
	const struct policy_volume *volume = &run->volumes.at[number];
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
	r = r == 0 ? run_grant_volume(run, &use, volume->path, NULL, err) : r;
	return r == 0 && run->fills != NULL && number == 0 ? run_grant_settings(run, v, &use, run->fills, volume->path, err) : r;
}

int
run_finish_volumes(struct run *run, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = 0;

	if (run->volumes.n == 0 && run->caches.n == 0)
		return 0;
	r = volumes_open(false, &v, err);
	if (r == -ENOENT && run->volumes.n == 0)
		return err_set(err, ENOENT, "there is no cache '%s': `cloister cache fill %s --kind KIND -- CMD` makes it",
		               run->caches.at[0].name, run->caches.at[0].name);
	for (size_t i = 0; r == 0 && i < run->volumes.n; i++)
		r = take(run, &v, i, err);
	r = r == 0 ? run_grant_caches(run, &v, err) : r;
	if (r != 0)
		return r;
	/* It shares the locks, which end with its last copy: the supervisor's. */
	run->volumes_fd = fcntl(v.locks, F_DUPFD_CLOEXEC, CELL_FDS_END);
	return run->volumes_fd < 0 ? err_errno(err, "cannot hold the volumes") : 0;
}
