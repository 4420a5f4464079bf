/* dispatch_spawn.c - starts the programs that do the work.
 *
 * Always a new program, never a fork that continues: the driver may have threads, and connections
 * whose end somebody waits for. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "dispatch/dispatch_parts.h"

int
dispatch_spawn(const char *path, char *const *argv, const int fds[DISPATCH_SPAWN_FDS], struct err *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	pid_t pid;
	int pidfd, r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	for (int i = 0; i < DISPATCH_SPAWN_FDS; i++)
		if (fds[i] >= 0)
			posix_spawn_file_actions_adddup2(&actions, fds[i], i);
		else if (i <= STDERR_FILENO)
			posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addchdir_np(&actions, "/");
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	/* Signals from the terminal must not reach it. */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
	                         POSIX_SPAWN_SETSID);
	errno = posix_spawn(&pid, path, &actions, &attr, argv, environ);
	r = errno == 0 ? 0 : err_errno(err, "cannot start '%s'", path);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	if (r < 0)
		return r;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pidfd < 0 ? err_errno(err, "cannot watch '%s'", path) : pidfd;
}

/* The program is cloister's own, in libexec. */
int
dispatch_spawn_helper(char *const *argv, const int fds[DISPATCH_SPAWN_FDS], struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 32];
	int r = exe_folder(dir, err);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/%s", dir, argv[0]);
	return dispatch_spawn(path, argv, fds, err);
}

int
dispatch_prune_start(uint64_t older_ms, struct err *err)
{
	char older[48];

	snprintf(older, sizeof(older), "--older=%llums", (unsigned long long)older_ms);
	return dispatch_spawn_helper((char *[]){ (char[]){ "cloister-dispatch" },
		(char[]){ "dispatches" }, older, (char[]){ "--" }, (char[]){ "prune" }, NULL },
		(const int[]){ -1, -1, -1, -1 }, err);
}
