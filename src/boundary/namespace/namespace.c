/* namespace.c - the boundary made of namespaces, seen from the supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/timing.h"
#include "boundary/boundary.h"
#include "boundary/capture/capture.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/overlay/overlay.h"
#include "boundary/port/port.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"

#define CHILDREN_MAX (1 << 20)

static uint64_t
namespaces(void)
{
	uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS;

	if (CONTROL_ON("pidns"))
		flags |= CLONE_NEWPID;
	if (CONTROL_ON("ipcns"))
		flags |= CLONE_NEWIPC;
	if (CONTROL_ON("utsns"))
		flags |= CLONE_NEWUTS;
	return flags;
}

static int
clone_child(struct ns_plan *plan, struct walls *w, int stream, struct err *err)
{
	int into = w->cgroup == NULL ? -1 : cgroup_clone_fd(w->cgroup);
	struct clone_args args = {
		.flags = namespaces() | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&w->pidfd,
		.exit_signal = SIGCHLD,
	};

	if (into >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)into;
	}
	w->init = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (w->init < 0) {
		w->init = 0;
		return err_errno(err, "cannot make the cell's namespaces (`cloister doctor` tells "
		                 "what this machine lacks)");
	}
	if (w->init == 0) {
		/* If the child kept the supervisor's end open, the channel would not end with the
		 * supervisor. */
		close(w->channel);
		closep(&stream);
		ns_child_run(plan);
	}
	return 0;
}

/* The child is gone: its earlier messages explain why. */
static int
unless_gone(int r)
{
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int
let_go(const struct ns_plan *plan, struct walls *w, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	int r;

	r = ns_write_maps(plan, w->init, err);
	if (r < 0)
		return r;
	ipc_begin(&message, INIT_GO);
	return unless_gone(ipc_send(w->channel, &message, NULL, 0, err));
}

/* Makes the cell's network while the child builds the root, which takes about as long. */
static int
make_net(const struct ns_plan *plan, struct walls *w, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	const bool apart = CONTROL_ON("netns");
	struct capture made;
	int r = apart ? capture_make(w->userns, plan->spec->has_policy, &made, err) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; apart && i < CAPTURE_SOCKETS; i++)
		w->sockets[i] = made.sockets[i];
	w->netns = apart ? made.netns : -1;
	w->notifies = plan->ground->notifies != NULL && plan->ground->notifies(plan->ground->arg);
	ipc_begin(&message, INIT_NET);
	buf_put_u32(&message, w->notifies);
	return unless_gone(ipc_send(w->channel, &message, &w->netns, apart, err));
}

int
ns_send_spawn(const struct boundary_ground *ground, const struct walls *w, struct err *err)
{
	int r = ground->before_spawn == NULL || w->notifies ? 0 : ground->before_spawn(ground->arg, err);

	return r < 0 || ground->spawn == NULL ? r :
	       unless_gone(port_start(w->port, ground->spawn, ground->spawn_fds, ground->n_spawn_fds, err));
}

static int
take_upper(struct walls *w, struct ipc_message *message, const struct cell_spec *spec)
{
	/* In a build, one more: the image. */
	const size_t n_uppers = spec->n_grants + spec->image.build;
	uint32_t grant;

	if (buf_get_u32(&message->body, &grant) < 0 || buf_left(&message->body) != 0 ||
	    grant >= n_uppers || grant >= CELL_GRANTS_MAX || message->n_fds != 1 || w->uppers[grant] >= 0)
		return -EBADMSG;
	w->uppers[grant] = ipc_take_fd(message, 0);
	return 0;
}

/* Reads the child's messages while no agent runs yet: it is still cloister's own code.  If init is not
 * to have the channel, it ends when the child becomes init. */
int
ns_await_ready(const struct cell_spec *spec, struct walls *w, bool by_stream, struct err *err)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message message = {0};
		uint32_t code;
		const char *text;
		int r = ipc_receive(w->channel, &message, err);

		if (r == -EPIPE && by_stream)
			return 0;
		if (r < 0)
			return err_set(err, EPIPE, "the cell's first process died before it was ready");
		if (message.type == INIT_READY)
			return 0;
		if (message.type == INIT_SCRATCH && w->scratch < 0) {
			w->scratch = ipc_take_fd(&message, 0);
			continue;
		}
		if (message.type == INIT_LISTENER && w->listener < 0 && message.n_fds == 1) {
			w->listener = ipc_take_fd(&message, 0);
			continue;
		}
		if (message.type == INIT_UPPER && take_upper(w, &message, spec) == 0)
			continue;
		if (message.type == INIT_SSH && w->sockets[BOUNDARY_SSH] < 0) {
			w->sockets[BOUNDARY_SSH] = ipc_take_fd(&message, 0);
			continue;
		}
		if (message.type == INIT_FAILED && buf_get_u32(&message.body, &code) == 0 &&
		    buf_get_str(&message.body, &text) == 0 && code > 0 && code < 4096)
			return err_set(err, (int)code, "%s", text);
		return err_set(err, EBADMSG, "the cell's first process sent something unexpected");
	}
}

