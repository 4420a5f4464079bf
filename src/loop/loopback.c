/* loopback.c - see loopback.h. */
#include "loop/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAMILIES 2

static int
begin(uint16_t port, bool v6)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port),
	                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port),
	                            .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	OWN(closep) int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || (connect(fd, v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four,
	                       v6 ? sizeof(six) : sizeof(four)) < 0 && errno != EINPROGRESS))
		return -errno;
	return TAKE_FD(fd);
}

static void
try_next(struct loopback *l)
{
	int error = ECONNREFUSED;

	while (l->n_tried < FAMILIES) {
		l->source.fd = begin(l->port, l->n_tried++ == 1);
		if (l->source.fd >= 0 && loop_watch(l->loop, &l->source, EPOLLOUT, NULL) == 0)
			return;
		/* A lack of descriptors explains more than that nobody listens. */
		if (l->source.fd == -EMFILE || l->source.fd == -ENFILE)
			error = -l->source.fd;
		closep(&l->source.fd);
		l->source.fd = -1;
	}
	l->done(l->arg, -error);
}

static void
ready(void *arg, uint32_t events)
{
	struct loopback *l = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)events;
	loop_unwatch(l->loop, &l->source);
	if (getsockopt(l->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0) {
		l->done(l->arg, TAKE_FD(l->source.fd));
		return;
	}
	close(l->source.fd);
	l->source.fd = -1;
	try_next(l);
}

void
loopback_connect(struct loopback *l, struct loop *loop, uint16_t port)
{
	l->loop = loop;
	l->source = (struct loop_source){ .fd = -1, .ready = ready, .arg = l };
	l->n_tried = 0;
	l->port = port;
	try_next(l);
}

void
loopback_drop(struct loopback *l)
{
	loop_unwatch(l->loop, &l->source);
	closep(&l->source.fd);
	l->source.fd = -1;
}
