/* init_become.c - the process that init starts, until it has executed its command. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/control.h"
#include "base/own.h"
#include "base/slice.h"
#include "confine/filter_own.h"
#include "confine/landlock.h"
#include "proc/init/init.h"

/* Longer than Linux's 1 to 3 ms: threads that work together switch less, which makes up for the cost of the walls.
 * Programs that did not ask for more go first, so the operator's own stay quick. */
#define SLICE_NS UINT64_C(5000000)
#define REPORT_FD 3                     /* the pipe that ends with the exec */
#define EXE_FD 4                        /* in one that is to exec init's own program */

/* A set-up without any bytes counts as run, also if the cell has no shell.  So does the agent of a
 * cell that consists of set-ups only. */
static bool
is_nothing(const struct init_spawn *spawn)
{
	struct stat st;

	return spawn->argv[0] == NULL || (spawn->handle == INIT_HANDLE_SETUP &&
	       stat(spawn->argv[0], &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0);
}

/* While the kernel loads a program, /proc shows the registers of its execve(2), and in them the pass.  So processes
 * that run already must not look into this one. */
static int
stand_apart(void)
{
	OWN(closep) int fd = -1;
	int r = landlock_make_apart(&fd, NULL);

	r = r == 0 ? landlock_enforce(fd, NULL) : r;
	errno = r < 0 ? -r : errno;
	return r;
}

/* Returns only with an error: *REPORT is where to write it. */
static void
become_process(struct init_spawn *spawn, int *report)
{
	const bool is_own = (spawn->flags & INIT_OWN) != 0;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	for (int i = 0; i < 3; i++)
		if (dup2(spawn->stdio[i], i) < 0)
			return;
	if (spawn->tty >= 0 && ioctl(spawn->tty, TIOCSCTTY, 0) < 0)
		return;
	/* Takes the place of init's own channel. */
	if (dup3(*report, REPORT_FD, O_CLOEXEC) < 0)
		return;
	*report = REPORT_FD;
	if (is_own && dup3(spawn->own_exe, EXE_FD, O_CLOEXEC) < 0)
		return;
	if (CONTROL_ON("fds") && syscall(SYS_close_range, is_own ? EXE_FD + 1u : REPORT_FD + 1u, INIT_LAST_FD, 0u) < 0)
		return;
	if (chdir(spawn->cwd) < 0)
		return;
	slice_ask(SLICE_NS);
	if (is_nothing(spawn))
		_exit(0);
	if (spawn->verify.n > 0 && !init_verify_trace() && write(*report, &(int){ INIT_UNTRACED }, sizeof(int)) < 0)
		return;
	for (uint32_t i = 0; CONTROL_ON("programs") && i < spawn->n_programs; i++)
		if (init_hold_programs(spawn, spawn->programs[i], is_own ? EXE_FD : -1) < 0)
			return;
	/* Last: init itself, and what is left to do here, is not restricted by it. */
	if ((spawn->calls.programs && stand_apart() < 0) || filter_own_load(spawn->filter) < 0)
		return;
	if (is_own)
		syscall(SYS_execveat, EXE_FD, "", spawn->argv, spawn->env, AT_EMPTY_PATH, spawn->pass[FILTER_OWN_PASS - 1]);
	else if (spawn->calls.programs)
		init_exec(spawn->argv, spawn->env, spawn->pass);
	else
		execvpe(spawn->argv[0], spawn->argv, spawn->env);
}

/* The other side of the terminal MASTER.  Old versions of gVisor know it by its path alone. */
int
init_open_slave(int master)
{
	int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	unsigned number;
	char path[32];

	if (fd >= 0 || errno != ENOTTY || ioctl(master, TIOCGPTN, &number) < 0)
		return fd;
	snprintf(path, sizeof(path), "/dev/pts/%u", number);
	return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int
init_open_terminal(struct init_spawn *spawn, int *ret_master)
{
	struct winsize size = { .ws_row = (unsigned short)spawn->rows,
	                        .ws_col = (unsigned short)spawn->columns };
	OWN(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	spawn->tty = init_open_slave(master);
	if (spawn->tty < 0)
		return -errno;
	(void)ioctl(master, TIOCSWINSZ, &size);
	for (int i = 0; i < 3; i++)
		if (spawn->stdio[i] < 0)
			spawn->stdio[i] = spawn->tty;
	*ret_master = TAKE_FD(master);
	return 0;
}

_Noreturn void
init_become(struct init_spawn *spawn, int report)
{
	int error;

	become_process(spawn, &report);
	error = errno != 0 ? errno : EINVAL;
	(void)!write(report, &error, sizeof(error));
	_exit(127);
}
