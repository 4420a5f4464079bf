/* port_descriptors.c - a port whose processes get the descriptors themselves. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/port/port_parts.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"

#define LAST_MESSAGES_MAX (4 * INIT_PROCESSES_MAX)

struct by_descriptors {
	struct port port;
	struct loop_source channel;
};

static int
send_message(struct port *port, const struct buf *message, const int *fds, size_t n_fds, struct err *err)
{
	const struct by_descriptors *p = (const struct by_descriptors *)port;

	return ipc_send(p->channel.fd, message, fds, n_fds, err);
}

/* Handles one message; -EAGAIN if there is none, -EPIPE if there will be none. */
static int
receive(struct by_descriptors *p)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(p->channel.fd, &message, NULL);

	if (r == -EAGAIN)
		return r;
	if (r == -EPIPE) {
		/* Init is ending: its death carries the rest. */
		loop_unwatch(p->port.loop, &p->channel);
		return r;
	}
	if (r == 0)
		r = port_take(&p->port, &message);
	/* Init is behind the wall: one malformed message ends the cell. */
	if (r < 0)
		p->port.handler->broken(p->port.arg);
	return 0;
}

static void
channel_ready(void *arg, uint32_t events)
{
	(void)events;
	(void)receive(arg);
}

static int
watch(struct port *port, struct err *err)
{
	struct by_descriptors *p = (struct by_descriptors *)port;

	(void)fcntl(p->channel.fd, F_SETFL, O_NONBLOCK);
	return loop_watch(port->loop, &p->channel, EPOLLIN, err);
}

/* A bounded number, without waiting for more. */
static bool
finish(struct port *port)
{
	struct by_descriptors *p = (struct by_descriptors *)port;

	for (int i = 0; i < LAST_MESSAGES_MAX && p->channel.events != 0 && receive(p) == 0; i++)
		;
	loop_unwatch(port->loop, &p->channel);
	return true;
}

static void
free_port(struct port *port)
{
	struct by_descriptors *p = (struct by_descriptors *)port;

	loop_unwatch(port->loop, &p->channel);
	close(p->channel.fd);
	free(p);
}

int
port_by_descriptors(struct loop *loop, int channel, struct port **ret_port, struct err *err)
{
	static const struct port_maker maker = { .send = send_message, .watch = watch, .finish = finish,
	                                         .free = free_port };
	struct by_descriptors *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return err_set(err, ENOMEM, "out of memory");
	p->port = (struct port){ .maker = &maker, .loop = loop };
	p->channel = (struct loop_source){ .fd = channel, .ready = channel_ready, .arg = p };
	*ret_port = &p->port;
	return 0;
}
