/* port_connect.c - connections that a port over one byte stream carries: to servers on the cell's
 * loopback, and from clients of the SSH agent's socket.
 *
 * Only this side opens streams.  Init is asked to connect or to accept, and answers once, so it cannot
 * make more connections than this side wants. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/port/port_parts.h"
#include "ipc/courier_channel.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "ipc/mux.h"
#include "ipc/mux_carry.h"
#include "loop/loop.h"

#define ERRNO_MAX 4095
#define ACCEPT_AGAIN_MS 100             /* after init could not accept a client */
#define CLIENTS_ROOM (PORT_CLIENTS_MAX * 512)   /* bytes: for some more messages than clients at once */

struct connection {
	struct port_connections *of;
	struct connection *next;
	struct mux_stream *stream;      /* until init answers */
	struct mux_carry carry;         /* from then on */
	bool is_client;                 /* of port_accept() */
	bool is_over;
	uint32_t number;                /* of port_connect() */
};

struct port_connections {
	struct port *port;
	struct mux *mux;
	const struct mux_carry_types *ends;
	struct connection *all;
	struct loop_round round;        /* frees connections, outside of their callbacks */
	struct loop_timer again;
	size_t n_connects, n_clients;
	int clients;                    /* where clients are sent, or -1 */
	bool accepts;                   /* init is to accept the next client */
	bool over;                      /* the mux has ended */
};

static void accept_next(void *arg);

/* ---- their ends ---- */

static void
free_connection(struct connection *c)
{
	struct connection **at = &c->of->all;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->stream != NULL)
		mux_close(c->stream);
	else
		mux_carry_drop(&c->carry);
	if (c->is_client)
		c->of->n_clients--;
	else
		c->of->n_connects--;
	free(c);
}

static void
free_over(void *arg)
{
	struct port_connections *connections = arg;
	struct connection *c = connections->all, *next;

	for (; c != NULL; c = next) {
		next = c->next;
		if (c->is_over)
			free_connection(c);
	}
	accept_next(connections);
}

static void
connection_over(void *arg)
{
	struct connection *c = arg;

	c->is_over = true;
	loop_at_round_end(c->of->port->loop, &c->of->round);
}

void
port_connections_end(struct port_connections *connections)
{
	connections->over = true;
	while (connections->all != NULL)
		free_connection(connections->all);
}

/* ---- their beginning ---- */

/* Asks init for a connection. */
static struct connection *
open_connection(struct port_connections *connections, bool is_client, uint32_t number, uint32_t to)
{
	OWN(buf_free) struct buf body = BUF(8);
	struct connection *c = calloc(1, sizeof(*c));

	if (c == NULL || (c->stream = mux_open(connections->mux, NULL)) == NULL) {
		free(c);
		return NULL;
	}
	c->of = connections;
	c->is_client = is_client;
	c->number = number;
	c->next = connections->all;
	connections->all = c;
	buf_put_u32(&body, c->stream->id);
	if (is_client)
		connections->n_clients++;
	else
		connections->n_connects++;
	if (!is_client)
		buf_put_u32(&body, to);
	mux_send(connections->mux, 0, INIT_FRAME(is_client ? INIT_ACCEPT : INIT_CONNECT), &body);
	mux_flush(connections->mux);
	return c;
}

static void
accept_next(void *arg)
{
	struct port_connections *connections = arg;

	if (connections->clients >= 0 && !connections->accepts && !connections->over &&
	    connections->n_clients < PORT_CLIENTS_MAX)
		connections->accepts = open_connection(connections, true, 0, 0) != NULL;
}

/* Carries a connection that init has made.  Returns the socket that stands for it, or -errno. */
static int
carry(struct connection *c)
{
	struct mux_stream *stream = c->stream;
	OWN(closep) int again = -1;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	again = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
	if (again < 0) {
		close(ends[0]);
		close(ends[1]);
		return -EMFILE;
	}
	c->stream = NULL;
	c->carry = (struct mux_carry){ .over = connection_over, .arg = c };
	mux_carry_start(&c->carry, c->of->port->loop, stream, c->of->ends, ends[0], TAKE_FD(again));
	return ends[1];
}