static int
open_namespace(const struct walls *w, const char *kind)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", w->init, kind);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int
open_userns(struct walls *w, struct err *err)
{
	w->userns = open_namespace(w, "user");
	if (w->userns < 0)
		return err_errno(err, "cannot open the cell's user namespace");
	return 0;
}

struct walls *
ns_new_walls(const struct cell_spec *spec, const struct boundary_ground *ground)
{
	struct walls *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	memcpy(w->id, spec->id, sizeof(w->id));
	w->pidfd = w->channel = w->userns = w->mntns = w->netns = w->scratch = w->stream = w->listener = w->porter = w->folder = w->memory = w->points = -1;
	for (size_t i = 0; i < CELL_GRANTS_MAX; i++)
		w->uppers[i] = -1;
	for (size_t i = 0; i < BOUNDARY_SOCKETS; i++)
		w->sockets[i] = -1;
	w->changes = ground->changes;
	w->libexec = ground->libexec;
	w->has_range = ns_has_range();
	w->filter = ns_choose_filter(spec);
	return w;
}

void
ns_drop_fds(struct walls *w)
{
	const int *const fds[] = { &w->pidfd, &w->userns, &w->scratch, &w->mntns, &w->netns, &w->stream, &w->listener, &w->folder, &w->memory, &w->points };

	for (size_t i = 0; i < CELL_GRANTS_MAX; i++)
		closep(&w->uppers[i]);
	for (size_t i = 0; i < BOUNDARY_SOCKETS; i++)
		closep(&w->sockets[i]);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(fds[i]);
	if (w->port == NULL)
		closep(&w->channel);
}

void
ns_abandon(struct walls *w)
{
	if (w->init > 0) {
		ns_kill(w);
		(void)ns_reap(w, true);
	}
	ns_drop_fds(w);
	w->changes = -1;
	(void)ns_close(w);
}

/* The cell gets a limit of one byte on core files (ns_child.c).  sudo and careful machines leave a
 * hard limit of zero, which only root can raise.  Zero is as good if the host starts no program for
 * a crash. */
static int
raise_core_limit(struct err *err)
{
	const struct rlimit one = { 1, 1 };
	OWN(freep) char *pattern = NULL;
	struct rlimit now;

	if (getrlimit(RLIMIT_CORE, &now) < 0 || now.rlim_max > 0 ||
	    setrlimit(RLIMIT_CORE, &one) == 0)
		return 0;
	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, &pattern, NULL, NULL) == 0 &&
	    pattern[0] != '|')
		return 0;
	return err_set(err, EPERM, "a crash in the cell would start this machine's crash handler, "
	               "because the hard limit on core files is 0 here: start it where `ulimit -Hc` is "
	               "not 0 (for sudo: `Defaults rlimit_core=default` in sudoers)");
}

int
ns_check(const struct cell_spec *spec, struct err *err)
{
	if ((spec->limits.asked & CELL_LIMIT_DISK) != 0 && cell_spec_has_overlay(spec) && !overlay_fits_memory())
		return err_set(err, ENOTSUP, "--disk cannot be enforced on an overlay workspace: this "
		               "kernel's tmpfs has no user attributes (Linux 6.6 has): leave it out, or "
		               "use -w DIR:ro");
	if (spec->bundle.layers != NULL && (spec->n_files > 0 || spec->known_hosts[0] != '\0'))
		return err_set(err, ENOTSUP, "a container has no home folder of the cell's: its secrets can be variables, "
		               "but no files and no SSH keys");
	return raise_core_limit(err);
}

int
ns_refuse_sockets(const struct cell_spec *spec, const char *walls, struct err *err)
{
	struct stat st;

	for (size_t i = 0; i < spec->n_grants; i++)
		if (stat(spec->grants[i].host, &st) == 0 && S_ISSOCK(st.st_mode))
			return err_set(err, ENOTSUP, "%s has a kernel of its own, so the socket '%s' cannot be granted to it: "
			               "leave it out, or use --boundary namespace", walls, spec->grants[i].host);
	return 0;
}

/* Init gets the channel by which the walls were made; or, BY_STREAM, a byte stream instead. */
static int
make_channels(struct ns_plan *plan, struct walls *w, bool by_stream, int *ret_stream, struct err *err)
{
	int ends[2], stream[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel to the cell");
	w->channel = ends[0];
	plan->channel = ends[1];
	if (!by_stream)
		return port_by_descriptors(plan->ground->loop, w->channel, &w->port, err);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) < 0)
		return err_errno(err, "cannot make a channel to the cell");
	*ret_stream = stream[0];
	plan->stream = stream[1];
	return 0;
}

