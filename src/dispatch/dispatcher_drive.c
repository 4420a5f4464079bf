/* dispatcher_drive.c - drives one dispatch from its current state to its end.
 *
 * Any failure of the driver's own, such as a full disk or a busy database, is retried from the
 * beginning a little later: the row, the events and the cell's state entry show how far it was. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatcher_parts.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "registry/registry.h"

#define AGAIN_MS 1000                   /* after a failure of the driver's own */
#define LOOK_MS 5                       /* while a supervisor begins or ends */
#define LOOK_MAX_MS 500
#define HARVESTS_MAX 5
#define CANCEL_GRACE_MS 10000
#define SAID_MAX 4096

static void drive_look(struct drive *drive);
static void look_later(struct drive *drive);

/* ---- a drive by itself ---- */

static void
drop_child(struct drive *drive)
{
	loop_unwatch(drive->dispatcher->loop, &drive->child);
	closep(&drive->child.fd);
	closep(&drive->said);
	drive->child.fd = drive->said = -1;
}

static void
drop_control(struct drive *drive)
{
	loop_unwatch(drive->dispatcher->loop, &drive->control);
	closep(&drive->control.fd);
	drive->control.fd = -1;
}

static void
detach(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;

	drop_child(drive);
	drop_control(drive);
	loop_cancel_timer(dispatcher->loop, &drive->timer);
	if (drive->watch >= 0)
		(void)inotify_rm_watch(dispatcher->notify.fd, drive->watch);
	drive->watch = -1;
	drive_tail_close(drive);
}

void
drive_drop(struct drive *drive)
{
	detach(drive);
	dispatch_log_close(&drive->log);
	dispatch_free(&drive->d);
	json_decref(drive->given);
	closep(&drive->lock);
	free(drive);
}

/* Retries soon, from the beginning. */
static void
again(struct drive *drive, const struct err *err)
{
	snprintf(drive->trouble, sizeof(drive->trouble), "%.*s", DISPATCH_REASON_MAX - 1, err->text);
	detach(drive);
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
	drive->phase = DRIVE_ENTERS;
	dispatcher_soon(drive->dispatcher);
}

static int
read_row(struct drive *drive, struct err *err)
{
	struct dispatch d = {0};
	int r = dispatch_read(registry_db(drive->dispatcher->reg), drive->d.id, &d, err);

	if (r < 0)
		return r;
	dispatch_free(&drive->d);
	drive->d = d;
	return 0;
}

/* ---- harvesting ---- */

/* RESULT is NULL if there is none. */
static void
conclude(struct drive *drive, const json_t *result)
{
	struct err err = {0};

	if (result != NULL && drive_conclude(drive, result, &err) == 0)
		return;
	if (result == NULL && ++drive->failures >= HARVESTS_MAX &&
	    drive_fail(drive, "what the agent left could not be kept: is the disk full?", true, &err) == 0)
		return;
	again(drive, &err);
}

static void
harvest_done(void *arg, uint32_t events)
{
	struct drive *drive = arg;
	OWN(json_decrefp) json_t *result = NULL;
	siginfo_t info = {0};

	(void)events;
	if (waitid(P_PIDFD, (id_t)drive->child.fd, &info, WEXITED) < 0)
		return;
	drop_child(drive);
	result = dispatch_harvest_read(drive->d.id, drive->d.cell);
	conclude(drive, result);
}

/* Harvests here and now.  If the cell's state is removed before the end of the attempt is recorded,
 * the next driver must find the result; otherwise it harvests again. */
static void
harvest_small(struct drive *drive)
{
	OWN(json_decrefp) json_t *result = NULL;
	struct registry *reg = drive->dispatcher->reg;

	if (drive->d.retries == 0)
		(void)dispatch_harvest_take(reg, &drive->d, &result, NULL);
	else if (dispatch_harvest(reg, &drive->d, NULL) == 0)
		result = dispatch_harvest_read(drive->d.id, drive->d.cell);
	conclude(drive, result);
}

/* A large result takes long, and others must not wait for it. */
static void
begin_harvest(struct drive *drive)
{
	struct err err = {0};
	int r = 0;

	drop_control(drive);
	drive->phase = DRIVE_HARVESTS;
	if (dispatch_harvest_is_small(&drive->d)) {
		harvest_small(drive);
		return;
	}
	drive->child = (struct loop_source){ .ready = harvest_done, .arg = drive,
	                                     .fd = dispatch_harvest_start(&drive->d, drive->lock, &err) };
	if (drive->child.fd < 0)
		r = drive->child.fd = -1;
	else
		r = loop_watch(drive->dispatcher->loop, &drive->child, EPOLLIN, &err);
	if (r < 0)
		again(drive, &err);
}

