/* port.h - the supervisor's way to the processes behind a cell's walls: starts, signals and resizes
 * them, carries their streams, and reports how they end.
 *
 * There are two makers.  By descriptors, the processes get the given descriptors themselves.  By one
 * byte stream, for walls that pass no descriptors, the port carries the bytes of each.
 *
 * The other side is cloister-init, inside the sandbox.  Anything but the messages that it may send
 * breaks the port. */
#ifndef CLOISTER_PORT_H
#define CLOISTER_PORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;
struct loop;
struct port;                            /* opaque */

struct port_handler {
	/* The process HANDLE runs, or could not be started: ERROR is an errno.  TERMINAL, the near
	 * side of its terminal or a socket that stands for it, is the callee's; -1 without one.  A negative return value of these
	 * two means that the other side broke the rules. */
	int (*started)(void *arg, uint32_t handle, uint32_t error, int terminal);
	/* STATUS is as wait(2) gives it. */
	int (*exited)(void *arg, uint32_t handle, uint32_t status);
	/* The connection NUMBER of port_connect() is made, or could not be: ERROR is an errno.  FD, a socket
	 * that stands for it, is the callee's; -1 with an error.  NULL: nobody connects. */
	void (*connected)(void *arg, uint32_t number, uint32_t error, int fd);
	/* The cell of a virtual machine ends.  Its kernel killed so many processes for memory; its scratch space
	 * is full. */
	void (*limits)(void *arg, uint64_t killed, bool full);
	/* After port_hold(): nothing moves in the cell.  NULL: it is never held. */
	void (*held)(void *arg);
	/* The other side broke the rules: end the cell. */
	void (*broken)(void *arg);
	/* All that it sent has been handled: see port_finish(). */
	void (*finished)(void *arg);
};

/* Makes a port of CHANNEL, a SOCK_SEQPACKET socket to cloister-init.  Takes the descriptor on success. */
int port_by_descriptors(struct loop *loop, int channel, struct port **ret_port, struct err *err);
/* Makes a port of SOCKET, a SOCK_STREAM socket to cloister-init, once init is ready: waits for that,
 * until UNTIL_MS of io_now_ms() at most (0: without end).  Takes the descriptor on success. */
int port_by_stream(struct loop *loop, int socket, int64_t until_ms, struct port **ret_port, struct err *err);

/* Starts a process.  SPAWN is the INIT_SPAWN message, and FDS are its descriptors: see
 * ipc/init_channel.h.  Borrows them. */
int port_start(struct port *port, const struct buf *spawn, const int *fds, size_t n_fds, struct err *err);
void port_signal(struct port *port, uint32_t handle, int number);
/* The terminal of HANDLE has another size.  For a port that passes descriptors, whoever has the
 * terminal sets its size. */
void port_resize(struct port *port, uint32_t handle, uint32_t rows, uint32_t columns);
/* Init ends the cell after MS, whatever the supervisor does. */
void port_limit(struct port *port, uint64_t ms);

#define PORT_CONNECTS_MAX 256           /* connections of port_connect() at once */
#define PORT_CLIENTS_MAX 32             /* connections of port_accept() at once; the others wait */

/* Whether the port carries connections too: one that passes descriptors leaves that to others. */
bool port_carries(const struct port *port);
/* Number of connections of both kinds that are made, or asked for at the host. */
size_t port_connections_open(const struct port *port);
/* Connects to the port TO of the cell's loopback.  The loop calls the handler's `connected`. */
int port_connect(struct port *port, uint32_t number, uint16_t to, struct err *err);
/* Accepts connections at the SSH agent's socket in the cell, which has one.  Each is sent over SOCKET, which
 * it takes: GATE_CLIENT of ipc/courier_channel.h. */
void port_accept(struct port *port, int socket);

/* For a port to a machine that can be copied: has the cell stand still, and sends nothing more.  Init's side says when that
 * is so; then port_release() has it go on. */
int port_hold(struct port *port, struct err *err);
void port_release(struct port *port);
/* From now on the loop calls HANDLER, which must outlive the port. */
int port_watch(struct port *port, const struct port_handler *handler, void *arg, struct err *err);
/* The cell is dead.  Handles all that it still sent: true if that is done.  Otherwise the loop calls
 * the handler's `finished` once it is.  Then no handler is called any more, but output that nobody
 * has read yet is still carried. */
bool port_finish(struct port *port);
void port_free(struct port *port);      /* NULL is fine */
#endif
