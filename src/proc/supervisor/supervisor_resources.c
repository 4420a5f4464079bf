/* supervisor_resources.c - records what the cell uses, while that changes. */
#include <string.h>

#include "proc/supervisor/supervisor.h"

#define SECOND_MS 1000
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define MEMORY_STEP (1u << 20)          /* a smaller change of memory or disk is none */
#define CPU_STEP_US 10000               /* likewise, of the time on processors */

/* A long-lived cell is sampled less often, so that its timeline does not grow without bound. */
static uint64_t
pause_of(uint64_t age_ms)
{
	return age_ms < HOUR_MS ? SECOND_MS : age_ms < 6 * HOUR_MS ? 10 * SECOND_MS : MINUTE_MS;
}

static bool
differs(uint64_t a, uint64_t b, uint64_t step)
{
	return (a > b ? a - b : b - a) >= step;
}

static bool
has_changed(const struct boundary_usage *a, const struct boundary_usage *b)
{
	return differs(a->cpu_us, b->cpu_us, CPU_STEP_US) || differs(a->memory, b->memory, MEMORY_STEP) ||
	       differs(a->disk, b->disk, MEMORY_STEP) || a->pids != b->pids || a->read != b->read ||
	       a->written != b->written;
}

static void
put_known(struct members *m, const char *key, uint64_t value, bool is_known)
{
	if (is_known)
		members_u64(m, key, value);
}

/* These records must not use up the room of requests, either. */
static void
record(struct supervisor *sv, const struct boundary_usage *u)
{
	const uint64_t before = sv->timeline.bytes;
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "resources");
	put_known(&m, "cpu_ms", u->cpu_us / 1000, u->cpu_us > 0);
	put_known(&m, "memory", u->memory, u->memory > 0);
	put_known(&m, "peak", u->memory_peak, u->memory_peak > 0);
	put_known(&m, "processes", u->pids, u->pids > 0);
	members_u64(&m, "disk", u->disk);
	put_known(&m, "read", u->read, u->has_io);
	put_known(&m, "written", u->written, u->has_io);
	put_known(&m, "pressure_cpu", u->pressure_cpu, u->has_pressure);
	put_known(&m, "pressure_io", u->pressure_io, u->has_pressure);
	put_known(&m, "pressure_memory", u->pressure_memory, u->has_pressure);
	supervisor_record_members(sv, &m);
	sv->timeline.bytes = before;
	sv->resources.last = *u;
	sv->resources.known = true;
}

static bool
sample(struct supervisor *sv, struct boundary_usage *ret_usage)
{
	supervisor_usage(sv, ret_usage);
	/* Older kernels do not keep the most that there were. */
	if (ret_usage->pids > sv->resources.processes)
		sv->resources.processes = ret_usage->pids;
	if (ret_usage->pids_peak > sv->resources.processes)
		sv->resources.processes = ret_usage->pids_peak;
	return ret_usage->cpu_us > 0 || ret_usage->memory > 0 || ret_usage->pids > 0 || ret_usage->has_io;
}

static void
due(void *arg)
{
	struct supervisor *sv = arg;
	struct resources *r = &sv->resources;
	struct boundary_usage usage;
	uint64_t now = loop_now_ms();

	if (sv->dead)
		return;
	if (sample(sv, &usage) && has_changed(&usage, &r->last) && supervisor_timeline_has_room(sv, SUPERVISOR_WRAP_MAX * 2)) {
		record(sv, &usage);
		r->recorded_ms = now;
	}
	loop_set_timer(sv->loop, &r->due, pause_of(now - r->begun_ms));
}

void
supervisor_resources_begin(struct supervisor *sv)
{
	struct resources *r = &sv->resources;

	if (sv->spec.record == CELL_RECORD_OFF)
		return;
	r->begun_ms = loop_now_ms();
	loop_prepare_timer(&r->due, due, sv);
	loop_set_timer(sv->loop, &r->due, SECOND_MS);
}

void
supervisor_resources_end(struct supervisor *sv)
{
	struct resources *r = &sv->resources;
	struct boundary_usage usage;

	if (sv->spec.record == CELL_RECORD_OFF)
		return;
	loop_cancel_timer(sv->loop, &r->due);
	/* Totals only: nothing of it runs any more. */
	if (sample(sv, &usage)) {
		r->last = usage;
		r->known = true;
	}
}

void
supervisor_resources_put_totals(const struct supervisor *sv, struct members *m)
{
	const struct resources *r = &sv->resources;

	if (!r->known)
		return;
	put_known(m, "cpu_ms", r->last.cpu_us / 1000, r->last.cpu_us > 0);
	put_known(m, "peak", r->last.memory_peak, r->last.memory_peak > 0);
	put_known(m, "processes", r->processes, r->processes > 0);
	put_known(m, "read", r->last.read, r->last.has_io);
	put_known(m, "written", r->last.written, r->last.has_io);
}
