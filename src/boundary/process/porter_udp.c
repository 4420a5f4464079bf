/* porter_udp.c - sockets for datagrams.  Their only use is DNS, to whatever server.
 *
 * The agent has one end of a pair, which can send to nobody but the porter.  So the agent's messages need not be looked
 * at, and an address in one has no effect: what is sent without connect(2) or sendto(2) is a question for DNS.  The
 * porter has both ends: with the agent's it receives on its behalf, if the agent wants to know from whom. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/process/porter.h"

#define DNS_PORT 53
#define DNS_HEADER 12
#define FIRST_PORT 32768
#define BATCH 64
#define IOV_MOST 16                     /* parts of a message that are used */

/* ---- sockets ---- */

static socklen_t
name_len(int domain)
{
	return domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void
set_own_name(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *at)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&s->asked;

	s->asked = (struct sockaddr_storage){ .ss_family = (sa_family_t)s->domain };
	if (at != NULL)
		s->asked = *at;
	if (in->sin_port == 0)
		in->sin_port = htons((uint16_t)(FIRST_PORT + p->next_port++ % FIRST_PORT));
	s->asked_len = name_len(s->domain);
}

/* A question goes to the gate under an id of the porter's own, as several sockets may use the same. */
static void
take_question(struct porter *p, struct porter_socket *s, unsigned char *bytes, size_t len)
{
	struct porter_question *q;

	if (len < DNS_HEADER || p->dns.fd < 0)
		return;
	p->next_id++;
	q = &p->questions[p->next_id % PORTER_QUESTIONS_MAX];
	*q = (struct porter_question){ .socket = s->number, .own = p->next_id, .used = true, .server = s->peer,
	                               .theirs = (uint16_t)(bytes[0] << 8 | bytes[1]) };
	bytes[0] = (unsigned char)(q->own >> 8);
	bytes[1] = (unsigned char)q->own;
	(void)send(p->dns.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool
is_for_dns(const struct porter_socket *s)
{
	return s->peer.ss_family == AF_UNSPEC || porter_port_of(&s->peer) == DNS_PORT;
}

static void
udp_ready(void *arg, uint32_t events)
{
	struct porter_socket *s = arg;
	unsigned char bytes[PORTER_DATAGRAM_MAX];

	for (int i = 0; i < BATCH; i++) {
		ssize_t n = recv(s->other.fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC);

		if (n <= 0) {
			/* Shut down by the agent: it sends no more. */
			if (n == 0 && (events & (EPOLLRDHUP | EPOLLHUP)) != 0)
				loop_unwatch(s->porter->loop, &s->other);
			return;
		}
		if (n <= (ssize_t)sizeof(bytes) && is_for_dns(s))
			take_question(s->porter, s, bytes, (size_t)n);
	}
}

int
porter_open_udp(struct porter *p, struct porter_socket *s, int type, int *ret_theirs)
{
	int ends[2];

	*ret_theirs = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	s->fd = ends[0];
	s->other = (struct loop_source){ .fd = ends[1], .ready = udp_ready, .arg = s };
	if (((type & SOCK_NONBLOCK) != 0 && fcntl(s->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) ||
	    fcntl(s->other.fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -errno;
	return loop_watch(p->loop, &s->other, EPOLLIN, NULL);
}

int
porter_connect_udp(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *to, socklen_t len)
{
	int r;

	if (len >= sizeof(sa_family_t) && to->ss_family == AF_UNSPEC) {
		s->connected = false;
		s->peer = (struct sockaddr_storage){0};
		return 0;
	}
	r = porter_check_name(s->domain, to, len);
	if (r < 0)
		return r;
	s->peer = *to;
	s->connected = true;
	if (s->asked_len == 0)
		set_own_name(p, s, NULL);
	return 0;
}

int
porter_bind_udp(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *at, socklen_t len)
{
	int r = porter_check_name(s->domain, at, len);

	if (r == 0 && !porter_is_own(at))
		r = -EADDRNOTAVAIL;
	if (r == 0)
		set_own_name(p, s, at);
	return r;
}

int
porter_sendto(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const size_t size = (size_t)c->data.args[2];
	const int len = (int)c->data.args[5];
	struct sockaddr_storage to = {0};
	unsigned char bytes[PORTER_DATAGRAM_MAX];
	struct porter_socket *s = NULL;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	if (r < 0)
		return r;
	/* Connected, or of AF_UNIX. */
	if (s == NULL || s->kind != PORTER_UDP)
		return s != NULL && s->kind == PORTER_TCP ? -EPIPE : -EISCONN;
	if (size > sizeof(bytes))
		return -EMSGSIZE;
	if (len < 0 || (size_t)len > sizeof(to))
		return -EINVAL;
	r = porter_read(c, c->data.args[4], &to, (size_t)len);
	if (r == 0)
		r = porter_check_name(s->domain, &to, (socklen_t)len);
	if (r == 0)
		r = porter_read(c, c->data.args[1], bytes, size);
	if (r < 0)
		return r;
	if (!porter_is_valid(p, c))
		return -EINTR;
	if (!s->connected)
		s->peer = to;
	if (s->asked_len == 0)
		set_own_name(p, s, NULL);
	/* Nobody is there, and for DNS every server is the gate. */
	if (porter_port_of(&to) == DNS_PORT)
		take_question(p, s, bytes, size);
	*ret_value = (int64_t)size;
	return 0;
}

/* ---- receiving ---- */

/* Where the bytes and the sender's name of a call belong. */
struct receiving {
	struct porter_call call;
	struct iovec parts[IOV_MOST];
	size_t n_parts;
	uint64_t name, name_len;        /* addresses in the caller; 0: not wanted.  The length is a socklen_t */
	uint64_t flags_at;              /* of the result, in a struct msghdr; 0: none */
	uint64_t control_len_at;
	uint64_t count_at;              /* of the bytes, in a struct mmsghdr; 0: none */
	int flags;
};

static int
read_header(const struct porter_call *c, uint64_t at, struct receiving *r)
{
	struct msghdr header;
	int e = porter_read(c, at, &header, sizeof(header));

	if (e < 0)
		return e;
	r->n_parts = header.msg_iovlen < IOV_MOST ? header.msg_iovlen : IOV_MOST;
	r->name = (uint64_t)(uintptr_t)header.msg_name;
	r->name_len = at + offsetof(struct msghdr, msg_namelen);
	r->flags_at = at + offsetof(struct msghdr, msg_flags);
	r->control_len_at = at + offsetof(struct msghdr, msg_controllen);
	return porter_read(c, (uint64_t)(uintptr_t)header.msg_iov, r->parts, r->n_parts * sizeof(r->parts[0]));
}

static int
read_receiving(const struct porter_call *c, struct receiving *ret)
{
	*ret = (struct receiving){ .call = *c };
	if (c->data.nr == SYS_recvfrom) {
		ret->parts[0] = (struct iovec){ (void *)(uintptr_t)c->data.args[1], (size_t)c->data.args[2] };
		ret->n_parts = 1;
		ret->name = c->data.args[4];
		ret->name_len = c->data.args[5];
		ret->flags = (int)c->data.args[3];
		return 0;
	}
	ret->flags = (int)c->data.args[c->data.nr == SYS_recvmsg ? 2 : 3];
	if (c->data.nr == SYS_recvmmsg)
		ret->count_at = c->data.args[1] + offsetof(struct mmsghdr, msg_len);
	return read_header(c, c->data.args[1], ret);
}

/* Puts a datagram where the caller wants it.  Returns what the call returns. */
static int64_t
deliver(const struct receiving *r, const struct porter_socket *s, const unsigned char *bytes, size_t len)
{
	const int32_t truncated = MSG_TRUNC, none = 0;
	const uint64_t no_control = 0;
	struct sockaddr_storage from = s->peer;
	size_t done = 0;
	int e = 0;

	for (size_t i = 0; e == 0 && i < r->n_parts && done < len; i++) {
		const size_t part = r->parts[i].iov_len < len - done ? r->parts[i].iov_len : len - done;

		e = porter_write(&r->call, (uint64_t)(uintptr_t)r->parts[i].iov_base, bytes + done, part);
		done += part;
	}
	if (from.ss_family == AF_UNSPEC)
		from.ss_family = (sa_family_t)s->domain;
	if (e == 0 && r->name != 0)
		e = porter_write_name(&r->call, r->name, r->name_len, &from, name_len(s->domain));
	if (e == 0 && r->flags_at != 0)
		e = porter_write(&r->call, r->flags_at, done < len ? &truncated : &none, sizeof(none));
	if (e == 0 && r->control_len_at != 0)
		e = porter_write(&r->call, r->control_len_at, &no_control, sizeof(no_control));
	if (e == 0 && r->count_at != 0)
		e = porter_write(&r->call, r->count_at, &(uint32_t){ (uint32_t)done }, sizeof(uint32_t));
	return e < 0 ? e : r->count_at != 0 ? 1 : (int64_t)((r->flags & MSG_TRUNC) != 0 ? len : done);
}

/* -EAGAIN: there is no datagram. */
static int64_t
receive(struct porter *p, const struct receiving *r, const struct porter_socket *s)
{
	unsigned char bytes[PORTER_DATAGRAM_MAX];
	ssize_t n;

	if ((r->flags & MSG_ERRQUEUE) != 0)
		return -EAGAIN;
	n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT | (r->flags & MSG_PEEK));
	if (n < 0)
		return -errno;
	return porter_is_valid(p, &r->call) ? deliver(r, s, bytes, (size_t)n) : -EINTR;
}

void
porter_forget_waiting(struct porter *p, const struct porter_socket *s)
{
	for (size_t i = 0; i < PORTER_WAITING_MAX; i++)
		if (p->waiting[i].socket == s->number)
			p->waiting[i].socket = 0;
}

/* A datagram has come, and calls wait for one. */
static void
waits_ready(void *arg, uint32_t events)
{
	struct porter_socket *s = arg;
	struct porter *p = s->porter;
	bool more = false;

	(void)events;
	for (size_t i = 0; i < PORTER_WAITING_MAX; i++) {
		struct porter_waiting *w = &p->waiting[i];
		struct receiving r;
		int64_t n;

		if (w->socket != s->number)
			continue;
		n = !porter_is_valid(p, &w->call) ? -EINTR : read_receiving(&w->call, &r);
		if (n == 0)
			n = receive(p, &r, s);
		if (n == -EAGAIN) {
			more = true;
			continue;
		}
		w->socket = 0;
		porter_answer(p, w->call.id, n < 0 ? 0 : n, n < 0 ? (int)-n : 0, false);
	}
	if (!more)
		loop_unwatch(p->loop, &s->waits);
}

static int
wait_for_one(struct porter *p, const struct porter_call *c, struct porter_socket *s)
{
	for (size_t i = 0; i < PORTER_WAITING_MAX; i++) {
		struct porter_waiting *w = &p->waiting[i];

		if (w->socket != 0 && porter_is_valid(p, &w->call))
			continue;
		*w = (struct porter_waiting){ *c, s->number };
		if (s->waits.events == 0) {
			s->waits = (struct loop_source){ .fd = s->fd, .ready = waits_ready, .arg = s };
			if (loop_watch(p->loop, &s->waits, EPOLLIN, NULL) < 0)
				return -ENOMEM;
		}
		return PORTER_ANSWERED;
	}
	return -EAGAIN;
}

static int
take_receiving(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct porter_socket *s = NULL;
	struct receiving r;
	int64_t n;
	int e = porter_find(p, c, (int)c->data.args[0], &s);

	/* To receive is no danger: whatever the kernel finds behind the descriptor, it was received for the cell. */
	if (e < 0 || s == NULL || s->kind != PORTER_UDP)
		return PORTER_GO_ON;
	e = read_receiving(c, &r);
	if (e < 0)
		return e;
	n = receive(p, &r, s);
	if (n == -EAGAIN && (r.flags & (MSG_DONTWAIT | MSG_ERRQUEUE)) == 0 && (fcntl(s->fd, F_GETFL) & O_NONBLOCK) == 0)
		return wait_for_one(p, c, s);
	*ret_value = n;
	return n < 0 ? (int)n : 0;
}

int
porter_recvfrom(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	return take_receiving(p, c, ret_value);
}

int
porter_recvmsg(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	return take_receiving(p, c, ret_value);
}

int
porter_recvmmsg(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	return (unsigned)c->data.args[2] == 0 ? 0 : take_receiving(p, c, ret_value);
}

/* ---- answers ---- */

void
porter_dns_ready(void *arg, uint32_t events)
{
	struct porter *p = arg;
	unsigned char bytes[PORTER_DATAGRAM_MAX];

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		ssize_t n = recv(p->dns.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		struct porter_question *q;
		struct porter_socket *s;
		uint16_t id;

		if (n < 0)
			return;
		if (n < DNS_HEADER)
			continue;
		id = (uint16_t)(bytes[0] << 8 | bytes[1]);
		q = &p->questions[id % PORTER_QUESTIONS_MAX];
		s = q->used && q->own == id ? porter_by_number(p, q->socket) : NULL;
		if (s == NULL)
			continue;
		q->used = false;
		bytes[0] = (unsigned char)(q->theirs >> 8);
		bytes[1] = (unsigned char)q->theirs;
		/* For a client that asks several servers at once, the answer comes from the one that was asked. */
		if (!s->connected && q->server.ss_family != AF_UNSPEC)
			s->peer = q->server;
		(void)send(s->other.fd, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}
