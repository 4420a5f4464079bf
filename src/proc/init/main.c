/* main.c - cloister-init: pid 1 of a cell.
 *
 * Puts the last restrictions on itself, so that everything it starts has them.  Starts the agent
 * and the commands of `exec`, reaps, and dies with the agent.  It knows and may do no more than the
 * agent, except that it talks to the supervisor: so it is not dumpable, and the agent cannot look
 * into it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/timing.h"
#include "cell/cell_spec.h"
#include "confine/filter.h"
#include "confine/filter_own.h"
#include "confine/landlock.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "proc/init/init.h"

#define BECOME_MS 5000                  /* how long a process that was stopped may take to exec its command */

struct process {
	pid_t pid;                      /* 0: free */
	uint32_t handle;
	/* Until it has executed its command: the pipe that ends with the exec, the terminal's
	 * master side or -1, and the time at which init gives up, or 0. */
	bool becomes, given_up;
	int report, master;
	int64_t deadline_ms;
	/* If its programs have hashes: whether it is traced, and has executed the first. */
	struct init_verify verify;
	bool untraced, has_executed;
};

static struct process processes[INIT_PROCESSES_MAX];
static int limit = -1;                  /* a timer: see set_limit() */
static bool by_stream;                  /* the channel is a byte stream: init_stream.c */
static int own_exe = -1;                /* init's own executable */
/* Of the process that is being started.  A pass is of use in that process and its children alone. */
static struct filter_own own_filter;
static uint64_t own_pass[FILTER_OWN_PASS];
static struct call_set told;            /* calls that are taken away, and of which the filter reports what it can */
static bool tells;

/* If the supervisor is gone, the channel ends and so does init; nothing else in the cell outlives pid 1. */
static void
send_or_exit(const struct buf *message, const int *fds, size_t n_fds)
{
	if ((by_stream ? init_stream_send(message, fds, n_fds) :
	     ipc_send(INIT_CHANNEL_FD, message, fds, n_fds, NULL)) < 0)
		_exit(125);
}

_Noreturn static void
die(const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	send_or_exit(&message, NULL, 0);
	_exit(125);
}

/* As the parent process chose it. */
static enum filter_profile
filter_of(char letter)
{
	static const enum filter_profile agents[] = { FILTER_NESTED, FILTER_NESTED_APART, FILTER_BUILD, FILTER_BUILD_ALONE,
	                                             FILTER_PROCESS };

	for (size_t i = 0; i < ARRAY_LEN(agents); i++)
		if (letter == (char)('0' + agents[i]))
			return agents[i];
	return FILTER_DEFAULT;
}

/* Init keeps no copy: once the supervisor's side is gone, the kernel refuses what the filter reports. */
static void
load_notifying(enum filter_profile filter, bool spares)
{
	OWN(buf_free) struct buf message = {0};
	struct err err = {0};
	struct rlimit files;
	int listener, r;

	/* The porter makes what is reported to it: what is taken away must not get there. */
	tells = filter != FILTER_PROCESS;
	filter_own_make(&told, CALL_ARCH_HERE, FILTER_OWN_TOLD, own_pass, &own_filter);
	if (filter_load_notifying(filter, tells ? &own_filter : NULL, &listener, &err) < 0)
		die(&err);
	ipc_begin(&message, INIT_LISTENER);
	r = ipc_send(INIT_CHANNEL_FD, &message, &listener, 1, NULL);
	/* First: an exit is reported, too, and would wait for an answer. */
	close(listener);
	if (r < 0)
		_exit(125);
	if (spares && getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= INIT_FILES_LEAST) {
		files.rlim_max -= INIT_FILES_SPARED;
		files.rlim_cur = files.rlim_cur < files.rlim_max ? files.rlim_cur : files.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &files) < 0)
			_exit(125);
	}
}

/* The calls that the environment names, as call_set_put() writes them, in hex. */
static void
take_calls(void)
{
	const char *hex = getenv(INIT_CALLS);
	unsigned char bytes[INIT_CALLS_LEN];
	struct buf b;

	buf_init_borrowed(&b, bytes, sizeof(bytes));
	if (hex != NULL && (strlen(hex) != 2 * sizeof(bytes) || !codec_unhex(hex, bytes, sizeof(bytes)) ||
	                    call_set_get(&b, &told) < 0))
		_exit(125);
}

