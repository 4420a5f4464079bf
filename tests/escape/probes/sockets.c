/* sockets.c - address families that lead out of a network namespace, or into
 * parts of the kernel that no agent needs.  Stops at socket(). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static long
open_socket(unsigned long family, unsigned long type, unsigned long protocol)
{
	long fd = syscall(SYS_socket, family, type, protocol);

	if (fd >= 0)
		close((int)fd);
	return fd;
}

/* FAMILY TYPE PROTOCOL (hexadecimal; bits above the 32nd are the kernel's to
 * ignore and a filter's to mask). */
static int
probe_socket(int argc, char **argv)
{
	(void)argc;
	report_ready();
	if (open_socket(strtoul(argv[0], NULL, 16), strtoul(argv[1], NULL, 16),
	                strtoul(argv[2], NULL, 16)) < 0)
		return report_lost("socket");
	return report_won("socket");
}

/* Every family but UNIX, INET, INET6 and NETLINK. */
static int
probe_families(int argc, char **argv)
{
	static const int types[] = { SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM };

	(void)argc, (void)argv;
	report_ready();
	for (unsigned long family = 0; family < 64; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (size_t t = 0; t < ARRAY_LEN(types); t++)
			if (open_socket(family, (unsigned long)types[t], 0) >= 0)
				report_won("family %lu type %d", family, types[t]);
	}
	return 0;
}

/* Every netlink protocol but route. */
static int
probe_netlink(int argc, char **argv)
{
	(void)argc, (void)argv;
	report_ready();
	for (unsigned long protocol = 1; protocol < 32; protocol++)
		if (open_socket(AF_NETLINK, SOCK_RAW, protocol) >= 0)
			report_won("netlink %lu", protocol);
	return 0;
}

static int
probe_socketpair(int argc, char **argv)
{
	int fds[2];

	(void)argc;
	report_ready();
	if (syscall(SYS_socketpair, strtoul(argv[0], NULL, 16), SOCK_STREAM, 0, fds) < 0 &&
	    !reached(-1))
		return report_lost("socketpair");
	return report_won("socketpair");
}

const struct probe probes_sockets[] = {
	{ "socket",     "FAMILY TYPE PROTOCOL", probe_socket,     3 },
	{ "families",   "",                     probe_families,   0 },
	{ "netlink",    "",                     probe_netlink,    0 },
	{ "socketpair", "FAMILY",               probe_socketpair, 1 },
	{ 0 }
};