/* Init accepts the clients of the SSH agent's socket, and the port hands them to the gate. */
static int
serve_ssh(struct walls *w, struct err *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot make a channel for the SSH agent");
	w->sockets[BOUNDARY_SSH] = ends[0];
	port_accept(w->port, ends[1]);
	return 0;
}

/* Makes the namespaces and the child in them. */
static int
begin_plan(struct ns_plan *plan, struct walls *w, bool by_stream, int *ret_stream, struct err *err)
{
	int r;

	plan->init_exe = openat(plan->ground->libexec, "cloister-init", O_PATH | O_CLOEXEC);
	if (plan->init_exe < 0)
		return err_errno(err, "cannot find cloister-init beside the other helpers");
	r = make_channels(plan, w, by_stream, ret_stream, err);
	timing_mark(TIMING_PREPARED);
	if (r == 0)
		r = clone_child(plan, w, *ret_stream, err);
	timing_mark(TIMING_CLONED);
	/* Then the channel ends with the child. */
	closep(&plan->channel);
	closep(&plan->stream);
	plan->channel = plan->stream = -1;
	/* Open the namespace before an agent runs in it and it can vanish. */
	if (r == 0)
		r = open_userns(w, err);
	if (r == 0)
		r = let_go(plan, w, err);
	if (r < 0)
		return r;
	w->mntns = open_namespace(w, "mnt");
	timing_mark(TIMING_MAPPED);
	if (plan->ground->begun != NULL)
		plan->ground->begun(plan->ground->arg, w);
	r = make_net(plan, w, err);
	timing_mark(TIMING_CAPTURED);
	return r;
}

/* Waits for the child.  Then the cell has its agent. */
static int
finish_plan(struct ns_plan *plan, struct walls *w, bool by_stream, int *stream, struct err *err)
{
	const bool early = !by_stream && (plan->ground->before_spawn == NULL || w->notifies);
	int r = plan->ground->meanwhile == NULL ? 0 : plan->ground->meanwhile(plan->ground->arg, w, err);

	if (r == 0 && early)
		r = ns_send_spawn(plan->ground, w, err);
	timing_mark(TIMING_RECORDED);
	if (r == 0)
		r = ns_await_ready(plan->spec, w, by_stream, err);
	timing_mark(TIMING_READY);
	if (r == 0 && !early && !by_stream)
		r = ns_send_spawn(plan->ground, w, err);
	if (r < 0 || !by_stream || (plan->inside != NULL && plan->inside->greet == NULL))
		return r;
	if (plan->inside != NULL)
		r = plan->inside->greet(plan, *stream, err);
	if (r == 0)
		r = port_by_stream(plan->ground->loop, *stream, plan->inside != NULL ? plan->inside->until_ms : 0,
		                   &w->port, err);
	if (r < 0)
		return r;
	*stream = -1;
	closep(&w->channel);
	w->channel = -1;
	r = plan->spec->known_hosts[0] != '\0' ? serve_ssh(w, err) : 0;
	return r < 0 ? r : ns_send_spawn(plan->ground, w, err);
}

struct ns_plan
ns_new_plan(const struct cell_spec *spec, const struct boundary_ground *ground, const struct ns_inside *inside)
{
	struct ns_plan plan = { .spec = spec, .ground = ground, .inside = inside, .channel = -1, .stream = -1,
	                        .init_exe = -1 };

	ns_clear_plan(&plan);
	ns_choose_ids(&plan);
	return plan;
}

void
ns_close_plan(struct ns_plan *plan)
{
	ns_reap_mapper(&plan->mapper);
	closep(&plan->init_exe);
	closep(&plan->rootfs);
	closep(&plan->changes);
	closep(&plan->bundle);
	closep(&plan->scratch);
	for (size_t i = 0; i < CELL_GRANTS_MAX; i++)
		closep(&plan->grants[i]);
	for (size_t i = 0; i < CELL_LAYERS_MAX; i++)
		closep(&plan->layers[i]);
}

/* The cell's limits, and the mounts that only the supervisor can make. */
static int
prepare_plan(struct ns_plan *plan, struct walls *w, struct err *err)
{
	int r = ns_make_cgroup(plan->spec, plan->ground, w, err);

	plan->cgroup = w->cgroup;
	plan->pids_limited = (w->unlimited & CGROUP_PIDS) == 0;
	return r < 0 ? r : ns_prepare_grants(plan, err);
}

