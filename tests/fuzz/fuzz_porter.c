/* fuzz_porter.c - calls of a hostile agent on its sockets, as the porter takes them.
 *
 * The first byte says which sockets the agent has.  Then come its calls: a byte for the call and the socket, four for
 * arguments.  Whatever the porter reads of the caller's memory follows there, each time anew, as if another thread had
 * changed it.  Wherever a socket gets connected, it is on loopback, and what goes to the resolver is long enough. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/process/porter.h"
#include "fuzz.h"

#define SOCKETS 6
#define CALLS_MAX 64
#define DNS_HEADER 12
#define MEMORY 0x10000                  /* no address matters */

static const uint8_t *left;
static size_t n_left;
static struct porter porter;
static int theirs[SOCKETS], resolver, gate;

static uint8_t
byte(void)
{
	if (n_left == 0)
		return 0;
	n_left--;
	return *left++;
}

/* ---- instead of porter.c and porter_memory.c ---- */

bool
porter_is_valid(const struct porter *p, const struct porter_call *c)
{
	return p->ends || c->id != 0;
}

void
porter_answer(struct porter *p, uint64_t id, int64_t value, int error, bool goes_on)
{
	assert(p == &porter && id != 0 && value >= 0 && error >= 0 && error < 4096 && !goes_on);
}

int
porter_read(const struct porter_call *c, uint64_t from, void *to, size_t len)
{
	(void)c;
	(void)from;
	if (len > n_left)
		return -EFAULT;
	memcpy(to, left, len);
	left += len;
	n_left -= len;
	return 0;
}

int
porter_write(const struct porter_call *c, uint64_t to, const void *from, size_t len)
{
	static volatile unsigned char sum;

	(void)c;
	(void)to;
	for (size_t i = 0; i < len; i++)
		sum = (unsigned char)(sum + ((const unsigned char *)from)[i]);
	return byte() == 1 ? -EFAULT : 0;
}

int
porter_read_path(const struct porter_call *c, uint64_t from, char *to, size_t size)
{
	(void)c;
	(void)from;
	(void)to;
	(void)size;
	return -EFAULT;
}

int
porter_write_name(const struct porter_call *c, uint64_t to, uint64_t to_len, const struct sockaddr_storage *name,
                  socklen_t len)
{
	assert(len <= sizeof(*name));
	(void)to_len;
	return porter_write(c, to, name, len);
}

/* ---- the cell ---- */

/* As socket(2) of the agent's leaves it, without a kernel that asks. */
static void
open_one(size_t i, bool is_udp, bool is_inet6)
{
	struct porter_socket *s = calloc(1, sizeof(*s));
	struct stat st;
	int end;

	assert(s != NULL);
	*s = (struct porter_socket){ .kind = is_udp ? PORTER_UDP : PORTER_TCP, .domain = is_inet6 ? AF_INET6 : AF_INET, .fd = -1,
	                             .other = { .fd = -1 }, .porter = &porter, .number = ++porter.next_number };
	if (is_udp)
		assert(porter_open_udp(&porter, s, SOCK_DGRAM | SOCK_NONBLOCK, &end) == 0);
	else
		s->fd = socket(s->domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	porter.sockets[porter.n_sockets++] = s;
	/* A machine without IPv6 has none of these. */
	theirs[i] = s->fd < 0 ? -1 : dup(s->fd);
	if (theirs[i] < 0 || fstat(theirs[i], &st) < 0)
		porter_release(&porter, s);
	else
		s->ino = st.st_ino;
}

static void
begin(void)
{
	uint8_t which = byte();
	int dns[2], to_gate[2];

	memset(&porter, 0, sizeof(porter));
	porter.doors = porter.control.fd = porter.listener.fd = -1;
	assert(loop_new(&porter.loop, NULL) == 0 && porter_prepare(&porter, NULL) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, dns) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to_gate) == 0);
	porter.dns = (struct loop_source){ .fd = dns[0], .ready = porter_dns_ready, .arg = &porter };
	porter.gate = (struct loop_source){ .fd = to_gate[0], .ready = porter_gate_ready, .arg = &porter };
	resolver = dns[1];
	gate = to_gate[1];
	for (size_t i = 0; i < SOCKETS; i++)
		open_one(i, i >= 3, (which >> i & 1) != 0);
}

