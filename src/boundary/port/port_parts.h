/* port_parts.h - shared by the files of port. */
#ifndef CLOISTER_PORT_PARTS_H
#define CLOISTER_PORT_PARTS_H
#include "boundary/port/port.h"

struct ipc_message;

/* What the two makers do differently. */
struct port_maker {
	int (*send)(struct port *port, const struct buf *message, const int *fds, size_t n_fds,
	            struct err *err);
	int (*watch)(struct port *port, struct err *err);
	bool (*finish)(struct port *port);
	void (*free)(struct port *port);
	bool resizes;                   /* the terminal is on the other side */
};

/* Each maker's own structure begins with it. */
struct port {
	const struct port_maker *maker;
	struct loop *loop;
	const struct port_handler *handler;     /* NULL until it is watched */
	void *arg;
};

/* Handles one message of init: -EBADMSG if it breaks the rules. */
int port_take(struct port *port, struct ipc_message *message);
#endif