/* Init has made a connection that this side cannot carry. */
static void
refuse(const struct connection *c)
{
	mux_send(c->of->mux, c->stream->id, c->of->ends->end, NULL);
	mux_send(c->of->mux, c->stream->id, c->of->ends->shut, NULL);
}

/* If the gate's channel is full, the client sees its connection end. */
static void
hand_over(const struct port_connections *connections, int fd)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, GATE_CLIENT);
	(void)ipc_send(connections->clients, &message, &fd, 1, NULL);
}

static struct connection *
find_waiting(const struct port_connections *connections, uint32_t id)
{
	struct connection *c = connections->all;

	while (c != NULL && (c->stream == NULL || c->stream->id != id))
		c = c->next;
	return c;
}

int
port_connections_take(struct port_connections *connections, struct buf *body)
{
	OWN(closep) int fd = -1;
	uint32_t id, error, number;
	struct connection *c;
	bool is_client;

	if (buf_get_u32(body, &id) < 0 || buf_get_u32(body, &error) < 0 || buf_left(body) != 0 ||
	    error > ERRNO_MAX || (c = find_waiting(connections, id)) == NULL)
		return -EBADMSG;
	is_client = c->is_client;
	number = c->number;
	if (error == 0) {
		fd = carry(c);
		error = fd < 0 ? (uint32_t)-fd : 0;
		if (error != 0)
			refuse(c);
	}
	if (error != 0)
		free_connection(c);
	if (!is_client) {
		connections->port->handler->connected(connections->port->arg, number, error, TAKE_FD(fd));
		return 0;
	}
	if (fd >= 0)
		hand_over(connections, fd);
	connections->accepts = false;
	if (error != 0)
		loop_set_timer(connections->port->loop, &connections->again, ACCEPT_AGAIN_MS);
	else
		accept_next(connections);
	return 0;
}

/* ---- the port ---- */

bool
port_carries(const struct port *port)
{
	return port->maker->connections != NULL;
}

size_t
port_connections_open(const struct port *port)
{
	const struct port_connections *connections = port_carries(port) ? port->maker->connections(port) : NULL;
	size_t n = 0;

	for (const struct connection *c = connections == NULL ? NULL : connections->all; c != NULL; c = c->next)
		n += !c->is_over && (c->stream == NULL || !c->is_client);
	return n;
}

int
port_connect(struct port *port, uint32_t number, uint16_t to, struct err *err)
{
	struct port_connections *connections = port->maker->connections(port);

	if (connections->over)
		return err_set(err, EPIPE, "the cell has ended");
	if (connections->n_connects >= PORT_CONNECTS_MAX ||
	    open_connection(connections, false, number, to) == NULL)
		return err_set(err, EAGAIN, "the cell has too many connections");
	return 0;
}

void
port_accept(struct port *port, int socket)
{
	struct port_connections *connections = port->maker->connections(port);
	const int room = CLIENTS_ROOM;

	/* A client that ends before the gate takes it is not counted any more, but has a descriptor there. */
	(void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	connections->clients = socket;
	accept_next(connections);
}

int
port_connections_new(struct port *port, struct mux *mux, const struct mux_carry_types *ends,
                     struct port_connections **ret_connections, struct err *err)
{
	struct port_connections *connections = calloc(1, sizeof(*connections));

	if (connections == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*connections = (struct port_connections){ .port = port, .mux = mux, .ends = ends, .clients = -1 };
	loop_prepare_round(&connections->round, free_over, connections);
	loop_prepare_timer(&connections->again, accept_next, connections);
	*ret_connections = connections;
	return 0;
}

void
port_connections_free(struct port_connections *connections)
{
	if (connections == NULL)
		return;
	loop_cancel_round(connections->port->loop, &connections->round);
	loop_cancel_timer(connections->port->loop, &connections->again);
	port_connections_end(connections);
	closep(&connections->clients);
	free(connections);
}
