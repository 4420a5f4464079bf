/* supervisor_repeats.c - limits records that the agent can cause as often as it likes: in a flood the
 * first are written one by one and the rest counted, as the courier does with refusals. */
#include <string.h>

#include "base/own.h"
#include "proc/supervisor/supervisor.h"

/* Writes a record with the count of each kind, and one for all other kinds. */
static void
tell_counts(struct supervisor *sv)
{
	struct repeats *r = &sv->repeats.seen;
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	for (size_t i = 0; i < r->n; i++) {
		uint64_t times = repeats_untold(&r->kinds[i]);

		if (times == 0)
			continue;
		members_copy(&m, &r->kinds[i].members, r->kinds[i].members.n);
		members_u64(&m, "count", times);
		supervisor_record_members(sv, &m);
	}
	if (r->untold > 0) {
		members_reset(&m);
		members_str(&m, "type", "steer");
		members_str(&m, "did", "many");
		members_u64(&m, "count", r->untold);
		members_str(&m, "note", "so many more came that they are not told one by one");
		supervisor_record_members(sv, &m);
	}
	repeats_reset(r);
}

static void
counts_due(void *arg)
{
	struct supervisor *sv = arg;

	tell_counts(sv);
	/* Run once more, to notice that the flood is over. */
	if (sv->repeats.seen.flooded)
		loop_set_timer(sv->loop, &sv->repeats.due, REPEATS_EVERY_MS);
}

bool
supervisor_record_repeated(struct supervisor *sv, const struct members *m, size_t n, uint64_t each)
{
	struct supervisor_repeats *f = &sv->repeats;

	f->due.due = counts_due;
	f->due.arg = sv;
	if (f->due.at_ms == 0)
		loop_set_timer(sv->loop, &f->due, REPEATS_EVERY_MS);
	if (!repeats_take(&f->seen, m, n, 1, each))
		return false;
	supervisor_record_members(sv, m);
	return true;
}

void
supervisor_repeats_end(struct supervisor *sv)
{
	loop_cancel_timer(sv->loop, &sv->repeats.due);
	tell_counts(sv);
	repeats_free(&sv->repeats.seen);
}
