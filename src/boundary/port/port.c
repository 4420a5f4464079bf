/* port.c - see port.h. */
#include "boundary/port/port.h"

#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/port/port_parts.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"

#define ERRNO_MAX 4095
#define STATUS_MAX 0xffff

int
port_start(struct port *port, const struct buf *spawn, const int *fds, size_t n_fds, struct err *err)
{
	return port->maker->send(port, spawn, fds, n_fds, err);
}

void
port_signal(struct port *port, uint32_t handle, int number)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SIGNAL);
	buf_put_u32(&message, handle);
	buf_put_u32(&message, (uint32_t)number);
	(void)port->maker->send(port, &message, NULL, 0, NULL);
}

void
port_resize(struct port *port, uint32_t handle, uint32_t rows, uint32_t columns)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_RESIZE);
	buf_put_u32(&message, handle);
	buf_put_u32(&message, rows);
	buf_put_u32(&message, columns);
	if (port->maker->resizes)
		(void)port->maker->send(port, &message, NULL, 0, NULL);
}

void
port_limit(struct port *port, uint64_t ms)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_LIMIT);
	buf_put_u64(&message, ms);
	(void)port->maker->send(port, &message, NULL, 0, NULL);
}

int
port_hold(struct port *port, struct err *err)
{
	if (port->maker->hold == NULL)
		return err_set(err, ENOTSUP, "the cell cannot stand still for a copy");
	port->maker->hold(port, true);
	return 0;
}

void
port_release(struct port *port)
{
	port->maker->hold(port, false);
}

int
port_watch(struct port *port, const struct port_handler *handler, void *arg, struct err *err)
{
	port->handler = handler;
	port->arg = arg;
	return port->maker->watch(port, err);
}

bool
port_finish(struct port *port)
{
	return port->maker->finish(port);
}

void
port_free(struct port *port)
{
	if (port != NULL)
		port->maker->free(port);
}

static int
take_spawned(struct port *port, struct ipc_message *message)
{
	OWN(closep) int terminal = ipc_take_fd(message, 0);
	uint32_t handle, error, pid;

	if (buf_get_u32(&message->body, &handle) < 0 || buf_get_u32(&message->body, &error) < 0 ||
	    error > ERRNO_MAX || buf_get_u32(&message->body, &pid) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	return port->handler->started(port->arg, handle, error, TAKE_FD(terminal));
}

static int
take_exited(struct port *port, struct ipc_message *message)
{
	uint32_t handle, status;

	if (buf_get_u32(&message->body, &handle) < 0 || buf_get_u32(&message->body, &status) < 0 ||
	    status > STATUS_MAX || buf_left(&message->body) != 0 || message->n_fds != 0)
		return -EBADMSG;
	return port->handler->exited(port->arg, handle, status);
}

int
port_take(struct port *port, struct ipc_message *message)
{
	return message->type == INIT_SPAWNED ? take_spawned(port, message) :
	       message->type == INIT_EXITED ? take_exited(port, message) : -EBADMSG;
}
