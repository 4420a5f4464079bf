/* publish_dial.c - connects to servers in the cell: in the cell's network, or over the cell's port with the
 * supervisor's help. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "ipc/publish_channel.h"
#include "proc/publish/publish.h"

static struct loop_source channel = { .fd = -1 };
static struct publish_dial *waiting;
static uint32_t next_number;

static void
forget(struct publish_dial *dial)
{
	struct publish_dial **at = &waiting;

	while (*at != dial)
		at = &(*at)->next;
	*at = dial->next;
	dial->waits = false;
}

static int
take_connected(struct ipc_message *message)
{
	OWN(closep) int fd = ipc_take_fd(message, 0);
	struct publish_dial *dial = waiting;
	uint32_t number, error;

	if (message->type != PUBLISH_CONNECTED || buf_get_u32(&message->body, &number) < 0 ||
	    buf_get_u32(&message->body, &error) < 0 || (error == 0) != (fd >= 0))
		return -EBADMSG;
	while (dial != NULL && dial->number != number)
		dial = dial->next;
	/* Nobody waits for it any more. */
	if (dial == NULL)
		return 0;
	forget(dial);
	dial->done(dial->arg, fd >= 0 ? TAKE_FD(fd) : -ECONNREFUSED);
	return 0;
}

static void
channel_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(channel.fd, &message, NULL);

	(void)arg;
	(void)events;
	if (r == 0)
		r = take_connected(&message);
	if (r < 0 && r != -EAGAIN)
		loop_quit(publish_loop);
}

int
publish_dial_start_channel(struct err *err)
{
	channel = (struct loop_source){ .fd = PUBLISH_SUPERVISOR_FD, .ready = channel_ready };
	return loop_watch(publish_loop, &channel, EPOLLIN, err);
}

static void
dialed(void *arg, int fd)
{
	struct publish_dial *dial = arg;

	dial->waits = false;
	dial->done(dial->arg, fd);
}

static void
ask(struct publish_dial *dial, uint16_t port)
{
	OWN(buf_free) struct buf question;

	dial->number = ++next_number;
	ipc_begin(&question, PUBLISH_CONNECT);
	buf_put_u32(&question, dial->number);
	buf_put_u32(&question, port);
	if (ipc_send(channel.fd, &question, NULL, 0, NULL) < 0) {
		dialed(dial, -EAGAIN);
		return;
	}
	dial->next = waiting;
	waiting = dial;
}

void
publish_dial(struct publish_dial *dial, uint16_t port)
{
	dial->waits = true;
	if (channel.fd >= 0) {
		ask(dial, port);
		return;
	}
	dial->direct = (struct loopback){ .done = dialed, .arg = dial };
	loopback_connect(&dial->direct, publish_loop, port);
}

void
publish_dial_drop(struct publish_dial *dial)
{
	if (!dial->waits)
		return;
	if (channel.fd >= 0)
		forget(dial);
	else
		loopback_drop(&dial->direct);
	dial->waits = false;
}
