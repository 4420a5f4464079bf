/* supervisor_timeline.c - the cell's timeline: the events of its life, chained and signed with a
 * key of its own (audit/log.h), and tied to the operator's timeline at both ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define BUSY_MS 500                     /* until the next try */
#define GATHER_MS 1                     /* a request's record may wait this long for others */

/* ---- no room ---- */

static void
tell_courier(struct supervisor *sv)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, COURIER_HALT);
	buf_put_str(&message, sv->timeline.halted);
	/* If the courier does not read, the timer sends it again. */
	if (sv->egress.courier.fd >= 0)
		sv->timeline.untold = ipc_send(sv->egress.courier.fd, &message, NULL, 0, NULL) == -EAGAIN;
}

static void
tell_recorded(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	OWN(buf_free) struct buf message = {0};

	if (t->told == t->synced || sv->egress.courier.fd < 0)
		return;
	ipc_begin(&message, COURIER_RECORDED);
	buf_put_u64(&message, t->synced);
	if (ipc_send(sv->egress.courier.fd, &message, NULL, 0, NULL) == 0)
		t->told = t->synced;
	else
		loop_set_timer(sv->loop, &t->again, BUSY_MS);
}

static void
look_again(void *arg)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;

	if (t->untold)
		tell_courier(sv);
	tell_recorded(sv);
	if (t->halt == HALT_ROOM && supervisor_timeline_open(sv) == 0 &&
	    audit_log_left(&t->log, 0) == UINT64_MAX) {
		t->halt = HALT_NOT;
		t->halted[0] = '\0';
		supervisor_record(sv, "egress resumed", "timeline", "");
		tell_courier(sv);
	}
	supervisor_hear_held(sv);
	if (t->halt == HALT_ROOM || t->untold || t->holds || t->told < t->synced)
		loop_set_timer(sv->loop, &t->again, BUSY_MS);
}

/* Stops all egress of the cell. */
static void
halt(struct supervisor *sv, enum timeline_halt how, const char *why)
{
	struct timeline *t = &sv->timeline;

	if (t->halt >= how)
		return;
	t->halt = how;
	snprintf(t->halted, sizeof(t->halted), "%s", why);
	supervisor_record(sv, "egress stopped", "timeline", why);
	supervisor_say(sv, "nothing leaves the cell any more: %s", why);
	tell_courier(sv);
	loop_set_timer(sv->loop, &t->again, BUSY_MS);
}

bool
supervisor_timeline_has_room(struct supervisor *sv, size_t len)
{
	struct timeline *t = &sv->timeline;
	char why[COURIER_HALT_MAX], text[NUM_TEXT_MAX];
	uint64_t left;

	if (supervisor_timeline_open(sv) < 0) {
		halt(sv, HALT_ROOM, "the cell's timeline cannot be made");
		return false;
	}
	if (t->bytes + len > sv->spec.audit_max) {
		snprintf(why, sizeof(why), "the cell's timeline has the size that it may have (audit: {max: %s})",
		         num_format_size(text, sv->spec.audit_max));
		halt(sv, HALT_MAX, why);
	}
	left = audit_log_left(&t->log, len);
	if (left == UINT64_MAX)
		return true;
	halt(sv, HALT_ROOM, "there is no room on the disk for the cell's timeline");
	/* Requests under way are still recorded, as long as the end can be recorded as well. */
	return left >= len + TIMELINE_LAST_WORDS;
}

/* ---- writing ---- */

static void
sign_due(void *arg)
{
	struct supervisor *sv = arg;
	char time[AUDIT_TIME_LEN + 1];

	audit_time_now(time);
	(void)audit_log_checkpoint(&sv->timeline.log, time);
	supervisor_timeline_write(sv);
}

int
supervisor_timeline_write(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	size_t len = t->log.pending.len;
	char time[AUDIT_TIME_LEN + 1];
	struct err err = {0};
	int r;

	if (t->log.unsigned_n >= AUDIT_UNSIGNED_MAX) {
		audit_time_now(time);
		(void)audit_log_checkpoint(&t->log, time);
		len = t->log.pending.len;
	}
	r = audit_log_write(&t->log, false, &err);
	if (r < 0) {
		if (!t->failed)
			supervisor_say(sv, "the cell's timeline is incomplete: %s", err.text);
		t->failed = true;
		return r;
	}
	t->bytes += len;
	if (t->log.unsigned_n == 0)
		loop_cancel_timer(sv->loop, &t->sign);
	else if (t->sign.at_ms == 0)
		loop_set_timer(sv->loop, &t->sign, AUDIT_UNSIGNED_MS);
	return 0;
}

static void
sync_now(void *arg)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;
	struct err err = {0};

	loop_cancel_timer(sv->loop, &t->gather);
	if (t->awaited == t->synced || t->halt == HALT_FAILED)
		return;
	if (audit_log_sync(&t->log, &err) < 0) {
		halt(sv, HALT_FAILED, err.text);
		return;
	}
	t->together = t->awaited - t->synced;
	t->synced = t->awaited;
	tell_recorded(sv);
}

/* Runs at the end of a round.  A sync takes as long for one record as for all, and as many requests
 * as last time are likely to come again. */
static void
sync_due(void *arg)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;

	if (t->awaited - t->synced >= t->together)
		sync_now(sv);
	else if (t->gather.at_ms == 0)
		loop_set_timer(sv->loop, &t->gather, GATHER_MS);
}

