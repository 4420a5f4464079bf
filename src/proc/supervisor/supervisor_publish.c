/* supervisor_publish.c - opens ports of the host that lead to servers in the cell.
 *
 * They are on loopback: only this machine reaches them. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/port/port.h"
#include "ipc/publish_channel.h"
#include "proc/supervisor/supervisor.h"

#define TRIES 16                        /* to find a port that is free in both families */
#define BACKLOG 128
#define FIRST_PORT 4                    /* of publish's descriptors: behind the network and the channels */

/* A listening socket on loopback at *PORT, which is filled in if it was 0; or -errno. */
static int
listen_on(int family, uint16_t *port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(*port),
	                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(*port),
	                           .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
	OWN(closep) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, address, len) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, address, &len) < 0)
		return -errno;
	*port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return TAKE_FD(fd);
}

static int
listen_both(uint16_t *port, int ret_fds[2])
{
	OWN(closep) int v4 = listen_on(AF_INET, port);
	int v6 = v4 < 0 ? -1 : listen_on(AF_INET6, port);

	if (v4 < 0)
		return v4;
	/* Without IPv6, the machine has one address fewer to listen on. */
	if (v6 < 0 && v6 != -EAFNOSUPPORT && v6 != -EADDRNOTAVAIL)
		return v6;
	ret_fds[0] = TAKE_FD(v4);
	ret_fds[1] = v6 < 0 ? -1 : v6;
	return 0;
}

/* Explains why --publish cannot have PORT, and what to do. */
static int
port_refused(const struct cell_port *port, int error, struct err *err)
{
	return err_set(err, error, "cannot publish the cell's port %u on port %u of this machine: %s: name "
	               "another port of this machine: --publish PORT:%u", port->cell, port->host,
	               error == EACCES ? "only root may listen there" : strerrordesc_np(error), port->cell);
}

static int
take_port(struct supervisor *sv, size_t i, struct err *err)
{
	struct cell_port *port = &sv->spec.ports[i];
	bool any = port->host == 0;
	uint16_t host = any ? port->cell : port->host;
	int r = listen_both(&host, sv->ports + 2 * i);

	for (int tries = 0; any && r < 0 && tries < TRIES; tries++) {
		host = 0;
		r = listen_both(&host, sv->ports + 2 * i);
	}
	if (r < 0 && !any)
		return port_refused(port, -r, err);
	if (r < 0)
		return err_set(err, -r, "cannot publish the cell's port %u on any port of this machine: %s",
		               port->cell, strerrordesc_np(-r));
	port->host = host;
	/* Swapped port numbers would otherwise be noticed late. */
	if ((any || host != port->cell) && !sv->spec.quiet) {
		char line[96];

		snprintf(line, sizeof(line), "the cell's port %u is 127.0.0.1:%u here", port->cell, host);
		supervisor_complain(line);
	}
	return 0;
}

/* Both ends are non-blocking. */
static int
make_channel(struct supervisor *sv, struct err *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	sv->webhooks = ends[0];
	sv->egress.webhooks.fd = ends[1];
	return 0;
}

int
supervisor_take_ports(struct supervisor *sv, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(sv->ports); i++)
		sv->ports[i] = -1;
	if (sv->spec.webhook_ports != 0)
		r = make_channel(sv, err);
	for (size_t i = 0; r == 0 && i < sv->spec.n_ports; i++)
		r = take_port(sv, i, err);
	return r;
}

/* ---- connections over the cell's port ---- */

static bool
is_published(const struct supervisor *sv, uint32_t port)
{
	for (size_t i = 0; i < sv->spec.n_ports; i++)
		if (sv->spec.ports[i].cell == port)
			return true;
	return false;
}

void
supervisor_port_connected(void *arg, uint32_t number, uint32_t error, int fd)
{
	const struct supervisor *sv = arg;
	OWN(closep) int socket = fd;
	OWN(buf_free) struct buf answer;

	ipc_begin(&answer, PUBLISH_CONNECTED);
	buf_put_u32(&answer, number);
	buf_put_u32(&answer, error);
	/* If publish does not read, its client waits in vain, and the connection ends with SOCKET. */
	if (sv->dials.fd >= 0)
		(void)ipc_send(sv->dials.fd, &answer, &socket, socket >= 0 ? 1 : 0, NULL);
}

