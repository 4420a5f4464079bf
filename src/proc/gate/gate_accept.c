/* gate_accept.c - accepts connections, and finds out their destination. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "proc/gate/gate.h"
#include "proc/gate/gate_names.h"

#define DNS_PORT 53

/* ---- destinations ---- */

uint32_t
gate_synthetic_number(const struct sockaddr_storage *to)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)to;
	struct in6_addr prefix;
	uint32_t number;

	if (to->ss_family == AF_INET) {
		number = ntohl(in->sin_addr.s_addr) - CELL_NET_BASE4;
		return number < CELL_NET_NAMES_MAX ? number : 0;
	}
	inet_pton(AF_INET6, CELL_NET_PREFIX6 "::", &prefix);
	memcpy(&number, &in6->sin6_addr.s6_addr[12], sizeof(number));
	memcpy(&prefix.s6_addr[12], &number, sizeof(number));
	number = ntohl(number);
	if (memcmp(&prefix, &in6->sin6_addr, sizeof(prefix)) != 0)
		return 0;
	return number < CELL_NET_NAMES_MAX ? number : 0;
}

/* Set the destination from an address: the name behind a synthetic address, or the address itself. */
static void
gate_set_destination(struct gate_conn *gc, const struct sockaddr_storage *to)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)to;
	const char *name = gate_names_get(gc->gate->names, gate_synthetic_number(to));

	gc->name[0] = gc->address[0] = '\0';
	gc->port = ntohs(to->ss_family == AF_INET ? in->sin_port : in6->sin6_port);
	if (name != NULL) {
		memcpy(gc->name, name, strlen(name) + 1);
		return;
	}
	inet_ntop(to->ss_family, to->ss_family == AF_INET ? (const void *)&in->sin_addr :
	          (const void *)&in6->sin6_addr, gc->address, sizeof(gc->address));
}

void
gate_set_host(struct gate_conn *gc, const char *host, size_t len, uint16_t port)
{
	struct sockaddr_storage to = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&to;
	char text[HTTP_HOST_MAX + 1];

	/* An IPv6 address has brackets. */
	if (len > 1 && host[0] == '[') {
		host++;
		len -= 2;
	}
	if (len >= sizeof(text))
		len = 0;
	memcpy(text, host, len);
	text[len] = '\0';
	gc->name[0] = gc->address[0] = '\0';
	gc->port = port;
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		gate_set_destination(gc, &to);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		gate_set_destination(gc, &to);
	} else {
		memcpy(gc->name, text, len + 1);
	}
}

static bool
accept_is_for_us(const struct gate_conn *gc)
{
	return strcmp(gc->address, CELL_NET_GATE4) == 0 ||
	       strcmp(gc->address, CELL_NET_GATE6) == 0;
}

static void
accept_start(struct gate *g, int fd, const struct sockaddr_storage *given, const struct sockaddr_storage *from,
             bool is_ssh)
{
	struct gate_conn *gc = gate_conn_new(g, fd);
	struct sockaddr_storage to = *given;
	socklen_t len = sizeof(to);

	if (gc == NULL)
		return;
	if (is_ssh) {
		gate_ssh_start(gc);
		return;
	}
	/* A captured connection keeps its original destination as its local address. */
	if (to.ss_family == AF_UNSPEC && getsockname(fd, (struct sockaddr *)&to, &len) < 0) {
		gate_conn_drop(gc, true);
		return;
	}
	gate_set_destination(gc, &to);
	/* The port is at the same place in both families. */
	if (from->ss_family == AF_INET || from->ss_family == AF_INET6)
		gc->from = ntohs(((const struct sockaddr_in *)from)->sin_port);
	/* The gate answers queries to any DNS server. */
	if (gc->port == DNS_PORT)
		gate_dns_start(gc);
	else if (!accept_is_for_us(gc))
		gate_route_start(gc);
	else if (gc->port == CELL_NET_PROXY_PORT || gc->port == CELL_NET_SOCKS_PORT)
		gate_proxy_start(gc);
	else {
		gate_note(g, gc, EGRESS_NOTE_TCP, 0, "nothing listens on this port of the gate");
		gate_conn_drop(gc, true);
	}
}

/* ---- listening ---- */

/* The oldest connection that stopped in the middle of sending. */
static struct gate_conn *
accept_find_silent(const struct gate *g)
{
	uint64_t now = loop_now_ms();

	for (struct gate_conn *gc = g->busy.first; gc != NULL; gc = gc->next)
		if (gc->protocol != NULL && gc->protocol->waits != NULL && gc->protocol->waits(gc) &&
		    now - gc->heard_ms >= GATE_PRESSED_MS)
			return gc;
	return NULL;
}

