/* supervisor_timeline_life.c - begins and ends the cell's timeline, and ties both ends to the operator's;
 * closes and prunes those of other cells. */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "proc/supervisor/supervisor.h"

static void
look_again(void *arg)
{
	struct supervisor *sv = arg;

	supervisor_timeline_try_again(sv);
	supervisor_hear_held(sv);
	supervisor_timeline_wait(sv);
}

/* Called while the cell is being made, before the supervisor locks itself down. */
void
supervisor_timeline_begin(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	struct err err = {0};

	buf_init(&t->event, AUDIT_EVENT_MAX);
	loop_prepare_timer(&t->again, look_again, sv);
	loop_prepare_round(&t->sync, supervisor_timeline_sync_due, sv);
	loop_prepare_timer(&t->gather, supervisor_timeline_sync_now, sv);
	if (operator_open(&t->operator, &err) < 0)
		supervisor_say(sv, "the operator's timeline does not tell of the cell: %s", err.text);
	(void)supervisor_timeline_open(sv);
}

void
supervisor_timeline_end(struct supervisor *sv, int status, bool is_changed)
{
	struct timeline *t = &sv->timeline;
	char time[AUDIT_TIME_LEN + 1];
	struct err err = {0};

	if (t->ended)
		return;
	loop_cancel_round(sv->loop, &t->sync);
	loop_cancel_timer(sv->loop, &t->gather);
	if (t->log.fd >= 0) {
		supervisor_hear_held(sv);
		if (t->holds)
			supervisor_say(sv, "the cell's timeline is incomplete: there was no room on the disk");
		supervisor_notify_end(sv);
		supervisor_repeats_end(sv);
		supervisor_put_end(sv, status, is_changed);
		audit_time_now(time);
		(void)audit_log_checkpoint(&t->log, time);
		(void)supervisor_timeline_write(sv);
		supervisor_tell_operator_all(sv);
		if (t->operator.dir > 0 && operator_cell_ended(&t->operator, sv->spec.id,
		                                                &t->log.written, (uint32_t)status, &err) < 0)
			supervisor_say(sv, "%s", err.text);
		loop_cancel_timer(sv->loop, &t->sign);
		loop_cancel_timer(sv->loop, &t->again);
		audit_log_close(&t->log);
		t->kept = true;
	}
	t->ended = true;
	buf_free(&t->held);
	audit_key_wipe(&t->key);
	buf_free(&t->event);
}

void
supervisor_timeline_egress(struct supervisor *sv)
{
	supervisor_held_is_anothers(sv);
	supervisor_timeline_make_room(sv);
}

/* ---- other cells' ---- */

int
supervisor_timeline_lost(void *arg, int dir, const char *id)
{
	struct supervisor *sv = arg;
	char name[AUDIT_TIMELINE_MAX];
	struct audit_log log;
	int r, told;

	if (sv->timeline.operator.dir <= 0)
		return 0;
	/* Its key went with its supervisor: the operator's timeline vouches for the rest. */
	snprintf(name, sizeof(name), "cell/%s", id);
	r = audit_log_open(&log, dir, CELL_EVENTS, name, NULL, SUPERVISOR_EVENTS_MAX, NULL);
	told = operator_cell_lost(&sv->timeline.operator, id, r < 0 ? NULL : &log.written, NULL);
	if (r == 0)
		audit_log_close(&log);
	/* A timeline whose loss can never be recorded must not stay for ever. */
	return told == -ENOSPC || told == -EDQUOT ? told : 0;
}

static int
prunes(void *arg, const char *id)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;

	if (t->operator.dir <= 0 && operator_open(&t->operator, NULL) < 0)
		return -EIO;
	return operator_cell_pruned(&t->operator, id, "retention", NULL);
}

void
supervisor_timeline_prune(struct supervisor *sv)
{
	cell_ended_prune((unsigned)(sv->started_ns >> 10), prunes, sv);
	operator_close(&sv->timeline.operator);
}
