/* ns_child.c - the cell's first process, from clone to init.
 *
 * It starts as a copy of the supervisor, with every capability in the new user namespace and none
 * outside.  It builds the cell around itself, gives all capabilities up and becomes init. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/timing.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/overlay/overlay.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"

static int
wait_for_maps(const struct ns_plan *plan, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(plan->channel, &message, err);

	if (r < 0)
		return r;
	return message.type == INIT_GO ? 0 : err_set(err, EBADMSG, "unexpected message");
}

/* The supervisor made the network meanwhile.  A guest has its own. */
int
ns_join_net(const struct ns_plan *plan, bool *ret_notifies, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t notifies;
	int r;

	*ret_notifies = false;
	if (plan->channel < 0)
		return 0;
	r = ipc_receive(plan->channel, &message, err);
	if (r < 0)
		return r;
	if (message.type != INIT_NET || buf_get_u32(&message.body, &notifies) < 0 || message.n_fds != (CONTROL_ON("netns") ? 1 : 0))
		return err_set(err, EBADMSG, "unexpected message");
	*ret_notifies = notifies != 0 && plan->stream < 0;
	if (!CONTROL_ON("netns"))
		return 0;
	return setns(message.fds[0], CLONE_NEWNET) < 0 ? err_errno(err, "cannot enter the cell's network") : 0;
}

int
ns_become_inner_root(const struct ns_plan *plan, struct err *err)
{
	if (!plan->range)
		return 0;
	if ((CONTROL_ON("groups") && setgroups(0, NULL) < 0) ||
	    setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_errno(err, "cannot become root of the cell");
	return 0;
}

int
ns_send_fds(const struct ns_plan *plan, uint32_t type, uint32_t number, const int *fds, size_t n_fds,
            struct err *err)
{
	OWN(buf_free) struct buf message = {0};

	/* In a virtual machine nobody needs them. */
	if (plan->channel < 0)
		return 0;
	ipc_begin(&message, type);
	if (type == INIT_UPPER)
		buf_put_u32(&message, number);
	return ipc_send(plan->channel, &message, fds, n_fds, err);
}

/* In a container whose engine shows it a read-only /proc/sys, a new /proc has the setting, too. */
static int
write_setting(const struct ns_plan *plan, const char *name, const char *value, struct err *err)
{
	OWN(closep) int old = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), new = -1;
	struct err why = {0};
	int r = old < 0 ? err_errno(&why, "cannot open /proc") : write_file_at(old, name, value, &why);

	if (r != -EROFS)
		return r < 0 ? err_set(err, -r, "%s", why.text) : 0;
	new = ns_new_proc(plan, err);
	return new < 0 ? new : write_file_at(new, name, value, err);
}

/* Kernel settings of the cell's own namespaces. */
int
ns_set_kernel(const struct ns_plan *plan, struct err *err)
{
	const struct cell_spec *spec = plan->spec;
	int r = 0;

	if (CONTROL_ON("utsns") && sethostname(spec->hostname, strlen(spec->hostname)) < 0)
		return err_errno(err, "cannot set the host name '%s'", spec->hostname);
	if (spec->profile != CELL_PROFILE_NESTED && CONTROL_ON("max-userns"))
		r = write_setting(plan, "sys/user/max_user_namespaces", "0", err);
	/* The kernel counts these with the operator's own; this leaves the operator most. */
	if (r == 0 && CONTROL_ON("limit-user"))
		r = write_setting(plan, "sys/user/max_inotify_instances", "32", err);
	return r;
}

#define MONITOR_PROCESSES 256
#define RUNTIME_PROCESSES 256           /* threads of an OCI runtime, and of a sandbox that it runs */

uint64_t
ns_most_processes(const struct cell_spec *spec)
{
	return spec->vm_kernel != NULL ? MONITOR_PROCESSES :
	       spec->limits.pids + 1 + (spec->runtime != NULL ? RUNTIME_PROCESSES : 0);
}

int
ns_set_limits(const struct ns_plan *plan, struct err *err)
{
	/* A cgroup's limit should apply first, because it counts how often it did. */
	return ns_limit_self(ns_most_processes(plan->spec) + (plan->pids_limited ? 64 : 0), !plan->range,
	                     plan->notifies, err);
}

const char *const ns_writable[] = { "/tmp", "/var/tmp", "/home/agent", "/dev/shm", NULL };

#define WRITABLE_MAX (CELL_GRANTS_MAX + CELL_SCRATCHES_MAX + 8)

/* Where the agent may write, besides its grants.  Returns how many there are. */
static size_t
list_writable(const struct cell_spec *spec, const char *ret_list[WRITABLE_MAX])
{
	size_t n = 0;

	/* The files of the image, or of the container, are those of the cell. */
	if (spec->image.build || (spec->bundle.layers != NULL && !spec->bundle.readonly))
		ret_list[n++] = "/";
	if (spec->bundle.layers == NULL) {
		for (size_t i = 0; ns_writable[i] != NULL; i++)
			ret_list[n++] = ns_writable[i];
		return n;
	}
	ret_list[n++] = "/dev/shm";
	for (char **at = spec->bundle.scratches; *at != NULL; at++)
		ret_list[n++] = *at;
	return n;
}

