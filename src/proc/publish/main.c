/* main.c - cloister-publish: forwards connections from ports of the host to servers in the cell.
 *
 * cloister-publish [webhook:]PORT..., started by the supervisor with
 *   fd 3  and 4: the cell's network, see capture_enter()
 *   fd 5  the courier, if webhooks come to a PORT: see webhook_channel.h
 *   fd 6  the supervisor, if only it reaches the cell's servers: see publish_channel.h
 *   fd 7  listening on the host for the first PORT, IPv4; 8: IPv6, or closed; and so on
 * It joins that network and gives up everything else.  So it connects only within the cell, and has only
 * the given sockets of the host. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "boundary/capture/capture.h"
#include "cell/cell_spec.h"
#include "confine/lockdown.h"
#include "ipc/publish_channel.h"
#include "ipc/webhook_channel.h"
#include "loop/loop.h"
#include "loop/relay.h"
#include "proc/publish/publish.h"

enum { NETWORK = 3, LISTENERS = PUBLISH_SUPERVISOR_FD + 1 };

#define INNER_ID 0xfffdu                /* an unused id, if it is mapped */

struct port {
	uint16_t number;
	bool webhooks;                  /* its connections carry webhooks, which are checked */
	struct loop_source listeners[2];
};

struct connection {
	int host, cell;
	struct publish_dial dial;
	int host_again, cell_again;     /* duplicates of the sockets for the way out: a loop watches
	                                 * a descriptor for one purpose */
	struct relay in, out;           /* into the cell, out of it */
	struct relay_idle idle;
	unsigned open;                  /* running relays */
	struct connection *next;        /* in the list of ended ones */
};

struct loop *publish_loop;
static struct port ports[CELL_PORTS_MAX];
static size_t n_ports, n_connections;
static struct connection *gone;
static struct loop_round bury;

/* Freed when no event of this round can refer to it any more. */
static void
bury_gone(void *arg)
{
	(void)arg;
	while (gone != NULL) {
		struct connection *c = gone;

		gone = c->next;
		free(c);
	}
}

static void
watch_ports(bool on)
{
	for (size_t i = 0; i < n_ports; i++)
		for (size_t k = 0; k < 2; k++)
			if (ports[i].listeners[k].fd >= 0)
				(void)loop_watch(publish_loop, &ports[i].listeners[k], on ? EPOLLIN : 0, NULL);
}

void
publish_came(void)
{
	if (++n_connections == PUBLISH_CONNECTIONS_MAX)
		watch_ports(false);
}

void
publish_went(void)
{
	if (n_connections-- == PUBLISH_CONNECTIONS_MAX)
		watch_ports(true);
}

static void
drop(struct connection *c)
{
	relay_idle_stop(&c->idle);
	closep(&c->host);
	closep(&c->host_again);
	closep(&c->cell);
	closep(&c->cell_again);
	c->next = gone;
	gone = c;
	loop_at_round_end(publish_loop, &bury);
	publish_went();
}

static void
carried(void *arg, struct relay *relay)
{
	struct connection *c = arg;

	/* One direction has ended; the other may still have data. */
	shutdown(relay == &c->in ? c->cell : c->host, SHUT_WR);
	if (relay->error != 0 && c->open == 2) {
		relay_drop(relay == &c->in ? &c->out : &c->in);
		c->open = 1;
	}
	if (--c->open == 0)
		drop(c);
}

static void
silent(void *arg)
{
	struct connection *c = arg;

	relay_drop(&c->in);
	relay_drop(&c->out);
	drop(c);
}

static void
carry(struct connection *c)
{
	c->in = c->out = (struct relay){ .done = carried, .arg = c, .idle = &c->idle };
	c->idle = (struct relay_idle){ .due = silent, .arg = c };
	c->open = 2;
	c->host_again = fcntl(c->host, F_DUPFD_CLOEXEC, 0);
	c->cell_again = fcntl(c->cell, F_DUPFD_CLOEXEC, 0);
	if (c->host_again < 0 || c->cell_again < 0 ||
	    relay_start(&c->in, publish_loop, c->host, c->cell, NULL) < 0) {
		drop(c);
		return;
	}
	if (relay_start(&c->out, publish_loop, c->cell_again, c->host_again, NULL) < 0) {
		relay_drop(&c->in);
		drop(c);
		return;
	}
	relay_idle_start(&c->idle, publish_loop);
}

