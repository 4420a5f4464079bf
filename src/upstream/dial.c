/* dial.c - see dial.h. */
#include "upstream/dial.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

static void
forget(struct dial_attempt *a)
{
	if (a->source.fd < 0)
		return;
	loop_unwatch(a->dial->loop, &a->source);
	a->dial->n_attempts--;
}

static void
give_up(struct dial_attempt *a)
{
	forget(a);
	closep(&a->source.fd);
	a->source.fd = -1;
}

void
dial_drop(struct dial *d)
{
	if (d->loop == NULL)
		return;
	loop_cancel_timer(d->loop, &d->timer);
	for (size_t i = 0; i < DIAL_ADDRESSES_MAX; i++)
		give_up(&d->attempts[i]);
	d->loop = NULL;
}

static void
finish(struct dial *d, struct dial_attempt *winner)
{
	struct address address = {0};
	int fd = -1, error = d->error;

	if (winner != NULL) {
		forget(winner);
		fd = TAKE_FD(winner->source.fd);
		address = d->addresses[winner->address];
	}
	dial_drop(d);
	d->done(d->arg, fd, &address, fd < 0 ? error : 0);
}

static void
attempt_ready(void *arg, uint32_t events)
{
	struct dial_attempt *a = arg;
	struct dial *d = a->dial;
	int error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	if (getsockopt(a->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		finish(d, a);
		return;
	}
	d->error = error;
	give_up(a);
	/* Try the next address, or finish: not while events are being handled. */
	loop_set_timer(d->loop, &d->timer, 0);
}

static int
open_socket(const struct address *a)
{
	const int on = 1;
	int fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

	if (fd >= 0) {
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	}
	return fd;
}

/* False: it failed at once. */
static bool
try_address(struct dial *d, size_t i)
{
	struct dial_attempt *a = &d->attempts[i];
	struct sockaddr_storage socket;
	socklen_t len = address_to_socket(&d->addresses[i], d->port, &socket);

	a->address = i;
	a->source.fd = open_socket(&d->addresses[i]);
	if (a->source.fd < 0) {
		d->error = errno;
		return false;
	}
	d->n_attempts++;
	if ((connect(a->source.fd, (struct sockaddr *)&socket, len) < 0 && errno != EINPROGRESS) ||
	    loop_watch(d->loop, &a->source, EPOLLOUT, NULL) < 0) {
		d->error = errno;
		give_up(a);
		return false;
	}
	return true;
}

static void
next_due(void *arg)
{
	struct dial *d = arg;

	while (d->next < d->n && !try_address(d, d->next++))
		;
	if (d->next < d->n)
		loop_set_timer(d->loop, &d->timer, DIAL_STAGGER_MS);
	else if (d->n_attempts == 0)
		finish(d, NULL);
}

static void
prepare(struct dial *d, struct loop *loop, void (*due)(void *arg),
        void (*done)(void *arg, int fd, const struct address *address, int error), void *arg)
{
	*d = (struct dial){ .loop = loop, .done = done, .arg = arg, .error = EADDRNOTAVAIL,
	                    .timer = { .due = due, .arg = d } };
	for (size_t i = 0; i < DIAL_ADDRESSES_MAX; i++) {
		d->attempts[i].dial = d;
		d->attempts[i].source = (struct loop_source){ .fd = -1, .ready = attempt_ready,
		                                              .arg = &d->attempts[i] };
	}
	loop_set_timer(loop, &d->timer, 0);
}

void
dial_start(struct dial *d, struct loop *loop, const struct address *addresses, size_t n,
           uint16_t port,
           void (*done)(void *arg, int fd, const struct address *address, int error),
           void *arg)
{
	assert(n <= DIAL_ADDRESSES_MAX);
	prepare(d, loop, next_due, done, arg);
	d->n = n;
	d->port = port;
	memcpy(d->addresses, addresses, n * sizeof(*addresses));
}

static void
is_connected(void *arg)
{
	struct dial *d = arg;

	finish(d, &d->attempts[0]);
}

void
dial_start_connected(struct dial *d, struct loop *loop, int fd,
                     void (*done)(void *arg, int fd, const struct address *address, int error),
                     void *arg)
{
	prepare(d, loop, is_connected, done, arg);
	d->attempts[0].source.fd = fd;
	d->n_attempts = 1;
}