static void
lock_down(enum filter_profile filter, const char *flags, bool has_landlock, bool has_parent)
{
	struct err err = {0};

	/* Set again: changing ids has cleared it. */
	if (has_parent && CONTROL_ON("pdeath") && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
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
	if (!CONTROL_ON("seccomp") || !CONTROL_ON("nnp"))
		return;
	if (strchr(flags, INIT_NOTIFIES) != NULL) {
		take_calls();
		load_notifying(filter, strchr(flags, INIT_SPARES_FILES) != NULL);
	} else if (filter_load(filter, &err) < 0)
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

/* The agent has ended, or does not run: so ends the cell.  A byte stream has yet to carry its output. */
static void
end(void)
{
	if (by_stream) {
		init_stream_end();
		return;
	}
	/* Its only thread: the filter reports the end of a process, not that of a thread, and that would wait. */
	syscall(SYS_exit, 0);
}

static void
report_spawned(uint32_t handle, pid_t pid, int error, int master)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SPAWNED);
	buf_put_u32(&message, handle);
	buf_put_u32(&message, (uint32_t)error);
	buf_put_u32(&message, error == 0 ? (uint32_t)pid : 0);
	send_or_exit(&message, &master, master >= 0 && error == 0 ? 1 : 0);
	if (error != 0 && handle == INIT_HANDLE_AGENT)
		end();
}

