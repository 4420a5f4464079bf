/* supervisor_sides.c - starts cloister-hook, if rules of the policy have hooks, and cloister-tools, if it has tools.
 *
 * They start before the supervisor locks itself down, because they run the operator's own programs.
 * The starter holds their channels, and they end with it. */
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/hook_channel.h"
#include "ipc/tools_channel.h"
#include "proc/supervisor/supervisor.h"

#define READY_MS 10000                  /* to load the policy */
#define EVENTS_ROUND 16                 /* messages in one round */
#define EVENTS_LAST 1024                /* messages when the cell has ended */

static int
await_ready(int channel, uint32_t ready, const char *name, const char *what, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};

	if (!io_is_readable(channel, io_now_ms() + READY_MS) ||
	    ipc_receive(channel, &message, NULL) < 0 || message.type != ready)
		return err_set(err, EIO, "%s did not start, and the policy has %s: look for its own message above, or "
		               "reinstall cloister", name, what);
	return 0;
}

/* It gets a channel, the policy, and MORE unless that is negative.  WORD: its argument, or NULL. */
static int
start_side(struct supervisor *sv, const char *name, char *word, int more, struct side *side, struct err *err)
{
	char program[32], *argv[] = { program, word, NULL };
	OWN(closep) int theirs = -1;
	struct spawn_how how = { .argv = argv, .n_fds = more < 0 ? 2 : 3, .env = environ,
	                         .silent = sv->spec.detached };
	int ends[2];
	pid_t pid;

	snprintf(program, sizeof(program), "%s", name);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	side->channel = ends[0];
	theirs = ends[1];
	how.fds = (int[]){ theirs, sv->egress.policy.policy, more };
	pid = supervisor_spawn(sv->libexec, &how, err);
	if (pid < 0)
		return pid;
	side->pid = pid;
	return 0;
}

static int
start_tools(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	OWN(closep) int theirs = -1;
	char learns[] = TOOLS_LEARNS;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	e->tool_events.fd = ends[0];
	theirs = ends[1];
	r = start_side(sv, "cloister-tools", sv->spec.learn ? learns : NULL, theirs, &e->tools, err);
	closep(&theirs);
	theirs = -1;
	return r < 0 ? r : await_ready(e->tools.channel, TOOLS_READY, "cloister-tools", "tools", err);
}

int
supervisor_sides_start(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	int r = sv->spec.has_hooks ? start_side(sv, "cloister-hook", NULL, -1, &e->hooks, err) : 0;

	if (r == 0 && sv->spec.has_hooks)
		r = await_ready(e->hooks.channel, HOOK_READY, "cloister-hook", "hooks", err);
	return r < 0 || !sv->spec.has_tools ? r : start_tools(sv, err);
}

/* ---- records of cloister-tools ---- */

/* It quotes servers, so a record of it is checked as a courier's is. */
static int
take_event(struct supervisor *sv, struct ipc_message *message)
{
	static const char *const types[] = { TOOLS_EVENT_TYPE };
	const char *event;

	if (buf_get_str(&message->body, &event) < 0 || buf_left(&message->body) != 0 ||
	    strlen(event) > TOOLS_EVENT_MAX || !supervisor_is_event(event, types, ARRAY_LEN(types)))
		return -EBADMSG;
	/* Without room, requests are refused, and these records are the first to go. */
	if (supervisor_timeline_has_room(sv, strlen(event) + SUPERVISOR_WRAP_MAX) &&
	    supervisor_timeline_put(sv, event, strlen(event)) == 0 && supervisor_timeline_write(sv) == 0)
		supervisor_timeline_sync(sv);
	return 0;
}

static const struct {
	uint32_t type;
	int (*take)(struct supervisor *sv, struct ipc_message *message);
} tools_may_ask[] = {
	{ TOOLS_EVENT, take_event },
	{ TOOLS_ASK, supervisor_asked_of_result },
	{ TOOLS_WITHDRAW, supervisor_withdrawn_of_result },
};

static int
take_message(struct supervisor *sv)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(sv->egress.tool_events.fd, &message, NULL);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(tools_may_ask); i++)
		if (tools_may_ask[i].type == message.type)
			return tools_may_ask[i].take(sv, &message);
	return -EBADMSG;
}

void
supervisor_tools_answer(struct supervisor *sv, uint64_t number, bool yes, const char *text)
{
	OWN(buf_free) struct buf message = {0};

	if (sv->egress.tool_events.fd < 0)
		return;
	ipc_begin(&message, TOOLS_ANSWER);
	buf_put_u64(&message, number);
	buf_put_u32(&message, yes);
	buf_put_str(&message, text);
	/* If it does not take the answer, it refuses the result a little later. */
	(void)ipc_send(sv->egress.tool_events.fd, &message, NULL, 0, NULL);
}

static void
events_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct loop_source *source = &sv->egress.tool_events;
	int r = 0;

	(void)events;
	for (int i = 0; r == 0 && i < EVENTS_ROUND; i++)
		r = take_message(sv);
	if (r == 0 || r == -EAGAIN)
		return;
	loop_unwatch(sv->loop, source);
	closep(&source->fd);
	source->fd = -1;
	supervisor_approvals_gone(sv, APPROVAL_OF_RESULT, "the gateway to the tools has gone, and the result with it");
	if (r != -EPIPE)
		supervisor_complain("cloister-tools sent a record that it may not send: the cell's record has no more of it");
}

void
supervisor_sides_hear_last(struct supervisor *sv)
{
	for (int i = 0; sv->egress.tool_events.fd >= 0 && i < EVENTS_LAST; i++)
		if (take_message(sv) < 0)
			return;
}

int
supervisor_sides_watch(struct supervisor *sv, struct err *err)
{
	struct loop_source *source = &sv->egress.tool_events;

	if (source->fd < 0)
		return 0;
	*source = (struct loop_source){ .fd = source->fd, .ready = events_ready, .arg = sv };
	if (fcntl(source->fd, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "cannot use the channel from cloister-tools");
	return loop_watch(sv->loop, source, EPOLLIN, err);
}