int
ns_start(const struct cell_spec *spec, const struct boundary_ground *ground, bool by_stream,
         const struct ns_inside *inside, struct walls **ret_walls, struct err *err)
{
	struct ns_plan plan = ns_new_plan(spec, ground, inside);
	struct walls *w = ns_new_walls(spec, ground);
	OWN(closep) int stream = -1;
	int r;

	if (w == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = prepare_plan(&plan, w, err);
	if (r == 0)
		r = begin_plan(&plan, w, by_stream, &stream, err);
	if (r == 0)
		r = finish_plan(&plan, w, by_stream, &stream, err);
	ns_close_plan(&plan);
	if (r < 0) {
		ns_abandon(w);
		return r;
	}
	*ret_walls = w;
	return 0;
}

int
ns_wait(const struct cell_spec *shape, const struct boundary_ground *ground, const struct ns_inside *inside,
        struct walls **ret_walls, struct err *err)
{
	struct ns_plan plan = ns_new_plan(shape, ground, inside);
	struct walls *w = ns_new_walls(shape, ground);
	int r;

	if (w == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = begin_plan(&plan, w, true, &w->stream, err);
	if (r == 0)
		r = ns_await_ready(shape, w, true, err);
	ns_close_plan(&plan);
	close_fd(&w->channel);
	w->channel = -1;
	if (r < 0) {
		ns_abandon(w);
		return r;
	}
	*ret_walls = w;
	return 0;
}

/* Whoever runs in the walls, and its children. */
static int
enter_cgroup(const struct walls *w, struct err *err)
{
	OWN(freep) char *children = NULL;
	char path[64], *at;
	int r = cgroup_enter(w->cgroup, w->init, err);

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)w->init, (int)w->init);
	if (r == 0)
		r = read_file_at(AT_FDCWD, path, CHILDREN_MAX, &children, NULL, err);
	if (r < 0)
		return r;
	for (char *word = strtok_r(children, " \n", &at); word != NULL && r == 0; word = strtok_r(NULL, " \n", &at))
		r = cgroup_enter(w->cgroup, (pid_t)strtoul(word, NULL, 10), err);
	return r;
}

/* Starts the process that builds what depends on the cell. */
static int
start_joining(struct ns_plan *plan, struct walls *w, struct err *err)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel to the cell");
	w->channel = ends[0];
	plan->channel = ends[1];
	pid = cgroup_fork(w->cgroup);
	if (pid == 0) {
		close(ends[0]);
		ns_join_run(plan, w->userns, w->netns, w->init);
	}
	close_fd(&plan->channel);
	plan->channel = -1;
	if (pid < 0)
		return err_errno(err, "cannot start a process of the cell");
	/* It has a child in the cell by then. */
	(void)waitpid(pid, NULL, 0);
	return 0;
}

int
ns_adopt(const struct cell_spec *spec, const struct boundary_ground *ground, const struct ns_inside *inside,
         struct walls *w, struct err *err)
{
	struct ns_plan plan = ns_new_plan(spec, ground, inside);
	int r;

	memcpy(w->id, spec->id, sizeof(w->id));
	w->changes = ground->changes;
	r = prepare_plan(&plan, w, err);
	if (r == 0)
		r = enter_cgroup(w, err);
	if (r == 0)
		r = start_joining(&plan, w, err);
	if (r == 0)
		r = finish_plan(&plan, w, true, &w->stream, err);
	ns_close_plan(&plan);
	return r;
}

static int
namespace_start(const struct cell_spec *spec, const struct boundary_ground *ground,
                struct walls **ret_walls, struct err *err)
{
	return ns_start(spec, ground, false, NULL, ret_walls, err);
}

uid_t
ns_inner_root(unsigned slot)
{
	return ns_has_range() ? NS_RANGE_FIRST + slot * NS_RANGE_SIZE : geteuid();
}

void
ns_give_to_agent(int fd, unsigned slot, const struct cell_spec *spec)
{
	uid_t agent = NS_RANGE_FIRST + slot * NS_RANGE_SIZE + cell_spec_uid(spec);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && ns_has_range())
		(void)!fchown(fd, agent, agent);
}

unsigned
ns_can(void)
{
	struct cgroup_report report;

	cgroup_examine(&report);
	return report.can_freeze ? BOUNDARY_CAN_FREEZE : 0;
}

const struct boundary boundary_namespace = {
	.name = BOUNDARY_DEFAULT, .examine = ns_examine, .start = namespace_start,
	.check = ns_check, .pids = ns_pids, .sights = BOUNDARY_SIGHT_KERNEL | BOUNDARY_SIGHT_FILTER, NS_COMMON,
};

#ifdef CLOISTER_MUTANT
static int
stream_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
             struct err *err)
{
	return ns_start(spec, ground, true, NULL, ret_walls, err);
}

const struct boundary boundary_stream = {
	.name = BOUNDARY_STREAM, .examine = ns_examine, .start = stream_start,
	.check = ns_check, .pids = ns_pids, .sights = BOUNDARY_SIGHT_KERNEL, NS_COMMON,
};
#endif