/* PATH is searched as in the agent's own environment. */
static const char *
path_of(char *const *env)
{
	for (; *env != NULL; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/bin:/bin";
}

/* PATH from the first folder on that may have the file NAME: each execution that is tried costs a report. */
static const char *
path_from(const char *path, const char *name)
{
	char file[PATH_MAX];

	while (strchr(name, '/') == NULL && path[0] == '/') {
		size_t len = strcspn(path, ":");

		if (path[len] == '\0' || snprintf(file, sizeof(file), "%.*s/%s", (int)len, path, name) >= (int)sizeof(file) ||
		    access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
			break;
		path += len + 1;
	}
	return path;
}

/* The pipe ends when the child has executed its command, or carries the reason why it cannot.  A
 * vfork is quicker, but waits for that: so it is used only for the first child.  The agent can stop
 * any later one, like everything in the cell.  A traced one stops at any signal. */
static int
fork_process(struct init_spawn *spawn, struct process *process)
{
	static bool has_begun;
	int ends[2], error;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	pid = has_begun || spawn->verify.n > 0 ? fork() : vfork();
	if (pid == 0)
		init_become(spawn, ends[1]);
	error = errno;
	if (spawn->handle == INIT_HANDLE_AGENT)
		timing_mark(TIMING_AGENT);
	has_begun = true;
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return error;
	}
	*process = (struct process){ .pid = pid, .handle = spawn->handle, .becomes = true, .report = ends[0],
	                             .master = -1, .verify = spawn->verify };
	return 0;
}

/* The process runs its command, or ERROR says why not. */
static void
settle(struct process *process, int error)
{
	process->becomes = false;
	report_spawned(process->handle, process->pid, error, process->master);
	closep(&process->report);
	closep(&process->master);
	if (error != 0)
		process->pid = 0;
}

/* The process has executed its command, or could not, or is dead. */
static void
take_report(struct process *process, bool is_dead)
{
	int error = 0;

	if (read(process->report, &error, sizeof(error)) != sizeof(error)) {
		error = process->given_up ? ETIMEDOUT : 0;
		process->has_executed = true;
	}
	if (error == INIT_UNTRACED) {
		process->untraced = true;
	} else if (error == 0 && process->verify.n > 0 && !is_dead) {
		if (process->untraced)
			settle(process, init_verify_untraced(&process->verify, process->pid));
	} else {
		settle(process, error);
	}
}

/* Something in the cell stops a process that has yet to execute its command.  Only then is its time limited: on
 * a busy machine, and while the cell is frozen, an exec takes as long as it takes. */
static void
go_on(struct process *process)
{
	if (process->deadline_ms == 0)
		process->deadline_ms = io_now_ms() + BECOME_MS;
	kill(process->pid, SIGCONT);
}

/* A process that was stopped before it executed its command is continued.  A traced one stops when it has. */
static void
take_stop(struct process *process, int status)
{
	struct pollfd report = { .fd = process->report, .events = POLLIN };
	int error;

	if (!process->becomes)
		return;
	if (process->verify.n == 0 || process->untraced) {
		go_on(process);
		return;
	}
	process->has_executed = process->has_executed || (poll(&report, 1, 0) == 1 && (report.revents & POLLIN) == 0);
	error = init_verify_stopped(&process->verify, process->pid, status, process->has_executed);
	if (error != INIT_VERIFY_MORE)
		settle(process, error);
}

static void
spawn_process(struct init_spawn *spawn)
{
	struct process *process = find_process(0);
	OWN(closep) int master = -1;
	int error = 0;

	if (process == NULL)
		error = EAGAIN;
	if ((spawn->flags & INIT_OWN) != 0 && (own_exe < 0 || !init_own_is(spawn->argv)))
		error = ENOSYS;
	if (error == 0 && (spawn->flags & INIT_TTY) != 0)
		error = -init_open_terminal(spawn, &master);
	if (error == 0 && setenv("PATH", path_from(path_of(spawn->env), spawn->argv[0] != NULL ? spawn->argv[0] : ""), 1) < 0)
		error = errno;
	if (error == 0)
		error = fork_process(spawn, process);
	closep(&spawn->tty);
	if (error != 0)
		report_spawned(spawn->handle, 0, error, -1);
	else
		process->master = TAKE_FD(master);
}

static void
free_programs(struct init_spawn *spawn)
{
	for (uint32_t i = 0; i < spawn->n_programs; i++)
		strv_free(spawn->programs[i]);
}

static int
take_programs(struct buf *b, struct init_spawn *spawn)
{
	uint32_t n;

	if (buf_get_u32(b, &n) < 0 || n > INIT_PROGRAM_LISTS_MAX)
		return -EBADMSG;
	for (; spawn->n_programs < n; spawn->n_programs++)
		if (buf_dup_strv(b, INIT_PROGRAMS_MAX, &spawn->programs[spawn->n_programs]) < 0)
			return -EBADMSG;
	return 0;
}

static int
take_spawn(struct ipc_message *message)
{
	OWN(strv_freep) char **argv = NULL;
	OWN(strv_freep) char **env = NULL;
	OWN(strv_freep) char **hashes = NULL;
	OWN(free_programs) struct init_spawn spawn = { .stdio = { -1, -1, -1 }, .tty = -1, .filter = &own_filter, .pass = own_pass, .own_exe = own_exe };
	struct buf *b = &message->body;

	if (buf_get_u32(b, &spawn.handle) < 0 || buf_get_u32(b, &spawn.flags) < 0 ||
	    buf_get_u32(b, &spawn.rows) < 0 || buf_get_u32(b, &spawn.columns) < 0 ||
	    buf_get_str(b, &spawn.cwd) < 0 || buf_dup_strv(b, CELL_ARGS_MAX, &argv) < 0 ||
	    buf_dup_strv(b, CELL_ARGS_MAX, &env) < 0 || buf_dup_strv(b, INIT_EXECS_MAX, &hashes) < 0 ||
	    call_set_get(b, &spawn.calls) < 0 || take_programs(b, &spawn) < 0 || buf_left(b) != 0 || !init_verify_take(&spawn.verify, hashes) ||
	    (argv[0] == NULL && spawn.handle != INIT_HANDLE_AGENT))
		return -EBADMSG;
	spawn.argv = argv;
	spawn.env = env;
	if (spawn.calls.programs && getrandom(own_pass, sizeof(own_pass), 0) != (ssize_t)sizeof(own_pass))
		return -EIO;
	filter_own_make(&spawn.calls, CALL_ARCH_HERE, tells && memcmp(&told, &spawn.calls, sizeof(told)) == 0 ?
	                FILTER_OWN_REST : FILTER_OWN_ALL, own_pass, &own_filter);
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
	/* As a terminal does: an interrupted shell waits for its command to end.  A killed one leaves it behind. */
	group = number == SIGINT || number == SIGQUIT || number == SIGKILL;
	for (size_t i = 0; i < ARRAY_LEN(processes); i++)
		if (processes[i].pid > 0 && processes[i].handle == handle)
			(void)(group && kill(-processes[i].pid, (int)number) == 0 ? 0 :
			       kill(processes[i].pid, (int)number));
	return 0;
}

/* Sets when the cell is over, whatever the supervisor does: it may be stopped, and its clock with it. */
static int
set_limit(uint64_t ms)
{
	const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(ms / 1000),
	                                             .tv_nsec = (long)(ms % 1000) * 1000000 + 1 } };

	return timerfd_settime(limit, 0, &at, NULL);
}

