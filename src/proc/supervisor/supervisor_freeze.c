/* supervisor_freeze.c - stops all of a cell for a while: an operator's word, or what its policy
 * says of a secret that goes where it may not.
 *
 * Only a cgroup can: a signal that stops processes is undone by any of them that it has not
 * reached yet. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "proc/supervisor/supervisor.h"

#define SUSPENDED_BY "the terminal"

int
supervisor_freeze(struct supervisor *sv, const char *by, struct err *err)
{
	int r;

	if (sv->frozen && !sv->frozen_for_approval)
		return 0;
	r = sv->frozen ? 0 : cgroup_freeze(sv->cgroup, true, err);
	if (r < 0)
		return r;
	sv->frozen = true;
	sv->frozen_for_approval = false;
	supervisor_record(sv, "frozen", by, "");
	return 0;
}

int
supervisor_freeze_for(struct supervisor *sv, const char *id, struct err *err)
{
	int r = sv->frozen ? 0 : cgroup_freeze(sv->cgroup, true, err);

	if (r < 0 || sv->frozen)
		return r;
	sv->frozen = sv->frozen_for_approval = true;
	supervisor_record(sv, "frozen", "", id);
	return 0;
}

void
supervisor_thaw_after(struct supervisor *sv, const char *id)
{
	struct err err = {0};

	if (!sv->frozen_for_approval || sv->dead)
		return;
	if (cgroup_freeze(sv->cgroup, false, &err) < 0) {
		supervisor_say(sv, "cell %s cannot go on: %s", sv->spec.id, err.text);
		return;
	}
	sv->frozen = sv->frozen_for_approval = false;
	supervisor_record(sv, "thawed", "", id);
}

int
supervisor_thaw(struct supervisor *sv, const char *by, struct err *err)
{
	int r = sv->frozen ? cgroup_freeze(sv->cgroup, false, err) : 0;

	if (r < 0 || !sv->frozen)
		return r;
	sv->frozen = sv->frozen_for_approval = false;
	supervisor_record(sv, "thawed", by, "");
	return 0;
}

/* Limits go by the clock, which did not stop: what is over them by now is killed as it is, by the
 * timers that are due. */
static bool
is_over(const struct supervisor *sv)
{
	uint64_t now = loop_now_ms();

	return sv->time.at_ms <= now || (sv->ttl.at_ms != 0 && sv->ttl.at_ms <= now);
}

void
supervisor_suspend(struct supervisor *sv)
{
	bool freezes = !sv->frozen && !sv->dead;
	struct err err = {0};

	if (freezes && supervisor_freeze(sv, SUSPENDED_BY, &err) < 0) {
		supervisor_say(sv, "the cell goes on, because it cannot be suspended: %s", err.text);
		return;
	}
	(void)kill(getpid(), SIGSTOP);
	if (freezes && sv->frozen && !is_over(sv) && supervisor_thaw(sv, SUSPENDED_BY, &err) < 0)
		supervisor_say(sv, "the cell stays as it is: %s", err.text);
}

bool
supervisor_is_to_stop(const struct supervisor *sv, bool freeze)
{
	return !sv->dead && sv->killed_by == KILLED_NOT &&
	       !(freeze && sv->frozen && !sv->frozen_for_approval);
}

void
supervisor_alarm(struct supervisor *sv)
{
	const char *cell = sv->spec.name[0] != '\0' ? sv->spec.name : sv->spec.id;
	struct err err = {0};

	if (!supervisor_is_to_stop(sv, sv->spec.exfiltration == CELL_FREEZE))
		return;
	supervisor_tell_tripped(sv, "exfiltration", sv->spec.exfiltration == CELL_FREEZE ? "freeze" : "kill",
	                        "it sent a secret to where that may not go");
	if (sv->spec.exfiltration == CELL_FREEZE && supervisor_freeze(sv, "exfiltration", &err) == 0) {
		supervisor_say(sv, "cell %s: it sent a secret to where that may not go, and is frozen: "
		               "`cloister why %s`, then `cloister thaw %s` or `cloister kill %s`", cell, cell,
		               cell, cell);
		return;
	}
	if (sv->spec.exfiltration == CELL_FREEZE)
		snprintf(sv->not_frozen, sizeof(sv->not_frozen), "%.150s", err.text);
	supervisor_record(sv, "killed", "exfiltration", sv->not_frozen);
	supervisor_kill(sv, KILLED_BY_ALARM);
}
