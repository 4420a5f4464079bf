/* vm_driver.h - the interface to a program that runs virtual machines: one table of functions each.
 *
 * The monitor takes init's place in the cell.  Beside it, for as long as the machine is prepared, runs
 * its keeper: a process of the cell that has the monitor's control socket.  Nobody reads from that
 * socket once the guest of a cell has run an instruction. */
#ifndef CLOISTER_VM_DRIVER_H
#define CLOISTER_VM_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum vm_start {
	VM_BOOT,                        /* from the kernel, with everything plugged in */
	VM_RECORD,                      /* from the kernel, with nothing of a cell's: becomes a template */
	VM_RESTORE,                     /* from a template; share and network are plugged in by the keeper */
};

/* A machine, as every driver is told of it. */
struct vm_machine {
	enum vm_start start;
	uint64_t memory;                /* bytes, whole MiB */
	unsigned cpus;
	bool emulated, has_net;
	int ram;                        /* a memory file, which the file server maps too */
	int state;                      /* the devices of a template: written (VM_RECORD) or read */
	int port;                       /* the guest's end of its port */
	int tap;                        /* with has_net: the host's side of its card; -1: the monitor's own network */
	int share;                      /* connected to the file server; -1: none */
	int control, keeper;            /* the monitor's end of its control socket, and the keeper's; -1: none */
	int log;                        /* what the monitor complains of */
	char mac[18];                   /* the address of its network card */
};

/* The keeper's end of a control socket. */
struct vm_control {
	int fd;
	size_t len;                     /* of what was read and is not yet looked at */
	char text[8192];
};

struct vm_driver {
	const char *name;
	/* The program.  A template is of use only to the same one. */
	const char *program;
	/* What a template depends on beside the program: the kind of machine. */
	const char *shape;
	/* Whether it is installed. */
	int (*find)(struct err *err);
	/* Becomes the monitor.  Returns only with an error. */
	int (*become)(const struct vm_machine *m, struct err *err);

	/* ---- by the keeper ---- */

	int (*begin)(struct vm_control *c, struct err *err);
	int (*pause)(struct vm_control *c, struct err *err);
	/* Writes the devices' state to m->state.  The memory is in m->ram already. */
	int (*snapshot)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	/* Reads it back.  The machine is paused afterwards. */
	int (*restore)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	/* Adds the share and the network card to a paused machine. */
	int (*plug)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	int (*resume)(struct vm_control *c, struct err *err);
	/* Ends the monitor. */
	void (*end)(struct vm_control *c);
};

extern const struct vm_driver vm_qemu;
#endif