static bool
accept_make_room(struct gate *g)
{
	struct gate_conn *silent;

	if (g->n_conns < g->conns_max)
		return true;
	silent = g->idle.first != NULL ? g->idle.first : accept_find_silent(g);
	if (silent != NULL) {
		/* A connection that has closed its side and still exists waits for a response. */
		gate_conn_drop(silent, silent != g->idle.first || silent->has_ended);
		return true;
	}
	if (g->pressed.at_ms == 0)
		loop_set_timer(g->loop, &g->pressed, GATE_PRESSED_MS);
	for (size_t i = 0; i < ARRAY_LEN(g->listeners); i++)
		loop_unwatch(g->loop, &g->listeners[i]);
	return false;
}

/* Of a connection that was captured elsewhere: where it was to go, and its port. */
static void
accept_read_address(struct buf *body, struct sockaddr_storage *ret_to, struct sockaddr_storage *ret_from)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_to;
	uint32_t family, address[4], port, from;
	int r = buf_get_u32(body, &family);

	for (size_t i = 0; i < ARRAY_LEN(address); i++)
		r = r == 0 ? buf_get_u32(body, &address[i]) : r;
	if (r < 0 || buf_get_u32(body, &port) < 0 || buf_get_u32(body, &from) < 0)
		return;
	ret_to->ss_family = family == 4 ? AF_INET : AF_INET6;
	in->sin_port = htons((uint16_t)port);
	memcpy(family == 4 ? (void *)&in->sin_addr : (void *)&in6->sin6_addr, address, family == 4 ? 4 : 16);
	ret_from->ss_family = AF_INET;
	((struct sockaddr_in *)ret_from)->sin_port = htons((uint16_t)from);
}

/* A connection that somebody else has accepted; -1: there is none. */
static int
accept_given(struct gate *g, struct loop_source *source, struct sockaddr_storage *ret_to,
             struct sockaddr_storage *ret_from)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(source->fd, &message, NULL);

	if (r < 0 && r != -EAGAIN) {
		loop_unwatch(g->loop, source);
		source->fd = -1;
	}
	if (r < 0 || message.type != GATE_CLIENT)
		return -1;
	accept_read_address(&message.body, ret_to, ret_from);
	return ipc_take_fd(&message, 0);
}

/* Clients of an SSH agent, and connections of a cell without a network of its own, may come by a socket that does not
 * listen.  *ret_to is then as it was, or the destination. */
static int
accept_next(struct gate *g, struct loop_source *source, struct sockaddr_storage *ret_to,
            struct sockaddr_storage *ret_from)
{
	socklen_t len = sizeof(*ret_from);
	int fd = accept4(source->fd, (struct sockaddr *)ret_from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd < 0 && errno == EINVAL ? accept_given(g, source, ret_to, ret_from) : fd;
}

static void
accept_ready(struct gate *g, struct loop_source *source)
{
	int fd;

	for (int i = 0; i < GATE_ACCEPT_MAX && accept_make_room(g); i++) {
		struct sockaddr_storage to = {0}, from = {0};

		fd = accept_next(g, source, &to, &from);
		if (fd < 0)
			return;
		accept_start(g, fd, &to, &from, source == &g->listeners[GATE_LISTENS_SSH]);
	}
}

static void
accept_ready4(void *arg, uint32_t events)
{
	struct gate *g = arg;

	(void)events;
	accept_ready(g, &g->listeners[GATE_LISTENS4]);
}

static void
accept_ready6(void *arg, uint32_t events)
{
	struct gate *g = arg;

	(void)events;
	accept_ready(g, &g->listeners[GATE_LISTENS6]);
}

static void
accept_ready_ssh(void *arg, uint32_t events)
{
	struct gate *g = arg;

	(void)events;
	accept_ready(g, &g->listeners[GATE_LISTENS_SSH]);
}

void
gate_listen_again(struct gate *g)
{
	for (size_t i = 0; i < ARRAY_LEN(g->listeners); i++)
		if (g->listeners[i].fd >= 0)
			(void)loop_watch(g->loop, &g->listeners[i], EPOLLIN, NULL);
}

int
gate_listen(struct gate *g, size_t i, int fd, struct err *err)
{
	static void (*const ready[GATE_LISTENERS])(void *, uint32_t) = {
		[GATE_LISTENS4] = accept_ready4, [GATE_LISTENS6] = accept_ready6,
		[GATE_LISTENS_SSH] = accept_ready_ssh,
	};
	const struct linger reset = { .l_onoff = 1 };

	/* Accepted sockets inherit this.  If the gate dies, an unfinished response is cut off by a
	 * reset, and does not look complete. */
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0)
		return err_errno(err, "cannot set up a listener");
	g->listeners[i] = (struct loop_source){ .fd = fd, .ready = ready[i], .arg = g };
	return loop_watch(g->loop, &g->listeners[i], EPOLLIN, err);
}
