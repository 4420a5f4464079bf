/* supervisor_init.c - the supervisor's side of the channel to init. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"

int
supervisor_send_spawn(struct supervisor *sv, uint32_t handle, struct buf *rest,
                      const int *fds, size_t n_fds, struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SPAWN);
	buf_put_u32(&message, handle);
	buf_put(&message, rest->data + rest->pos, buf_left(rest));
	return ipc_send(sv->cell.channel, &message, fds, n_fds, err);
}

void
supervisor_signal(struct supervisor *sv, uint32_t handle, int number)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SIGNAL);
	buf_put_u32(&message, handle);
	buf_put_u32(&message, (uint32_t)number);
	(void)ipc_send(sv->cell.channel, &message, NULL, 0, NULL);
}

static uint64_t
left_ms(const struct loop_timer *timer)
{
	uint64_t now = loop_now_ms();

	return timer->at_ms > now ? timer->at_ms - now : timer->at_ms > 0;
}

void
supervisor_tell_limit(struct supervisor *sv)
{
	uint64_t over = cell_limits_over_ms(left_ms(&sv->time), left_ms(&sv->ttl));
	uint64_t lease = supervisor_budget_lease_ms(sv);
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_LIMIT);
	buf_put_u64(&message, lease < over ? lease : over);
	(void)ipc_send(sv->cell.channel, &message, NULL, 0, NULL);
	sv->budgets.lease_until_ms = lease == UINT64_MAX ? 0 : loop_now_ms() + lease;
}

void
supervisor_renew_lease(struct supervisor *sv)
{
	uint64_t until = sv->budgets.lease_until_ms;

	/* A frozen init reads nothing, so its socket would fill up.  An expired lease cannot be renewed. */
	if (!sv->frozen && !sv->dead && (until == 0 || loop_now_ms() < until) &&
	    supervisor_budget_lease_ms(sv) != UINT64_MAX)
		supervisor_tell_limit(sv);
}

/* `cloister run -d` waits for this, and returns. */
static void
tell_started(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)!write(CELL_STARTED_FD, "+", 1);
	close(CELL_STARTED_FD);
	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	closep(&null);
}

void
supervisor_begun(struct supervisor *sv)
{
	if (!sv->begun && sv->spec.detached)
		tell_started();
	sv->begun = true;
}

static int
take_spawned(struct supervisor *sv, struct ipc_message *message)
{
	uint32_t handle, error, pid;
	OWN(closep) int master = -1;
	struct err err;

	if (buf_get_u32(&message->body, &handle) < 0 ||
	    buf_get_u32(&message->body, &error) < 0 || error >= 4096 ||
	    buf_get_u32(&message->body, &pid) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	master = ipc_take_fd(message, 0);
	if (handle == INIT_HANDLE_SETUP)
		return supervisor_setup_spawned(sv, error);
	if (handle != INIT_HANDLE_AGENT) {
		supervisor_spawned(sv, handle, error, master);
		return 0;
	}
	if (sv->agent_ran || sv->spawn_error != 0 || sv->setup.runs)
		return -EBADMSG;
	sv->spawn_error = (int)error;
	sv->agent_ran = error == 0;
	if (sv->agent_ran) {
		supervisor_begun(sv);
		supervisor_agent_started(sv);
	}
	if (!sv->agent_ran || !sv->spec.tty)
		return 0;
	if (master < 0)
		return -EBADMSG;
	return stdio_carry_terminal(&sv->stdio, TAKE_FD(master), sv->spec.clipboard, &err);
}

static int
take_exited(struct supervisor *sv, struct ipc_message *message)
{
	uint32_t handle, status;

	if (buf_get_u32(&message->body, &handle) < 0 ||
	    buf_get_u32(&message->body, &status) < 0 || status > 0xffff ||
	    buf_left(&message->body) != 0 || message->n_fds != 0)
		return -EBADMSG;
	if (handle == INIT_HANDLE_SETUP)
		return supervisor_setup_exited(sv, status);
	if (handle != INIT_HANDLE_AGENT) {
		supervisor_exited(sv, handle, status);
		return 0;
	}
	if (!sv->agent_ran || sv->agent_exited)
		return -EBADMSG;
	sv->agent_exited = true;
	sv->agent_status = (int)status;
	return 0;
}

void
supervisor_channel_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(sv->cell.channel, &message, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r == -EPIPE) {
		/* init is ending; its exit status carries the rest. */
		loop_unwatch(sv->loop, &sv->channel);
		return;
	}
	if (r == 0 && message.type == INIT_SPAWNED)
		r = take_spawned(sv, &message);
	else if (r == 0 && message.type == INIT_EXITED)
		r = take_exited(sv, &message);
	else
		r = -EBADMSG;
	/* init is behind the wall: one malformed message ends the cell. */
	if (r < 0)
		supervisor_kill(sv, KILLED_BY_PEER);
}
