/* dispatcher_drive.c - drives one dispatch from its current state to its end.
 *
 * Any failure of the driver's own, such as a full disk or a busy database, is retried from the
 * beginning a little later: the row, the events and the target show how far it was. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"
#include "vault/lend.h"

#define AGAIN_MS 1000                   /* after a failure of the driver's own */
#define LOOK_MS 5                       /* while a cell begins or ends */
#define LOOK_MAX_MS 500
#define CANCEL_GRACE_MS 10000

static void drive_look(struct drive *drive);
static void look_later(struct drive *drive);

/* ---- a drive by itself ---- */

void
drive_detach(struct drive *drive)
{
	child_drop(&drive->helper);
	close_fd(&drive->said);
	if (drive->link != NULL)
		drive->at->target->detach(TAKE(drive->link));
	loop_cancel_timer(drive->dispatcher->loop, &drive->timer);
	drive_tail_close(drive);
}

void
drive_drop(struct drive *drive)
{
	drive_detach(drive);
	dispatch_log_close(&drive->log);
	dispatch_free(&drive->d);
	json_decref(drive->given);
	closep(&drive->lock);
	free(drive);
}

void
drive_again(struct drive *drive, const struct err *err)
{
	snprintf(drive->trouble, sizeof(drive->trouble), "%.*s", DISPATCH_REASON_MAX - 1, err->text);
	drive_detach(drive);
	drive->phase = DRIVE_SETTLES;
	loop_set_timer(drive->dispatcher->loop, &drive->timer, AGAIN_MS);
}

static void
timer_due(void *arg)
{
	struct drive *drive = arg;

	if (drive->phase == DRIVE_WAITS) {
		dispatcher_soon(drive->dispatcher);
		return;
	}
	if (drive->phase == DRIVE_LEAVES) {
		drive_leave(drive);
		return;
	}
	if (drive->phase == DRIVE_HARVESTS) {
		drive_tell_wait(drive, NULL);
		return;
	}
	drive->phase = DRIVE_ENTERS;
	dispatcher_soon(drive->dispatcher);
}

static void
kill_cell(struct drive *drive)
{
	struct target_order stop = { .verb = TARGET_STOP };

	if (drive->d.cell[0] != '\0')
		(void)drive->at->target->control(drive->d.cell, &stop, NULL);
}

static int
read_row(struct drive *drive, struct err *err)
{
	struct dispatch d = {0};
	int r = dispatch_read(registry_db(drive->dispatcher->reg), drive->d.id, &d, err);

	if (r < 0)
		return r;
	/* Claimed anew, by this folder too, after others have had it. */
	if (!d.away && drive->at != NULL && drive->d.claim != 0 && d.claim != drive->d.claim)
		d.away = true;
	if (d.away && !drive->d.away && drive->at != NULL) {
		kill_cell(drive);
		snprintf(drive->left, sizeof(drive->left), "%s", drive->d.cell);
	}
	/* It never changes. */
	d.resolved = TAKE(drive->d.resolved);
	dispatch_free(&drive->d);
	drive->d = d;
	return 0;
}

/* ---- the cell ---- */

static void run_done(void *arg, bool sure, const char *said);
static void attach(struct drive *drive);

static void
has_news(void *arg)
{
	struct drive *drive = arg;

	if (drive->appeared)
		drive_tail(drive);
	else
		attach(drive);
}

static void
has_left(void *arg, bool ended)
{
	struct drive *drive = arg;

	if (!ended) {
		look_later(drive);
		return;
	}
	drive->looks = 0;
	drive_look(drive);
}

