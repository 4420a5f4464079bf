/* vm_driver.h - the interface to a program that runs virtual machines: one table of functions each.
 *
 * The monitor takes init's place in the cell.  Beside it, for as long as the machine is prepared, runs
 * its keeper: a process of the cell that has the monitor's control socket.  Nobody reads from that
 * socket once the guest of a cell has run an instruction.
 *
 * A monitor that works by sockets is told what to do by its keeper from the start.  The guest's port is a
 * socket of it too, so the keeper stays, and carries bytes between that and the cell's stream. */
#ifndef CLOISTER_VM_DRIVER_H
#define CLOISTER_VM_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/filter.h"

struct cell_spec;
struct err;

enum vm_start {
	VM_BOOT,                        /* from the kernel, with everything plugged in */
	VM_RECORD,                      /* from the kernel, with nothing of a cell's: becomes a template */
	VM_RESTORE,                     /* from a template; share and disk are plugged in by the keeper */
	VM_FORK,                        /* as a copy of another cell's machine; its memory file is only read */
};

#define VM_MAC_SIZE 18                  /* "02:..." */

/* A machine, as every driver is told of it. */
struct vm_machine {
	enum vm_start start;
	uint64_t memory;                /* bytes, whole MiB */
	unsigned cpus;
	bool emulated, has_net;
	bool has_disk;                  /* the programs are on a disk, VM_DISK in the monitor's root */
	bool has_share;                 /* there is a file server: for programs without a disk, and for grants */
	int ram;                        /* a memory file, which the file server maps too */
	int state;                      /* the devices of a template: written (VM_RECORD) or read */
	int port;                       /* the guest's end of its port */
	int tap;                        /* with has_net: the host's side of its card; -1: the monitor's own network */
	int share;                      /* connected to the file server; -1: none */
	/* The monitor's end of its control socket, or by sockets where it listens; and the keeper's.  -1: none */
	int control, keeper;
	int log;                        /* what the monitor complains of */
	char mac[VM_MAC_SIZE];          /* the address of its network card */
};

/* The keeper's end of a control socket. */
struct vm_control {
	int fd;
	size_t len;                     /* of what was read and is not yet looked at */
	char text[8192];
};
/* vm_control.c: sends all of DATA, and with its first byte the descriptor FD unless that is -1. */
int vm_control_send(struct vm_control *c, const void *data, size_t len, int fd, struct err *err);
/* Reads what there is, at least one byte, behind c->len bytes of c->text.  The end is an error. */
int vm_control_read(struct vm_control *c, struct err *err);

struct vm_driver {
	const char *name, *title;       /* "qemu", "QEMU" */
	enum filter_profile filter;
	bool by_sockets;                /* and by a tap */
	bool plugs_card;                /* plug() adds the network card too: it is in no template */
	bool takes_disk;                /* it gives the guest a disk */
	bool shares_nothing;            /* it has no use for a file server */
	/* By sockets: it makes its control socket itself, VM_API in VM_SOCKETS, and opens its tap by name. */
	bool opens_tap;
	/* The program.  A template is of use only to the same one. */
	const char *program;
	/* Where it is, if that can be in several places. */
	const char *(*locate)(void);
	/* What a template depends on beside the program: the kind of machine. */
	const char *shape;
	/* Whether it is installed. */
	int (*find)(struct err *err);
	/* Whether it can hold the cell; NULL: any. */
	int (*check)(const struct cell_spec *spec, struct err *err);
	/* Becomes the monitor.  Returns only with an error. */
	int (*become)(const struct vm_machine *m, struct err *err);

	/* ---- by the keeper ---- */

	/* By sockets: describes the machine and starts it. */
	int (*boot)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	/* Not by sockets: before anything else. */
	int (*begin)(struct vm_control *c, struct err *err);
	/* Those from here to resume(): NULL if it makes no templates. */
	int (*pause)(struct vm_control *c, struct err *err);
	/* Writes the devices' state to m->state.  The memory is saved already. */
	int (*snapshot)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	/* Reads it back.  The machine is paused afterwards. */
	int (*restore)(struct vm_control *c, const struct vm_machine *m, struct err *err);
	/* Adds the share and the disk.  OFFERED: the monitor was started without the share m->share. */
	int (*plug)(struct vm_control *c, const struct vm_machine *m, bool offered, struct err *err);
	int (*resume)(struct vm_control *c, struct err *err);
	/* Ends the monitor. */
	void (*end)(struct vm_control *c);
};

extern const struct vm_driver vm_qemu, vm_cloud, vm_fire;

/* vm_drivers.c: the driver of that name; "": one that is installed, QEMU first.  NULL with an error. */
const struct vm_driver *vm_choose_driver(const char *name, struct err *err);
/* The path of the driver's program, or NULL. */
const char *vm_program(const struct vm_driver *driver);
/* The first of PLACES (ends with NULL) that is there, or NULL. */
const char *vm_find_program(const char *const *places);
/* Becomes PROGRAM, with the descriptors KEPT and its complaints in LOG.  Returns only with an error. */
int vm_exec(const char *program, char *const *argv, const int *kept, size_t n, int log, struct err *err);
#endif
