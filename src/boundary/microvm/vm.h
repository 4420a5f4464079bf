/* vm.h - a cell whose init runs in a virtual machine, which runs in namespaces.
 *
 * The virtual machine monitor takes init's place in a namespace cell: it has that cell's network,
 * nothing of the host's files but programs, and no rights.  A tree that is made as the root of any
 * cell, with the grants in it, is shared with the guest by a file server in the same namespaces.  The
 * guest's kernel starts cloister-guest, which builds the agent's world from that tree, with the same
 * code that builds it without a virtual machine.
 *
 * The programs of a root file system of its own can be a disk instead, which all cells that use it have in
 * common.  Then only grants are shared, and without grants there is no file server.
 *
 * A machine that has booted and waits for a cell is a template.  Others start from a copy of it. */
#ifndef CLOISTER_VM_H
#define CLOISTER_VM_H
#include "boundary/microvm/vm_driver.h"
#include "boundary/namespace/ns_plan.h"

#define VM_NAME_SIZE 80

/* What the monitor is given. */
struct vm {
	const struct vm_driver *driver;
	struct vm_machine machine;
	/* Detached mounts that only real root can make; -1: by path.  KVM is a folder with the device. */
	int kernel, initramfs, disk, kvm;
	/* VM_RESTORE: the template, from which the memory is copied.  VM_RECORD by sockets: VM_MEMORY. */
	int memory;
	/* VM_RECORD: a pipe that gets a zero byte once the template is complete, or another if the guest could not get
	 * ready. */
	int recorded;
	/* VM_RESTORE before there is a cell.  The keeper writes a byte to `waits` once the machine runs, and reads
	 * one there with a descriptor of the share.  The other end of `alive` ends with the file server. */
	int waits, alive;
	int points;                     /* a machine that can be copied: the keeper's end of a socket; else -1 */
	bool serves;                    /* for its file server alone: the monitor has its root already */
	char template[VM_NAME_SIZE];    /* VM_RESTORE: its name */
	int64_t until_s;                /* likewise: when it is too old */
};

/* Whether the files that it shares are known. */
static inline bool
vm_has_share(const struct vm *vm)
{
	return vm->machine.has_share && vm->waits < 0;
}

/* In the monitor's root. */
#define VM_TREE "guest"                 /* what the guest sees */
#define VM_KERNEL "kernel"
#define VM_INITRAMFS "initramfs"
#define VM_DISK "disk"
#define VM_SOCKETS "sockets"            /* a folder that a monitor by sockets can write */
#define VM_SHARE "share"                /* in it: the file server's */
#define VM_VSOCK "vsock"                /* the monitor's; that of a port ends with its number */
#define VM_API "api"                    /* the monitor's control socket, if it makes that itself */
#define VM_MEMORY "memory"              /* unless it boots: the guest's memory */
#define VM_SNAPSHOT "snapshot"          /* and a folder for the state of the devices */
#define VM_MONITOR "monitor"            /* a test's own */

/* vm_root.c: the guest's tree, and around it the root of the monitor, in which the caller is afterwards. */
int vm_build_root(const struct ns_plan *plan, const struct vm *vm, struct err *err);

/* vm_share.c: starts the file server of VM_TREE.  The caller owns *ret_socket, which is connected to
 * it, or -1 BY_SOCKETS: then the server listens in VM_SOCKETS.  *ret_alive is a pipe to which only the
 * server can write; the caller owns that too. */
int vm_share(const struct ns_plan *plan, bool by_sockets, int *ret_socket, int *ret_alive, struct err *err);
/* Becomes the file server, which accepts a client at LISTENER and has ALIVE until it ends.  Returns only with
 * an error. */
int vm_become_server(const struct ns_plan *plan, int listener, int alive, struct err *err);
/* A socket without a name that listens, and one that is connected to it. */
int vm_connect_pair(int *ret_listener, int *ret_socket, struct err *err);
/* From now on the kernel asks this process, and the program that it becomes, to end when the server
 * does: without its files a guest hangs.  The process must have the ids already that it will keep. */
int vm_end_with_server(int alive, struct err *err);
/* Raises the soft limit on WHAT (RLIMIT_...) of this process to the hard one. */
int vm_lift_limit(int what);
/* The path of the server, or NULL. */
const char *vm_find_server(struct err *err);