/* Connects to its cell, which may have appeared. */
static void
attach(struct drive *drive)
{
	const struct target_hooks hooks = { .started = run_done, .news = has_news, .left = has_left,
	                                    .arg = drive };

	if (drive->at->target->attach(drive->at->place, drive->d.cell, &hooks, &drive->link, NULL) <= 0 ||
	    drive->appeared)
		return;
	if (strcmp(drive->log.cell, drive->d.cell) != 0 &&
	    dispatch_log_put(&drive->log, "cell.boot",
	                     json_pack("{s:i,s:s,s:s*}", "attempt", (int)drive->d.attempts, "cell", drive->d.cell,
	                               "worker", drive_is_claimed(drive) ? drive->d.home : NULL), false, NULL) < 0)
		return;
	drive->appeared = true;
	dispatcher_tell(drive);
	drive_tail(drive);
}

bool
drive_was_cancelled(struct drive *drive)
{
	struct err err = {0};

	return read_row(drive, &err) == 0 && drive->d.cancel;
}

static void
stop_cell(struct drive *drive)
{
	struct target_order stop = { .verb = TARGET_STOP, .grace_ms = drive->d.cancel_now ? 0 : CANCEL_GRACE_MS };

	(void)drive->at->target->control(drive->d.cell, &stop, NULL);
}

void
drive_heed_cancel(struct drive *drive)
{
	if (drive_was_cancelled(drive) && drive->phase == DRIVE_RUNS)
		stop_cell(drive);
}

/* Of a claim, the row says so later than its events.  A cell of this machine may appear and die before its agent runs: it is
 * started again. */
static bool
has_begun(const struct drive *drive)
{
	return drive->d.state == DISPATCH_RUNNING ||
	       (drive_is_claimed(drive) && drive->d.cell[0] != '\0' && strcmp(drive->log.cell, drive->d.cell) == 0);
}

/* From here on the attempt counts as one that ran, whatever happens to the cell's entry.  Of a claim, its events say so until
 * they are sent. */
static int
note_ran(struct drive *drive, struct err *err)
{
	bool later = drive_is_claimed(drive) && has_begun(drive);
	int r = 0;

	if (drive->d.state != DISPATCH_RUNNING && !later)
		r = dispatch_set_running(registry_db(drive->dispatcher->reg), drive->d.id, err);
	drive->runs |= later && drive->d.state != DISPATCH_RUNNING;
	if (r == 0)
		drive->d.state = DISPATCH_RUNNING;
	return r;
}

/* Its cell lives, and the target will report the end. */
static void
note_runs(struct drive *drive)
{
	struct err err = {0};

	drive->phase = DRIVE_RUNS;
	if (note_ran(drive, &err) < 0) {
		drive_again(drive, &err);
		return;
	}
	drive->failures = 0;
	dispatcher_tell(drive);
	/* Of a claim, each mark comes with news. */
	if (!drive_is_claimed(drive))
		drive_heed_cancel(drive);
	else if (drive->d.cancel)
		stop_cell(drive);
}

static void
look_later(struct drive *drive)
{
	uint64_t ms = (uint64_t)LOOK_MS << (drive->looks < 8 ? drive->looks : 8);

	drive->looks++;
	drive->phase = DRIVE_SETTLES;
	loop_set_timer(drive->dispatcher->loop, &drive->timer, ms < LOOK_MAX_MS ? ms : LOOK_MAX_MS);
}

/* The cell of this attempt never started, and no process that is still about to start it can. */
static void
start_other(struct drive *drive)
{
	struct err err = {0};
	char cell[CELL_ID_LEN + 1];
	int r = cell_make_id(cell, &err);

	if (r == 0)
		r = dispatch_replace_cell(registry_db(drive->dispatcher->reg), drive->d.id, cell,
		                          drive->d.cell, &err);
	if (r == 0)
		r = read_row(drive, &err);
	if (r == 0)
		drive_launch(drive);
	else
		drive_again(drive, &err);
}

