/* init_dial.c - joins standard input and output with a port of the cell's loopback: see init_own.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "proc/init/init.h"

static int
dial(uint16_t port)
{
	const struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port),
	                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port),
	                                  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct {
		const void *address;
		socklen_t len;
	} both[] = { { &four, sizeof(four) }, { &six, sizeof(six) } };
	int error = 0;

	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		OWN(closep) int fd = socket(i == 0 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, both[i].address, both[i].len) == 0)
			return TAKE_FD(fd);
		error = error != 0 ? error : errno;
	}
	errno = error;
	return -1;
}

static void
copy(int from, int to)
{
	static char piece[64 * 1024];
	ssize_t n;

	while ((n = read(from, piece, sizeof(piece))) > 0 && write_all(to, piece, (size_t)n, NULL) == 0)
		;
}

/* Each direction has a process, so that neither waits for the other.  It ends when the server has said everything. */
int
init_own_dial(char **argv)
{
	OWN(closep) int fd = dial((uint16_t)strtoul(argv[0], NULL, 10));
	pid_t child;

	if (fd < 0)
		return errno;
	child = fork();
	if (child < 0)
		return errno;
	if (child == 0) {
		copy(STDIN_FILENO, fd);
		shutdown(fd, SHUT_WR);
		_exit(0);
	}
	copy(fd, STDOUT_FILENO);
	kill(child, SIGKILL);
	return 0;
}
