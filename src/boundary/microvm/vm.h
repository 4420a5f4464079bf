/* vm.h - a cell whose init runs in a virtual machine, which runs in namespaces.
 *
 * The virtual machine monitor takes init's place in a namespace cell: it has that cell's network,
 * nothing of the host's files but programs, and no rights.  A tree that is made as the root of any
 * cell, with the grants in it, is shared with the guest by a file server in the same namespaces.  The
 * guest's kernel starts cloister-guest, which builds the agent's world from that tree, with the same
 * code that builds it without a virtual machine. */
#ifndef CLOISTER_VM_H
#define CLOISTER_VM_H
#include "boundary/namespace/ns_plan.h"

/* What the monitor is given. */
struct vm {
	/* Detached mounts that only real root can make; -1: by path.  KVM is a folder with the device. */
	int kernel, initramfs, kvm;
	int log;                        /* a memory file, for the monitor's complaints */
	bool emulated;
};

/* In the monitor's root. */
#define VM_TREE "guest"                 /* what the guest sees */
#define VM_KERNEL "kernel"
#define VM_INITRAMFS "initramfs"

/* vm_root.c: the guest's tree, and around it the root of the monitor, in which the caller is afterwards. */
int vm_build_root(const struct ns_plan *plan, const struct vm *vm, struct err *err);

/* vm_share.c: starts the file server of VM_TREE.  The caller owns *ret_socket, which is connected to
 * it. */
int vm_share(const struct ns_plan *plan, int *ret_socket, struct err *err);
/* The path of the server, or NULL. */
const char *vm_find_server(struct err *err);

/* vm_qemu.c: becomes the monitor.  PORT is the guest's end of its port, SHARE of the file server.
 * Returns only with an error. */
int vm_become_qemu(const struct ns_plan *plan, const struct vm *vm, int port, int share, struct err *err);
/* Whether it is installed. */
int vm_find_qemu(struct err *err);

/* vm_examine.c: see boundary.h. */
struct findings;
void vm_examine(struct findings *findings);
int vm_able(bool emulated, struct err *err);
#endif