int
supervisor_take_dial(struct supervisor *sv, struct ipc_message *message)
{
	uint32_t number, port;
	int r;

	if (message->type != PUBLISH_CONNECT || buf_get_u32(&message->body, &number) < 0 ||
	    buf_get_u32(&message->body, &port) < 0 || buf_left(&message->body) != 0 || message->n_fds != 0 ||
	    !is_published(sv, port))
		return -EBADMSG;
	r = port_connect(sv->boundary->port(sv->walls), number, (uint16_t)port, NULL);
	if (r < 0)
		supervisor_port_connected(sv, number, (uint32_t)-r, -1);
	return 0;
}

static void
dials_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct supervisor *sv = arg;
	int r;

	(void)events;
	/* Publish waits meanwhile.  If the cell cannot be resumed, until it can. */
	if (supervisor_is_paused(sv)) {
		loop_unwatch(sv->loop, &sv->dials);
		(void)supervisor_wake(sv);
		return;
	}
	r = ipc_receive(sv->dials.fd, &message, NULL);
	if (r == 0)
		r = supervisor_take_dial(sv, &message);
	/* Publish reads what servers in the cell answer to webhooks: it may be compromised. */
	if (r < 0 && r != -EAGAIN)
		supervisor_unpublish(sv);
}

/* Both ends are non-blocking.  Returns publish's end. */
static int
watch_dials(struct supervisor *sv, struct err *err)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	sv->dials = (struct loop_source){ .fd = ends[0], .ready = dials_ready, .arg = sv };
	r = loop_watch(sv->loop, &sv->dials, EPOLLIN, err);
	if (r == 0)
		return ends[1];
	close(ends[1]);
	return r;
}

/* ---- publish ---- */

int
supervisor_publish(struct supervisor *sv, struct err *err)
{
	OWN(closep) int dials = -1;
	char numbers[CELL_PORTS_MAX][16];
	char *argv[CELL_PORTS_MAX + 2] = { (char[]){ "cloister-publish" } };
	int fds[SUPERVISOR_FDS_MAX] = { -1, -1, sv->webhooks, -1 };
	struct spawn_how how = { .argv = argv, .fds = fds, .n_fds = FIRST_PORT + 2 * sv->spec.n_ports,
	                         .silent = sv->spec.detached };
	pid_t pid;

	if (port_carries(sv->boundary->port(sv->walls))) {
		dials = watch_dials(sv, err);
		if (dials < 0)
			return dials;
		fds[3] = dials;
	}
	for (size_t i = 0; i < sv->spec.n_ports; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%s%u",
		         (sv->spec.webhook_ports >> i & 1) != 0 ? "webhook:" : "", sv->spec.ports[i].cell);
		argv[i + 1] = numbers[i];
		memcpy(fds + FIRST_PORT + 2 * i, sv->ports + 2 * i, 2 * sizeof(int));
	}
	sv->boundary->enter_net(sv->walls, fds);
	pid = supervisor_spawn(sv->libexec, &how, err);
	for (size_t i = 0; i < 2 * sv->spec.n_ports; i++)
		closep(&sv->ports[i]);
	closep(&sv->webhooks);
	sv->webhooks = -1;
	if (pid < 0)
		return pid;
	sv->publish = pid;
	return 0;
}

void
supervisor_unpublish(struct supervisor *sv)
{
	if (sv->dials.fd >= 0) {
		loop_unwatch(sv->loop, &sv->dials);
		close(sv->dials.fd);
		sv->dials.fd = -1;
	}
	if (sv->publish <= 0)
		return;
	/* It is in the cell's user namespace, which this process owns. */
	kill(sv->publish, SIGKILL);
	waitpid(sv->publish, NULL, 0);
	sv->publish = 0;
}
