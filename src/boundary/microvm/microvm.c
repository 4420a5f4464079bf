/* microvm.c - the boundary of a virtual machine in namespaces, seen from the supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/namespace/ns_walls.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "ipc/ipc.h"

#define LOG_MAX 200
#define LOG_SIZE 4096
#define BOOT_MS 30000                   /* how long a guest may take to start */
#define BOOT_EMULATED_MS 180000

/* ---- in the child ---- */

/* Like init's own lockdown: the monitor may change no file at all. */
static int
lock_down(int landlock, struct err *err)
{
	/* Set again: changing ids has cleared it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot restrict the virtual machine");
	if (landlock_enforce(landlock, err) < 0)
		return -err->code;
	return filter_load(FILTER_MONITOR, err);
}

static int
vm_build(const struct ns_plan *agents, struct err *err)
{
	static const char *const nothing[] = { NULL };
	const struct vm *vm = agents->inside->arg;
	struct cell_spec spec = *agents->spec;
	struct ns_plan outer = *agents, *plan = &outer;
	int share = -1, landlock = -1, r;

	/* A profile that lets the agent do more is for the guest. */
	spec.profile = CELL_PROFILE_DEFAULT;
	outer.spec = &spec;
	/* Keys of the operator's terminal are for the supervisor: unlike init, the monitor would obey. */
	(void)setsid();
	r = ns_set_kernel(plan, err);
	if (r == 0)
		r = vm_build_root(plan, vm, err);
	if (r == 0)
		r = ns_join_net(plan, err);
	if (r == 0)
		r = ns_set_limits(plan, err);
	if (r == 0)
		r = vm_share(plan, &share, err);
	if (r == 0)
		r = landlock_make(LANDLOCK_FILES_TOO, nothing, &landlock, err);
	if (r == 0)
		r = ns_drop_everything(plan, err);
	if (r == 0)
		r = lock_down(landlock, err);
	return r < 0 ? r : vm_become_qemu(plan, vm, plan->stream, share, err);
}

/* ---- in the supervisor ---- */

/* The cell as the guest builds it: the shared tree is its root file system, and workspaces are merged
 * already.  It learns no path of the host. */
static int
describe_guest(const struct cell_spec *spec, struct cell_spec *ret_guest, struct cell_grant *grants,
               struct err *err)
{
	static char none[] = "", host[] = VM_GUEST_HOST, command[] = "agent";
	static char *nothing[] = { NULL }, *argv[] = { command, NULL };

