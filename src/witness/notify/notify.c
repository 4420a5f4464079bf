/* notify.c - the source of acts that works without rights; see notify.h. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/slice.h"
#include "confine/filter.h"
#include "confine/privileges.h"
#include "ipc/ipc.h"

#define ANSWERER_LISTENER_FD 3
#define ANSWERER_PAIR_FD 4
#define FDS_SPARE (64 + NOTIFY_PENDING_MAX)     /* besides those of processes */
#define SLICE_NS UINT64_C(100000)       /* the least that Linux grants */

uint64_t
notify_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void
notify_take(struct notify *n, struct act *act)
{
	n->own.take(n->own.arg, act);
}

static void
lose(struct notify *n, enum act_kind kind)
{
	struct act act = { .kind = ACT_LOST, .time_ns = notify_now_ns(), .lost = kind, .n_lost = 1 };

	notify_take(n, &act);
}

/* ---- calls ---- */

/* The processor time of a process, as clock_getcpuclockid(3) asks for it. */
static uint64_t
cpu_of(pid_t host)
{
	struct timespec used;

	if (clock_gettime((clockid_t)(~(unsigned)host << 3 | 2), &used) < 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void
look_exit(struct notify *n, const struct notify_call *call, const struct notify_proc *p)
{
	struct act *act = &n->seen.act;

	*act = (struct act){ .kind = ACT_EXIT, .time_ns = notify_now_ns(), .pid = p->pid, .parent = p->parent,
	                     .host_pid = p->host, .status = (int)(call->data.args[0] & 0xff) };
	act->ran_ns = p->began_ns == 0 ? 0 : act->time_ns - p->began_ns;
	act->cpu_ns = cpu_of(p->host);
}

static void
fail(const struct notify *n)
{
	n->own.failed(n->own.arg, "the process that answers the filter's notifications is gone");
}

/* If the answerer is gone, calls_ready() notices. */
static void
answer(const struct notify *n, uint64_t id)
{
	const struct notify_looked looked = { id };

	(void)!send(n->pair, &looked, sizeof(looked), MSG_NOSIGNAL);
}

/* Init makes no acts, unless it is taken over: it is cloister's own, and makes no call that the filter refuses.  Nor
 * does its child, until it executes its command. */
static bool
is_own(const struct notify *n, const struct notify_call *call, const struct notify_proc *p)
{
	struct stat st;
	char path[48];

	if (p->pid == 1)
		return call->error == 0;
	if (p->parent != 1 || call->data.nr != SYS_ptrace)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)p->host);
	return stat(path, &st) == 0 && st.st_dev == n->init_dev && st.st_ino == n->init_ino;
}

enum outcome { NOTHING, REPORT, PEND_EXEC, PEND_CONNECT, END };

static enum outcome
look(struct notify *n, const struct notify_call *call, struct notify_proc *p)
{
	if (is_own(n, call, p))
		return NOTHING;
	if (call->data.nr == SYS_exit_group) {
		look_exit(n, call, p);
		return END;
	}
	if (!notify_look(n, call, p))
		return NOTHING;
	n->seen.act.unknown = n->doubtful;
	if (n->seen.act.kind == ACT_EXEC)
		return PEND_EXEC;
	if (n->seen.act.kind == ACT_NET && n->seen.act.net == ACT_CONNECT)
		return PEND_CONNECT;
	return REPORT;
}

static void
take_unconfirmed(struct notify *n)
{
	close_fd(&n->seen.socket);
	notify_take(n, &n->seen.act);
}

/* The call goes on, or not, while its act is reported. */
static void
report(struct notify *n, const struct notify_call *call, struct notify_proc *p, enum outcome outcome)
{
	if (outcome == PEND_EXEC || outcome == PEND_CONNECT) {
		if (p->died.fd < 0)
			take_unconfirmed(n);
		else
			notify_pend(n, p, call->tid);
		return;
	}
	if (outcome == END && p->died.fd >= 0) {
		notify_settle_gone(n, p);
		notify_drop_proc(n, p);
	}
	if (outcome != NOTHING)
		notify_take(n, &n->seen.act);
}

