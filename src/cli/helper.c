/* helper.c - finds the programs that cloister becomes or starts. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/own.h"
#include "cli/cli.h"

#define CLI_PLACED_MAX 8
#define CLI_ASIDE 16                    /* above all of AT */

int
cli_place(const int *fds, const int *at, size_t n, struct err *err)
{
	int aside[CLI_PLACED_MAX];

	assert(n <= CLI_PLACED_MAX);
	/* Move all out of the way first: one may be where another belongs. */
	for (size_t i = 0; i < n; i++) {
		aside[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, CLI_ASIDE);
		if (fds[i] >= 0 && aside[i] < 0)
			return err_errno(err, "cannot pass on a file descriptor");
	}
	for (size_t i = 0; i < n; i++)
		if (aside[i] >= 0 && dup2(aside[i], at[i]) < 0)
			return err_errno(err, "cannot pass on a file descriptor");
	return 0;
}

/* They are in libexec/ beside cloister where it was built, and in ../libexec/cloister where it is
 * installed. */
static const char *const places[] = { "libexec", "../libexec/cloister" };

int
cli_become_with(const char *helper, char *const *argv, char *const *env, struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 64];
	int r = exe_folder(dir, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", dir, places[i], helper);
		execve(path, argv, env);
		if (errno != ENOENT && errno != ENOTDIR)
			break;
	}
	return err_errno(err, "cannot run '%s'", path);
}

int
cli_become(const char *helper, char *const *env, struct err *err)
{
	char name[64];
	char *const argv[] = { name, NULL };

	snprintf(name, sizeof(name), "%s", helper);
	return cli_become_with(helper, argv, env, err);
}

/* No fork(): nothing needs to be copied from a process that only waits from here on. */
int
cli_start(const char *helper, int fd, int at, pid_t *ret_pid, struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 64], name[64];
	char *const argv[] = { name, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r = exe_folder(dir, err), failed = ENOENT;

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%s", helper);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_adddup2(&actions, fd, at);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
	for (size_t i = 0; i < ARRAY_LEN(places) && (failed == ENOENT || failed == ENOTDIR); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", dir, places[i], helper);
		failed = posix_spawn(ret_pid, path, &actions, &attr, argv, environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	errno = failed;
	return failed == 0 ? 0 : err_errno(err, "cannot run '%s'", path);
}

int
cli_await_vault(pid_t pid, struct err *err)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot wait for cloister-vault");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		exit(CLI_FAILED);
	return 0;
}
