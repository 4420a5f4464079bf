/* guest.h - the parts of cloister-guest. */
#ifndef CLOISTER_GUEST_H
#define CLOISTER_GUEST_H
#include <stdbool.h>
#include <stdint.h>

struct boundary_trust;
struct buf;
struct err;

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
