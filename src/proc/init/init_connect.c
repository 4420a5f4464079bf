/* init_connect.c - connections that init joins with streams of its channel: to servers on the cell's
 * loopback, and of clients of the SSH agent's socket.
 *
 * The supervisor asks for each of them, and limits their number. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "ipc/init_channel.h"
#include "ipc/mux.h"
#include "ipc/mux_carry.h"
#include "loop/loop.h"
#include "loop/loopback.h"
#include "proc/init/init.h"

struct connection {
	struct connection *next;
	uint32_t id;                    /* of its stream */
	struct loopback dial;
	struct mux_carry carry;
	bool is_over;
};

static struct loop *loop;
static struct mux *mux;
static const struct mux_carry_types *types;
static struct connection *joined;       /* carried */
static struct loop_round bury;
static struct loop_source listener;
static struct connection *accepts;      /* waits for a client; NULL: none is asked for */

static void
bury_over(void *arg)
{
	struct connection **at = &joined, *c;

	(void)arg;
	while ((c = *at) != NULL) {
		if (!c->is_over) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		mux_carry_drop(&c->carry);
		free(c);
	}
}

static void
over(void *arg)
{
	struct connection *c = arg;

	c->is_over = true;
	loop_at_round_end(loop, &bury);
}

static void
answer(uint32_t id, int error)
{
	OWN(buf_free) struct buf body = BUF(8);

	buf_put_u32(&body, id);
	buf_put_u32(&body, (uint32_t)error);
	mux_send(mux, 0, INIT_FRAME(INIT_CONNECTED), &body);
}

/* Takes the connection FD, or -errno. */
static void
join(struct connection *c, int fd)
{
	struct mux_stream *stream = NULL;
	int again_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3), error = fd < 0 ? -fd : 0;

	if (error == 0 && (again_fd < 0 || (stream = mux_open_as(mux, c->id, NULL)) == NULL))
		error = EMFILE;
	answer(c->id, error);
	if (error != 0) {
		closep(&fd);
		closep(&again_fd);
		free(c);
		return;
	}
	c->next = joined;
	joined = c;
	c->carry = (struct mux_carry){ .over = over, .arg = c };
	mux_carry_start(&c->carry, loop, stream, types, fd, again_fd);
}

static void
dialed(void *arg, int fd)
{
	join(arg, fd);
}

static struct connection *
new_connection(struct buf *body)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (c != NULL && buf_get_u32(body, &c->id) == 0)
		return c;
	free(c);
	return NULL;
}

int
init_connect_take(struct buf *body)
{
	struct connection *c = new_connection(body);
	uint32_t port = 0;

	if (c == NULL || buf_get_u32(body, &port) < 0 || port == 0 || port > UINT16_MAX || buf_left(body) != 0) {
		free(c);
		return -EBADMSG;
	}
	c->dial = (struct loopback){ .done = dialed, .arg = c };
	loopback_connect(&c->dial, loop, (uint16_t)port);
	return 0;
}

static void
listener_ready(void *arg, uint32_t events)
{
	int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)arg;
	(void)events;
	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	loop_unwatch(loop, &listener);
	join(TAKE(accepts), fd < 0 ? -errno : fd);
}

int
init_accept_take(struct buf *body)
{
	if (accepts != NULL || listener.fd < 0 || (accepts = new_connection(body)) == NULL || buf_left(body) != 0)
		return -EBADMSG;
	return loop_watch(loop, &listener, EPOLLIN, NULL);
}

void
init_connect_open(struct loop *of, struct mux *channel, const struct mux_carry_types *ends, int ssh)
{
	loop = of;
	mux = channel;
	types = ends;
	loop_prepare_round(&bury, bury_over, NULL);
	listener = (struct loop_source){ .fd = ssh, .ready = listener_ready };
}

void
init_connect_close(void)
{
	struct connection *c;

	loop_cancel_round(loop, &bury);
	while ((c = joined) != NULL) {
		joined = c->next;
		mux_carry_drop(&c->carry);
		free(c);
	}
}
