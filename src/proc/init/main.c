/* main.c - cloister-init: pid 1 of a cell.
 *
 * Puts the last restrictions on itself, so that everything it starts has them,
 * starts the agent and what `exec` asks for, reaps, and dies with the agent.
 * It knows nothing and may do nothing that the agent may not, except to speak
 * to the supervisor: so it is not dumpable, and the agent cannot look into it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/filter.h"
#include "boundary/namespace/landlock.h"
#include "cell/cell_spec.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"

#define SLICE_NS UINT64_C(5000000)

struct process {
	pid_t pid;                      /* 0: free */
	uint32_t handle;
};

static struct process processes[INIT_PROCESSES_MAX];

struct spawn {
	uint32_t handle, flags, rows, columns;
	const char *cwd;
	char **argv, **env;
	int stdio[3];
	int tty;                        /* the slave side, or -1 */
};

_Noreturn static void
die(const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)ipc_send(INIT_CHANNEL_FD, &message, NULL, 0, NULL);
	_exit(125);
}

/* If the supervisor is gone, the channel ends and so does init; nothing else in
 * the cell outlives pid 1. */
static void
send_or_exit(const struct buf *message, const int *fds, size_t n_fds)
{
	if (ipc_send(INIT_CHANNEL_FD, message, fds, n_fds, NULL) < 0)
		_exit(125);
}

static void
lock_down(enum filter_profile filter, bool has_landlock)
{
	struct err err = {0};

	/* Asked for again: changing ids has cleared it. */
	if (CONTROL_ON("pdeath") && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
		(void)err_errno(&err, "cannot tie the cell to its supervisor");
		die(&err);
	}
	if ((CONTROL_ON("dumpable") && prctl(PR_SET_DUMPABLE, 0) < 0) ||
	    (CONTROL_ON("nnp") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)) {
		(void)err_errno(&err, "cannot restrict the cell's init");
		die(&err);
	}
	if (has_landlock && CONTROL_ON("nnp") && landlock_enforce(INIT_LANDLOCK_FD, &err) < 0)
		die(&err);
	close(INIT_LANDLOCK_FD);
	if (CONTROL_ON("seccomp") && CONTROL_ON("nnp") && filter_load(filter, &err) < 0)
		die(&err);
}

static struct process *
find_process(pid_t pid)
{
	for (size_t i = 0; i < ARRAY_LEN(processes); i++)
		if (processes[i].pid == pid)
			return &processes[i];
	return NULL;
}

/* Slices longer than the 1 to 3 ms that Linux gives: threads that work together switch less,
 * which wins back what the walls cost, and whoever did not ask for more goes first, so the
 * operator's own programs stay quick.  Before Linux 6.12 nothing comes of it.  An operator
 * who chose another policy for the whole cell (chrt(1)) has his way. */
static void
ask_for_long_slices(void)
{
	/* The first version of the kernel's struct sched_attr, which each later one takes. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {0};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 ||
	    attr.policy != SCHED_OTHER)
		return;
	attr.runtime = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* Runs in the vfork child: nothing here may touch what the parent still uses. */
static void
become_process(struct spawn *spawn)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	for (int i = 0; i < 3; i++)
		if (dup2(spawn->stdio[i], i) < 0)
			return;
	if (spawn->tty >= 0 && ioctl(spawn->tty, TIOCSCTTY, 0) < 0)
		return;
	if (CONTROL_ON("fds") && syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		return;
	if (chdir(spawn->cwd) < 0)
		return;
	ask_for_long_slices();
	execvpe(spawn->argv[0], spawn->argv, spawn->env);
}

static int
open_terminal(struct spawn *spawn, int *ret_master)
{
	struct winsize size = { .ws_row = (unsigned short)spawn->rows,
	                        .ws_col = (unsigned short)spawn->columns };
	OWN(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	spawn->tty = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (spawn->tty < 0)
		return -errno;
	(void)ioctl(master, TIOCSWINSZ, &size);
	for (int i = 0; i < 3; i++)
		if (spawn->stdio[i] < 0)
			spawn->stdio[i] = spawn->tty;
	*ret_master = TAKE_FD(master);
	return 0;
}

static void
report_spawned(const struct spawn *spawn, pid_t pid, int error, int master)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SPAWNED);
	buf_put_u32(&message, spawn->handle);
	buf_put_u32(&message, (uint32_t)error);
	buf_put_u32(&message, (uint32_t)pid);
	send_or_exit(&message, &master, master >= 0 && error == 0 ? 1 : 0);
}

/* PATH is searched as the agent's own environment says. */
static const char *
path_of(char *const *env)
{
	for (; *env != NULL; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/bin:/bin";
}

/* The pid, or a negative errno of whichever step failed, exec included: the child
 * shares this memory until it has become something else. */
static pid_t
vfork_process(struct spawn *spawn)
{
	volatile int error = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		become_process(spawn);
		error = errno != 0 ? errno : EINVAL;
		_exit(127);
	}
	if (pid > 0 && error != 0) {
		waitpid(pid, NULL, 0);
		return -error;
	}
	return pid < 0 ? -errno : pid;
}

