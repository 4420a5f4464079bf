/* supervisor_freeze.c - freezes a cell: for an operator, or because its policy orders it after an
 * exfiltration or during an approval. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "cell/cell_series.h"
#include "proc/supervisor/supervisor.h"

#define SUSPENDED_BY "the terminal"

int
supervisor_freeze(struct supervisor *sv, const char *by, struct err *err)
{
	const bool is_held = supervisor_is_paused(sv) && !sv->pausing.was_frozen;
	int r;

	/* It stands still.  From now on only an operator lets it go on, and not a request. */
	sv->pausing.was_frozen |= is_held;
	r = sv->frozen ? 0 : sv->boundary->freeze(sv->walls, err);
	if (r < 0)
		return r;
	/* If its time runs out, no other follows. */
	cell_series_hold(sv->place.runtime, sv->spec.series, true);
	if (sv->frozen && !sv->frozen_for_approval && !is_held)
		return 0;
	sv->frozen = true;
	sv->frozen_for_approval = false;
	supervisor_record(sv, "frozen", by, "");
	return 0;
}

int
supervisor_freeze_for(struct supervisor *sv, const char *id, struct err *err)
{
	int r = sv->frozen ? 0 : sv->boundary->freeze(sv->walls, err);

	if (r < 0 || sv->frozen)
		return r;
	sv->frozen = sv->frozen_for_approval = true;
	supervisor_record(sv, "frozen", "", id);
	return 0;
}

/* init gets its new lease first: the old one ran out while it was frozen. */
int
supervisor_let_go(struct supervisor *sv, struct err *err)
{
	if (supervisor_is_paused(sv))
		return err_set(err, EBUSY, "the cell is paused: `cloister resume %s`", sv->spec.id);
	sv->copying.freezes = sv->copying.still = false;
	if (supervisor_budget_lease_ms(sv) != UINT64_MAX)
		supervisor_tell_limit(sv);
	return sv->boundary->thaw(sv->walls, err);
}

void
supervisor_thaw_after(struct supervisor *sv, const char *id)
{
	struct err err = {0};

	if (!sv->frozen_for_approval || sv->dead)
		return;
	if (supervisor_let_go(sv, &err) < 0) {
		supervisor_say(sv, "cell %s cannot go on: %s", sv->spec.id, err.text);
		return;
	}
	sv->frozen = sv->frozen_for_approval = false;
	supervisor_record(sv, "thawed", "", id);
}

int
supervisor_thaw(struct supervisor *sv, const char *by, struct err *err)
{
	/* It stays paused, and goes on when it is resumed. */
	const bool is_held = supervisor_is_paused(sv) && sv->pausing.was_frozen;
	int r = sv->frozen && !is_held ? supervisor_let_go(sv, err) : 0;

	if (r < 0)
		return r;
	cell_series_hold(sv->place.runtime, sv->spec.series, false);
	if (!sv->frozen)
		return 0;
	if (is_held)
		sv->pausing.was_frozen = false;
	else
		sv->frozen = sv->frozen_for_approval = false;
	supervisor_record(sv, "thawed", by, "");
	return 0;
}

/* The clock of the limits did not stop.  If one has run out, the cell stays frozen and the timers kill it. */
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