static int
take_limit(struct ipc_message *message)
{
	uint64_t ms;

	if (buf_get_u64(&message->body, &ms) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	return set_limit(ms);
}

pid_t
init_forget_execs(void)
{
	pid_t agent = 0;

	for (size_t i = 0; i < ARRAY_LEN(processes); i++) {
		struct process *p = &processes[i];

		if (p->pid == 0)
			continue;
		if (p->handle == INIT_HANDLE_AGENT && !p->becomes) {
			agent = p->pid;
			continue;
		}
		(void)kill(-p->pid, SIGKILL);
		(void)kill(p->pid, SIGKILL);
		closep(&p->report);
		closep(&p->master);
		p->pid = 0;
	}
	return agent;
}

int
init_take(struct ipc_message *message)
{
	return message->type == INIT_SPAWN ? take_spawn(message) :
	       message->type == INIT_SIGNAL ? take_signal(message) :
	       message->type == INIT_LIMIT ? take_limit(message) : -EBADMSG;
}

static void
take_message(void)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = by_stream ? init_stream_turn() : ipc_receive(INIT_CHANNEL_FD, &message, NULL);

	if (r == 0 && !by_stream)
		r = init_take(&message);
	if (r < 0)
		_exit(125);
}

static void
report_exited(struct process *process, int status)
{
	OWN(buf_free) struct buf message;

	if (process->handle == INIT_HANDLE_AGENT)
		timing_mark(TIMING_AGENT_ENDED);
	ipc_begin(&message, INIT_EXITED);
	buf_put_u32(&message, process->handle);
	buf_put_u32(&message, (uint32_t)status);
	if (by_stream)
		init_stream_exited(process->handle, &message);
	else
		send_or_exit(&message, NULL, 0);
	process->pid = 0;
	if (process->handle == INIT_HANDLE_AGENT)
		end();
}

/* Reaps dead processes.  Those that init started are reported, orphans are not. */
static void
reap(void)
{
	struct process *process;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		process = find_process(pid);
		if (process == NULL)
			continue;
		if (WIFSTOPPED(status)) {
			take_stop(process, status);
			continue;
		}
		while (process->becomes && process->pid == pid)
			take_report(process, true);
		if (process->pid == pid)
			report_exited(process, status);
	}
}

/* Kills processes that take too long; returns the time until the next one does, or -1. */
static int
give_up_late(void)
{
	int64_t now = io_now_ms(), next = -1;

	for (size_t i = 0; i < ARRAY_LEN(processes); i++) {
		struct process *p = &processes[i];

		if (p->pid == 0 || !p->becomes || p->given_up || p->deadline_ms == 0)
			continue;
		if (p->deadline_ms <= now) {
			p->given_up = true;
			kill(p->pid, SIGKILL);
		} else if (next < 0 || p->deadline_ms - now < next) {
			next = p->deadline_ms - now;
		}
	}
	return (int)next;
}

enum { WATCH_CHANNEL, WATCH_CHILDREN, WATCH_LIMIT, WATCHES };

/* Waits for one event, and handles it. */
static void
take_turn(int children)
{
	struct pollfd fds[WATCHES + INIT_PROCESSES_MAX] = {
		[WATCH_CHANNEL] = { .fd = by_stream ? init_stream_fd() : INIT_CHANNEL_FD, .events = POLLIN },
		[WATCH_CHILDREN] = { .fd = children, .events = POLLIN },
		[WATCH_LIMIT] = { .fd = limit, .events = POLLIN },
	};
	struct process *of[INIT_PROCESSES_MAX];
	struct signalfd_siginfo info;
	nfds_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(processes); i++) {
		if (processes[i].pid == 0 || !processes[i].becomes || processes[i].has_executed)
			continue;
		of[n] = &processes[i];
		fds[WATCHES + n++] = (struct pollfd){ .fd = processes[i].report, .events = POLLIN };
	}
	if (poll(fds, WATCHES + n, give_up_late()) < 0) {
		if (errno != EINTR)
			_exit(125);
		return;
	}
	for (nfds_t i = 0; i < n; i++)
		if (fds[WATCHES + i].revents != 0)
			take_report(of[i], false);
	if ((fds[WATCH_CHILDREN].revents & POLLIN) != 0) {
		while (read(children, &info, sizeof(info)) > 0)
			;
		reap();
	}
	/* Handle this first: it may bring another limit. */
	if ((fds[WATCH_CHANNEL].revents & (POLLIN | POLLHUP)) != 0)
		take_message();
	else if (fds[WATCH_LIMIT].revents != 0)
		_exit(0);
}

