/* supervisor_starter.c - the process that starts the gate, the courier and inspect when the cell
 * first needs them, and again after they died.
 *
 * It is forked before the supervisor locks itself down and does only this, on the supervisor's
 * order.  The three live and die together.  As root it gives each a user id of its own that belongs
 * to nobody, from the end of the cell's range. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "confine/privileges.h"
#include "ipc/courier_channel.h"
#include "ipc/hook_channel.h"
#include "ipc/tools_channel.h"
#include "proc/supervisor/supervisor.h"

#define ID_OFFSET 0xfff0u               /* the helpers' ids in the cell's range */
#define COURIER_LAST_MS 400             /* for its last messages; the supervisor waits longer */
#define OTHERS_MS 100                   /* until a killed process can be waited for */

struct starter {
	int channel, libexec, names, webhooks;
	int hooks, tools;               /* the channels to cloister-hook and cloister-tools, or -1 */
	int listeners[BOUNDARY_SOCKETS];
	uid_t base;                     /* 0: they run as the operator */
	bool silent;
	pid_t pids[STARTER_HELPERS];    /* 0: not running */
	int pidfds[STARTER_HELPERS];
	int inspect;                    /* its descriptor, until it is started */
};

static const char *const names[STARTER_HELPERS] = {
	[STARTER_GATE] = "cloister-gate", [STARTER_COURIER] = "cloister-courier",
	[STARTER_INSPECT] = "cloister-inspect",
};

static int
start(struct starter *s, enum starter_helper which, const int *fds, size_t n)
{
	char *argv[] = { (char *)(uintptr_t)names[which], NULL };
	struct spawn_how how = { .argv = argv, .fds = fds, .n_fds = n, .silent = s->silent,
		.uid = s->base == 0 || !CONTROL_ON("helper-ids") ? 0 :
		       s->base + ID_OFFSET + (uid_t)which };
	struct err err = {0};
	pid_t pid = supervisor_spawn(s->libexec, &how, &err);

	if (pid < 0) {
		supervisor_complain(err.text);
		return pid;
	}
	s->pids[which] = pid;
	s->pidfds[which] = (int)syscall(SYS_pidfd_open, pid, 0);
	return s->pidfds[which] < 0 ? -errno : 0;
}

/* The gate reads what the agent sends, and inspect what the agent packed.  An agent that crashes
 * one of them must not destroy the record of what was under way.  The courier sees its channels
 * end, sends its records, and exits by itself. */
static void
let_courier_tell(struct starter *s)
{
	struct pollfd courier = { .fd = s->pidfds[STARTER_COURIER], .events = POLLIN };

	closep(&s->inspect);
	s->inspect = -1;
	if (s->pids[STARTER_COURIER] > 0)
		(void)poll(&courier, 1, COURIER_LAST_MS);
}

/* A killed helper takes the others along, and they may be seen to end first.  A courier that exits
 * for that reason exits with an error. */
static void
find_first(struct starter *s, uint32_t *which, int *status)
{
	struct pollfd others[] = {
		{ .fd = s->pidfds[STARTER_GATE], .events = POLLIN },
		{ .fd = s->pidfds[STARTER_INSPECT], .events = POLLIN },
	};
	int one;

	if (*which == STARTER_COURIER && WIFEXITED(*status) && WEXITSTATUS(*status) != 0)
		(void)poll(others, ARRAY_LEN(others), OTHERS_MS);
	for (uint32_t i = 0; i < STARTER_HELPERS; i++) {
		if (s->pids[i] <= 0 || waitpid(s->pids[i], &one, WNOHANG) <= 0)
			continue;
		s->pids[i] = 0;
		if (!WIFSIGNALED(one) || WIFSIGNALED(*status))
			continue;
		*which = i;
		*status = one;
	}
}

