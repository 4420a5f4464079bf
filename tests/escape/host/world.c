/* world.c - a network of its own that has the addresses a cell must not reach. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"

#define PORT 80

static int
add_v4(int fd, const char *text, int n)
{
	struct ifreq ifr = { 0 };
	struct sockaddr_in *a = (void *)&ifr.ifr_addr;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "lo:%d", n);
	a->sin_family = AF_INET;
	if (inet_pton(AF_INET, text, &a->sin_addr) != 1)
		return -1;
	return ioctl(fd, SIOCSIFADDR, &ifr);
}

static int
add_v6(const char *text)
{
	struct in6_ifreq ifr = { .ifr6_prefixlen = 128, .ifr6_ifindex = 1 };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0 || inet_pton(AF_INET6, text, &ifr.ifr6_addr) != 1)
		return -1;
	r = ioctl(fd, SIOCSIFADDR, &ifr);
	close(fd);
	return r;
}

static int
make_network(int argc, char **argv)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return -1;
	for (int i = 0; i < argc; i++)
		if ((strchr(argv[i], ':') != NULL ? add_v6(argv[i]) : add_v4(fd, argv[i], i)) < 0)
			return -1;
	close(fd);
	return 0;
}

static int
serve(int type)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0), no = 0;

	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) < 0 ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		return -1;
	return type == SOCK_STREAM && listen(fd, 64) < 0 ? -1 : fd;
}

static void
answer_tcp(int fd, const char *token)
{
	int client = accept(fd, NULL, NULL);

	if (client >= 0 && write(client, token, strlen(token)) > 0)
		puts("hit tcp");
	close(client);
}

static void
answer_udp(int fd, const char *token)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char text[512];

	if (recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len) >= 0) {
		puts("hit udp");
		sendto(fd, token, strlen(token), 0, (struct sockaddr *)&from, len);
	}
}

/* TOKEN ADDRESS...: TOKEN is the answer to whoever comes, by TCP or UDP. */
int
host_world(int argc, char **argv)
{
	struct pollfd p[3] = { { .fd = 0, .events = POLLIN } };

	if (make_network(argc - 1, argv + 1) < 0)
		return host_fail("network");
	p[1] = (struct pollfd){ .fd = serve(SOCK_STREAM), .events = POLLIN };
	p[2] = (struct pollfd){ .fd = serve(SOCK_DGRAM), .events = POLLIN };
	if (p[1].fd < 0 || p[2].fd < 0)
		return host_fail("listen");
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (poll(p, 3, -1) > 0 && p[0].revents == 0) {
		if (p[1].revents != 0)
			answer_tcp(p[1].fd, argv[0]);
		if (p[2].revents != 0)
			answer_udp(p[2].fd, argv[0]);
		fflush(stdout);
	}
	return 0;
}