static int
make_landlock(const struct ns_plan *plan, int *ret_fd, struct err *err)
{
	const char *writable[WRITABLE_MAX] = {0};
	const struct cell_spec *spec = plan->spec;
	size_t n;

	*ret_fd = -1;
	if (!CONTROL_ON("landlock"))
		return 0;
	n = list_writable(spec, writable);
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].access != CELL_READ)
			writable[n++] = spec->grants[i].cell;
	return landlock_make(spec->profile == CELL_PROFILE_NESTED ? LANDLOCK_SCOPES_ONLY
	                                                          : LANDLOCK_FILES_TOO,
	                     writable, ret_fd, err);
}

/* Root of an image that is built installs packages: files of other users, and programs that become them.  It has
 * these rights over the cell's own ids only. */
#define BUILD_RIGHTS (1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID | \
	1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID)

/* The user of the image, without rights unless it is root. */
static int
become_builder(const struct ns_plan *plan, struct err *err)
{
	const struct cell_image *image = &plan->spec->image;
	const unsigned rights = image->uid == 0 ? BUILD_RIGHTS : 0;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct kept[2] = { { rights, rights, 0 }, { 0, 0, 0 } };

	for (int cap = 0; cap <= 63; cap++)
		if (cap >= 32 || (rights & 1u << cap) == 0)
			(void)prctl(PR_CAPBSET_DROP, cap);
	if (plan->range && (setresgid(image->gid, image->gid, image->gid) < 0 ||
	                    setresuid(image->uid, image->uid, image->uid) < 0))
		return err_errno(err, "cannot become the image's user");
	return syscall(SYS_capset, &header, kept) < 0 ? err_errno(err, "cannot drop the capabilities") : 0;
}

int
ns_drop_everything(const struct ns_plan *plan, struct err *err)
{
	const struct cell_bundle *bundle = &plan->spec->bundle;
	uid_t agent = cell_spec_uid(plan->spec);
	gid_t group = cell_spec_gid(plan->spec);
	int r = 0;

	if (plan->spec->image.build && CONTROL_ON("caps"))
		return become_builder(plan, err);
	if (CONTROL_ON("caps"))
		r = privileges_close(err);
	else if (prctl(PR_SET_KEEPCAPS, 1) < 0)
		r = err_errno(err, "cannot keep capabilities");
	if (r < 0)
		return r;
	if (plan->range && bundle->n_groups > 0 && setgroups(bundle->n_groups, bundle->groups) < 0)
		return err_errno(err, "cannot enter the groups of the container's process");
	if (plan->range && (setresgid(group, group, group) < 0 || setresuid(agent, agent, agent) < 0))
		return err_errno(err, "cannot become the agent");
	return CONTROL_ON("caps") ? privileges_drop(err) : 0;
}

enum filter_profile
ns_choose_filter(const struct cell_spec *spec)
{
	if (spec->image.build)
		return ns_has_range() ? FILTER_BUILD : FILTER_BUILD_ALONE;
	if (spec->profile != CELL_PROFILE_NESTED)
		return FILTER_DEFAULT;
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].access == CELL_WRITE ||
		    /* Its changes are on the host's disk from the start. */
		    (spec->grants[i].access == CELL_OVERLAY && !overlay_fits_memory()))
			return FILTER_NESTED;
	return FILTER_NESTED_APART;
}

/* "NAME=VALUE" of the calls that are taken away from the cell's processes; NULL: there are none. */
static char *
put_calls(const struct boundary_ground *ground, char ret_text[sizeof(INIT_CALLS) + 2 * INIT_CALLS_LEN + 1])
{
	OWN(buf_free) struct buf b = BUF(INIT_CALLS_LEN);

	if (ground->calls == NULL || call_set_is_empty(ground->calls))
		return NULL;
	call_set_put(&b, ground->calls);
	assert(!buf_failed(&b) && b.len == INIT_CALLS_LEN);
	memcpy(ret_text, INIT_CALLS "=", sizeof(INIT_CALLS));
	codec_hex(b.data, b.len, ret_text + sizeof(INIT_CALLS));
	return ret_text;
}

