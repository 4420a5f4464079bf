/* vm_root.c - the files of a cell with a virtual machine: the guest's tree, and the monitor's root. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "ipc/init_channel.h"

/* Where the workspaces' changes are mounted meanwhile, as an overlay requires: no grant is beneath it. */
#define ASIDE "dev"
#define SOCKETS_SIZE (1ULL << 20)         /* with the state of devices */

/* The root of an ordinary cell, without what the guest's own kernel provides; only its grants, if the programs
 * are on a disk.  Workspaces are merged here, so that their changes are outside the guest. */
static int
build_tree(const struct ns_plan *plan, bool has_disk, int *ret_tree, struct err *err)
{
	const bool trust = plan->ground->trust != NULL && !has_disk;
	OWN(closep) int tree = -1, scratch = -1;
	int r = ns_begin_root(trust ? "32m" : "4m", !has_disk && plan->spec->image.layers != NULL, &tree, err);

	if (r == 0 && !has_disk)
		r = ns_show_programs(plan, &tree, err);
	if (r == 0 && trust && cell_spec_programs(plan->spec) == CELL_PROGRAMS_HOST)
		r = ns_make_trust(tree, plan, err);
	if (r == 0)
		r = scratch = ns_new_scratch(plan, err);
	if (r >= 0)
		r = mounts_attach(scratch, tree, ASIDE, err);
	if (r == 0)
		r = ns_attach_grants(plan, tree, scratch, err);
	if (r == 0 && umount2(ASIDE, MNT_DETACH) < 0)
		r = err_errno(err, "cannot put the workspaces' changes aside");
	if (r == 0)
		r = ns_send_fds(plan, INIT_SCRATCH, 0, &scratch, 1, err);
	if (r == 0)
		*ret_tree = TAKE_FD(tree);
	return r;
}

/* The guest's tree, with everything that is mounted in it. */
static int
take_tree(const struct ns_plan *plan, bool has_disk, int *ret_tree, int *ret_copy, struct err *err)
{
	int r = build_tree(plan, has_disk, ret_tree, err);

	if (r < 0)
		return r;
	*ret_copy = open_tree(*ret_tree, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (*ret_copy < 0)
		return err_errno(err, "cannot take the guest's files");
	r = ns_leave_tree(err);
	if (r < 0)
		return r;
	/* The tree itself, without what is mounted in it. */
	return mounts_set_attrs(*ret_copy, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);
}

static int
show_file(int mount, const char *path, int root, const char *name, struct err *err)
{
	OWN(closep) int from = mount >= 0 ? mount : mounts_copy_tree(AT_FDCWD, path, err);
	int r = from < 0 ? from : mounts_set_attrs(from, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);

	if (r == 0 && mknodat(root, name, S_IFREG | 0644, 0) < 0)
		r = err_errno(err, "cannot make '/%s'", name);
	return r < 0 ? r : mounts_attach(from, root, name, err);
}

/* An ordinary user may open the device because of a group, which the cell's processes keep. */
static int
show_kvm(int device, int root, struct err *err)
{
	if (device < 0) {
		if (mknodat(root, "dev/kvm", S_IFREG | 0644, 0) < 0 ||
		    mount("/dev/kvm", "dev/kvm", NULL, MS_BIND, NULL) < 0)
			return err_errno(err, "cannot show /dev/kvm to the virtual machine (see `cloister doctor`)");
		return 0;
	}
	if (mkdirat(root, "dev/vm", 0755) < 0 || symlinkat("vm/kvm", root, "dev/kvm") < 0)
		return err_errno(err, "cannot make '/dev/kvm'");
	return mounts_attach(device, root, "dev/vm", err);
}

static int
show_tun(int root, struct err *err)
{
	if (mkdirat(root, "dev/net", 0755) < 0 || mknodat(root, "dev/net/tun", S_IFREG | 0644, 0) < 0 ||
	    mount("/dev/net/tun", "dev/net/tun", NULL, MS_BIND, NULL) < 0)
		return err_errno(err, "cannot show /dev/net/tun to the virtual machine");
	return 0;
}

/* Where a monitor makes its sockets; nothing else is in there with it but the memory of a machine that has to do
 * with a template. */
static int
make_sockets(const struct vm_machine *m, int root, struct err *err)
{
	char size[32];
	const char *const options[] = { "mode", "0777", "size", size, "nr_inodes", "16", NULL };
	OWN(closep) int folder = -1;

	snprintf(size, sizeof(size), "%llu", SOCKETS_SIZE + (m->start == VM_BOOT ? 0 : (unsigned long long)m->memory));
	folder = mounts_new_fs("tmpfs", options, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC, err);

	if (folder < 0)
		return folder;
	if (mkdirat(root, VM_SOCKETS, 0755) < 0)
		return err_errno(err, "cannot make '/" VM_SOCKETS "'");
	return mounts_attach(folder, root, VM_SOCKETS, err);
}

/* What only the monitor needs. */
static int
show_monitors(const struct ns_plan *plan, const struct vm *vm, int root, struct err *err)
{
	int r = vm->machine.emulated ? 0 : show_kvm(vm->kvm, root, err);

	if (r == 0 && vm->driver->opens_tap && vm->machine.has_net)
		r = show_tun(root, err);
	if (r == 0)
		r = show_file(vm->kernel, plan->spec->vm_kernel, root, VM_KERNEL, err);
	if (r == 0)
		r = show_file(vm->initramfs, plan->spec->vm_initramfs, root, VM_INITRAMFS, err);
	if (r == 0 && vm->machine.has_disk)
		r = show_file(vm->disk, plan->spec->vm_disk, root, VM_DISK, err);
	if (r == 0 && vm->driver->by_sockets)
		r = make_sockets(&vm->machine, root, err);
	if (r == 0 && vm_test_program() != NULL)
		r = show_file(-1, vm_test_program(), root, VM_MONITOR, err);
	return r;
}

int
vm_build_root(const struct ns_plan *plan, const struct vm *vm, struct err *err)
{
	OWN(closep) int tree = -1, root = -1, copy = -1;
	int r;

	/* Mounts made from here on are seen nowhere else. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private (see `cloister doctor`)");
	r = vm_has_share(vm) ? take_tree(plan, vm->machine.has_disk, &tree, &copy, err) : 0;
	if (r == 0)
		r = ns_begin_root("1m", false, &root, err);
	if (r == 0)
		r = ns_show_host(root, err);
	if (r == 0)
		r = ns_make_dev(root, err);
	if (r == 0)
		r = ns_make_proc(plan, root, err);
	if (r == 0 && !vm->serves)
		r = show_monitors(plan, vm, root, err);
	if (r == 0 && mkdirat(root, VM_TREE, 0755) < 0)
		r = err_errno(err, "cannot make the guest's folder");
	if (r == 0 && copy >= 0)
		r = mounts_attach(copy, root, VM_TREE, err);
	return r < 0 ? r : ns_enter_root(root, err);
}
