/* guest.h - the parts of cloister-guest. */
#ifndef CLOISTER_GUEST_H
#define CLOISTER_GUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boundary_trust;
struct cell_spec;
struct ns_plan;
struct buf;
struct err;

/* main.c: reads all of LEN bytes from the port, which may block or not; and a message of so many. */
int guest_read(int port, void *data, size_t len, struct err *err);
int guest_read_message(int port, uint32_t len, struct buf *ret_message, struct err *err);
/* Takes the fields of vm_guest.h, up to the files of VM_GUEST_TRUST: random numbers and the time are in force then. */
int guest_take_message(struct buf *message, uint32_t *ret_flags, const char **ret_mac, struct cell_spec *ret_spec,
                       struct err *err);

/* guest_fork.c: starts the forker, which stops the cell's processes while the machine is copied, and gives a copy its own
 * identity.  *RET_INIT is init's end of the socket to it; the caller owns it. */
int guest_start_forker(const struct ns_plan *plan, int *ret_init, struct err *err);

/* guest_net.c: brings loopback up and, if there is one, the network card with the addresses of vm_guest.h. */
int guest_set_up_net(struct err *err);
bool guest_has_card(void);
/* The card, which must be there now, gets the address MAC ("02:..."), on which no other address depends.  Unless
 * it IS_UP from before the machine waited, it is brought up. */
int guest_wake_net(const char *mac, bool is_up, struct err *err);

/* guest_files.c: mounts the shared tree and the disk, whichever FLAGS (enum vm_guest_flags) has. */
int guest_mount_files(uint32_t flags, struct err *err);
/* Reads the certificate authority of the cell, with VM_GUEST_TRUST.  Its descriptors are the caller's. */
int guest_take_trust(struct buf *message, struct boundary_trust *ret_trust, struct err *err);
#endif
