/* process.c - the boundary without namespaces, seen from the supervisor.
 *
 * For containers and machines that allow none.  Seccomp with user notification, Landlock, and a user of its own if root
 * starts it.  The porter (porter.h) makes the agent's calls that could reach a peer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/overlay/overlay.h"
#include "boundary/port/port.h"
#include "boundary/process/porter.h"
#include "boundary/process/pr.h"
#include "ipc/ipc.h"

#define END_MS 5000                     /* for the porter to kill everything */
#define AGENT_ID 1000                   /* within the range of the cell's slot, as with namespaces */

static int
make_pair(int type, int *ret_ours, int *ret_theirs, struct err *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel to the cell");
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	return 0;
}

/* Both ends of these are without a wait: the porter must not wait for the gate, nor the gate for it. */
static int
make_channels(struct pr_plan *plan, struct walls *w, struct err *err)
{
	int r = make_pair(SOCK_SEQPACKET, &w->channel, &plan->channel, err);

	if (r == 0)
		r = make_pair(SOCK_SEQPACKET, &w->porter, &plan->control, err);
	if (r == 0 && plan->spec->has_policy)
		r = make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, &w->sockets[CAPTURE_TCP4], &plan->gate, err);
	return r < 0 ? r : make_pair(SOCK_DGRAM | SOCK_NONBLOCK, &w->sockets[CAPTURE_DNS4], &plan->dns, err);
}

static int
fork_porter(struct pr_plan *plan, struct walls *w, struct err *err)
{
	pid_t pid;

	plan->init_exe = openat(plan->ground->libexec, "cloister-init", O_PATH | O_CLOEXEC);
	if (plan->init_exe < 0)
		return err_errno(err, "cannot find cloister-init beside the other helpers");
	pid = fork();
	if (pid == 0)
		pr_child_run(plan);
	if (pid < 0)
		return err_errno(err, "cannot start the porter");
	w->init = pid;
	w->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return w->pidfd < 0 ? err_errno(err, "the porter died before the cell was ready") : 0;
}

static void
close_plan(struct pr_plan *plan)
{
	const int *const fds[] = { &plan->control, &plan->channel, &plan->gate, &plan->dns, &plan->init_exe };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(fds[i]);
}

/* Its first process is idle until it is asked to start the agent. */
static int
take_first(struct walls *w, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t first;

	if (ipc_receive(w->porter, &message, NULL) < 0 || message.type != PORTER_FIRST ||
	    buf_get_u32(&message.body, &first) < 0)
		return err_set(err, EPIPE, "the porter died before the cell was ready");
	w->first = (pid_t)first;
	return cgroup_enter(w->cgroup, w->first, err);
}

static int
give_listener(struct walls *w, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	OWN(closep) int listener = TAKE_FD(w->listener);

	if (listener < 0)
		return err_set(err, EPROTO, "the cell's first process sent no listener of its filter");
	ipc_begin(&message, PORTER_LISTENER);
	return ipc_send(w->porter, &message, &listener, 1, err);
}

static int
start(struct pr_plan *plan, struct walls *w, struct err *err)
{
	const struct boundary_ground *ground = plan->ground;
	int r = pr_check_hidden(plan->spec, ground->hidden, err);

	if (r == 0)
		r = ns_make_cgroup(plan->spec, ground, w, err);
	if (r == 0)
		r = pr_make_folder(plan, w, err);
	if (r == 0)
		r = make_channels(plan, w, err);
	if (r == 0)
		r = fork_porter(plan, w, err);
	/* Then the channels end with the porter. */
	close_plan(plan);
	if (r == 0 && ground->begun != NULL)
		ground->begun(ground->arg, w);
	if (r == 0)
		r = port_by_descriptors(ground->loop, w->channel, &w->port, err);
	if (r == 0 && ground->meanwhile != NULL)
		r = ground->meanwhile(ground->arg, w, err);
	if (r == 0)
		r = ns_await_ready(plan->spec, w, false, err);
	if (r == 0)
		r = take_first(w, err);
	if (r == 0)
		r = give_listener(w, err);
	return r < 0 ? r : ns_send_spawn(ground, w, err);
}

/* If the watcher was killed, the porter has yet to kill everything. */
static bool
process_reap(struct walls *w, bool wait)
{
	struct pollfd porter = { .fd = w->porter };

	if (!ns_reap(w, wait))
		return false;
	(void)poll(&porter, 1, END_MS);
	return true;
}

static void
process_kill(struct walls *w)
{
	/* The porter kills everything, and ends. */
	if (w->porter >= 0)
		(void)shutdown(w->porter, SHUT_RDWR);
	w->frozen = false;
}

