/* vm_child.c - the first process of a cell with a virtual machine, from its namespaces to the monitor. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_guest.h"
#include "confine/filter.h"
#include "confine/landlock.h"

#define DEVICE "/dev/net/tun"

/* Like init's own lockdown: the monitor may change no file at all, or only sockets of its own. */
int
vm_lock_down(const struct vm *vm, int landlock, struct err *err)
{
	/* Set again: changing ids has cleared it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot restrict the virtual machine");
	if (landlock_enforce(landlock, err) < 0)
		return -err->code;
	return filter_load(vm->driver->filter, err);
}

/* Memory with a name: a monitor by sockets opens it, and leaves it out of what it writes as a snapshot. */
static int
name_memory(struct vm *vm, struct err *err)
{
	int *at = vm->machine.start == VM_RECORD ? &vm->memory : &vm->machine.ram;

	*at = open("/" VM_SOCKETS "/" VM_MEMORY, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (*at < 0 || ftruncate(*at, (off_t)vm->machine.memory) < 0 || mkdir("/" VM_SOCKETS "/" VM_SNAPSHOT, 0700) < 0)
		return err_errno(err, "cannot make the virtual machine's memory");
	return 0;
}

/* Where the monitor is told what to do, and where it passes the guest's connection on. */
static int
make_listeners(struct vm *vm, int *ret_port, struct err *err)
{
	char path[64];
	int r = vm->driver->opens_tap ? 0 : vm_connect_pair(&vm->machine.control, &vm->machine.keeper, err);

	if (r == 0 && vm->machine.start != VM_BOOT)
		r = name_memory(vm, err);
	snprintf(path, sizeof(path), "/" VM_SOCKETS "/" VM_VSOCK "_%d", VM_GUEST_VSOCK);
	return r < 0 ? r : vm_listen(path, ret_port, err);
}

/* The control socket; and a port, which a machine without a cell has only to its keeper. */
static int
make_sockets(struct vm *vm, int stream, int *ret_port, struct err *err)
{
	struct vm_machine *m = &vm->machine;
	int control[2], port[2];

	m->port = stream;
	if (vm->driver->by_sockets)
		return make_listeners(vm, ret_port, err);
	if (m->start == VM_BOOT)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	m->control = control[0];
	m->keeper = control[1];
	if (m->start != VM_RECORD)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, port) < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	m->port = port[0];
	*ret_port = port[1];
	return 0;
}

/* The device that makes taps, which is not in the monitor's root; -1: none is needed. */
static int
find_tap(const struct ns_plan *plan, const struct vm *vm, int *ret_device, struct err *err)
{
	*ret_device = -1;
	if (!vm->machine.has_net || (!plan->spec->vm_tap && !vm->driver->by_sockets))
		return 0;
	*ret_device = open(DEVICE, O_PATH | O_CLOEXEC);
	return *ret_device < 0 ? err_errno(err, "cannot find " DEVICE " for a tap: load the module tun, or use "
	                                   "--vm-net user") : 0;
}

/* Everything up to the rights: what remains is the monitor's, and its keeper's. */
static int
prepare(const struct ns_plan *plan, struct vm *vm, int *ret_landlock, struct err *err)
{
	static const char *const nothing[] = { NULL }, *const sockets[] = { "/" VM_SOCKETS, NULL };
	OWN(closep) int tun = -1;
	int alive = vm->alive, r = ns_set_kernel(plan, err);
	bool notifies;

	if (r == 0)
		r = find_tap(plan, vm, &tun, err);
	if (r == 0)
		r = vm_build_root(plan, vm, err);
	if (r == 0)
		r = ns_join_net(plan, &notifies, err);
	if (r == 0 && tun >= 0)
		r = capture_make_tap(tun, &vm->machine.tap, err);
	if (r == 0 && tun >= 0 && vm->driver->opens_tap)
		r = capture_leave_tap(&vm->machine.tap, plan->spec->root ? 0 : CELL_AGENT_ID, err);
	if (r == 0)
		r = ns_set_limits(plan, err);
	if (r == 0 && vm_has_share(vm))
		r = vm_share(plan, vm->driver->by_sockets, &vm->machine.share, &alive, err);
	if (r == 0)
		r = landlock_make(LANDLOCK_FILES_TOO, vm->driver->by_sockets ? sockets : nothing, ret_landlock, err);
	if (r == 0)
		r = ns_drop_everything(plan, err);
	return r < 0 || alive < 0 ? r : vm_end_with_server(alive, err);
}

int
vm_build(const struct ns_plan *agents, struct err *err)
{
	struct vm vm = *(const struct vm *)agents->inside->arg;
	struct cell_spec spec = *agents->spec;
	struct ns_plan outer = *agents;
	int landlock = -1, port = -1, r;

	/* A profile that lets the agent do more is for the guest. */
	spec.profile = CELL_PROFILE_DEFAULT;
	outer.spec = &spec;
	/* Keys of the operator's terminal are for the supervisor: unlike init, the monitor would obey. */
	(void)setsid();
	/* A monitor waits for no children, and this one is the parent of all. */
	signal(SIGCHLD, SIG_IGN);
	r = prepare(&outer, &vm, &landlock, err);
	if (r == 0)
		r = make_sockets(&vm, outer.stream, &port, err);
	if (r == 0 && (vm.machine.start != VM_BOOT || vm.driver->by_sockets))
		r = vm_keep(&vm, port, landlock, err);
	if (r == 0)
		r = vm_lock_down(&vm, landlock, err);
	return r < 0 ? r : vm.driver->become(&vm.machine, err);
}