static void
dialed(void *arg, int fd)
{
	const struct linger reset = { 1, 0 };
	struct connection *c = arg;

	c->cell = fd;
	if (fd >= 0) {
		carry(c);
		return;
	}
	/* Nobody listens: the client must see that too. */
	(void)setsockopt(c->host, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	drop(c);
}

static void
take(struct port *port, int listener)
{
	OWN(closep) int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *c;

	if (fd < 0)
		return;
	if (port->webhooks) {
		webhook_take(port->number, TAKE_FD(fd));
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return;
	c->cell = c->host_again = c->cell_again = -1;
	c->host = TAKE_FD(fd);
	c->dial = (struct publish_dial){ .done = dialed, .arg = c };
	publish_came();
	publish_dial(&c->dial, port->number);
}

static void
v4_ready(void *arg, uint32_t events)
{
	struct port *port = arg;

	(void)events;
	take(port, port->listeners[0].fd);
}

static void
v6_ready(void *arg, uint32_t events)
{
	struct port *port = arg;

	(void)events;
	take(port, port->listeners[1].fd);
}

static int
find_ports(int argc, char **argv, struct err *err)
{
	static const char webhook[] = "webhook:";
	uint64_t number;

	for (; n_ports < (size_t)argc - 1 && n_ports < CELL_PORTS_MAX; n_ports++) {
		struct port *port = &ports[n_ports];
		int at = LISTENERS + 2 * (int)n_ports;
		const char *word = argv[n_ports + 1];

		port->webhooks = strncmp(word, webhook, sizeof(webhook) - 1) == 0;
		if (num_parse_count(word + (port->webhooks ? sizeof(webhook) - 1 : 0), 1, 65535, &number,
		                    err) < 0)
			return -EINVAL;
		port->number = (uint16_t)number;
		port->listeners[0] = (struct loop_source){ .fd = at, .ready = v4_ready, .arg = port };
		port->listeners[1] = (struct loop_source){ .ready = v6_ready, .arg = port,
			.fd = fcntl(at + 1, F_GETFD) < 0 ? -1 : at + 1 };
	}
	return 0;
}

static int
enter_cell(struct err *err)
{
	const bool has_users = fcntl(NETWORK, F_GETFD) >= 0;
	int r = capture_enter((const int[]){ NETWORK, NETWORK + 1 }, err);

	if (r < 0)
		return r;
	close(NETWORK);
	close(NETWORK + 1);
	/* If the cell has ids of its own, becomes nobody; else the operator's is the only id that the supervisor can kill. */
	(void)!setgroups(0, NULL);
	if (has_users && setresgid(INNER_ID, INNER_ID, INNER_ID) == 0 &&
	    setresuid(INNER_ID, INNER_ID, INNER_ID) < 0)
		return err_errno(err, "cannot change ids");
	/* Changing ids has cleared both. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return err_errno(err, "cannot give up privileges");
	return 0;
}

int
main(int argc, char **argv)
{
	const struct lockdown what_is_left = { .filter = FILTER_PUBLISH, .network = true };
	struct err err = {0};
	pid_t parent = getppid();
	bool has_webhooks = fcntl(PUBLISH_WEBHOOK_FD, F_GETFD) >= 0;
	bool has_channel = fcntl(PUBLISH_SUPERVISOR_FD, F_GETFD) >= 0;
	int r;

	if (argc < 2 || fcntl(NETWORK + 1, F_GETFD) < 0) {
		fprintf(stderr, "cloister-publish is started by cloister-supervisor only\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	r = find_ports(argc, argv, &err);
	if (r == 0)
		r = enter_cell(&err);
	if (r == 0 && getppid() != parent)
		return 125;
	if (r == 0)
		r = lockdown_enter(&what_is_left, LISTENERS + 2 * (int)n_ports, &err);
	if (r == 0)
		r = loop_new(&publish_loop, &err);
	loop_prepare_round(&bury, bury_gone, NULL);
	if (r == 0 && has_channel)
		r = publish_dial_start_channel(&err);
	if (r == 0 && has_webhooks)
		r = webhook_start(&err);
	if (r == 0) {
		watch_ports(true);
		r = loop_run(publish_loop, &err);
	}
	fprintf(stderr, "cloister: published ports: %s\n", err.text);
	return 125;
}