/* ---- the cell ---- */

void
drive_attach(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	char path[64];

	if (drive->entry >= 0)
		return;
	drive->entry = dispatch_cell_open(drive->d.cell);
	if (drive->entry < 0)
		return;
	if (strcmp(drive->log.cell, drive->d.cell) != 0 &&
	    dispatch_log_put(&drive->log, "cell.boot",
	                     json_pack("{s:i,s:s}", "attempt", (int)drive->d.attempts, "cell",
	                               drive->d.cell), false, NULL) < 0) {
		drive_tail_close(drive);
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", drive->entry);
	drive->watch = inotify_add_watch(dispatcher->notify.fd, path, IN_MODIFY | IN_CREATE);
	dispatcher_tell(drive);
	drive_tail(drive);
}

static void
control_ready(void *arg, uint32_t events)
{
	struct drive *drive = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	bool is_over;

	(void)events;
	if (ipc_receive(drive->control.fd, &message, NULL) == -EAGAIN)
		return;
	/* The record decides, whatever the supervisor sent.  If it sent nothing, it may have no
	 * room for another client. */
	is_over = message.type == CONTROL_ENDED;
	drop_control(drive);
	drive->looks = is_over ? 0 : drive->looks;
	if (is_over)
		drive_look(drive);
	else
		look_later(drive);
}

static bool
was_cancelled(struct drive *drive)
{
	struct err err = {0};

	return read_row(drive, &err) == 0 && drive->d.cancel;
}

/* Waits for the supervisor's report of the end. */
static void
follow(struct drive *drive, int fd)
{
	struct err err = {0};

	drive_attach(drive);
	drive->phase = DRIVE_RUNS;
	drive->control = (struct loop_source){ .fd = fd, .ready = control_ready, .arg = drive };
	if (loop_watch(drive->dispatcher->loop, &drive->control, EPOLLIN, &err) < 0 ||
	    dispatch_set_running(registry_db(drive->dispatcher->reg), drive->d.id, &err) < 0) {
		again(drive, &err);
		return;
	}
	drive->d.state = DISPATCH_RUNNING;
	drive->failures = 0;
	dispatcher_tell(drive);
	if (was_cancelled(drive))
		(void)dispatch_cell_stop(drive->d.cell, drive->d.cancel_now ? 0 : CANCEL_GRACE_MS, NULL);
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
		again(drive, &err);
}

static void
look_for_none(struct drive *drive)
{
	struct err err = {0};
	int r;

	if (drive->d.state == DISPATCH_RUNNING) {
		r = drive_fail(drive, "what was kept of its cell was discarded before it was read", true, &err);
	} else if (!dispatch_is_of_this_boot(drive->d.boot)) {
		/* Data that was on its way to the disk at that time may be missing. */
		r = drive_fail(drive, "the machine was restarted when it was about to begin", false, &err);
	} else if (drive->began) {
		r = drive_fail(drive, drive->trouble, false, &err);
	} else {
		r = cell_state_bury(drive->d.cell, &err);
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
		again(drive, &err);
}

/* From here on the attempt counts as one that ran, whatever happens to the cell's entry. */
static int
note_ran(struct drive *drive, struct err *err)
{
	int r = 0;

	if (drive->d.state != DISPATCH_RUNNING)
		r = dispatch_set_running(registry_db(drive->dispatcher->reg), drive->d.id, err);
	if (r == 0)
		drive->d.state = DISPATCH_RUNNING;
	return r;
}

/* Continues according to the cell's state entry. */
static void
drive_look(struct drive *drive)
{
	struct err err = {0};
	int fd;

	switch (dispatch_cell_look(drive->d.cell)) {
	case DISPATCH_CELL_LIVE:
		fd = dispatch_cell_wait(drive->d.cell, &err);
		if (fd >= 0)
			follow(drive, fd);
		else
			look_later(drive);
		return;
	case DISPATCH_CELL_ENDED:
		drive_attach(drive);
		if (note_ran(drive, &err) == 0 &&
		    dispatch_token_drop(registry_db(drive->dispatcher->reg), drive->d.id, &err) == 0)
			begin_harvest(drive);
		else
			again(drive, &err);
		return;
	case DISPATCH_CELL_LOST:
		drive_attach(drive);
		drive_tail(drive);
		if (note_ran(drive, &err) < 0 ||
		    drive_fail(drive, "the supervisor of its cell was killed, and the cell with it", true,
		               &err) < 0)
			again(drive, &err);
		return;
	case DISPATCH_CELL_GRAVE:
		if (drive->began || !dispatch_is_of_this_boot(drive->d.boot))
			look_for_none(drive);
		else
			start_other(drive);
		return;
	case DISPATCH_CELL_NONE:
		look_for_none(drive);
		return;
	}
}

/* ---- starting ---- */

/* Keeps the last line of `cloister run`, without its prefix. */
static void
note_said(struct drive *drive)
{
	OWN(freep) char *text = NULL;
	char path[64], *line, *end;

	snprintf(drive->trouble, sizeof(drive->trouble), "its cell could not be started");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", drive->said);
	if (read_file_at(AT_FDCWD, path, 1 << 20, &text, NULL, NULL) < 0)
		return;
	for (end = text + strlen(text); end > text && end[-1] == '\n'; end--)
		end[-1] = '\0';
	line = strrchr(text, '\n');
	line = line != NULL ? line + 1 : text;
	if (strncmp(line, "cloister: ", 10) == 0)
		line += 10;
	if (*line != '\0')
		snprintf(drive->trouble, sizeof(drive->trouble), "%.*s", DISPATCH_REASON_MAX - 1, line);
	dispatch_own_words(drive->trouble);
}

static void
run_done(void *arg, uint32_t events)
{
	struct drive *drive = arg;
	siginfo_t info = {0};

	(void)events;
	if (waitid(P_PIDFD, (id_t)drive->child.fd, &info, WEXITED) < 0)
		return;
	note_said(drive);
	/* A `cloister run` that was killed may have left a supervisor that is only just beginning. */
	drive->began = info.si_code == CLD_EXITED;
	drop_child(drive);
	drive_attach(drive);
	drive->looks = 0;
	drive_look(drive);
}

void
drive_launch(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	struct err err = {0};
	int said = -1, fd;

	detach(drive);
	drive->phase = DRIVE_STARTS;
	drive->is_new = drive->began = false;
	drive->failures = 0;
	dispatcher_tell(drive);
	json_decref(drive->given);
	drive->given = json_object();
	fd = dispatch_start(dispatcher->reg, &drive->d, drive->given, &said, &err);
	if (fd < 0) {
		/* Nothing was started, so there is no cell to look for. */
		if (drive_fail(drive, err.text, false, &err) < 0)
			again(drive, &err);
		return;
	}
	drive->said = said;
	drive->child = (struct loop_source){ .fd = fd, .ready = run_done, .arg = drive };
	if (loop_watch(dispatcher->loop, &drive->child, EPOLLIN, &err) < 0)
		again(drive, &err);
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
		again(drive, &err);
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

	if (drive->log.fd <= 0)
		r = dispatch_log_open(drive->d.id, &drive->log, err);
	if (r == 0 && drive->log.end != NULL) {
		r = drive_end_again(drive, err);
	} else if (r == 0 && drive->d.state == DISPATCH_QUEUED) {
		drive->phase = DRIVE_WAITS;
	} else if (r == 0 && drive->is_new) {
		/* No other process has had the lock. */
		drive_launch(drive);
	} else if (r == 0 && (result = dispatch_harvest_read(drive->d.id, drive->d.cell)) != NULL) {
		drive_attach(drive);
		r = drive_conclude(drive, result, err);
	} else if (r == 0) {
		drive_attach(drive);
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
	if (r == 0)
		r = go_on(drive, &err);
	if (r < 0)
		again(drive, &err);
}

void
drive_begin(struct drive *drive)
{
	struct err err = {0};

	drive->is_new = true;
	if (go_on(drive, &err) < 0)
		again(drive, &err);
}

int
drive_new(struct dispatcher *dispatcher, const char *id, int lock, struct drive **ret_drive,
          struct err *err)
{
	struct drive *drive = calloc(1, sizeof(*drive));
	int r;

	if (drive == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*drive = (struct drive){ .dispatcher = dispatcher, .phase = DRIVE_ENTERS, .lock = -1,
		.said = -1, .entry = -1, .watch = -1, .streams = { -1, -1 },
		.child = { .fd = -1 }, .control = { .fd = -1 },
		.timer = { .due = timer_due, .arg = drive } };
	snprintf(drive->d.id, sizeof(drive->d.id), "%s", id);
	r = read_row(drive, err);
	if (r == 0 && dispatch_state_is_over(drive->d.state))
		r = err_set(err, EALREADY, "dispatch %s is over: it is %s", id,
		            dispatch_state_name(drive->d.state));
	if (r < 0) {
		drive_drop(drive);
		return r;
	}
	drive->lock = lock;
	*ret_drive = drive;
	return 0;
}
