/* supervisor_port.c - the processes of the cell: starts and signals them, and handles their ends. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"

void
supervisor_put_walls(const struct supervisor *sv, struct buf *spawn)
{
	call_set_put(spawn, &sv->calls);
	if (sv->programs.len > 0)
		buf_put(spawn, sv->programs.data, sv->programs.len);
	else
		buf_put_u32(spawn, 0);
}

/* The command of a client, whose variables name places as every other kind of walls has them. */
static int
settle(const struct supervisor *sv, const struct buf *rest, struct buf *message, struct err *err)
{
	OWN(strv_freep) char **argv = NULL;
	OWN(strv_freep) char **env = NULL;
	OWN(freep) char *cwd = NULL;
	struct buf b = *rest;
	uint32_t number;
	int r = 0;

	for (int i = 0; i < 3; i++) {
		r = r == 0 ? buf_get_u32(&b, &number) : r;
		buf_put_u32(message, number);
	}
	if (r < 0 || buf_dup_str(&b, &cwd) < 0 || buf_dup_strv(&b, CELL_ARGS_MAX, &argv) < 0 ||
	    buf_dup_strv(&b, CELL_ARGS_MAX, &env) < 0)
		return err_set(err, EBADMSG, "unexpected message");
	r = sv->boundary->settle(sv->spec.id, argv, &env, &cwd, err);
	buf_put_str(message, cwd);
	buf_put_strv(message, argv);
	buf_put_strv(message, env);
	return r;
}

int
supervisor_send_spawn(struct supervisor *sv, uint32_t handle, struct buf *rest,
                      const int *fds, size_t n_fds, struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_SPAWN);
	buf_put_u32(&message, handle);
	if (sv->boundary->settle == NULL)
		buf_put(&message, rest->data + rest->pos, buf_left(rest));
	else if (settle(sv, rest, &message, err) < 0)
		return -err->code;
	buf_put_strv(&message, (char *[]){ NULL });     /* any program */
	supervisor_put_walls(sv, &message);
	return port_start(sv->boundary->port(sv->walls), &message, fds, n_fds, err);
}

void
supervisor_signal(struct supervisor *sv, uint32_t handle, int number)
{
	port_signal(sv->boundary->port(sv->walls), handle, number);
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

	port_limit(sv->boundary->port(sv->walls), lease < over ? lease : over);
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

void
supervisor_resize(void *arg, unsigned rows, unsigned columns)
{
	struct supervisor *sv = arg;

	port_resize(sv->boundary->port(sv->walls), INIT_HANDLE_AGENT, rows, columns);
}

static int
process_started(void *arg, uint32_t handle, uint32_t error, int terminal)
{
	struct supervisor *sv = arg;
	OWN(closep) int master = terminal;
	struct err err;

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
	if (sv->spec.held)
		supervisor_tell_started(sv);
	if (!sv->agent_ran || !sv->spec.tty)
		return 0;
	if (master < 0)
		return -EBADMSG;
	if (sv->spec.detached)
		return supervisor_terminal_begin(sv, TAKE_FD(master), &err);
	return stdio_carry_terminal(&sv->stdio, TAKE_FD(master), sv->spec.clipboard, &err);
}

static int
process_exited(void *arg, uint32_t handle, uint32_t status)
{
	struct supervisor *sv = arg;
	struct boundary_usage usage;

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
	/* Of a container, the engine removes the cgroup as soon as init has ended, too. */
	if (sv->spec.engine != NULL)
		supervisor_usage(sv, &usage);
	return 0;
}

static void
port_limits(void *arg, uint64_t killed, bool full)
{
	struct supervisor *sv = arg;

	/* Of an agent that has ended: a guest must not hide with it that its machine died. */
	if (!sv->agent_exited)
		return;
	sv->guest.oom_kills = killed < UINT32_MAX ? killed : UINT32_MAX;
	sv->guest.disk_full = full;
}

static void
port_broken(void *arg)
{
	supervisor_kill(arg, KILLED_BY_PEER);
}

static void
port_finished(void *arg)
{
	supervisor_cell_died(arg);
}

int
supervisor_watch_port(struct supervisor *sv, struct err *err)
{
	static const struct port_handler handler = { process_started, process_exited, supervisor_port_connected,
	                                             port_limits, supervisor_held, port_broken, port_finished };

	return port_watch(sv->boundary->port(sv->walls), &handler, sv, err);
}
