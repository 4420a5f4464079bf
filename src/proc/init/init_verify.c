/* init_verify.c - compares the programs that a process executes with their hashes.
 *
 * The process is traced.  The kernel stops it when it has executed a program, before the first
 * instruction of that.  From then on nobody can write to the program's file, and /proc/PID/exe is that
 * file, whatever has its name by now.  So these are the bytes that run. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/init/init.h"

#define PROGRAM_MAX (1ull << 30)

bool
init_verify_take(struct init_verify *v, char *const *names)
{
	*v = (struct init_verify){0};
	for (; *names != NULL; names++)
		if (v->n == INIT_EXECS_MAX || !hash_parse_name(*names, v->hashes[v->n++]))
			return false;
	return true;
}

bool
init_verify_trace(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

/* Compares the program that PID executes with hashes FIRST to LAST; 0, or an errno.  ESRCH: it has none any more. */
static int
compare(const struct init_verify *v, pid_t pid, unsigned first, unsigned last)
{
	unsigned char hash[HASH_LEN];
	OWN(closep) int fd = -1;
	uint64_t size;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ENOENT ? ESRCH : EIO;
	if (hash_fd(fd, PROGRAM_MAX, hash, &size, NULL) < 0)
		return EIO;
	for (unsigned i = first; i <= last; i++)
		if (memcmp(hash, v->hashes[i], HASH_LEN) == 0)
			return 0;
	return EUCLEAN;
}

int
init_verify_untraced(const struct init_verify *v, pid_t pid)
{
	int error = compare(v, pid, 0, v->n - 1);

	/* It may have ended already. */
	if (error == ESRCH)
		return 0;
	if (error != 0)
		kill(pid, SIGKILL);
	return error;
}

/* Signals that a process gets before it has executed its program take effect, except those that would stop it. */
static int
pass_on(int signal)
{
	return signal == SIGTRAP || signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU ? 0 :
	       signal;
}

int
init_verify_stopped(struct init_verify *v, pid_t pid, int status, bool has_executed)
{
	/* The first time it is a plain signal, which others can send too. */
	const bool at_exec = v->done == 0 ? has_executed && WSTOPSIG(status) == SIGTRAP :
	                     status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
	int error = at_exec ? compare(v, pid, v->done, v->done) : 0;

	if (error != 0) {
		kill(pid, SIGKILL);
		return error;
	}
	if (at_exec && ++v->done == v->n) {
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
		return 0;
	}
	if (at_exec)
		ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC);
	ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)(at_exec ? 0 : pass_on(WSTOPSIG(status))));
	return INIT_VERIFY_MORE;
}
