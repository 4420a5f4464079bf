/* supervisor_spawn.c - starts a helper executable with exactly the descriptors that it is to have. */
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "proc/supervisor/supervisor.h"

#define FIRST 3                         /* a helper's first descriptor */

_Static_assert(FIRST + SUPERVISOR_FDS_MAX <= SPAWN_FDS_MAX, "a helper has room for its descriptors");

/* Empty, except in the mutant build: the checks that are switched off. */
static char **
environment(void)
{
	static char *env[2];

#ifdef CLOISTER_MUTANT
	if (env[0] == NULL && getenv("CLOISTER_OFF") != NULL)
		env[0] = str_format("CLOISTER_OFF=%s", getenv("CLOISTER_OFF"));
#endif
	return env;
}

/* The terminal's keys must not reach it. */
pid_t
supervisor_spawn(int libexec, const struct spawn_how *how, struct err *err)
{
	struct spawn_fd fds[SPAWN_FDS_MAX] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		{ how->silent ? SPAWN_NULL : -1, STDERR_FILENO } };

	for (size_t i = 0; i < how->n_fds; i++)
		fds[FIRST + i] = (struct spawn_fd){ how->fds[i], FIRST + (int)i };
	return spawn_start(&(struct spawn){ .argv = how->argv, .path = how->argv[0], .dir = libexec,
		.env = how->env != NULL ? how->env : environment(), .fds = fds, .n_fds = FIRST + how->n_fds,
		.uid = how->uid, .flags = SPAWN_APART | SPAWN_DIES | SPAWN_ONLY | (how->aside ? SPAWN_ASIDE : 0) },
		NULL, err);
}
