/* guest.h - the parts of cloister-guest. */
#ifndef CLOISTER_GUEST_H
#define CLOISTER_GUEST_H
#include <stdbool.h>

struct err;

/* guest_net.c: brings loopback up and, if HAS_NET, the network card with the addresses of vm_guest.h. */
int guest_set_up_net(bool has_net, struct err *err);
#endif