/* The executable lies outside the cell's root, where Landlock forbids to execute it. */
static void
keep_own_exe(bool has_landlock)
{
	OWN(closep) int exe = open("/proc/self/exe", O_PATH | O_CLOEXEC);

	own_exe = exe < 0 ? -1 : fcntl(exe, F_DUPFD_CLOEXEC, INIT_FORK_FD + 1);
	if (has_landlock && own_exe >= 0)
		landlock_allow_program(INIT_LANDLOCK_FD, own_exe);
}

/* Closes everything but the channel and what the flags name. */
static void
close_others(bool has_landlock, bool has_ssh, bool has_forker)
{
	const struct { unsigned fd; bool stays; } kept[] = { { INIT_SSH_FD, has_ssh }, { INIT_FORK_FD, has_forker } };
	unsigned first = has_landlock ? INIT_LANDLOCK_FD + 1 : INIT_LANDLOCK_FD;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (!kept[i].stays)
			continue;
		if (kept[i].fd > first)
			syscall(SYS_close_range, first, kept[i].fd - 1u, 0u);
		first = kept[i].fd + 1u;
	}
	syscall(SYS_close_range, first, INIT_LAST_FD, 0u);
}

/* An engine's process has another parent than the supervisor: its channel ends with the supervisor all the same. */
static void
enter_engines(char *const *argv, bool *ret_landlock)
{
	struct err err = {0};

	if (init_enter_engine(argv, ret_landlock, &err) < 0)
		die(&err);
}

int
main(int argc, char **argv)
{
	OWN(buf_free) struct buf ready = {0};
	bool has_landlock = argc > 3 && strchr(argv[3], INIT_HAS_LANDLOCK) != NULL;
	const bool in_container = argc > 3 && strchr(argv[3], INIT_IN_CONTAINER) != NULL;
	const bool has_ssh = argc > 3 && strchr(argv[3], INIT_HAS_SSH) != NULL;
	const bool has_forker = argc > 3 && strchr(argv[3], INIT_HAS_FORKER) != NULL;
	const bool by_engine = argc > 3 && strchr(argv[3], INIT_BY_ENGINE) != NULL;
	const bool is_timed = argc > 3 && strchr(argv[3], INIT_IS_TIMED) != NULL;
	struct err why = {0};
	sigset_t child;
	int children, prepared = 0;

	if (init_own_is(argv))
		return init_own_main(argc, argv);
	if (in_container)
		prepared = init_start_container(argv, &has_landlock, &why);
	if (is_timed && timing_attach(INIT_TIMING_FD, NULL) == 0)
		timing_mark(TIMING_INIT);
	by_stream = argc > 3 && strchr(argv[3], INIT_BY_STREAM) != NULL;
	if (by_engine) {
		init_await_engine(argv);
		enter_engines(argv, &has_landlock);
	}
	if (CONTROL_ON("fds"))
		close_others(has_landlock, has_ssh, has_forker);
	if (argc < 4 || fcntl(INIT_CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    (has_ssh && fcntl(INIT_SSH_FD, F_SETFD, FD_CLOEXEC) < 0) ||
	    (has_forker && fcntl(INIT_FORK_FD, F_SETFD, FD_CLOEXEC) < 0)) {
		fprintf(stderr, "cloister-init is started by cloister-supervisor only\n");
		return 125;
	}
	if (prepared < 0)
		die(&why);
	keep_own_exe(has_landlock);
	lock_down(filter_of(argv[1][0]), argv[3], has_landlock, !by_engine);
	timing_mark(TIMING_CONFINED);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	/* Linux keeps it from pid 1 anyway, gVisor does not: a process that leaves its input unread would end the cell. */
	signal(SIGPIPE, SIG_IGN);
	children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	limit = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (children < 0 || limit < 0 || set_limit(strtoull(argv[2], NULL, 10)) < 0) {
		(void)err_errno(&why, "cannot watch over the cell's processes and its time");
		die(&why);
	}
	ipc_begin(&ready, INIT_READY);
	send_or_exit(&ready, NULL, 0);
	if (by_stream && init_stream_open(has_ssh ? INIT_SSH_FD : -1) < 0)
		return 125;
	for (;;)
		take_turn(children);
}
