/* supervisor_timeline_room.c - keeps the timeline ahead of the cell's requests: opens it, makes room for
 * records, syncs them, and stops all egress if that fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define BUSY_MS 500                     /* until the next try */
#define GATHER_MS 1                     /* a request's record may wait this long for others */

/* ---- the file ---- */

static void
sign_due(void *arg)
{
	struct supervisor *sv = arg;
	char time[AUDIT_TIME_LEN + 1];

	audit_time_now(time);
	(void)audit_log_checkpoint(&sv->timeline.log, time);
	supervisor_timeline_write(sv);
}

/* Opening it has cleared both. */
static void
set_log(struct supervisor *sv)
{
	sv->timeline.log.keeps_room = sv->timeline.serves;
	sv->timeline.log.syncs = sv->timeline.serves && sv->spec.audit_strict;
}

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
		set_log(sv);
		loop_prepare_timer(&t->sign, sign_due, sv);
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

/* ---- the policy ---- */

#define NEW_POLICY CELL_POLICY ".new"

static int
write_policy(struct supervisor *sv, const char *name)
{
	OWN(closep) int fd = openat(sv->state, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char bytes[16384];
	off_t at = 0;
	ssize_t n;
	int r = fd < 0 ? -errno : 0;

	while (r == 0 && (n = pread(sv->egress.policy.policy, bytes, sizeof(bytes), at)) > 0) {
		r = write_all(fd, bytes, (size_t)n, NULL);
		at += n;
	}
	/* Before the first record of a request, as those are. */
	return r == 0 && sv->timeline.log.syncs && fsync(fd) < 0 ? -errno : r;
}

/* Stores the policy beside the timeline: as a whole, or not at all.  Without room on the disk, nothing leaves
 * the cell. */
static bool
keep_policy(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	int r = write_policy(sv, NEW_POLICY);

	if (r == 0 && renameat(sv->state, NEW_POLICY, sv->state, CELL_POLICY) < 0)
		r = -errno;
	if (r == 0 && t->log.syncs && fsync(sv->state) < 0)
		r = -errno;
	t->has_policy = r == 0;
	if (r == 0)
		return true;
	/* An older one would be taken for this. */
	unlinkat(sv->state, NEW_POLICY, 0);
	unlinkat(sv->state, CELL_POLICY, 0);
	halt(sv, HALT_ROOM, "there is no room on the disk for the cell's policy, which its timeline names");
	return false;
}

void
supervisor_timeline_keep_policy(struct supervisor *sv)
{
	/* Before the courier starts, the policy is not needed. */
	if (sv->timeline.serves && supervisor_timeline_open(sv) == 0)
		(void)keep_policy(sv);
}

/* ---- room for records ---- */

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

void
supervisor_timeline_try_again(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	if (t->untold)
		tell_courier(sv);
	tell_recorded(sv);
	if (t->halt == HALT_ROOM && supervisor_timeline_open(sv) == 0 &&
	    audit_log_left(&t->log, 0) == UINT64_MAX && (t->has_policy || !t->serves || keep_policy(sv))) {
		t->halt = HALT_NOT;
		t->halted[0] = '\0';
		supervisor_record(sv, "egress resumed", "timeline", "");
		tell_courier(sv);
	}
}

void
supervisor_timeline_wait(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	if (t->halt == HALT_ROOM || t->untold || t->holds || t->told < t->synced)
		loop_set_timer(sv->loop, &t->again, BUSY_MS);
}

/* ---- records that requests wait for ---- */

void
supervisor_timeline_sync_now(void *arg)
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
void
supervisor_timeline_sync_due(void *arg)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;

	if (t->awaited - t->synced >= t->together)
		supervisor_timeline_sync_now(sv);
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

/* ---- for a courier ---- */

void
supervisor_timeline_make_room(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	t->serves = true;
	set_log(sv);
	/* A new courier counts from the start. */
	t->awaited = t->synced = t->told = 0;
	if (supervisor_timeline_has_room(sv, 0) && !t->has_policy)
		(void)keep_policy(sv);
	if (t->halt != HALT_NOT)
		tell_courier(sv);
}
