/* systemd.h - takes sockets that systemd opened, and notifies it of the service's state; without
 * its library. */
#ifndef CLOISTER_SYSTEMD_H
#define CLOISTER_SYSTEMD_H
#include <stddef.h>

struct err;

#define SYSTEMD_SOCKETS_MAX 8

struct systemd_socket {
	int fd;
	char name[64];                  /* FileDescriptorName=; "" if it has none */
};
/* Takes the sockets that were passed to this process (LISTEN_FDS), and removes the variables. */
int systemd_take_sockets(struct systemd_socket ret_sockets[SYSTEMD_SOCKETS_MAX], size_t *ret_n,
                         struct err *err);
/* "READY=1", "STOPPING=1" ...; does nothing if systemd does not ask for it. */
void systemd_notify(const char *state);
#endif