static void
look_for_none(struct drive *drive)
{
	struct target_order bury = { .verb = TARGET_BURY };
	struct err err = {0};
	int r;

	if (has_begun(drive)) {
		r = drive_fail(drive, "what was kept of its cell was discarded before it was read", true, &err);
	} else if (!dispatch_is_of_this_boot(drive->d.boot)) {
		/* Data that was on its way to the disk at that time may be missing. */
		r = drive_fail(drive, "the machine was restarted when it was about to begin", false, &err);
	} else if (drive->began) {
		r = drive_fail(drive, drive->trouble, false, &err);
	} else {
		r = drive->at->target->control(drive->d.cell, &bury, &err);
		if (r == 0) {
			start_other(drive);
			return;
		}
		/* It began at this very moment. */
		if (r == -EEXIST) {
			look_later(drive);
			return;
		}
	}
	if (r < 0)
		drive_again(drive, &err);
}

/* Continues according to the state of its cell. */
static void
drive_look(struct drive *drive)
{
	const struct target *target = drive->at->target;
	struct err err = {0};

	switch (target->look(drive->d.cell)) {
	case TARGET_LIVE:
		attach(drive);
		if (drive->link != NULL && target->follow(drive->link, &err) == 0)
			note_runs(drive);
		else
			look_later(drive);
		return;
	case TARGET_ENDED:
		attach(drive);
		/* The agent of a claim dispatches no others, and has no token. */
		if (note_ran(drive, &err) == 0 && (drive_is_claimed(drive) ||
		    dispatch_token_drop(registry_db(drive->dispatcher->reg), drive->d.id, &err) == 0))
			drive_harvest(drive);
		else
			drive_again(drive, &err);
		return;
	case TARGET_LOST:
		attach(drive);
		drive_tail(drive);
		if (note_ran(drive, &err) < 0 ||
		    drive_fail(drive, "the supervisor of its cell was killed, and the cell with it", true,
		               &err) < 0)
			drive_again(drive, &err);
		return;
	case TARGET_BURIED:
		if (drive->began || !dispatch_is_of_this_boot(drive->d.boot))
			look_for_none(drive);
		else
			start_other(drive);
		return;
	case TARGET_NONE:
		look_for_none(drive);
		return;
	}
}

/* ---- starting ---- */

static void
run_done(void *arg, bool sure, const char *said)
{
	struct drive *drive = arg;

	snprintf(drive->trouble, sizeof(drive->trouble), "%s",
	         said[0] != '\0' ? said : "its cell could not be started");
	dispatch_own_words(drive->trouble);
	drive->began = sure;
	attach(drive);
	drive->looks = 0;
	drive_look(drive);
}

/* For what its secrets are lent; NULL: they are this machine's. */
static int
name_claim(const struct drive *drive, char **ret_claim, struct err *err)
{
	const struct dispatch *d = &drive->d;

	if (drive->dispatcher->options.lent && drive_is_claimed(drive))
		*ret_claim = lend_claim_text(&(struct lend_claim){ .dispatch = d->id, .number = d->claim, .service = d->origin,
		                                                   .worker = d->home });
	return *ret_claim != NULL || !drive->dispatcher->options.lent ? 0 : err_set(err, ENOMEM, "out of memory");
}

static void
start_cell(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	OWN(freep) char *lent = NULL;
	struct err err = {0};
	int r;

	drive->phase = DRIVE_STARTS;
	attach(drive);
	r = drive->link == NULL ? err_set(&err, ENOMEM, "out of memory") : name_claim(drive, &lent, &err);
	if (r == 0)
		r = dispatch_start(dispatcher->reg, &drive->d, drive->at->target, drive->link, lent, drive->given, &err);
	/* If nothing was started, there is no cell to look for. */
	if (r == -EINPROGRESS || (r < 0 && drive_fail(drive, err.text, false, &err) < 0))
		drive_again(drive, &err);
}

