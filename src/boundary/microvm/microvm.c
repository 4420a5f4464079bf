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
#include <sys/resource.h>
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
#define MIB (UINT64_C(1) << 20)
#define MEMORY_LEAST (128 * MIB)
#define MEMORY_LEAST_TEXT "128M"

/* The cell as the guest builds it: the disk or the shared tree is its root file system, and workspaces are merged
 * already.  It learns no path of the host. */
static int
describe_guest(const struct cell_spec *spec, bool has_disk, struct cell_spec *ret_guest, struct cell_grant *grants,
               struct err *err)
{
	static char none[] = "", host[] = VM_GUEST_HOST, disk[] = VM_GUEST_DISK, command[] = "agent";
	static char *nothing[] = { NULL }, *argv[] = { command, NULL }, *of_disk[] = { disk, NULL }, *of_host[] = { host, NULL };

	*ret_guest = (struct cell_spec){ .name = none, .hostname = spec->hostname, .cwd = spec->cwd,
		.rootfs = spec->image.layers != NULL ? none : has_disk ? disk : host,
		.argv = argv, .env = nothing, .grants = grants, .n_grants = spec->n_grants, .limits = spec->limits,
		.profile = spec->profile, .root = spec->root, .has_policy = spec->has_policy,
		.n_files = spec->n_files, .known_hosts = spec->known_hosts, .audit_max = CELL_AUDIT_MAX };
	if (spec->image.layers != NULL)
		ret_guest->image = (struct cell_image){ .layers = has_disk ? of_disk : of_host, .name = none,
			.uid = spec->image.uid, .gid = spec->image.gid };
	memcpy(ret_guest->id, spec->id, sizeof(ret_guest->id));
	memcpy(ret_guest->files, spec->files, sizeof(ret_guest->files));
	for (size_t i = 0; i < spec->n_grants; i++) {
		grants[i] = spec->grants[i];
		grants[i].access = grants[i].access == CELL_OVERLAY || grants[i].access == CELL_VOLUME ? CELL_WRITE : grants[i].access;
		grants[i].host = str_format(VM_GUEST_HOST "%s", spec->grants[i].cell);
		if (grants[i].host == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static uint32_t
flags_of(const struct ns_plan *plan, const struct vm_machine *m)
{
	return (plan->spec->again != NULL ? VM_GUEST_FORKABLE : 0u) | (m->has_net ? VM_GUEST_NET : 0u) | (m->has_share ? VM_GUEST_HAS_SHARE : 0u) |
	       (m->has_disk ? VM_GUEST_HAS_DISK : 0u) |
	       (m->has_disk && plan->ground->trust != NULL ? VM_GUEST_TRUST : 0u);
}

int
vm_greet(const struct ns_plan *plan, int stream, struct err *err)
{
	const struct vm_machine *m = &((const struct vm *)plan->inside->arg)->machine;
	struct cell_grant grants[CELL_GRANTS_MAX] = {0};
	OWN(buf_free) struct buf message = BUF(VM_GUEST_MESSAGE_MAX);
	unsigned char entropy[VM_GUEST_ENTROPY];
	struct cell_spec guest;
	const struct timeval limit = { .tv_sec = VM_BOOT_MS / 1000 };
	struct timespec now;
	int r = describe_guest(plan->spec, m->has_disk, &guest, grants, err);

	clock_gettime(CLOCK_REALTIME, &now);
	if (r == 0 && getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
		r = err_errno(err, "cannot make random numbers for the guest");
	if (r == 0) {
		buf_put_u32(&message, VM_GUEST_VERSION);
		buf_put_u64(&message, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
		buf_put_u32(&message, flags_of(plan, m));
		buf_put_str(&message, m->mac);
		buf_put(&message, entropy, sizeof(entropy));
		cell_spec_put(&message, &guest);
		if ((flags_of(plan, m) & VM_GUEST_TRUST) != 0)
			r = vm_put_trust(&message, plan, err);
		if (r == 0 && buf_failed(&message))
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

/* The first line of TEXT that is more than a warning, as a string of its own; NULL: there is none. */
static char *
find_complaint(char *text)
{
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, "warning: ") == NULL)
			return line;
	return NULL;
}

void
vm_explain(int log, struct err *err)
{
	char text[LOG_SIZE + 1] = "", *why;

	/* Then it ended because of this process. */
	if (err->code == ETIMEDOUT || err->code == EINTR)
		return;
	if (pread(log, text, LOG_SIZE, 0) <= 0 || (why = find_complaint(text)) == NULL)
		return;
	for (char *at = why; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	(void)err_set(err, err->code, "the virtual machine did not start: %.*s", LOG_MAX, why);
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
int64_t
vm_end_of_start(const struct cell_spec *spec)
{
	uint64_t ms = VM_BOOT_MS;

	if (spec->limits.time_ms > 0 && spec->limits.time_ms < ms)
		ms = spec->limits.time_ms;
	if (spec->limits.ttl_ms > 0 && spec->limits.ttl_ms < ms)
		ms = spec->limits.ttl_ms;
	return io_now_ms() + (int64_t)ms;
}

/* An address of its own, in the range for local use. */
static int
choose_mac(char mac[VM_MAC_SIZE])
{
	unsigned char b[5];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -errno;
	snprintf(mac, VM_MAC_SIZE, "02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4]);
	return 0;
}

static int
make_memory(uint64_t size, struct err *err)
{
	OWN(closep) int ram = memfd_create("guest", MFD_CLOEXEC);

	if (ram < 0 || ftruncate(ram, (off_t)size) < 0)
		return err_errno(err, "cannot make the virtual machine's memory");
	return TAKE_FD(ram);
}

void
vm_close(struct vm *vm)
{
	int *const fds[] = { &vm->kernel, &vm->initramfs, &vm->disk, &vm->kvm, &vm->memory, &vm->recorded, &vm->points, &vm->machine.ram,
	                     &vm->machine.state, &vm->machine.log };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close_fd(fds[i]);
}

/* More processors than this machine has would only wait for each other. */
static unsigned
count_cpus(const struct cell_spec *spec)
{
	const long here = sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned asked = (unsigned)((spec->limits.cpus_milli + 999) / 1000);

	if ((spec->limits.asked & CELL_LIMIT_CPUS) == 0 && spec->vm_emulated)
		return 1;
	return here > 0 && asked > (unsigned long)here ? (unsigned)here : asked;
}

int
vm_describe(const struct cell_spec *spec, struct vm *ret_vm, struct err *err)
{
	const struct cell_limits *limits = &spec->limits;

	*ret_vm = (struct vm){ .driver = vm_choose_driver(spec->vm_monitor, err), .kernel = -1, .initramfs = -1,
		.disk = -1, .kvm = -1, .memory = -1, .recorded = -1, .waits = -1, .alive = -1, .points = -1 };
	ret_vm->machine = (struct vm_machine){ .start = VM_BOOT, .memory = limits->memory / MIB * MIB,
		.cpus = count_cpus(spec), .emulated = spec->vm_emulated,
		.has_net = spec->has_policy, .ram = -1, .state = -1, .port = -1, .tap = -1, .share = -1, .control = -1,
		.keeper = -1, .log = -1 };
	if (ret_vm->driver == NULL)
		return -err->code;
	ret_vm->machine.has_disk = spec->vm_disk != NULL && ret_vm->driver->takes_disk;
	ret_vm->machine.has_share = !ret_vm->machine.has_disk || spec->n_grants > 0;
	if (choose_mac(ret_vm->machine.mac) < 0)
		return err_errno(err, "cannot make random numbers for the guest");
	return 0;
}

int
vm_open(const struct cell_spec *spec, unsigned slot, struct vm *vm, struct err *err)
{
	int r = vm->machine.log = make_log(err);

	if (r >= 0 && vm->machine.ram < 0)
		r = vm->machine.ram = make_memory(vm->machine.memory, err);
	vm->kernel = open_mount(spec->vm_kernel);
	vm->initramfs = open_mount(spec->vm_initramfs);
	vm->disk = vm->machine.has_disk ? open_mount(spec->vm_disk) : -1;
	return r < 0 ? r : make_kvm(spec, slot, &vm->kvm, err);
}

static int
await_recorded(int pipe, int64_t until_ms, struct err *err)
{
	int r = io_await(pipe, until_ms);
	char byte;

	if (r == -EINTR)
		return err_set(err, EINTR, "interrupted while a template for virtual machines was made");
	if (r < 0 || read(pipe, &byte, 1) != 1)
		return err_set(err, r == -ETIMEDOUT ? ETIMEDOUT : EIO, "the virtual machine did not boot");
	return byte == 0 ? 0 : err_set(err, EAGAIN, "the guest could not get ready");
}

int
vm_record(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm, struct err *err)
{
	const struct ns_inside inside = { .build = vm_build, .arg = vm };
	const int64_t until = io_now_ms() + VM_BOOT_MS;
	struct cell_spec alone = *spec;
	struct boundary_ground bare = *ground;
	struct walls *walls = NULL;
	int ends[2], r = vm_open(spec, ground->slot, vm, err);

	if (r == 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = err_errno(err, "cannot make a pipe");
	if (r < 0)
		return r;
	vm->recorded = ends[1];
	/* Nothing of the operator's or the agent's is in a template.  Behind its network card nobody answers. */
	alone.n_grants = alone.n_files = 0;
	alone.has_policy = vm->machine.has_net;
	bare.meanwhile = NULL;
	bare.begun = NULL;
	bare.before_spawn = NULL;
	bare.notifies = NULL;
	bare.trust = NULL;
	bare.changes = -1;
	bare.memory = bare.state = -1;
	r = ns_start(&alone, &bare, true, &inside, &walls, err);
	close_fd(&vm->recorded);
	if (r == 0)
		r = await_recorded(ends[0], until, err);
	close(ends[0]);
	if (walls != NULL)
		ns_abandon(walls);
	if (r < 0)
		vm_explain(vm->machine.log, err);
	return r;
}

/* Of a machine that can be copied: between its supervisor and its keeper. */
static int
make_points(struct vm *vm, int *ret_points, struct err *err)
{
	int ends[2];

	if (vm->machine.start != VM_RESTORE)
		return err_set(err, ENOTSUP, "--forkable needs a machine that starts from a template: remove --vm-boot, and look whether "
		               "the data folder can be written");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	*ret_points = ends[0];
	vm->points = ends[1];
	return 0;
}

static int
microvm_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
              struct err *err)
{
	struct vm vm;
	struct ns_inside inside = { .build = vm_build, .greet = vm_greet, .arg = &vm };
	OWN(closep) int points = -1;
	int r = ground->waiting == NULL ? -EAGAIN : vm_adopt(spec, ground, ret_walls, err);

	if (r != -EAGAIN)
		return r;
	r = vm_describe(spec, &vm, err);

	/* An operator's preference for the size of files holds for files in memory too.  Under a hard limit,
	 * writing fails. */
	(void)vm_lift_limit(RLIMIT_FSIZE);
	signal(SIGXFSZ, SIG_IGN);
	if (r == 0 && spec->fork_of.id[0] != '\0')
		r = vm_begin_fork(spec, ground, &vm, err);
	else if (r == 0 && !spec->vm_boots && vm.driver->restore != NULL)
		r = vm_prepare_template(spec, ground, &vm, err);
	if (r == 0 && spec->again != NULL)
		r = make_points(&vm, &points, err);
	if (r == 0)
		r = vm_open(spec, ground->slot, &vm, err);
	inside.until_ms = vm_end_of_start(spec);
	if (r == 0)
		r = ns_start(spec, ground, true, &inside, ret_walls, err);
	if (r == 0 && !vm.driver->by_sockets && vm.machine.start != VM_FORK)
		(*ret_walls)->memory = TAKE_FD(vm.machine.ram);
	if (r == 0)
		(*ret_walls)->points = TAKE_FD(points);
	if (r < 0 && vm.machine.log >= 0)
		vm_explain(vm.machine.log, err);
	/* The monitor or the guest has failed, and not what was asked of them. */
	if (vm.machine.start == VM_RESTORE && (r == -EPIPE || r == -EBADMSG))
		vm_forget_template(spec, &vm);
	vm_close(&vm);
	return r;
}

static int
microvm_check(const struct cell_spec *spec, struct err *err)
{
	const struct vm_driver *driver;

	if (spec->vm_kernel == NULL)
		return err_set(err, EINVAL, "the cell's description names no kernel for its virtual machine");
	if (spec->bundle.layers != NULL)
		return err_set(err, ENOTSUP, "the container of an engine has no virtual machine: its boundary is `namespace`");
	if (spec->limits.memory < MEMORY_LEAST)
		return err_set(err, EINVAL, "a virtual machine also needs memory for its kernel: use --memory %s or more",
		               MEMORY_LEAST_TEXT);
	if (ns_refuse_sockets(spec, "a virtual machine", err) < 0)
		return -err->code;
	driver = vm_choose_driver(spec->vm_monitor, err);
	if (driver == NULL || (driver->check != NULL && driver->check(spec, err) < 0))
		return -err->code;
	return ns_check(spec, err);
}

/* The agent is the guest's own, and has no pid here. */
static void
microvm_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	ns_pids(w, ret_first, ret_agent);
	*ret_agent = 0;
}

static const char *
microvm_monitor(const struct cell_spec *spec)
{
	const struct vm_driver *driver = vm_choose_driver(spec->vm_monitor, NULL);

	return driver == NULL ? spec->vm_monitor : driver->program != NULL ? driver->program : driver->name;
}

const struct boundary boundary_microvm = {
	.name = BOUNDARY_MICROVM, .examine = vm_examine, .able = vm_able, .monitor = microvm_monitor,
	.start = microvm_start, .wait = vm_wait, .check = microvm_check, .pids = microvm_pids, NS_COMMON,
	.can_pause = vm_can_pause, .put_aside = vm_put_aside, .bring_back = vm_bring_back, .take_point = vm_take_point,
};
