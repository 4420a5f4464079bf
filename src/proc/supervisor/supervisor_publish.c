/* supervisor_publish.c - opens ports of the host that lead to servers in the cell.
 *
 * They are on loopback: only this machine reaches them. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define TRIES 16                        /* to find a port that is free in both families */
#define BACKLOG 128

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

int
supervisor_publish(struct supervisor *sv, struct err *err)
{
	char numbers[CELL_PORTS_MAX][16];
	char *argv[CELL_PORTS_MAX + 2] = { (char[]){ "cloister-publish" } };
	int fds[SUPERVISOR_FDS_MAX] = { -1, -1, sv->webhooks };
	struct spawn_how how = { .argv = argv, .fds = fds, .n_fds = 3 + 2 * sv->spec.n_ports,
	                         .silent = sv->spec.detached };
	pid_t pid;

	for (size_t i = 0; i < sv->spec.n_ports; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%s%u",
		         (sv->spec.webhook_ports >> i & 1) != 0 ? "webhook:" : "", sv->spec.ports[i].cell);
		argv[i + 1] = numbers[i];
		memcpy(fds + 3 + 2 * i, sv->ports + 2 * i, 2 * sizeof(int));
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
	if (sv->publish <= 0)
		return;
	/* It is in the cell's user namespace, which this process owns. */
	kill(sv->publish, SIGKILL);
	waitpid(sv->publish, NULL, 0);
	sv->publish = 0;
}