/* vm_child.c: the cell's first process, which becomes the monitor: see ns_inside. */
int vm_build(const struct ns_plan *plan, struct err *err);
/* Leaves a process that has no rights any more with no file that it can change, and with the monitor's
 * filter. */
int vm_lock_down(const struct vm *vm, int landlock, struct err *err);

/* vm_relay.c: listens at PATH. */
int vm_listen(const char *path, int *ret_listener, struct err *err);
/* Waits at LISTENER for a guest, and carries its bytes until it ends, or the cell does. */
int vm_relay(int listener, int stream, struct err *err);

/* vm_trust.c: writes the cell's certificate authority, and whatever else its programs trust, for a guest with a
 * disk: see vm_guest.h.  Waits until it is complete. */
struct buf;
int vm_put_trust(struct buf *message, const struct ns_plan *plan, struct err *err);

/* vm_drivers.c: the mutant build's monitor, or NULL. */
const char *vm_test_program(void);
/* Words for the guest's kernel, which begin with a space, in the mutant build; else none. */
const char *vm_test_words(void);

/* vm_keeper.c: starts the keeper of a machine whose monitor the caller becomes.  PORT is the host's end
 * of the port of a machine that becomes a template; by sockets, where it listens. */
int vm_keep(const struct vm *vm, int port, int landlock, struct err *err);

/* vm_template.c: templates, in the folder of the initramfs. */

/* Looks for the template of the machine, and makes one if there is none: first in a cell of its own,
 * which boots.  The machine starts from it then, or boots if there can be no template. */
int vm_prepare_template(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm,
                        struct err *err);
/* Forgets the template that the machine was to start from: something is wrong with it. */
void vm_forget_template(const struct cell_spec *spec, const struct vm *vm);

/* microvm.c: what a machine is, before anything of it is open; and what every start of it opens. */
int vm_describe(const struct cell_spec *spec, struct vm *ret_vm, struct err *err);
int vm_open(const struct cell_spec *spec, unsigned slot, struct vm *vm, struct err *err);
void vm_close(struct vm *vm);
int vm_greet(const struct ns_plan *plan, int stream, struct err *err);
/* Adds what the monitor complained of.  No agent has run yet, so the text is the monitor's own. */
void vm_explain(int log, struct err *err);
/* How long a guest may take to start: one in a virtual machine, or an emulated one, takes long. */
#define VM_BOOT_MS 180000
int64_t vm_end_of_start(const struct cell_spec *spec);

/* vm_wait.c: a machine that waits for a cell, and its cell. */
int vm_wait(const struct cell_spec *shape, const struct boundary_ground *ground, struct walls **ret_walls,
            struct boundary_waiting *ret_waiting, struct err *err);
/* -EAGAIN: the machine is of no use, and gone. */
int vm_adopt(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
             struct err *err);
/* vm_control.c: a byte, and with it a descriptor unless that is -1. */
int vm_send_byte(int socket, int fd, struct err *err);
/* Waits for one.  *ret_fd is -1 if there was none; it may be NULL. */
int vm_receive_byte(int socket, int *ret_fd, struct err *err);

/* microvm.c: boots the machine VM, whose keeper ends it, and waits for that.  -EAGAIN: its guest could not get ready. */
int vm_record(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm, struct err *err);

/* vm_pause.c: see boundary.h. */
int vm_can_pause(const struct walls *w, struct err *err);
int vm_put_aside(const struct walls *w, int file, int told, struct err *err);
int vm_bring_back(const struct walls *w, int file, struct err *err);

/* vm_fork.c: the keeper of a machine that can be copied waits for requests, until the supervisor is gone. */
int vm_serve_points(const struct vm *vm, struct vm_control *c, struct err *err);
/* Makes the machine VM a copy: the point is in the ground. */
int vm_begin_fork(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm, struct err *err);
/* See boundary.h. */
int vm_take_point(const struct walls *w, int memory, int state, struct err *err);
/* vm_pause.c: copies all that was ever written to the memory file FROM.  The rest are holes.  0 or a negative errno. */
int vm_copy_memory(int from, int to);

/* vm_examine.c: see boundary.h. */
struct findings;
void vm_examine(struct findings *findings);
int vm_able(bool emulated, struct err *err);
#endif