static bool
is_valid(const struct notify *n, uint64_t id)
{
	return ioctl(n->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static void
take_call(struct notify *n, const struct notify_call *call)
{
	struct notify_proc spare = { .died.fd = -1 }, *p = &spare;
	enum outcome outcome = NOTHING;
	int r = notify_find_proc(n, call->tid, call->data.nr == SYS_exit_group, &p, &spare);

	n->doubtful = false;
	if (r == 0) {
		if (p != &spare)
			notify_settle(n, p, call->tid);
		outcome = look(n, call, p);
	}
	/* The caller was killed or interrupted: it has done nothing, and its number may be another's. */
	if (!is_valid(n, call->id)) {
		answer(n, call->id);
		notify_report_settled(n);
		return;
	}
	if (outcome == PEND_CONNECT && n->seen.act.local != 0 && n->own.connects != NULL) {
		n->own.connects(n->own.arg, n->seen.act.pid, n->seen.act.local);
		n->seen.act.told = true;
	}
	answer(n, call->id);
	notify_report_settled(n);
	report(n, call, p, outcome);
	if (p == &spare && r == 0 && outcome != END && outcome != NOTHING)
		lose(n, ACT_EXIT);
	if (r < 0)
		lose(n, ACT_KINDS);
}

static void
go_on(void *arg)
{
	struct notify *n = arg;

	(void)loop_watch(n->loop, &n->calls, EPOLLIN, NULL);
}

/* The next call waits if the witness has worked too much. */
static void
take_rest(struct notify *n)
{
	uint64_t ms = notify_budget_spend(&n->budget);

	if (ms == 0)
		return;
	loop_unwatch(n->loop, &n->calls);
	loop_set_timer(n->loop, &n->pause, ms);
}

static void
calls_ready(void *arg, uint32_t events)
{
	struct notify *n = arg;
	struct notify_call call;
	ssize_t got = recv(n->pair, &call, sizeof(call), MSG_DONTWAIT);
	int status;

	(void)events;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == sizeof(call)) {
		take_call(n, &call);
		take_rest(n);
		return;
	}
	loop_unwatch(n->loop, &n->calls);
	/* If it was killed, the kernel refuses calls from now on. */
	close_fd(&n->listener);
	if (waitpid(n->answerer, &status, 0) == n->answerer && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		fail(n);
	n->answerer = 0;
}

/* ---- life ---- */

static int
notify_able(struct err *err)
{
	struct seccomp_notif_sizes sizes;
	const uint32_t action = SECCOMP_RET_USER_NOTIF;

	/* Later than all of the rest: Linux 5.9. */
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0 ||
	    (syscall(SYS_close_range, ~0u, 0u, 0u) < 0 && errno == ENOSYS))
		return err_set(err, ENOTSUP, "this kernel's filters cannot notify: it needs Linux 5.9");
	if (sizes.seccomp_notif > sizeof(struct seccomp_notif) || sizes.seccomp_notif_resp > sizeof(struct seccomp_notif_resp))
		return err_set(err, ENOTSUP, "this kernel's notifications are larger than this version of cloister knows");
	return 0;
}

/* The answerer outlives the reader: if that dies, the cell goes on until the supervisor decides. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#endif
#define SYNC_WAKE_UP UINT64_C(1)        /* of Linux 6.6: caller and answerer take turns on one processor */

/* The first message on the pair: enum filter_profile, as its type; the calls that a policy takes away (call_set_put); fd:
 * the listener. */
static int
take_listener(uint32_t *ret_filter, struct filter_own *ret_own)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct call_set calls;
	int listener;

	if (ipc_receive(ANSWERER_PAIR_FD, &message, NULL) < 0 || message.n_fds != 1 || call_set_get(&message.body, &calls) < 0)
		return -1;
	filter_own_make(&calls, CALL_ARCH_HERE, FILTER_OWN_TOLD, NULL, ret_own);
	*ret_filter = message.type;
	/* Another one is closed with all the rest. */
	listener = ipc_take_fd(&message, 0);
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
	return dup2(listener, ANSWERER_LISTENER_FD) < 0 ? -1 : 0;
}

/* Until the agent's filter is loaded, it has everything but the listener. */
_Noreturn static void
become_answerer(int pair)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	static struct filter_own own;
	struct err err = {0};
	uint32_t filter;

	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	if (dup2(pair, ANSWERER_PAIR_FD) < 0 || syscall(SYS_close_range, ANSWERER_PAIR_FD + 1u, ~0u, 0u) < 0 ||
	    close(ANSWERER_LISTENER_FD) < 0 || prctl(PR_SET_NAME, "cloister-answer") < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || privileges_drop(&err) < 0)
		_exit(1);
	if (take_listener(&filter, &own) < 0)
		_exit(0);
	if (syscall(SYS_close_range, ANSWERER_PAIR_FD + 1u, ~0u, 0u) < 0 || filter_load(FILTER_ANSWER, &err) < 0)
		_exit(1);
	notify_answer(ANSWERER_LISTENER_FD, ANSWERER_PAIR_FD, filter, &own);
}

static void
raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= NOTIFY_PROCS_MAX + FDS_SPARE)
		return;
	limit.rlim_cur = limit.rlim_max < NOTIFY_PROCS_MAX + FDS_SPARE ? limit.rlim_max : NOTIFY_PROCS_MAX + FDS_SPARE;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* What needs no cell: made while the cell is, before this process has memory that a fork would copy. */
static struct {
	bool done;
	int pair;
	pid_t answerer;
} ahead;

