/* supervisor_notify.c - sends urgent events to cloister-notify, which starts with the cell if the
 * operator has a file that names programs to notify.
 *
 * It starts before the supervisor locks itself down, because it runs the operator's own programs.
 * It outlives the cell until everything is delivered. */
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

#define NOTIFY_MINUTE_MS (60 * 1000)

static void
hang_up(struct supervisor *sv)
{
	struct loop_source *channel = &sv->notifier.channel;

	loop_unwatch(sv->loop, channel);
	close(channel->fd);
	channel->fd = -1;
}

/* Records a notification that did not get through, so that it is not lost in silence. */
static void
record_missed(struct supervisor *sv, const char *why)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell");
	members_str(&m, "verdict", "allow");
	members_str(&m, "did", "not_notified");
	members_str(&m, "note", why);
	(void)supervisor_record_repeated(sv, &m, m.n, REPEATS_EACH);
}

/* cloister-notify reports a failure, or is gone. */
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
		record_missed(sv, text);
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

static const char *const kinds[NOTIFY_KINDS] = { "ask", "budget", "tripwire", "watch", "consequence" };

/* UNTOLD: how many of the kind were left out before this one. */
static void
tell(struct supervisor *sv, const char *event, const struct buf *data, uint64_t untold)
{
	struct notifier *n = &sv->notifier;
	OWN(buf_free) struct buf message;
	char text[64] = "{";
	struct err err = {0};
	int r;

	if (untold > 0)
		snprintf(text, sizeof(text), "{\"not_told\":%llu,", (unsigned long long)untold);
	ipc_begin(&message, CELL_NOTIFY);
	buf_put_str(&message, event);
	buf_put_u32(&message, (uint32_t)(strlen(text) + data->len - 1));
	buf_put(&message, text, strlen(text));
	buf_put(&message, data->data + 1, data->len - 1);
	r = ipc_send(n->channel.fd, &message, NULL, 0, &err);
	if (r == 0)
		return;
	record_missed(sv, err.text);
	if (r == -EPIPE || r == -ECONNRESET)
		hang_up(sv);
}

/* Sends the newest of each kind in place of all that were held back. */
static void
tell_untold(struct supervisor *sv)
{
	struct notifier *n = &sv->notifier;

	for (size_t i = 0; i < NOTIFY_KINDS; i++) {
		uint64_t untold = n->kinds[i].untold;

		n->kinds[i].told = untold > 0;
		n->kinds[i].untold = 0;
		if (untold > 0 && n->channel.fd >= 0 && !buf_failed(&n->kinds[i].last))
			tell(sv, kinds[i], &n->kinds[i].last, untold - 1);
		buf_free(&n->kinds[i].last);
	}
}

static void
minute_over(void *arg)
{
	struct supervisor *sv = arg;

	tell_untold(sv);
	for (size_t i = 0; i < NOTIFY_KINDS; i++)
		if (sv->notifier.kinds[i].told > 0)
			loop_set_timer(sv->loop, &sv->notifier.minute, NOTIFY_MINUTE_MS);
}

void
supervisor_notify_end(struct supervisor *sv)
{
	loop_cancel_timer(sv->loop, &sv->notifier.minute);
	tell_untold(sv);
}

/* Each kind has its own limit.  The agent can flood some kinds, and must not keep people from
 * hearing of the others. */
void
supervisor_notify(struct supervisor *sv, const char *event, const struct buf *data)
{
	struct notifier *n = &sv->notifier;
	char text[128];
	size_t kind = 0;

	if (n->channel.fd < 0 || data->len == 0)
		return;
	while (kind < NOTIFY_KINDS - 1 && strcmp(kinds[kind], event) != 0)
		kind++;
	n->minute.due = minute_over;
	n->minute.arg = sv;
	if (n->minute.at_ms == 0)
		loop_set_timer(sv->loop, &n->minute, NOTIFY_MINUTE_MS);
	if (n->kinds[kind].told < NOTIFY_MINUTE_MAX) {
		n->kinds[kind].told++;
		tell(sv, event, data, 0);
		return;
	}
	snprintf(text, sizeof(text), "more than %d of '%s' in a minute: only the last of the others is told",
	         NOTIFY_MINUTE_MAX, event);
	if (n->kinds[kind].untold++ == 0)
		record_missed(sv, text);
	buf_free(&n->kinds[kind].last);
	buf_init(&n->kinds[kind].last, CELL_NOTIFY_DATA_MAX - 64);
	buf_put(&n->kinds[kind].last, data->data, data->len);
}

void
supervisor_notify_own(struct supervisor *sv, const char *event, const struct buf *data)
{
	OWN(members_free) struct members whose = {0};
	OWN(buf_free) struct buf all = {0};

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
