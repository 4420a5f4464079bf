/* spawn.c - see spawn.h. */
#include "base/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/own.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* ---- in the child of a vfork: it must not change this process's memory ---- */

void
spawn_reset_signal(int number)
{
	/* The kernel's own form of SIG_DFL: the C library refuses the signals that it uses itself. */
	static const unsigned long usual[4];

	(void)syscall(SYS_rt_sigaction, number, usual, NULL, NSIG / 8);
}

/* Without handlers, which would run in this process's memory. */
static void
spawn_set_signals(const struct spawn *how)
{
	struct sigaction now;
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		if ((how->flags & SPAWN_APART) != 0 ||
		    (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
			spawn_reset_signal(number);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves all out of the way first: one may be where another belongs. */
static int
spawn_place(const struct spawn *how, int *dir)
{
	int aside[SPAWN_FDS_MAX], beyond = STDERR_FILENO + 1;

	assert(how->n_fds <= SPAWN_FDS_MAX);
	for (size_t i = 0; i < how->n_fds; i++)
		if (how->fds[i].at >= beyond)
			beyond = how->fds[i].at + 1;
	if (*dir > 0 && (*dir = fcntl(*dir, F_DUPFD_CLOEXEC, beyond)) < 0)
		return -errno;
	for (size_t i = 0; i < how->n_fds; i++) {
		int fd = how->fds[i].fd, null = fd == SPAWN_NULL ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

		aside[i] = -1;
		if (fd == 0 || fd == -1)
			continue;
		aside[i] = fcntl(fd == SPAWN_NULL ? null : fd, F_DUPFD_CLOEXEC, beyond);
		if (aside[i] < 0)
			return -errno;
		closep(&null);
	}
	if ((how->flags & SPAWN_ONLY) != 0 &&
	    syscall(SYS_close_range, STDERR_FILENO + 1u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	for (size_t i = 0; i < how->n_fds; i++)
		if (aside[i] >= 0 && dup2(aside[i], how->fds[i].at) < 0)
			return -errno;
	return 0;
}

/* The C library's functions would change the ids of all threads of this process. */
static int
spawn_set_ids(uid_t id)
{
	return syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
	       syscall(SYS_setresuid, id, id, id) < 0 ? -errno : 0;
}

/* Returns a negative errno. */
static int
spawn_execute(const struct spawn *how, const char *path)
{
	char *const *env = how->env != NULL ? how->env : environ;
	int dir = how->dir, r = spawn_place(how, &dir);

	if (r == 0 && how->cwd != NULL && chdir(how->cwd) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if ((how->flags & SPAWN_COMMAND) != 0)
		execvpe(path, how->argv, env);
	else
		syscall(SYS_execveat, dir, path, how->argv, env, 0);
	return -errno;
}

static int
spawn_child(const struct spawn *how, const char *path, pid_t parent)
{
	int r = 0;

	spawn_set_signals(how);
	if ((how->flags & SPAWN_APART) != 0)
		(void)setsid();
	if ((how->flags & SPAWN_GROUP) != 0)
		(void)setpgid(0, 0);
	if (how->uid != 0)
		r = spawn_set_ids(how->uid);
	/* After the ids: changing them clears it. */
	if (r == 0 && (how->flags & SPAWN_DIES) != 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		r = -errno;
	if (r == 0 && (how->flags & SPAWN_DIES) != 0 && getppid() != parent)
		r = -ESRCH;
	return r < 0 ? r : spawn_execute(how, path);
}

/* ---- in the parent ---- */

static int
spawn_find(const struct spawn *how, char found[PATH_MAX], const char **ret_path, struct err *err)
{
	int r = 0;

	if (how->path == NULL)
		r = exe_find_helper(how->argv[0], found, err);
	assert(how->path == NULL || how->path[0] == '/' || how->dir > 0 ||
	       (how->flags & SPAWN_COMMAND) != 0);
	*ret_path = how->path != NULL ? how->path : found;
	return r;
}

static pid_t
spawn_fork(const struct spawn *how, const char *path, int *ret_error)
{
	volatile int failed = 0;
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = (how->flags & SPAWN_ASIDE) != 0 ? fork() : vfork();
	if (pid == 0) {
		failed = spawn_child(how, path, parent);
		_exit(127);
	}
	*ret_error = pid < 0 ? -errno : failed;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

pid_t
spawn_start(const struct spawn *how, int *ret_pidfd, struct err *err)
{
	char found[PATH_MAX];
	const char *path;
	int r = spawn_find(how, found, &path, err), fd = -1;
	pid_t pid;

	if (r < 0)
		return r;
	/* If it were ignored, nobody could wait for a child. */
	spawn_reset_signal(SIGCHLD);
	pid = spawn_fork(how, path, &r);
	if (r == 0 && ret_pidfd != NULL) {
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		r = fd < 0 ? -errno : 0;
	}
	if (r == 0) {
		if (ret_pidfd != NULL)
			*ret_pidfd = fd;
		return pid;
	}
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)spawn_await(pid, NULL);
	}
	errno = -r;
	return err_errno(err, "cannot run '%.200s'", path);
}

int
spawn_await(pid_t pid, struct err *err)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot wait for a program");
	return WIFEXITED(status) ? WEXITSTATUS(status) : SPAWN_KILLED + WTERMSIG(status);
}

int
spawn_run(const struct spawn *how, struct err *err)
{
	pid_t pid = spawn_start(how, NULL, err);

	return pid < 0 ? pid : spawn_await(pid, err);
}

int
spawn_become(const struct spawn *how, struct err *err)
{
	char found[PATH_MAX];
	const char *path;
	int r = spawn_find(how, found, &path, err);

	if (r < 0)
		return r;
	errno = -spawn_execute(how, path);
	return err_errno(err, "cannot run '%.200s'", path);
}

static bool
spawn_has_variable(char *const *list, const char *variable)
{
	size_t len = strcspn(variable, "=") + 1;

	for (; *list != NULL; list++)
		if (strncmp(*list, variable, len) == 0)
			return true;
	return false;
}

char **
spawn_env(char *const *add)
{
	size_t n = 0, n_add = 0;
	char **env;

	while (environ[n] != NULL)
		n++;
	while (add[n_add] != NULL)
		n_add++;
	env = calloc(n + n_add + 1, sizeof(*env));
	if (env == NULL)
		return NULL;
	memcpy(env, add, n_add * sizeof(*env));
	for (size_t i = 0; i < n; i++)
		if (!spawn_has_variable(add, environ[i]))
			env[n_add++] = environ[i];
	return env;
}
