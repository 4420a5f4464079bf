/* port_parts.h - shared by the files of port. */
#ifndef CLOISTER_PORT_PARTS_H
#define CLOISTER_PORT_PARTS_H
#include "boundary/port/port.h"

struct ipc_message;
struct loop;
struct mux;
struct mux_carry_types;
struct port_connections;                /* opaque */

/* What the two makers do differently. */
struct port_maker {
	/* The connections that it carries; NULL: none. */
	struct port_connections *(*connections)(const struct port *port);
	int (*send)(struct port *port, const struct buf *message, const int *fds, size_t n_fds,
	            struct err *err);
	int (*watch)(struct port *port, struct err *err);
	bool (*finish)(struct port *port);
	void (*free)(struct port *port);
	void (*hold)(struct port *port, bool on);       /* NULL: it cannot */
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

/* ---- port_connect.c: connections that are streams of a mux ---- */

/* ENDS are the frames for the ends of a direction. */
int port_connections_new(struct port *port, struct mux *mux, const struct mux_carry_types *ends,
                         struct port_connections **ret_connections, struct err *err);
/* INIT_CONNECTED: -EBADMSG if it breaks the rules. */
int port_connections_take(struct port_connections *connections, struct buf *body);
/* The mux has ended: so have they. */
void port_connections_end(struct port_connections *connections);
void port_connections_free(struct port_connections *connections);       /* before the mux; NULL is fine */
#endif