/* Kills the rest of the three, and reports once they are gone. */
static void
end(struct starter *s, uint32_t which, int status)
{
	OWN(buf_free) struct buf message;

	if (which == STARTER_GATE || which == STARTER_INSPECT)
		let_courier_tell(s);
	if (which < STARTER_HELPERS)
		find_first(s, &which, &status);
	for (size_t i = 0; i < STARTER_HELPERS; i++)
		if (s->pids[i] > 0)
			kill(s->pids[i], SIGKILL);
	for (size_t i = 0; i < STARTER_HELPERS; i++) {
		if (s->pids[i] > 0)
			waitpid(s->pids[i], NULL, 0);
		closep(&s->pidfds[i]);
		s->pids[i] = 0;
		s->pidfds[i] = -1;
	}
	closep(&s->inspect);
	s->inspect = -1;
	ipc_begin(&message, STARTER_ENDED);
	buf_put_u32(&message, which);
	buf_put_u32(&message, (uint32_t)status);
	(void)ipc_send(s->channel, &message, NULL, 0, NULL);
}

/* Give the process behind CHANNEL one end of a pair, and the courier the other.  If that process is gone, the courier
 * finds its channel closed, and refuses requests that need it. */
static int
connect_side(int channel, uint32_t type, int kind, const char *gone, int *ret_courier)
{
	OWN(buf_free) struct buf message;
	struct err err = {0};
	int ends[2];

	*ret_courier = -1;
	ipc_begin(&message, type);
	if (channel < 0)
		return 0;
	if (socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	if (ipc_send(channel, &message, &ends[1], 1, &err) < 0)
		supervisor_complain(gone);
	close(ends[1]);
	*ret_courier = ends[0];
	return 0;
}

static int
start_all(struct starter *s, const struct ipc_message *message)
{
	int mux[2] = { -1, -1 }, body[2] = { -1, -1 }, hooks = -1, tools = -1, r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, mux) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, body) < 0)
		r = -errno;
	if (r == 0)
		r = connect_side(s->hooks, HOOK_SERVE, SOCK_STREAM,
		                 "cloister-hook has ended: requests that need a hook are refused", &hooks);
	if (r == 0)
		r = connect_side(s->tools, TOOLS_SERVE, SOCK_SEQPACKET,
		                 "cloister-tools has ended: the agent's tools do not answer", &tools);
	if (r == 0)
		r = start(s, STARTER_GATE, (int[]){ message->fds[0], mux[0], s->listeners[0],
		          s->listeners[1], s->listeners[2], s->listeners[3], s->names,
		          s->listeners[4] }, 8);
	if (r == 0)
		r = start(s, STARTER_COURIER, (int[]){ message->fds[1], mux[1], body[0],
		          s->webhooks, -1, hooks, tools }, 7);
	closep(&mux[0]);
	closep(&mux[1]);
	closep(&body[0]);
	closep(&hooks);
	closep(&tools);
	s->inspect = body[1];
	return r;
}

/* Started when the courier first needs it. */
static int
start_inspect(struct starter *s)
{
	int r = start(s, STARTER_INSPECT, &s->inspect, 1);

	closep(&s->inspect);
	s->inspect = -1;
	return r;
}

static void
take_message(struct starter *s)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(s->channel, &message, NULL);
	bool runs = s->pids[STARTER_GATE] > 0;

	if (r < 0 || (message.type != STARTER_START && message.type != STARTER_STOP)) {
		end(s, STARTER_HELPERS, 0);
		_exit(0);
	}
	if (message.type == STARTER_START && message.n_fds == 2 && !runs)
		r = start_all(s, &message);
	if (r < 0 || (message.type == STARTER_STOP && runs))
		end(s, STARTER_HELPERS, r);
}

static void
reap(struct starter *s, size_t which)
{
	int status = 0;

	waitpid(s->pids[which], &status, 0);
	s->pids[which] = 0;
	end(s, (uint32_t)which, status);
}

