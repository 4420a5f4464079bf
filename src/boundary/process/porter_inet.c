/* porter_inet.c - TCP of the cell: each connection leads to the gate, or to a server of the cell itself.
 *
 * The agent's socket is connected to one on loopback that only the porter accepts from.  It hands the accepted end to the
 * gate, with the address that the agent wanted.  A server of the cell listens on loopback, at a port that the kernel
 * chose; the porter knows which port it stands for. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/process/porter.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"

#define BACKLOG 128
#define LOOPBACK_MS 500                 /* for a connection within the machine */
#define DNS_PORT 53

static const struct in_addr loopback = { .s_addr = 0x0100007f };        /* 127.0.0.1, in its order on the network */

/* ---- names ---- */

uint16_t
porter_port_of(const struct sockaddr_storage *at)
{
	return ntohs(((const struct sockaddr_in *)at)->sin_port);
}

/* An IPv4 address that is written as one of IPv6 becomes itself. */
static void
unmap(struct sockaddr_storage *at)
{
	const struct sockaddr_in6 in6 = *(const struct sockaddr_in6 *)at;
	struct sockaddr_in *in = (struct sockaddr_in *)at;

	if (at->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return;
	memset(at, 0, sizeof(*at));
	in->sin_family = AF_INET;
	in->sin_port = in6.sin6_port;
	memcpy(&in->sin_addr, &in6.sin6_addr.s6_addr[12], 4);
}

bool
porter_is_own(const struct sockaddr_storage *given)
{
	struct sockaddr_storage at = *given;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&at;

	unmap(&at);
	if (at.ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127 || in->sin_addr.s_addr == 0;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

int
porter_check_name(int domain, const struct sockaddr_storage *name, socklen_t len)
{
	if (len < sizeof(sa_family_t))
		return -EINVAL;
	if (name->ss_family != domain)
		return -EAFNOSUPPORT;
	return len < (domain == AF_INET ? sizeof(struct sockaddr_in) : 24 /* SIN6_LEN_RFC2133 */) ? -EINVAL : 0;
}

/* Loopback as a socket of DOMAIN knows it. */
static socklen_t
loopback_name(int domain, uint16_t port, struct sockaddr_storage *ret_name)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_name;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_name;

	memset(ret_name, 0, sizeof(*ret_name));
	if (domain == AF_INET) {
		*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = loopback };
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	in6->sin6_addr.s6_addr[10] = in6->sin6_addr.s6_addr[11] = 0xff;
	memcpy(&in6->sin6_addr.s6_addr[12], &loopback, 4);
	return sizeof(*in6);
}

static int
own_port(int fd, uint16_t *ret_port)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	*ret_port = porter_port_of(&at);
	return 0;
}

/* ---- the doors to the gate ---- */

int
porter_prepare(struct porter *p, struct err *err)
{
	const struct linger reset = { .l_onoff = 1 };
	const int on = 1;
	struct sockaddr_storage at;
	socklen_t len = loopback_name(AF_INET, 0, &at);

	p->doors = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The accepted ends inherit these: see gate_listen(). */
	if (p->doors < 0 || setsockopt(p->doors, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(p->doors, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0 ||
	    bind(p->doors, (struct sockaddr *)&at, len) < 0 || listen(p->doors, BACKLOG) < 0)
		return err_errno(err, "cannot listen on this machine's loopback, by which the cell reaches the gate");
	return own_port(p->doors, &p->doors_port) < 0 ? err_errno(err, "cannot listen on this machine's loopback") : 0;
}

/* Connects the agent's socket S to PORT of loopback.  The porter must not wait for long. */
static int
connect_loopback(const struct porter_socket *s, uint16_t port)
{
	const struct timeval brief = { .tv_usec = LOOPBACK_MS * 1000 };
	const int off = 0;
	struct sockaddr_storage to;
	socklen_t len = loopback_name(s->domain, port, &to), size = sizeof(struct timeval);
	struct timeval before = {0};
	int r;

	(void)setsockopt(s->fd, IPPROTO_TCP, 30 /* TCP_FASTOPEN_CONNECT */, &off, sizeof(off));
	if (s->domain == AF_INET6)
		(void)setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	(void)getsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &before, &size);
	(void)setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof(brief));
	r = connect(s->fd, (struct sockaddr *)&to, len) < 0 ? -errno : 0;
	(void)setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &before, sizeof(before));
	return r;
}

