/* supervisor_idle.c - pauses a cell that has done nothing for a while (`run --idle-pause`).
 *
 * A cell does something while it uses more than a small share of a processor, has an open connection, or is used by
 * a client: a command of `exec`, or a terminal.  The watch looks now and then, so a pause comes a look later at most. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "ipc/control_channel.h"
#include "proc/supervisor/supervisor.h"

#define LOOKS 4                         /* in the time after which it is paused, at least */
#define LOOK_LEAST_MS 250
#define LOOK_MOST_MS 10000
#define BUSY_SHARE 20                   /* a twentieth of a processor; an emulated machine that sleeps uses less */

static uint64_t
look_ms(const struct supervisor *sv)
{
	const uint64_t ms = sv->spec.limits.idle_pause_ms / LOOKS;

	return ms < LOOK_LEAST_MS ? LOOK_LEAST_MS : ms > LOOK_MOST_MS ? LOOK_MOST_MS : ms;
}

static bool
is_used(const struct supervisor *sv)
{
	for (const struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->request == CONTROL_EXEC || c->seat != NULL || c->held != NULL)
			return true;
	return supervisor_open_connections(sv->idle.counters) > 0 ||
	       port_connections_open(sv->boundary->port(sv->walls)) > 0;
}

static bool
is_busy(struct supervisor *sv, uint64_t now)
{
	struct idle *idle = &sv->idle;
	struct boundary_usage usage;
	uint64_t used;

	supervisor_usage(sv, &usage);
	used = usage.cpu_us - idle->cpu_us;
	idle->cpu_us = usage.cpu_us;
	if (used > (now - idle->looked_ms) * 1000 / BUSY_SHARE)
		return true;
	return supervisor_is_paused(sv) || sv->frozen || sv->forking.holds || !sv->agent_ran || is_used(sv);
}

static void
due(void *arg)
{
	struct supervisor *sv = arg;
	struct idle *idle = &sv->idle;
	const uint64_t now = loop_now_ms();

	if (sv->dead || sv->killed_by != KILLED_NOT)
		return;
	if (is_busy(sv, now))
		idle->since_ms = now;
	/* If it cannot be paused now, because an approval is pending for example, the next look tries again. */
	else if (now - idle->since_ms >= sv->spec.limits.idle_pause_ms)
		(void)supervisor_pause(sv, SUPERVISOR_BY_IDLE, &(struct err){0});
	idle->looked_ms = now;
	loop_set_timer(sv->loop, &idle->look, look_ms(sv));
}

int
supervisor_idle_check(const struct supervisor *sv, struct err *err)
{
	if (sv->spec.limits.idle_pause_ms == 0 || sv->boundary->put_aside != NULL)
		return 0;
	return err_set(err, ENOTSUP, "--idle-pause does not work with the boundary `%s`: use --boundary microvm, whose memory "
	               "can go to the disk", sv->boundary->name);
}

int
supervisor_idle_begin(struct supervisor *sv, struct err *err)
{
	struct idle *idle = &sv->idle;
	int r;

	if (sv->spec.limits.idle_pause_ms == 0)
		return 0;
	r = sv->boundary->can_pause(sv->walls, err);
	if (r == 0 && !sv->boundary->facts(sv->walls).counts_cpu)
		r = err_set(err, ENOTSUP, "the cell has no cgroup that counts its use of processors: see `cloister doctor`");
	if (r < 0)
		return err_wrap(err, "--idle-pause");
	idle->counters = sv->boundary->counters(sv->walls);
	if (idle->counters < 0)
		return err_errno(err, "--idle-pause: cannot count the cell's connections");
	idle->since_ms = idle->looked_ms = loop_now_ms();
	loop_prepare_timer(&idle->look, due, sv);
	loop_set_timer(sv->loop, &idle->look, look_ms(sv));
	return 0;
}