_Noreturn static void
serve(struct starter *s)
{
	for (;;) {
		struct pollfd fds[STARTER_HELPERS + 2];

		for (size_t i = 0; i < STARTER_HELPERS; i++)
			fds[i] = (struct pollfd){ .fd = s->pidfds[i], .events = POLLIN };
		fds[STARTER_HELPERS] = (struct pollfd){ .fd = s->channel, .events = POLLIN };
		fds[STARTER_HELPERS + 1] = (struct pollfd){ .fd = s->inspect, .events = POLLIN };
		if (poll(fds, STARTER_HELPERS + 2, -1) < 0)
			continue;
		if (fds[STARTER_HELPERS].revents != 0) {
			take_message(s);
			continue;
		}
		/* The courier's death shows here too, and is more precise. */
		for (size_t i = 0; i < STARTER_HELPERS; i++)
			if (fds[i].revents != 0) {
				reap(s, i);
				break;
			}
		if (s->inspect >= 0 && fds[STARTER_HELPERS + 1].revents == POLLIN &&
		    start_inspect(s) < 0)
			end(s, STARTER_INSPECT, 0);
	}
}

/* As root, keeps the capabilities to change ids and to signal processes that changed them.  As root
 * of a user namespace without ids for them, keeps what helpers need to be root of a namespace
 * beneath. */
static int
restrict_self(bool has_ids)
{
	const unsigned kept = geteuid() != 0 ? 0 : !has_ids ? 1u << CAP_SETFCAP :
		1u << CAP_KILL | 1u << CAP_SETUID | 1u << CAP_SETGID;

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* Root of a container may not have them. */
	return privileges_keep(kept, NULL);
}

static void
become_starter(const struct supervisor *sv, int channel, pid_t parent)
{
	struct starter s = { .inspect = -1,
		.pidfds = { -1, -1, -1 }, .silent = sv->spec.detached,
		.base = sv->has_inner_root ? sv->boundary->inner_root(sv->place.entry.slot) : 0 };
	const struct { int from, *to; } given[] = {
		{ channel, &s.channel }, { sv->libexec, &s.libexec }, { sv->egress.names, &s.names },
		{ sv->sockets[0], &s.listeners[0] }, { sv->sockets[1], &s.listeners[1] },
		{ sv->sockets[2], &s.listeners[2] }, { sv->sockets[3], &s.listeners[3] },
		{ sv->sockets[4], &s.listeners[4] }, { sv->egress.webhooks.fd, &s.webhooks },
		{ sv->egress.hooks.channel, &s.hooks }, { sv->egress.tools.channel, &s.tools },
	};
	int aside[ARRAY_LEN(given)], null;

	setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    cgroup_enter_self(sv->egress.cgroup, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		aside[i] = given[i].from < 0 ? -1 : fcntl(given[i].from, F_DUPFD_CLOEXEC, 100);
	for (size_t i = 0; i < ARRAY_LEN(given); i++) {
		if (aside[i] >= 0)
			dup3(aside[i], 10 + (int)i, O_CLOEXEC);
		else    /* This may be the supervisor's end of the channel, which then would never end. */
			close(10 + (int)i);
		*given[i].to = aside[i] >= 0 ? 10 + (int)i : -1;
	}
	syscall(SYS_close_range, 3u, 9u, 0u);
	syscall(SYS_close_range, 10u + (unsigned)ARRAY_LEN(given), ~0u, 0u);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* A detached cell's `run` ends when no process has its output open any more. */
	for (int i = 0; i < (sv->spec.detached ? 3 : 2); i++)
		dup2(null, i);
	if (restrict_self(s.base != 0) == 0)
		serve(&s);
}

int
supervisor_fork_starter(struct supervisor *sv, int *ret_channel, pid_t *ret_pid,
                        struct err *err)
{
	int ends[2];
	pid_t parent = getpid(), pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	/* Its children inherit the helpers' cgroup. */
	pid = cgroup_fork(sv->egress.cgroup);
	if (pid == 0) {
		become_starter(sv, ends[1], parent);
		_exit(125);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_errno(err, "cannot start the starter of the gate");
	}
	*ret_channel = ends[0];
	*ret_pid = pid;
	return 0;
}
