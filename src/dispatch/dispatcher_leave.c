/* dispatcher_leave.c - leaves a dispatch to another machine: its cell here is killed, and what is here of it removed.
 *
 * The cell's timeline stays, as with any cell's end, until whoever asked for the dispatch has it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"

#define LOOK_MS 20
#define LOOK_MAX_MS 1000
#define APPEARS_MS 60000                /* a cell that was only just started may begin so late */

static void
stop_cell(const struct drive *drive)
{
	struct target_order stop = { .verb = TARGET_STOP };

	(void)drive->at->target->control(drive->left, &stop, NULL);
}

static void
leave_over(struct drive *drive)
{
	drive->at = NULL;
	/* Who asked for it still wants to know how it goes. */
	drive->phase = drive->d.mine ? DRIVE_AWAY : DRIVE_OVER;
	if (!drive->d.mine)
		dispatch_remove_folder(drive->d.id);
	dispatcher_soon(drive->dispatcher);
}

void
drive_leave(struct drive *drive)
{
	uint64_t ms = (uint64_t)LOOK_MS << (drive->looks < 6 ? drive->looks : 6);
	enum target_state state = drive->left[0] == '\0' ? TARGET_NONE : drive->at->target->look(drive->left);

	if (state == TARGET_LIVE)
		stop_cell(drive);
	else if ((state != TARGET_NONE || loop_now_ms() >= drive->appears_until) &&
	         (drive->left[0] == '\0' || drive->at->target->discard(drive->left, NULL) == 0)) {
		leave_over(drive);
		return;
	}
	drive->looks++;
	loop_set_timer(drive->dispatcher->loop, &drive->timer, ms < LOOK_MAX_MS ? ms : LOOK_MAX_MS);
}

void
drive_lose(struct drive *drive)
{
	const struct dispatcher_options *o = &drive->dispatcher->options;

	if (!drive->d.away)
		snprintf(drive->left, sizeof(drive->left), "%s", drive->d.cell);
	drive->appears_until = drive->phase == DRIVE_STARTS ? loop_now_ms() + APPEARS_MS : 0;
	drive_detach(drive);
	/* Others write what follows. */
	dispatch_log_close(&drive->log);
	drive->unsent = false;
	drive->looks = 0;
	if (o->changed != NULL)
		o->changed(o->arg, drive->d.id, DISPATCH_QUEUED);
	drive->phase = DRIVE_LEAVES;
	if (drive->at == NULL)
		leave_over(drive);
	else
		drive_leave(drive);
}

/* ---- from before this process ---- */

/* Its worker was killed, and the claim went to another one meanwhile; or it was killed at the very end. */
static bool
was_left(struct dispatcher *dispatcher, const char *id, struct dispatch *ret_d)
{
	return dispatch_id_ok(id) && dispatcher_find(dispatcher, id) == NULL &&
	       dispatch_read(registry_db(dispatcher->reg), id, ret_d, NULL) == 0 && !ret_d->mine &&
	       (ret_d->away || dispatch_state_is_over(ret_d->state));
}

static void
leave_one(struct dispatcher *dispatcher, const char *id)
{
	OWN(closep) int lock = dispatch_lock(id, NULL);
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(dispatch_log_close) struct dispatch_log log = {0};
	struct drive *drive;

	/* Looked at under the lock: nobody begins it meanwhile. */
	if (lock < 0 || !was_left(dispatcher, id, &d) || dispatch_log_open(id, &log, NULL) < 0)
		return;
	drive = calloc(1, sizeof(*drive));
	if (drive == NULL)
		return;
	drive_init(dispatcher, drive, id);
	drive->d.away = true;
	snprintf(drive->left, sizeof(drive->left), "%s", log.cell);
	if (dispatcher_open_target(dispatcher, d.target, &drive->at, NULL) < 0) {
		drive_drop(drive);
		return;
	}
	drive->lock = TAKE_FD(lock);
	dispatcher_list(drive);
	drive_lose(drive);
}

void
dispatcher_leave_all(struct dispatcher *dispatcher)
{
	OWN(closep) int top = dispatch_top(NULL);
	int fd = top < 0 ? -1 : openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		OWN(dispatch_free) struct dispatch d = {0};

		/* To lock it makes its folder, so that comes after a first look. */
		if (was_left(dispatcher, e->d_name, &d))
			leave_one(dispatcher, e->d_name);
	}
}
