/* supervisor_spawn.c - starts a helper executable with exactly the descriptors that it is to have. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
#define FIRST 3                         /* a helper's first descriptor */
#define ASIDE 128                       /* beyond them */

static void
become(const struct spawn_how *how, int exe, char *const *envp, pid_t parent)
{
	int fds[SPAWN_FDS_MAX], null;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* The terminal's keys must not reach it. */
	setsid();
	exe = fcntl(exe, F_DUPFD_CLOEXEC, ASIDE);
	null = fcntl(open("/dev/null", O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC, ASIDE);
	for (size_t i = 0; i < how->n_fds; i++)
		fds[i] = how->fds[i] < 0 ? -1 : fcntl(how->fds[i], F_DUPFD_CLOEXEC, ASIDE);
	for (size_t i = 0; i < how->n_fds; i++)
		if (fds[i] < 0)
			close(FIRST + (int)i);
		else if (dup2(fds[i], FIRST + (int)i) < 0)
			return;
	if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    (how->silent && dup2(null, STDERR_FILENO) < 0) ||
	    syscall(SYS_close_range, FIRST + (unsigned)how->n_fds, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return;
	if (how->uid != 0 && (setgroups(0, NULL) < 0 || setresgid(how->uid, how->uid, how->uid) < 0 ||
	                      setresuid(how->uid, how->uid, how->uid) < 0))
		return;
	/* Set last: changing ids clears it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return;
	syscall(SYS_execveat, exe, "", how->argv, envp, AT_EMPTY_PATH);
}

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

/* The child of a vfork must not change the parent's memory. */
pid_t
supervisor_spawn(int libexec, const struct spawn_how *how, struct err *err)
{
	OWN(closep) int exe = openat(libexec, how->argv[0], O_PATH | O_CLOEXEC);
	char *const *envp = how->env != NULL ? how->env : environment();
	pid_t parent = getpid(), pid;

	if (exe < 0)
		return err_errno(err, "cannot find %s beside the other helpers", how->argv[0]);
	pid = vfork();
	if (pid == 0) {
		become(how, exe, envp, parent);
		_exit(127);
	}
	return pid >= 0 ? pid : err_errno(err, "cannot start %s", how->argv[0]);
}