/* Puts descriptors where init expects them; nothing else survives the exec. */
static int
become_init(const struct ns_plan *plan, int landlock, struct err *err)
{
	const struct cell_limits *limits = &plan->spec->limits;
	char filter[2] = { (char)('0' + ns_choose_filter(plan->spec)), '\0' }, over[24];
	char flags[8] = "", *argv[] = { (char[]){ "cloister-init" }, filter, over, flags, NULL };
	char calls[sizeof(INIT_CALLS) + 2 * INIT_CALLS_LEN + 1], *envp[] = { put_calls(plan->ground, calls), NULL, NULL };
	int null, channel, ssh = *plan->ssh, timing = timing_file, forker = plan->forker > 0 ? plan->forker : -1, exe = fcntl(plan->init_exe, F_DUPFD_CLOEXEC, 100);

#ifdef CLOISTER_MUTANT
	const char *off = getenv("CLOISTER_OFF");
	if (off != NULL)
		envp[envp[0] != NULL] = str_format("CLOISTER_OFF=%s", off);
#endif
	snprintf(over, sizeof(over), "%llu",
	         (unsigned long long)cell_limits_over_ms(limits->time_ms, limits->ttl_ms));
	snprintf(flags, sizeof(flags), "%s%s%s%s%s%s%s", landlock >= 0 ? (char[]){ INIT_HAS_LANDLOCK, '\0' } : "",
	         ssh >= 0 ? (char[]){ INIT_HAS_SSH, '\0' } : "",
	         plan->stream >= 0 ? (char[]){ INIT_BY_STREAM, '\0' } : "",
	         forker >= 0 ? (char[]){ INIT_HAS_FORKER, '\0' } : "",
	         timing >= 0 ? (char[]){ INIT_IS_TIMED, '\0' } : "",
	         plan->notifies ? (char[]){ INIT_NOTIFIES, '\0' } : "",
	         plan->range ? "" : (char[]){ INIT_SPARES_FILES, '\0' });
	channel = fcntl(plan->stream >= 0 ? plan->stream : plan->channel, F_DUPFD_CLOEXEC, 100);
	if (landlock >= 0)
		landlock = fcntl(landlock, F_DUPFD_CLOEXEC, 100);
	if (timing >= 0)
		timing = fcntl(timing, F_DUPFD_CLOEXEC, 100);
	if (ssh >= 0)
		ssh = fcntl(ssh, F_DUPFD_CLOEXEC, 100);
	if (forker >= 0)
		forker = fcntl(forker, F_DUPFD_CLOEXEC, 100);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (exe < 0 || (plan->forker > 0 && dup2(forker, INIT_FORK_FD) < 0) || channel < 0 || dup2(channel, INIT_CHANNEL_FD) < 0 ||
	    (landlock >= 0 && dup2(landlock, INIT_LANDLOCK_FD) < 0) ||
	    (timing >= 0 && dup2(timing, INIT_TIMING_FD) < 0) || (ssh >= 0 && dup2(ssh, INIT_SSH_FD) < 0) ||
	    dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return err_errno(err, "cannot arrange init's descriptors");
	if (ns_limit_as_bundle(&plan->spec->bundle, err) < 0)
		return -err->code;
	syscall(SYS_execveat, exe, "", argv, envp, AT_EMPTY_PATH);
	return err_errno(err, "cannot run cloister-init");
}

int
ns_build(const struct ns_plan *given, struct err *err)
{
	struct ns_plan own = *given, *plan = &own;
	int landlock = -1, ssh = -1, r = ns_set_kernel(plan, err);

	own.ssh = &ssh;
	if (r == 0)
		r = ns_build_root(plan, err);
	if (r == 0)
		r = ns_join_net(plan, &own.notifies, err);
	timing_mark(TIMING_NETWORK);
	if (r == 0)
		r = ns_set_limits(plan, err);
	if (r == 0)
		r = make_landlock(plan, &landlock, err);
	if (r == 0)
		r = ns_drop_everything(plan, err);
	timing_mark(TIMING_DROPPED);
	return r < 0 ? r : become_init(plan, landlock, err);
}

static int
build_cell(const struct ns_plan *plan, struct err *err)
{
	int r;

	/* The process enters by itself: moving another process costs the kernel a wait. */
	r = plan->cgroup == NULL ? 0 : cgroup_enter_self(plan->cgroup, err);
	if (r == 0)
		r = wait_for_maps(plan, err);
	timing_mark(TIMING_ENTERED);
	if (r == 0)
		r = ns_become_inner_root(plan, err);
	if (r == 0 && CONTROL_ON("cgroupns") && unshare(CLONE_NEWCGROUP) < 0)
		r = err_errno(err, "cannot make a cgroup namespace (see `cloister doctor`)");
	if (r < 0)
		return r;
	return plan->inside != NULL ? plan->inside->build(plan, err) : ns_build(plan, err);
}

void
ns_child_fail(const struct ns_plan *plan, const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)ipc_send(plan->channel, &message, NULL, 0, NULL);
	_exit(125);
}

void
ns_child_run(struct ns_plan *plan)
{
	struct err err = {0};
	sigset_t none;

	/* The supervisor may die at any moment. */
	if (CONTROL_ON("pdeath"))
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The agent must not inherit signals that the supervisor ignores. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	(void)build_cell(plan, &err);
	ns_child_fail(plan, &err);
}