static void
brought(void *arg, bool exited, int status)
{
	struct drive *drive = arg;
	char why[DISPATCH_REASON_MAX];
	struct err err = {0};

	if (exited && status == 0) {
		start_cell(drive);
		return;
	}
	tell_read(drive->said, "its files could not be brought", why, sizeof(why));
	dispatch_own_words(why);
	if (exited && status == DISPATCH_NO_REGISTRY) {
		(void)err_set(&err, EAGAIN, "%s", why);
		drive_again(drive, &err);
	} else if (drive_fail(drive, why, false, &err) < 0)
		drive_again(drive, &err);
}

void
drive_launch(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	struct err err = {0};

	drive_detach(drive);
	drive->phase = DRIVE_STARTS;
	drive->is_new = drive->began = false;
	drive->failures = 0;
	drive->harvest_ms = 0;
	drive->told_wait = DRIVE_WAIT_UNTOLD;
	dispatcher_tell(drive);
	json_decref(drive->given);
	drive->given = json_object();
	if (!dispatch_lacks(dispatcher->reg, &drive->d)) {
		start_cell(drive);
		return;
	}
	drive->phase = DRIVE_BRINGS;
	drive->helper = (struct child){ .ended = brought, .arg = drive };
	if (dispatch_bring_start(&drive->d, drive->lock, dispatcher->loop, &drive->helper, &drive->said, &err) < 0)
		drive_again(drive, &err);
}

bool
drive_try(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	char cell[CELL_ID_LEN + 1];
	struct err err = {0};
	uint64_t wait_ms = 0;
	int r = cell_make_id(cell, &err);

	if (r == 0)
		r = dispatch_begin(registry_db(dispatcher->reg), drive->d.id, cell,
		                   dispatcher->draining ? 0 : dispatcher->options.concurrency, &wait_ms,
		                   &err);
	if (r == -ECANCELED)
		r = drive_cancel(drive, &err);
	else if (r > 0)
		r = read_row(drive, &err);
	else if (r == 0) {
		if (wait_ms > 0)
			loop_set_timer(dispatcher->loop, &drive->timer, wait_ms);
		return wait_ms > 0;
	}
	if (r < 0)
		drive_again(drive, &err);
	else if (drive->phase == DRIVE_WAITS)
		drive_launch(drive);
	return true;
}

/* ---- from the beginning ---- */

/* Continues by its row, which was just read. */
static int
go_on(struct drive *drive, struct err *err)
{
	OWN(json_decrefp) json_t *result = NULL;
	int r = 0;

	if (drive->log.fd <= 0) {
		/* Its first events may be another machine's. */
		if (drive_is_claimed(drive) && !drive->is_new)
			r = dispatch_mirror(registry_db(drive->dispatcher->reg), drive->d.id, err);
		r = r == 0 ? dispatch_log_open(drive->d.id, &drive->log, err) : r;
	}
	if (r == 0 && drive->log.end != NULL) {
		r = drive_end_again(drive, err);
	} else if (r == 0 && drive->d.state == DISPATCH_QUEUED) {
		drive->phase = DRIVE_WAITS;
	} else if (r == 0 && drive->is_new) {
		/* No other process has had the lock. */
		drive_launch(drive);
	} else if (r == 0 && (result = dispatch_harvest_read(drive->d.id, drive->d.cell)) != NULL) {
		attach(drive);
		r = drive_conclude(drive, result, err);
	} else if (r == 0) {
		attach(drive);
		drive_look(drive);
	}
	return r;
}

void
drive_enter(struct drive *drive)
{
	struct err err = {0};
	int r = read_row(drive, &err);

	if (r == 0 && dispatch_state_is_over(drive->d.state)) {
		drive->phase = DRIVE_OVER;
		dispatcher_tell(drive);
		return;
	}
	if (r == 0 && drive->d.away) {
		drive_lose(drive);
		return;
	}
	if (r == 0)
		r = go_on(drive, &err);
	if (r < 0)
		drive_again(drive, &err);
}

/* ---- on other machines ---- */

bool
drive_is_claimed(const struct drive *drive)
{
	return !drive->d.away && target_pool(drive->d.target) != NULL;
}