/* The end that belongs to S.  Anybody on this machine can connect; nobody else has its port. */
static int
accept_other_end(const struct porter *p, const struct porter_socket *s, uint16_t *ret_port)
{
	struct pollfd ready = { .fd = p->doors, .events = POLLIN };
	uint16_t port = 0;
	int r = own_port(s->fd, &port);

	while (r == 0 && poll(&ready, 1, LOOPBACK_MS) == 1) {
		struct sockaddr_in from = {0};
		socklen_t len = sizeof(from);
		int fd = accept4(p->doors, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			continue;
		*ret_port = port;
		if (ntohs(from.sin_port) == port && from.sin_addr.s_addr == loopback.s_addr)
			return fd;
		close(fd);
	}
	return r < 0 ? r : -ECONNREFUSED;
}

/* GATE_CLIENT with the address; see courier_channel.h. */
static int
hand_to_gate(struct porter *p, const struct porter_client *client)
{
	OWN(buf_free) struct buf message;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&client->to;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&client->to;
	uint32_t address[4] = {0};

	memcpy(address, in->sin_family == AF_INET ? (const void *)&in->sin_addr : (const void *)&in6->sin6_addr,
	       in->sin_family == AF_INET ? 4 : 16);
	ipc_begin(&message, GATE_CLIENT);
	buf_put_u32(&message, in->sin_family == AF_INET ? 4 : 6);
	for (size_t i = 0; i < ARRAY_LEN(address); i++)
		buf_put_u32(&message, address[i]);
	buf_put_u32(&message, porter_port_of(&client->to));
	buf_put_u32(&message, client->from);
	return ipc_send(p->gate.fd, &message, &client->fd, 1, NULL);
}

static void
drop_client(struct porter *p)
{
	close(p->clients[p->first_client].fd);
	p->first_client = (p->first_client + 1) % PORTER_CLIENTS_MAX;
	p->n_clients--;
}

void
porter_gate_ready(void *arg, uint32_t events)
{
	struct porter *p = arg;

	/* The supervisor holds the other end while there is no gate: this one is never hung up before the cell's end. */
	while (p->n_clients > 0) {
		int r = hand_to_gate(p, &p->clients[p->first_client]);

		if (r == -EAGAIN && (events & (EPOLLHUP | EPOLLERR)) == 0)
			break;
		drop_client(p);
	}
	if (p->n_clients == 0)
		loop_unwatch(p->loop, &p->gate);
}

static void
queue_client(struct porter *p, int fd, const struct sockaddr_storage *to, uint16_t from)
{
	if (p->n_clients == PORTER_CLIENTS_MAX) {
		close(fd);
		return;
	}
	p->clients[(p->first_client + p->n_clients++) % PORTER_CLIENTS_MAX] =
		(struct porter_client){ .fd = fd, .to = *to, .from = from };
	porter_gate_ready(p, 0);
	if (p->n_clients > 0 && p->gate.events == 0)
		(void)loop_watch(p->loop, &p->gate, EPOLLOUT, NULL);
}

static int
connect_gate(struct porter *p, const struct porter_socket *s, const struct sockaddr_storage *to)
{
	uint16_t from = 0;
	int r, fd;

	if (p->gate.fd < 0)
		return -ENETUNREACH;
	r = connect_loopback(s, p->doors_port);
	if (r < 0 && r != -EINPROGRESS)
		return r;
	fd = accept_other_end(p, s, &from);
	if (fd < 0) {
		(void)shutdown(s->fd, SHUT_RDWR);
		return fd;
	}
	queue_client(p, fd, to, from);
	return r;
}

/* ---- servers of the cell ---- */

/* Whether a server S is one for clients of FAMILY. */
static bool
serves(const struct porter_socket *s, int family)
{
	return s->kind == PORTER_TCP && s->port != 0 && (s->domain == family || (s->domain == AF_INET6 && !s->v6only));
}

static struct porter_socket *
find_server(const struct porter *p, int family, uint16_t port)
{
	for (size_t i = 0; i < p->n_sockets; i++)
		if (p->sockets[i]->listens && p->sockets[i]->port == port && serves(p->sockets[i], family))
			return p->sockets[i];
	return NULL;
}

static int
connect_own(struct porter *p, const struct porter_socket *s, int family, uint16_t port)
{
	struct porter_socket *server = find_server(p, family, port);
	uint16_t real = 0;
	int r;

	/* It may have been closed meanwhile. */
	if (server != NULL) {
		const uint32_t number = server->number;

		porter_sweep(p, s);
		server = porter_by_number(p, number);
	}
	if (server == NULL)
		return -ECONNREFUSED;
	r = own_port(server->fd, &real);
	return r < 0 ? r : connect_loopback(s, real);
}

int
porter_connect_inet(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *given, socklen_t len)
{
	struct sockaddr_storage to = *given;
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	int r;

	if (len >= sizeof(sa_family_t) && to.ss_family == AF_UNSPEC)
		/* It is not connected; the agent may go on with it. */
		return connect(s->fd, &unspec, sizeof(unspec)) < 0 ? -errno : -ENOTCONN;
	r = porter_check_name(s->domain, &to, len);
	if (r < 0)
		return r;
	unmap(&to);
	if (!porter_is_own(&to))
		return connect_gate(p, s, &to);
	r = connect_own(p, s, to.ss_family, porter_port_of(&to));
	/* The machine's own resolver, which the agent may have read from its configuration. */
	return r == -ECONNREFUSED && porter_port_of(&to) == DNS_PORT ? connect_gate(p, s, &to) : r;
}

/* Another socket of the cell that has the port already. */
static bool
is_taken(const struct porter *p, const struct porter_socket *s, uint16_t port, bool shares)
{
	for (size_t i = 0; i < p->n_sockets; i++) {
		const struct porter_socket *o = p->sockets[i];

		if (o == s || o->kind != PORTER_TCP || o->port != port || (o->shares_port && shares))
			continue;
		if (serves(o, s->domain) || (s->domain == AF_INET6 && !s->v6only))
			return true;
	}
	return false;
}

int
porter_bind_inet(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *at, socklen_t len)
{
	struct sockaddr_storage real;
	const int off = 0;
	int r = porter_check_name(s->domain, at, len);
	socklen_t real_len = loopback_name(s->domain, 0, &real);
	uint16_t port;

	if (r < 0)
		return r;
	if (!porter_is_own(at))
		return -EADDRNOTAVAIL;
	port = porter_port_of(at);
	if (port != 0 && is_taken(p, s, port, s->shares_port)) {
		porter_sweep(p, s);
		if (is_taken(p, s, port, s->shares_port))
			return -EADDRINUSE;
	}
	if (s->domain == AF_INET6)
		(void)setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(s->fd, (struct sockaddr *)&real, real_len) < 0)
		return -errno;
	if (port == 0 && (r = own_port(s->fd, &port)) < 0)
		return r;
	s->port = port;
	s->asked = *at;
	s->asked_len = s->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	((struct sockaddr_in *)&s->asked)->sin_port = htons(port);
	return 0;
}

int
porter_listen_inet(struct porter *p, struct porter_socket *s, int backlog)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)s->domain };
	int r = s->bound ? 0 : porter_bind_inet(p, s, &any, s->domain == AF_INET ? sizeof(struct sockaddr_in)
	                                                                         : sizeof(struct sockaddr_in6));

	if (r < 0)
		return r;
	s->bound = true;
	if (listen(s->fd, backlog) < 0)
		return -errno;
	s->listens = true;
	return 0;
}
