/* supervisor_notify.c - tells of what people should know soon: cloister-notify is started with
 * the cell, where the operator has a file that says whom to tell, and hears of it over a channel.
 *
 * It is started before the supervisor locks itself down, because it runs the operator's own
 * programs; it outlives the cell until all was told. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_notify.h"
#include "proc/supervisor/supervisor.h"

static void
hang_up(struct supervisor *sv)
{
	struct loop_source *channel = &sv->notifier.channel;

	loop_unwatch(sv->loop, channel);
	close(channel->fd);
	channel->fd = -1;
}

/* Something could not be told, or it has gone. */
static void
notifier_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(sv->notifier.channel.fd, &message, NULL);
	const char *text;

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != CELL_NOTIFY_FAILED || buf_get_str(&message.body, &text) < 0)
		hang_up(sv);
	else
		supervisor_record(sv, "not_notified", "", text);
}

void
supervisor_notify_start(struct supervisor *sv)
{
	char *argv[] = { (char[]){ "cloister-notify" }, NULL };
	OWN(freep) char *file = cell_notify_file();
	struct spawn_how how = { .argv = argv, .n_fds = 1, .env = environ,
	                         .silent = sv->spec.detached };
	struct err err = {0};
	int ends[2];

	if (!sv->spec.has_policy || file == NULL || access(file, F_OK) < 0)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	how.fds = &ends[1];
	if (supervisor_spawn(sv->libexec, &how, &err) < 0) {
		supervisor_complain(err.text);
		close(ends[0]);
	} else {
		sv->notifier.channel = (struct loop_source){ .fd = ends[0], .ready = notifier_ready,
		                                             .arg = sv };
		(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
		(void)loop_watch(sv->loop, &sv->notifier.channel, EPOLLIN, NULL);
	}
	close(ends[1]);
}

/* Each kind has its own count: whoever is in the cell makes as much noise as it likes with some,
 * and is not to keep people from hearing of the others. */
static bool
is_too_often(struct notifier *n, const char *event)
{
	static const char *const kinds[NOTIFY_KINDS] = { "ask", "budget", "tripwire", "consequence" };
	uint64_t now = loop_now_ms();
	size_t kind = 0;

	if (now - n->since_ms >= 60 * 1000) {
		n->since_ms = now;
		memset(n->n, 0, sizeof(n->n));
	}
	while (kind < NOTIFY_KINDS - 1 && strcmp(kinds[kind], event) != 0)
		kind++;
	return n->n[kind]++ >= NOTIFY_MINUTE_MAX;
}

void
supervisor_notify(struct supervisor *sv, const char *event, const struct buf *data)
{
	struct notifier *n = &sv->notifier;
	OWN(buf_free) struct buf message;
	struct err err = {0};
	int r = 0;

	if (n->channel.fd < 0)
		return;
	ipc_begin(&message, CELL_NOTIFY);
	buf_put_str(&message, event);
	buf_put_u32(&message, (uint32_t)data->len);
	buf_put(&message, data->data, data->len);
	if (is_too_often(n, event))
		r = err_set(&err, EAGAIN, "more than %d in a minute", NOTIFY_MINUTE_MAX);
	else
		r = ipc_send(n->channel.fd, &message, NULL, 0, &err);
	if (r == 0)
		return;
	/* What people should have been told is not to be missed in silence. */
	supervisor_record(sv, "not_notified", "", err.text);
	if (r == -EPIPE || r == -ECONNRESET)
		hang_up(sv);
}

void
supervisor_notify_own(struct supervisor *sv, const char *event, const struct buf *data)
{
	OWN(members_free) struct members whose;
	OWN(buf_free) struct buf all;

	if (sv->notifier.channel.fd < 0 || data->len == 0)
		return;
	members_init(&whose, AUDIT_EVENT_MAX);
	members_str(&whose, "cell", sv->spec.id);
	members_str(&whose, "name", sv->spec.name);
	members_str(&whose, "principal", sv->spec.principal);
	buf_init(&all, 2 * AUDIT_EVENT_MAX);
	buf_put(&all, "{", 1);
	members_put(&whose, &all);
	buf_put(&all, ",", 1);
	buf_put(&all, data->data + 1, data->len - 1);
	if (!buf_failed(&all))
		supervisor_notify(sv, event, &all);
}
