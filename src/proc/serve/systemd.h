/* systemd.h - sockets that systemd opened, and telling it how things are; without its library. */
#ifndef CLOISTER_SYSTEMD_H
#define CLOISTER_SYSTEMD_H
#include <stddef.h>

struct err;

#define SYSTEMD_SOCKETS_MAX 8

struct systemd_socket {
	int fd;
	char name[64];                  /* FileDescriptorName=; "" if it has none */
};
/* What was handed to this process (LISTEN_FDS); the variables are gone afterwards. */
int systemd_take_sockets(struct systemd_socket ret_sockets[SYSTEMD_SOCKETS_MAX], size_t *ret_n,
                         struct err *err);
/* "READY=1", "STOPPING=1" ...; nothing happens where nobody wants to know. */
void systemd_notify(const char *state);
#endif