static int
process_close(struct walls *w)
{
	char folder[PR_FOLDER_MAX];

	closep(&w->porter);
	/* The porter has removed all but the result of a dispatch, unless it was killed. */
	porter_remove_folder(pr_folder(w->id, folder), true);
	return ns_close(w);
}

/* All of it is removed at the end. */
static size_t
process_folders(const struct walls *w, int ret_fds[CELL_GRANTS_MAX])
{
	ret_fds[0] = w->folder;
	return 1;
}

static int
process_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
              struct err *err)
{
	struct pr_plan plan = { .spec = spec, .ground = ground, .has_own_uid = pr_has_own_uid(), .control = -1,
	                        .channel = -1, .gate = -1, .dns = -1, .init_exe = -1 };
	struct walls *w = ns_new_walls(spec, ground);
	int r;

	if (w == NULL)
		return err_set(err, ENOMEM, "out of memory");
	w->has_range = false;
	plan.uid = plan.has_own_uid ? NS_RANGE_FIRST + ground->slot * NS_RANGE_SIZE + AGENT_ID : geteuid();
	(void)pr_folder(spec->id, plan.folder);
	snprintf(plan.home, sizeof(plan.home), "%s/home", plan.folder);
	snprintf(plan.tmp, sizeof(plan.tmp), "%s/tmp", plan.folder);
	snprintf(plan.etc, sizeof(plan.etc), "%s/etc", plan.folder);
	snprintf(plan.capabilities, sizeof(plan.capabilities), "%s/" PR_CAPABILITIES, plan.folder);
	snprintf(plan.out, sizeof(plan.out), "%s/" PR_OUT, plan.folder);
	r = start(&plan, w, err);
	if (r < 0) {
		process_kill(w);
		if (w->init > 0)
			(void)ns_reap(w, true);
		ns_drop_fds(w);
		porter_remove_folder(plan.folder, true);
		(void)process_close(w);
		return r;
	}
	*ret_walls = w;
	return 0;
}

static void
process_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	struct walls init = { .init = w->first };

	ns_pids(&init, ret_first, ret_agent);
}

static uid_t
process_inner_root(unsigned slot)
{
	/* The helpers' users are in the same range. */
	return pr_has_own_uid() ? ns_inner_root(slot) : geteuid();
}

static void
process_give_to_agent(int fd, unsigned slot, const struct cell_spec *spec)
{
	if (pr_has_own_uid())
		ns_give_to_agent(fd, slot, spec);
}

static void
process_enter_net(const struct walls *w, int ret_fds[BOUNDARY_NET_FDS])
{
	(void)w;
	ret_fds[0] = ret_fds[1] = -1;
}

static int
process_counters(const struct walls *w)
{
	(void)w;
	return -1;
}

/* ---- without the cell's supervisor ---- */

static bool
is_porter(pid_t pid, pid_t parent)
{
	OWN(freep) char *text = NULL;
	char path[40], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_file_at(AT_FDCWD, path, 4096, &text, NULL, NULL) == 0 && strstr(text, "(" PR_NAME ")") != NULL &&
	       (at = strrchr(text, ')')) != NULL && strtol(at + 4, NULL, 10) == parent;
}

static int
process_halt(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who,
             struct err *err)
{
	return ns_halt_by(is_porter, SIGTERM, runtime, entry, socket, who, err);
}

static int
process_clear(const struct walls *w, int entry, const char *id)
{
	char folder[PR_FOLDER_MAX];

	porter_remove_folder(pr_folder(id, folder), true);
	return ns_clear(w, entry, id);
}

const struct boundary boundary_process = {
	.name = BOUNDARY_PROCESS, .examine = pr_examine, .able = pr_able, .can = ns_can, .check = pr_check,
	.settle = pr_settle, .inner_root = process_inner_root, .keeps_changes = overlay_fits_memory,
	.give_to_agent = process_give_to_agent, .start = process_start, .port = ns_port, .died = ns_died, .reap = process_reap,
	.kill = process_kill, .freeze = ns_freeze, .thaw = ns_thaw, .usage = ns_usage, .facts = ns_facts,
	.pids = process_pids, .sockets = ns_sockets, .enter_net = process_enter_net, .counters = process_counters,
	.folders = process_folders, .is_changed = ns_is_changed, .collect = ns_collect, .collector = ns_collector,
	.upper = ns_upper, .close = process_close,
	.halt = process_halt, .clear = process_clear, .clear_unknown = ns_clear_unknown,
};