static void
spawn_process(struct spawn *spawn)
{
	struct process *slot = find_process(0);
	OWN(closep) int master = -1;
	int error = 0;
	pid_t pid = 0;

	if (slot == NULL)
		error = EAGAIN;
	if (error == 0 && (spawn->flags & INIT_TTY) != 0)
		error = -open_terminal(spawn, &master);
	if (error == 0 && setenv("PATH", path_of(spawn->env), 1) < 0)
		error = errno;
	if (error == 0) {
		pid = vfork_process(spawn);
		error = pid < 0 ? -pid : 0;
	}
	if (error == 0) {
		slot->pid = pid;
		slot->handle = spawn->handle;
	}
	report_spawned(spawn, error == 0 ? pid : 0, error, master);
	closep(&spawn->tty);
	if (error != 0 && spawn->handle == INIT_HANDLE_AGENT)
		_exit(0);
}

static int
take_spawn(struct ipc_message *message)
{
	OWN(strv_freep) char **argv = NULL;
	OWN(strv_freep) char **env = NULL;
	struct spawn spawn = { .stdio = { -1, -1, -1 }, .tty = -1 };
	struct buf *b = &message->body;

	if (buf_get_u32(b, &spawn.handle) < 0 || buf_get_u32(b, &spawn.flags) < 0 ||
	    buf_get_u32(b, &spawn.rows) < 0 || buf_get_u32(b, &spawn.columns) < 0 ||
	    buf_get_str(b, &spawn.cwd) < 0 || buf_dup_strv(b, CELL_ARGS_MAX, &argv) < 0 ||
	    buf_dup_strv(b, CELL_ARGS_MAX, &env) < 0 || buf_left(b) != 0 || argv[0] == NULL)
		return -EBADMSG;
	spawn.argv = argv;
	spawn.env = env;
	if ((spawn.flags & INIT_TTY) == 0 && message->n_fds == 3)
		memcpy(spawn.stdio, message->fds, sizeof(spawn.stdio));
	else if ((spawn.flags & INIT_TTY) != 0 && message->n_fds <= 1)
		spawn.stdio[2] = message->fds[0];
	else
		return -EBADMSG;
	spawn_process(&spawn);
	return 0;
}

static int
take_signal(struct ipc_message *message)
{
	uint32_t handle, number;
	bool group;

	if (buf_get_u32(&message->body, &handle) < 0 ||
	    buf_get_u32(&message->body, &number) < 0 || number == 0 || number >= NSIG)
		return -EBADMSG;
	/* As a terminal does: a shell that is interrupted waits for its command to end. */
	group = number == SIGINT || number == SIGQUIT;
	for (size_t i = 0; i < ARRAY_LEN(processes); i++)
		if (processes[i].pid > 0 && processes[i].handle == handle)
			kill(group ? -processes[i].pid : processes[i].pid, (int)number);
	return 0;
}

static void
take_message(void)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(INIT_CHANNEL_FD, &message, NULL);

	if (r == 0 && message.type == INIT_SPAWN)
		r = take_spawn(&message);
	else if (r == 0 && message.type == INIT_SIGNAL)
		r = take_signal(&message);
	else
		r = -EBADMSG;
	if (r < 0)
		_exit(125);
}

/* Reap whatever died: what was started here is reported, orphans are not. */
static void
reap(void)
{
	struct process *process;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		OWN(buf_free) struct buf message;

		process = find_process(pid);
		if (process == NULL)
			continue;
		ipc_begin(&message, INIT_EXITED);
		buf_put_u32(&message, process->handle);
		buf_put_u32(&message, (uint32_t)status);
		send_or_exit(&message, NULL, 0);
		if (process->handle == INIT_HANDLE_AGENT)
			_exit(0);
		process->pid = 0;
	}
}

int
main(int argc, char **argv)
{
	struct signalfd_siginfo info;
	struct pollfd fds[2];
	OWN(buf_free) struct buf ready = {0};
	sigset_t child;

	if (CONTROL_ON("fds"))
		syscall(SYS_close_range, argc > 2 ? INIT_LANDLOCK_FD + 1u : INIT_LANDLOCK_FD + 0u, ~0u, 0u);
	if (argc < 2 || fcntl(INIT_CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "cloister-init is started by cloister-supervisor only\n");
		return 125;
	}
	lock_down(argv[1][0] == '0' + FILTER_NESTED_APART ? FILTER_NESTED_APART :
	          argv[1][0] == '0' + FILTER_NESTED ? FILTER_NESTED : FILTER_DEFAULT, argc > 2);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	fds[0] = (struct pollfd){ .fd = INIT_CHANNEL_FD, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK),
	                          .events = POLLIN };
	ipc_begin(&ready, INIT_READY);
	send_or_exit(&ready, NULL, 0);
	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			if (errno != EINTR)
				return 125;
			continue;
		}
		if ((fds[1].revents & POLLIN) != 0) {
			while (read(fds[1].fd, &info, sizeof(info)) > 0)
				;
			reap();
		}
		if ((fds[0].revents & (POLLIN | POLLHUP)) != 0)
			take_message();
	}
}
