/* network.c - speaks to addresses outside. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe.h"

#define PATIENCE_MS 300
#define WAKE_MS 10000

/* Any numeric spelling: octal, hexadecimal, one number, v4-mapped. */
static socklen_t
address(const char *text, int port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (void *)ret;
	struct sockaddr_in6 *v6 = (void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_aton(text, &v4->sin_addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1 ? sizeof(*v6) : 0;
}

static int
connect_soon(int fd, const struct sockaddr_storage *to, socklen_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int error = 0;
	socklen_t size = sizeof(error);

	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (connect(fd, (const struct sockaddr *)to, len) == 0)
		return 0;
	if (errno != EINPROGRESS || poll(&p, 1, PATIENCE_MS) != 1)
		return -1;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	errno = error;
	return error == 0 ? 0 : -1;
}

/* Say the nonce, print what comes back. */
static int
converse(const char *where, int port, int type)
{
	struct sockaddr_storage to;
	socklen_t len = address(where, port, &to);
	int fd = socket(to.ss_family, type | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd < 0 || len == 0 || connect_soon(fd, &to, len) < 0 || put(fd, probe_nonce) < 0) {
		report_lost(where);
	} else if (poll(&p, 1, PATIENCE_MS) == 1 && spill_fd(fd, 256) > 0) {
		report_won("%s", where);
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

/* tcp|udp PORT ADDRESS... */
static int
probe_connect(int argc, char **argv)
{
	int type = strcmp(argv[0], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;

	report_ready();
	for (int i = 2; i < argc; i++)
		converse(argv[i], atoi(argv[1]), type);
	return 0;
}

/* ADDRESS: an echo request, by a ping socket or a raw one. */
static int
probe_ping(int argc, char **argv)
{
	struct { struct icmphdr head; char text[40]; } packet = { .head.type = ICMP_ECHO };
	struct sockaddr_storage to;
	socklen_t len = address(argv[0], 0, &to);
	char answer[256];
	struct pollfd p = { .events = POLLIN };
	int fd;

	(void)argc;
	report_ready();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (fd < 0)
		fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (fd < 0)
		return report_lost("socket");
	/* ~(type << 8): the checksum of an otherwise empty request. */
	packet.head.checksum = (uint16_t)~packet.head.type;
	p.fd = fd;
	if (sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&to, len) < 0)
		return report_lost("send");
	if (poll(&p, 1, PATIENCE_MS) != 1 || read(fd, answer, sizeof(answer)) <= 0)
		return report_lost("no answer");
	return report_won("answered");
}

/* PORT TEXT: listen on every address, and answer TEXT. */
static int
probe_listen(int argc, char **argv)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(argv[0])) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, client;

	(void)argc;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(fd, 8) < 0)
		return report_lost("listen");
	report_ready();
	alarm(HOLD_SECONDS);
	while ((client = accept(fd, NULL, NULL)) >= 0) {
		put(client, argv[1]);
		close(client);
	}
	return 0;
}

int
wake_resolver(void)
{
	static const unsigned char query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\4wake\4test\0\0\1\0\1";
	const ssize_t size = sizeof(query) - 1;
	struct sockaddr_storage to;
	socklen_t len = address("198.18.0.1", 53, &to);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = -1;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char answer[512];

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0 &&
	    send(fd, query, (size_t)size, 0) == size && poll(&p, 1, WAKE_MS) == 1 &&
	    recv(fd, answer, sizeof(answer), 0) > 12)
		r = 0;
	if (fd >= 0)
		close(fd);
	return r;
}

/* PROGRAM ARG...: what is too much for C speaks for itself. */
static int
probe_exec(int argc, char **argv)
{
	(void)argc;
	execv(argv[0], argv);
	return report_lost(argv[0]);
}

/* ADDRESS: give the loopback one more, and hold still. */
static int
probe_add_address(int argc, char **argv)
{
	struct ifreq ifr = { .ifr_name = "lo:9" };
	struct sockaddr_storage to;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)argc;
	address(argv[0], 0, &to);
	memcpy(&ifr.ifr_addr, &to, sizeof(ifr.ifr_addr));
	report_ready();
	if (fd < 0 || ioctl(fd, SIOCSIFADDR, &ifr) < 0)
		report_lost("address");
	else
		report_won("address");
	return hold();
}

/* Socket options that choose another way, for what is sent from here on. */
static int
probe_steer(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	(void)argc, (void)argv;
	report_ready();
	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &on, sizeof(on)) == 0)
		report_won("SO_MARK");
	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &(int){ 7 }, sizeof(on)) == 0)
		report_won("SO_PRIORITY");
	if (setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on)) == 0)
		report_won("IP_TRANSPARENT");
	return 0;
}

const struct probe probes_network[] = {
	{ "connect", "tcp|udp PORT ADDRESS...", probe_connect, 3 },
	{ "ping",    "ADDRESS",                 probe_ping,    1 },
	{ "listen",  "PORT TEXT",               probe_listen,  2 },
	{ "exec",    "PROGRAM ARG...",          probe_exec,    1 },
	{ "steer",   "",                        probe_steer,   0 },
	{ "add-address", "ADDRESS",             probe_add_address, 1 },
	{ 0 }
};