static int
notify_prepare(struct err *err)
{
	int ends[2];

	if (ahead.done)
		return 0;
	raise_limit();
	/* A call waits for both: if processors are busy, they go first.  The answerer inherits it. */
	slice_ask(SLICE_NS);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel to the process that answers notifications");
	ahead.answerer = fork();
	if (ahead.answerer == 0)
		become_answerer(ends[1]);
	close(ends[1]);
	if (ahead.answerer < 0) {
		close(ends[0]);
		return err_errno(err, "cannot start the process that answers notifications");
	}
	ahead.pair = ends[0];
	ahead.done = true;
	return 0;
}

/* A cell's first process has as many numbers as there are namespaces between it and this process: the last one is 1. */
static int
find_first(struct notify *n, struct err *err)
{
	const unsigned levels = notify_read_levels(n->first);

	if (levels == 0)
		return err_set(err, ESRCH, "cannot look at the cell's first process");
	n->level = levels - 1;
	return 0;
}

static int
notify_hear(void *state, int listener, uint32_t filter, struct err *err)
{
	struct notify *n = state;
	OWN(buf_free) struct buf message = {0};
	struct stat st;
	char path[48];

	if (n->listener >= 0 || filter > FILTER_LAST_AGENT) {
		close(listener);
		return err_set(err, EINVAL, "the agent's filter is not one that notifies");
	}
	n->listener = listener;
	n->changes_root = filter == FILTER_NESTED || filter == FILTER_NESTED_APART;
	/* By now it runs its own program. */
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)n->first);
	if (stat(path, &st) < 0)
		return err_errno(err, "cannot look at the cell's first process");
	n->init_dev = st.st_dev;
	n->init_ino = st.st_ino;
	ipc_begin(&message, filter);
	call_set_put(&message, &n->taken);
	return ipc_send(n->pair, &message, &listener, 1, err);
}

static void
notify_close(void *state)
{
	struct notify *n = state;

	if (n == NULL)
		return;
	if (n->loop != NULL) {
		loop_unwatch(n->loop, &n->calls);
		loop_cancel_timer(n->loop, &n->confirm);
		loop_cancel_timer(n->loop, &n->pause);
		for (size_t i = 0; i < n->n_procs; i++)
			if (n->procs[i].host != 0)
				notify_drop_proc(n, &n->procs[i]);
	}
	closep(&n->root);
	close_fd(&n->seen.socket);
	close_fd(&n->pair);
	close_fd(&n->listener);
	if (n->answerer > 0)
		(void)waitpid(n->answerer, NULL, WNOHANG);
	free(n->pending);
	free(n);
}

static int
notify_open(const struct witness_cell *cell, void **ret_state, struct err *err)
{
	struct notify *n;
	int r = notify_prepare(err);

	if (r < 0)
		return r;
	n = calloc(1, sizeof(*n));
	if (n == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n->first = cell->first;
	n->uid = geteuid();
	n->taken = cell->calls;
	n->holds_programs = cell->holds_programs;
	n->root = n->listener = -1;
	n->pair = ahead.pair;
	n->answerer = ahead.answerer;
	ahead.done = false;
	n->pending = calloc(NOTIFY_PENDING_MAX, sizeof(*n->pending));
	r = n->pending == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	if (r == 0)
		r = find_first(n, err);
	if (r == 0 && cell->listener >= 0)
		r = notify_hear(n, fcntl(cell->listener, F_DUPFD_CLOEXEC, 3), cell->filter, err);
	if (r < 0) {
		notify_close(n);
		return r;
	}
	*ret_state = n;
	return 0;
}

static int
notify_watch(void *state, struct loop *loop, const struct witness_taker *taker, struct err *err)
{
	struct notify *n = state;

	n->loop = loop;
	n->own = *taker;
	loop_prepare_timer(&n->pause, go_on, n);
	notify_budget_begin(&n->budget);
	loop_prepare_timer(&n->confirm, notify_confirm_due, n);
	n->calls = (struct loop_source){ .fd = n->pair, .ready = calls_ready, .arg = n };
	return loop_watch(loop, &n->calls, EPOLLIN, err);
}

/* All processes are dead: their ends are known, if anything of them is. */
static void
notify_finish(void *state)
{
	struct notify *n = state;

	for (size_t i = 0; i < n->n_procs; i++)
		if (n->procs[i].host != 0)
			n->procs[i].died.ready(n->procs[i].died.arg, EPOLLIN);
}

static const char *const unseen[] = {
	"files that are only read",
	"calls that are neither refused nor start programs, change files, connect, listen, or reach into other "
	"processes: they are not counted either",
	"whether a call succeeded, unless it starts a program or connects",
	"connections that are accepted, and messages without a connection",
	"calls that file permissions, Landlock or a filter of the agent's own refuse",
	"calls that `syscalls` of the policy refuses and every program makes, such as read and execve",
	"which call of another architecture ended a process, and that one did if the process did nothing else that is "
	"recorded",
	NULL
};

const struct witness_source witness_notify = {
	.name = "notify", .unseen = unseen, .able = notify_able, .open = notify_open, .watch = notify_watch,
	.prepare = notify_prepare, .hear = notify_hear, .finish = notify_finish, .close = notify_close,
};