	*ret_guest = (struct cell_spec){ .name = none, .hostname = spec->hostname, .cwd = spec->cwd, .rootfs = host,
		.argv = argv, .env = nothing, .grants = grants, .n_grants = spec->n_grants, .limits = spec->limits,
		.profile = spec->profile, .root = spec->root, .has_policy = spec->has_policy,
		.n_files = spec->n_files, .audit_max = CELL_AUDIT_MAX };
	memcpy(ret_guest->id, spec->id, sizeof(ret_guest->id));
	memcpy(ret_guest->files, spec->files, sizeof(ret_guest->files));
	for (size_t i = 0; i < spec->n_grants; i++) {
		grants[i] = spec->grants[i];
		grants[i].access = grants[i].access == CELL_OVERLAY ? CELL_WRITE : grants[i].access;
		grants[i].host = str_format(VM_GUEST_HOST "%s", spec->grants[i].cell);
		if (grants[i].host == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int
vm_greet(const struct ns_plan *plan, int stream, struct err *err)
{
	struct cell_grant grants[CELL_GRANTS_MAX] = {0};
	OWN(buf_free) struct buf message = BUF(VM_GUEST_MESSAGE_MAX);
	unsigned char entropy[VM_GUEST_ENTROPY];
	struct cell_spec guest;
	const struct timeval limit = { .tv_sec = BOOT_MS / 1000 };
	struct timespec now;
	int r = describe_guest(plan->spec, &guest, grants, err);

	clock_gettime(CLOCK_REALTIME, &now);
	if (r == 0 && getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
		r = err_errno(err, "cannot make random numbers for the guest");
	if (r == 0) {
		buf_put_u32(&message, VM_GUEST_VERSION);
		buf_put_u64(&message, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
		buf_put_u32(&message, plan->spec->has_policy ? VM_GUEST_NET : 0);
		buf_put(&message, entropy, sizeof(entropy));
		cell_spec_put(&message, &guest);
		if (buf_failed(&message))
			r = err_set(err, E2BIG, "the files of the agent's home are too large for a virtual machine");
	}
	for (size_t i = 0; i < plan->spec->n_grants; i++)
		free(grants[i].host);
	if (r < 0)
		return r;
	/* A guest that does not read must not hold the supervisor for ever. */
	if (setsockopt(stream, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return err_errno(err, "cannot set a limit for the guest's start");
	return ipc_write(stream, &message, err);
}

/* Real root opens what the cell's own root cannot reach by its path. */
static int
open_mount(const char *path)
{
	return ns_has_range() ? mounts_copy_tree(AT_FDCWD, path, NULL) : -1;
}

/* A device that belongs to the cell's agent: root's cells are nobody outside, and in no group. */
static int
make_kvm(const struct cell_spec *spec, unsigned slot, int *ret_mount, struct err *err)
{
	static const char *const options[] = { "mode", "0755", "size", "4k", "nr_inodes", "4", NULL };
	const uid_t agent = ns_inner_root(slot) + (spec->root ? 0 : CELL_AGENT_ID);
	OWN(closep) int folder = -1;
	struct stat st;

	if (!ns_has_range() || spec->vm_emulated)
		return 0;
	if (stat("/dev/kvm", &st) < 0 || !S_ISCHR(st.st_mode))
		return err_errno(err, "there is no /dev/kvm, so no virtual machine can run (see `cloister doctor`)");
	folder = mounts_new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
	if (folder < 0)
		return folder;
	if (mknodat(folder, "kvm", S_IFCHR | 0600, st.st_rdev) < 0 || fchownat(folder, "kvm", agent, agent, 0) < 0)
		return err_errno(err, "cannot make a device for the virtual machine");
	*ret_mount = TAKE_FD(folder);
	return 0;
}

/* Adds what the monitor complained of.  No agent has run yet, so the text is the monitor's own. */
static void
explain(int log, struct err *err)
{
	char text[LOG_MAX + 1] = "";

	if (pread(log, text, LOG_MAX, 0) <= 0 || text[0] == '\0')
		return;
	text[strcspn(text, "\n")] = '\0';
	for (char *at = text; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	(void)err_set(err, err->code, "the virtual machine did not start: %s", text);
}

/* The monitor's standard error.  It has an end, because a guest can make a monitor complain. */
static int
make_log(struct err *err)
{
	OWN(closep) int log = memfd_create("monitor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (log < 0 || ftruncate(log, LOG_SIZE) < 0 ||
	    fcntl(log, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_errno(err, "cannot make a log for the virtual machine");
	return TAKE_FD(log);
}

/* The limits on the cell's time begin with its start. */
static int64_t
end_of_start(const struct cell_spec *spec)
{
	uint64_t ms = spec->vm_emulated ? BOOT_EMULATED_MS : BOOT_MS;

	if (spec->limits.time_ms > 0 && spec->limits.time_ms < ms)
		ms = spec->limits.time_ms;
	if (spec->limits.ttl_ms > 0 && spec->limits.ttl_ms < ms)
		ms = spec->limits.ttl_ms;
	return io_now_ms() + (int64_t)ms;
}

static int
microvm_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
              struct err *err)
{
	struct vm vm = { .kernel = open_mount(spec->vm_kernel), .initramfs = open_mount(spec->vm_initramfs),
	                 .kvm = -1, .log = make_log(err), .emulated = spec->vm_emulated };
	const struct ns_inside inside = { vm_build, vm_greet, &vm, end_of_start(spec) };
	int r = vm.log < 0 ? vm.log : make_kvm(spec, ground->slot, &vm.kvm, err);

	if (r == 0)
		r = ns_start(spec, ground, true, &inside, ret_walls, err);
	if (r < 0 && vm.log >= 0)
		explain(vm.log, err);
	closep(&vm.kernel);
	closep(&vm.initramfs);
	closep(&vm.kvm);
	closep(&vm.log);
	return r;
}

static int
microvm_check(const struct cell_spec *spec, struct err *err)
{
	if (spec->vm_kernel == NULL)
		return err_set(err, EINVAL, "the cell's description names no kernel for its virtual machine");
	if (spec->known_hosts[0] != '\0')
		return err_set(err, ENOTSUP, "a virtual machine has no SSH agent yet: use --boundary namespace");
	if (spec->n_ports > 0)
		return err_set(err, ENOTSUP, "a virtual machine cannot publish ports yet: use --boundary namespace");
	return vm_find_qemu(err) < 0 ? -err->code : ns_check(spec, err);
}

/* The agent is the guest's own, and has no pid here. */
static void
microvm_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	ns_pids(w, ret_first, ret_agent);
	*ret_agent = 0;
}

const struct boundary boundary_microvm = {
	.name = BOUNDARY_MICROVM, .examine = vm_examine, .able = vm_able, .start = microvm_start, .check = microvm_check,
	.pids = microvm_pids, NS_COMMON,
};
