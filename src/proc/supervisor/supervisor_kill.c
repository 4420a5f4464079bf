/* supervisor_kill.c - kills or stops the cell, and leaves the loop once it is dead. */
#include <signal.h>

#include "cell/cell_series.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"

static void
keep_most(uint64_t *count, uint64_t *most)
{
	*count = *most = *count > *most ? *count : *most;
}

void
supervisor_usage(struct supervisor *sv, struct boundary_usage *ret_usage)
{
	struct boundary_usage *u = ret_usage, *used = &sv->used;

	*u = (struct boundary_usage){0};
	if (sv->walls != NULL)
		sv->boundary->usage(sv->walls, u);
	keep_most(&u->memory_peak, &used->memory_peak);
	keep_most(&u->cpu_us, &used->cpu_us);
	keep_most(&u->pids_peak, &used->pids_peak);
	keep_most(&u->read, &used->read);
	keep_most(&u->written, &used->written);
	keep_most(&u->oom_kills, &used->oom_kills);
	keep_most(&u->pids_refused, &used->pids_refused);
	ret_usage->oom_kills += sv->guest.oom_kills;
	ret_usage->disk_full |= sv->guest.disk_full;
}

/* A time limit is for one cell.  What else ends a cell ends its series. */
static void
end_series(const struct supervisor *sv, enum supervisor_reason reason)
{
	if (reason != KILLED_BY_TIME && reason != KILLED_BY_SETUP)
		cell_series_end(sv->place.runtime, sv->spec.series);
}

void
supervisor_kill(struct supervisor *sv, enum supervisor_reason reason)
{
	if (sv->killed_by == KILLED_NOT || reason == KILLED_BY_PEER)
		sv->killed_by = reason;
	end_series(sv, reason);
	sv->frozen = false;
	/* Output that nobody reads is dropped. */
	sv->boundary->kill(sv->walls);
	supervisor_egress_finish(sv);
	sv->ending = true;
	supervisor_check_end(sv);
}

static void
grace_over(void *arg)
{
	struct supervisor *sv = arg;

	supervisor_kill(sv, (enum supervisor_reason)sv->killed_by);
}

void
supervisor_stop(struct supervisor *sv, uint64_t grace_ms, enum supervisor_reason reason)
{
	/* A frozen cell cannot end by itself. */
	if (sv->frozen) {
		supervisor_kill(sv, reason);
		return;
	}
	if (sv->killed_by == KILLED_NOT)
		sv->killed_by = reason;
	end_series(sv, reason);
	supervisor_signal(sv, sv->setup.runs ? INIT_HANDLE_SETUP : INIT_HANDLE_AGENT, SIGTERM);
	loop_prepare_timer(&sv->grace, grace_over, sv);
	loop_set_timer(sv->loop, &sv->grace, grace_ms);
}

void
supervisor_check_end(struct supervisor *sv)
{
	if (sv->dead && supervisor_egress_is_over(sv) && supervisor_witness_is_over(sv) && !supervisor_is_awaited(sv) &&
	    ((stdio_finish(&sv->stdio) && supervisor_terminal_is_idle(sv)) || sv->ending))
		loop_quit(sv->loop);
}