void
supervisor_timeline_sync(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	if (t->awaited > t->synced)
		loop_at_round_end(sv->loop, &t->sync);
}

int
supervisor_timeline_put(struct supervisor *sv, const char *members, size_t len)
{
	struct timeline *t = &sv->timeline;
	char time[AUDIT_TIME_LEN + 1];
	int r;

	buf_reset(&t->event);
	buf_put(&t->event, "{", 1);
	buf_put(&t->event, members, len);
	buf_put(&t->event, "}", 1);
	if (buf_failed(&t->event))
		return -EMSGSIZE;
	audit_time_now(time);
	/* The members come from members_put(), or were checked to look as if they did. */
	r = audit_log_put_known(&t->log, time, (char *)t->event.data, t->event.len);
	/* Write earlier than planned, to make room. */
	if (r == -ENOBUFS && supervisor_timeline_write(sv) == 0)
		r = audit_log_put_known(&t->log, time, (char *)t->event.data, t->event.len);
	return r;
}

int
supervisor_put_members(struct supervisor *sv, const struct members *members)
{
	struct timeline *t = &sv->timeline;
	OWN(buf_free) struct buf text = {0};
	int r;

	if (t->log.fd < 0 || t->ended)
		return -EPIPE;
	buf_init(&text, AUDIT_EVENT_MAX);
	members_put(members, &text);
	r = buf_failed(&text) ? -EMSGSIZE : supervisor_timeline_put(sv, (char *)text.data, text.len);
	if (r == 0)
		memcpy(t->last, t->log.chain.head, sizeof(t->last));
	return r;
}

void
supervisor_record_members(struct supervisor *sv, const struct members *members)
{
	if (supervisor_put_members(sv, members) == 0)
		(void)supervisor_timeline_write(sv);
}

void
supervisor_record(struct supervisor *sv, const char *did, const char *by, const char *note)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell");
	members_str(&m, "verdict", "allow");
	members_str(&m, "did", did);
	members_str(&m, "by", by);
	members_str(&m, "note", note);
	supervisor_record_members(sv, &m);
}

/* ---- beginning and end ---- */

int
supervisor_timeline_open(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	char name[AUDIT_TIMELINE_MAX];
	struct err err = {0};
	int r = 0;

	if (t->log.fd >= 0)
		return 0;
	if (t->ended)
		return -EPIPE;
	if (sv->state < 0)
		r = cell_state_make(&sv->spec, &sv->state, &err);
	if (r == 0 && !t->has_key)
		r = audit_key_make(&t->key, &err);
	if (r == 0) {
		t->has_key = true;
		snprintf(name, sizeof(name), "cell/%s", sv->spec.id);
		r = audit_log_open(&t->log, sv->state, CELL_EVENTS, name, &t->key, SUPERVISOR_EVENTS_MAX,
		                   &err);
	}
	if (r == 0) {
		t->sign = (struct loop_timer){ .due = sign_due, .arg = sv };
		r = supervisor_record_boot(sv, &err);
		if (r < 0)
			audit_log_close(&t->log);
	}
	if (r < 0) {
		t->log.fd = -1;
		if (!t->failed)
			supervisor_say(sv, "the cell has no timeline: %s", err.text);
		t->failed = true;
		return r;
	}
	return 0;
}

/* Called while the cell is being made, before the supervisor locks itself down. */
void
supervisor_timeline_begin(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	struct err err = {0};

	buf_init(&t->event, AUDIT_EVENT_MAX);
	t->again = (struct loop_timer){ .due = look_again, .arg = sv };
	t->sync = (struct loop_round){ .run = sync_due, .arg = sv };
	t->gather = (struct loop_timer){ .due = sync_now, .arg = sv };
	if (operator_open(&t->operator, &err) < 0)
		supervisor_say(sv, "the operator's timeline does not tell of the cell: %s", err.text);
	(void)supervisor_timeline_open(sv);
}

/* Stores the policy too, so that refusals can be understood later. */
static int
keep_policy(struct supervisor *sv)
{
	OWN(closep) int fd = openat(sv->state, CELL_POLICY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
	                            0600);
	char bytes[16384];
	off_t at = 0;
	ssize_t n;
	int r = fd < 0 ? -errno : 0;

	while (r == 0 && (n = pread(sv->egress.policy.policy, bytes, sizeof(bytes), at)) > 0) {
		r = write_all(fd, bytes, (size_t)n, NULL);
		at += n;
	}
	/* Half a policy would be taken for all of it. */
	if (r < 0)
		unlinkat(sv->state, CELL_POLICY, 0);
	return r;
}

void
supervisor_timeline_keep_policy(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	/* Before the courier starts, the policy has no place yet, and is not needed. */
	if (t->has_policy)
		t->has_policy = keep_policy(sv) == 0;
}

void
supervisor_timeline_egress(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	t->log.keeps_room = true;
	t->log.syncs = sv->spec.audit_strict;
	/* A new courier counts from the start. */
	t->awaited = t->synced = t->told = 0;
	if (t->holds) {
		supervisor_held_is_anothers(sv);
		(void)loop_watch(sv->loop, &sv->egress.courier, 0, NULL);
	}
	if (supervisor_timeline_has_room(sv, 0) && !t->has_policy) {
		t->has_policy = keep_policy(sv) == 0;
		if (!t->has_policy)
			halt(sv, HALT_ROOM, "there is no room on the disk for the cell's timeline");
	}
	if (t->halt != HALT_NOT)
		tell_courier(sv);
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
