/* dispatcher_harvest.c - keeps what the agent of a drive left, and waits a while for a place that does not take it.
 *
 * If the place stays away, the attempt fails, and what the agent left stays with its cell. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"

#define HARVESTS_MAX 5                  /* into the data folder: its disk is full, say */
#define TELL_MS 5000                    /* a place that is there takes nearly everything by then */

/* ---- waiting ---- */

void
drive_tell_wait(struct drive *drive, const char *why)
{
	const struct registry *reg = drive->dispatcher->reg;
	uint64_t most = registry_patience_ms(reg), waited = loop_now_ms() - drive->harvest_ms;
	enum drive_wait now = why != NULL ? DRIVE_WAIT_EXPLAINED : DRIVE_WAIT_TOLD;

	if (registry_place(reg) == NULL || drive->told_wait >= now)
		return;
	drive->told_wait = now;
	/* Whoever follows the dispatch sees it. */
	if (dispatch_log_put(&drive->log, "results.wait", json_pack("{s:s,s:s?,s:I}", "place", registry_place(reg), "reason", why,
	                     "wait_ms", (json_int_t)(waited < most ? most - waited : 0)), false, NULL) == 0)
		dispatcher_tell(drive);
}

/* Whether what the agent left is not tried to be kept again. */
static bool
is_too_late(struct drive *drive)
{
	uint64_t most = registry_patience_ms(drive->dispatcher->reg);

	if (most == 0)
		return ++drive->failures >= HARVESTS_MAX;
	return loop_now_ms() - drive->harvest_ms >= most || drive_was_cancelled(drive);
}

/* ---- its end ---- */

/* RESULT is NULL if there is none, for the reason WHY. */
static void
conclude(struct drive *drive, const json_t *result, const char *why)
{
	struct err err = {0};
	int r = 0;

	if (result != NULL) {
		r = drive_conclude(drive, result, &err);
	} else if (is_too_late(drive)) {
		r = drive_leave_results(drive, why, &err);
	} else {
		drive_tell_wait(drive, why);
		r = err_set(&err, EAGAIN, "%s", why);
	}
	if (r < 0)
		drive_again(drive, &err);
}

static void
harvest_done(void *arg, bool exited, int status)
{
	struct drive *drive = arg;
	OWN(json_decrefp) json_t *result = dispatch_harvest_read(drive->d.id, drive->d.cell);
	char why[DISPATCH_REASON_MAX];

	(void)exited;
	(void)status;
	tell_read(drive->said, "the process that keeps it was killed", why, sizeof(why));
	dispatch_own_words(why);
	conclude(drive, result, why);
}

/* Harvests here and now.  If the cell's state is removed before the end of the attempt is recorded,
 * the next driver must find the result; otherwise it harvests again. */
static void
harvest_small(struct drive *drive)
{
	OWN(json_decrefp) json_t *result = NULL;
	struct registry *reg = drive->dispatcher->reg;
	struct err err = {0};

	if (drive->d.retries == 0)
		(void)dispatch_harvest_take(reg, &drive->d, &result, &err);
	else if (dispatch_harvest(reg, &drive->d, &err) == 0)
		result = dispatch_harvest_read(drive->d.id, drive->d.cell);
	conclude(drive, result, err.text);
}

/* A large result, or one that goes to S3, takes long, and others must not wait for it. */
void
drive_harvest(struct drive *drive)
{
	struct err err = {0};

	drive->phase = DRIVE_HARVESTS;
	close_fd(&drive->said);
	if (drive->harvest_ms == 0)
		drive->harvest_ms = loop_now_ms();
	if (!registry_is_remote(drive->dispatcher->reg) && dispatch_harvest_is_small(&drive->d)) {
		harvest_small(drive);
		return;
	}
	drive->helper = (struct child){ .ended = harvest_done, .arg = drive };
	if (dispatch_harvest_start(&drive->d, drive->lock, drive->dispatcher->loop, &drive->helper, &drive->said, &err) < 0)
		drive_again(drive, &err);
	else
		loop_set_timer(drive->dispatcher->loop, &drive->timer, TELL_MS);
}