bool
drive_waits_for_worker(const struct drive *drive)
{
	return drive->d.home[0] == '\0' && drive->d.state == DISPATCH_QUEUED;
}

void
drive_see(struct drive *drive, struct dispatch *d)
{
	enum dispatch_state before = drive->d.state;
	struct err err = {0};

	dispatch_free(&drive->d);
	drive->d = *d;
	*d = (struct dispatch){0};
	if (!drive->d.away) {
		if (dispatcher_open_target(drive->dispatcher, drive->d.target, &drive->at, &err) == 0)
			drive->phase = DRIVE_ENTERS;
		dispatcher_list(drive);
		dispatcher_soon(drive->dispatcher);
		return;
	}
	/* A row is over only when all that was recorded has been sent. */
	if (dispatch_state_is_over(drive->d.state)) {
		if (drive->d.mine && drive_note_far_end(drive, &err) < 0) {
			/* Those who wait for its end hear of it when it is recorded. */
			drive->d.state = before;
			return;
		}
		drive->phase = DRIVE_OVER;
		if (drive->d.mine)
			dispatch_tidy(drive->d.id);
		dispatcher_list(drive);
		dispatcher_soon(drive->dispatcher);
	}
	if (drive->d.state != before)
		dispatcher_tell(drive);
}

void
drive_begin(struct drive *drive)
{
	struct err err = {0};

	drive->is_new = true;
	if (go_on(drive, &err) < 0)
		drive_again(drive, &err);
}

void
drive_init(struct dispatcher *dispatcher, struct drive *ret_drive, const char *id)
{
	*ret_drive = (struct drive){ .dispatcher = dispatcher, .phase = DRIVE_ENTERS, .lock = -1,
		.timer = { .due = timer_due, .arg = ret_drive } };
	snprintf(ret_drive->d.id, sizeof(ret_drive->d.id), "%s", id);
}

/* Nothing of it but its id is known yet. */
static struct drive *
make_drive(struct dispatcher *dispatcher, const char *id, struct err *err)
{
	struct drive *drive = calloc(1, sizeof(*drive));

	if (drive == NULL)
		(void)err_set(err, ENOMEM, "out of memory");
	else
		drive_init(dispatcher, drive, id);
	return drive;
}

/* It ended while nobody here followed it. */
static bool
ended_unseen(const struct dispatch *d)
{
	return d->mine && d->away && target_pool(d->target) != NULL && dispatch_is_untidy(d->id);
}

int
drive_new(struct dispatcher *dispatcher, const char *id, int lock, struct drive **ret_drive,
          struct err *err)
{
	struct drive *drive = make_drive(dispatcher, id, err);
	int r = drive == NULL ? -ENOMEM : read_row(drive, err);

	if (r == 0 && dispatch_state_is_over(drive->d.state) && !ended_unseen(&drive->d))
		r = err_set(err, EALREADY, "dispatch %s is over: it is %s", id,
		            dispatch_state_name(drive->d.state));
	if (r == 0 && drive->d.away)
		drive->phase = DRIVE_AWAY;
	else if (r == 0)
		r = dispatcher_open_target(dispatcher, drive->d.target, &drive->at, err);
	if (r < 0) {
		if (drive != NULL)
			drive_drop(drive);
		return r;
	}
	drive->lock = lock;
	*ret_drive = drive;
	return 0;
}

int
drive_new_claimed(struct dispatcher *dispatcher, struct dispatch *d, int lock, struct drive **ret_drive, struct err *err)
{
	struct drive *drive = make_drive(dispatcher, d->id, err);
	int r = drive == NULL ? -ENOMEM : dispatcher_open_target(dispatcher, d->target, &drive->at, err);

	if (r < 0) {
		if (drive != NULL)
			drive_drop(drive);
		return r;
	}
	drive->d = *d;
	*d = (struct dispatch){0};
	drive->lock = lock;
	*ret_drive = drive;
	return 0;
}