static void
end(void)
{
	while (porter.n_sockets > 0)
		porter_release(&porter, porter.sockets[0]);
	for (size_t i = 0; i < SOCKETS; i++)
		closep(&theirs[i]);
	for (size_t i = 0; i < porter.n_clients; i++)
		close(porter.clients[(porter.first_client + i) % PORTER_CLIENTS_MAX].fd);
	if (porter.gate.events != 0)
		loop_unwatch(porter.loop, &porter.gate);
	closep(&porter.doors);
	closep(&porter.dns.fd);
	closep(&porter.gate.fd);
	closep(&resolver);
	closep(&gate);
	loop_free(porter.loop);
}

/* ---- what must hold ---- */

static void
check_peers(void)
{
	for (size_t i = 0; i < SOCKETS; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t len = sizeof(peer);

		if (theirs[i] >= 0 && getpeername(theirs[i], (struct sockaddr *)&peer, &len) == 0 && peer.ss_family != AF_UNIX)
			assert(porter_is_own(&peer));
	}
	assert(porter.n_sockets <= SOCKETS && porter.n_clients <= PORTER_CLIENTS_MAX);
}

/* What the porter has sent to the resolver, which answers each of it with its own bytes. */
static void
answer_questions(void)
{
	unsigned char bytes[PORTER_DATAGRAM_MAX];
	ssize_t n;

	while ((n = recv(resolver, bytes, sizeof(bytes), 0)) > 0) {
		assert(n >= DNS_HEADER);
		if (byte() == 1)
			bytes[1]++;
		(void)send(resolver, bytes, byte() == 1 ? 3 : (size_t)n, MSG_NOSIGNAL);
	}
	porter_dns_ready(&porter, EPOLLIN);
	while (recv(gate, bytes, sizeof(bytes), 0) > 0)
		;
}

static void
send_plainly(int fd)
{
	unsigned char bytes[64];
	size_t n = 0;

	for (; n < sizeof(bytes) && n_left > 0; n++)
		bytes[n] = byte();
	(void)send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (size_t i = 0; i < porter.n_sockets; i++)
		if (porter.sockets[i]->other.events != 0)
			porter.sockets[i]->other.ready(porter.sockets[i]->other.arg, EPOLLIN);
}

static void
make_call(void)
{
	static porter_handler *const calls[] = {
		porter_connect, porter_bind, porter_listen, porter_getsockname, porter_getpeername, porter_setsockopt,
		porter_sendto, porter_recvfrom, porter_recvmsg, porter_recvmmsg,
	};
	static const int numbers[] = {
		SYS_connect, SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_sendto, SYS_recvfrom,
		SYS_recvmsg, SYS_recvmmsg,
	};
	uint8_t what = byte(), a = byte(), b = byte(), d = byte(), e = byte();
	size_t which = what % (ARRAY_LEN(calls) + 1);
	int fd = theirs[what / 16 % SOCKETS];
	struct porter_call c = { .id = a == 0xff ? 0 : 1, .tid = getpid(), .data = { .args = { (uint64_t)fd, MEMORY, b, d, MEMORY, e } } };
	int64_t value = 0;
	int r;

	if (which == ARRAY_LEN(calls)) {
		send_plainly(fd);
		return;
	}
	c.data.nr = numbers[which];
	/* What is an option's level, or the room for a name, elsewhere is an address. */
	if (calls[which] == porter_listen || calls[which] == porter_setsockopt || calls[which] == porter_recvmmsg)
		c.data.args[1] = a;
	if (calls[which] == porter_setsockopt)
		c.data.args[4] = d;
	r = calls[which](&porter, &c, &value);
	assert(r > -4096 && r <= PORTER_ANSWERED && value >= -4095 && value <= PORTER_DATAGRAM_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	left = data;
	n_left = size;
	begin();
	for (int i = 0; i < CALLS_MAX && n_left > 0; i++) {
		make_call();
		answer_questions();
		check_peers();
	}
	end();
	return 0;
}
