/* dispatcher.c - drives many dispatches in one loop, and adopts those without a driver. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"

/* A killed driver notifies nobody, so its dispatches wait up to this long. */
#define TICK_MS 2000
#define PRUNE_FIRST_MS 1000             /* after the first requests were answered */
#define PRUNE_EVERY_MS (3600 * 1000)
/* A folder without a row is left alone while it may yet get one.  The search for such folders lasts
 * as long as a recent crash may have left one. */
#define ORPHAN_SECONDS 3600
#define ORPHAN_SECONDS_MAX (7 * 24 * 3600)

void
dispatcher_soon(struct dispatcher *dispatcher)
{
	loop_at_round_end(dispatcher->loop, &dispatcher->round);
}

void
dispatcher_tell(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;

	drive->unsent = drive_is_claimed(drive);
	if (drive->unsent)
		dispatcher_send_soon(dispatcher);
	if (dispatcher->options.changed != NULL)
		dispatcher->options.changed(dispatcher->options.arg, drive->d.id, drive->d.state);
}

static void
drop_over(struct dispatcher *dispatcher)
{
	struct drive *next;

	for (struct drive *drive = dispatcher->drives.first; drive != NULL; drive = next) {
		next = drive->next;
		if (drive->phase == DRIVE_AWAY)
			dispatcher_list(drive);
		if (drive->phase != DRIVE_OVER)
			continue;
		dispatcher_unlist(drive);
		drive_drop(drive);
		/* There is a place for another one. */
		if (dispatcher->options.pool != NULL)
			loop_set_timer(dispatcher->loop, &dispatcher->claim, 0);
		if (dispatcher->options.over != NULL)
			dispatcher->options.over(dispatcher->options.arg);
	}
}

/* Each end makes room, so one round can be followed by another. */
static void
look_after(void *arg)
{
	struct dispatcher *dispatcher = arg;
	bool room = !dispatcher->draining;

	for (struct drive *drive = dispatcher->drives.first; drive != NULL; drive = drive->next) {
		if (drive->phase == DRIVE_ENTERS)
			drive_enter(drive);
		if (drive->phase == DRIVE_WAITS && (room || drive->d.cancel))
			room = drive_try(drive) && room;
	}
	drop_over(dispatcher);
}

/* ---- news ---- */

/* A waiting dispatch may have a place now, or may have been cancelled. */
static void
turn_changed(void *arg, const char *name)
{
	(void)name;
	dispatcher_soon(arg);
}

static void
add(struct dispatcher *dispatcher, struct drive *drive, bool is_new)
{
	dispatcher_list(drive);
	if (is_new && drive->phase != DRIVE_AWAY)
		drive_begin(drive);
	dispatcher_soon(dispatcher);
}

int
dispatcher_add(struct dispatcher *dispatcher, const char *id, int lock, bool is_new, struct err *err)
{
	struct drive *drive;
	int r = drive_new(dispatcher, id, lock, &drive, err);

	if (r < 0)
		close(lock);
	else
		add(dispatcher, drive, is_new);
	return r;
}

int
dispatcher_add_claimed(struct dispatcher *dispatcher, struct dispatch *d, uint64_t sent, int lock, struct err *err)
{
	struct drive *drive;
	int r = drive_new_claimed(dispatcher, d, lock, &drive, err);

	if (r < 0) {
		close(lock);
		return r;
	}
	drive->sent = sent;
	add(dispatcher, drive, true);
	return 0;
}

/* Those that ended before they could be adopted: what is recorded of them is still to come. */
static void
adopt_ended(struct dispatcher *dispatcher)
{
	OWN(strv_freep) char **ids = NULL;
	struct db *db = registry_db(dispatcher->reg);

	if (*db_home(db) == '\0' || dispatch_list_ended(db, &dispatcher->ended_seq, &ids, NULL) < 0)
		return;
	for (char **id = ids; ids != NULL && *id != NULL; id++)
		(void)dispatcher_take(dispatcher, *id, NULL);
}

static int
adopt(struct dispatcher *dispatcher, size_t *ret_n, struct err *err)
{
	OWN(strv_freep) char **ids = NULL;
	int r = dispatch_list_open(registry_db(dispatcher->reg), false, &ids, err);

	*ret_n = 0;
	for (char **id = ids; r == 0 && *id != NULL; id++)
		if (dispatcher_find(dispatcher, *id) == NULL && dispatcher_take(dispatcher, *id, NULL) == 0)
			++*ret_n;
	return r;
}

static void
tick_due(void *arg)
{
	struct dispatcher *dispatcher = arg;
	size_t n;

	if (dispatcher->adopting && !dispatcher->draining) {
		(void)adopt(dispatcher, &n, NULL);
		adopt_ended(dispatcher);
	}
	dispatcher_look_after_pools(dispatcher);
	dispatcher_soon(dispatcher);
	loop_set_timer(dispatcher->loop, &dispatcher->tick, TICK_MS);
}

/* ---- pruning ---- */

static void
prune_done(void *arg, bool exited, int status)
{
	(void)arg;
	(void)exited;
	(void)status;
}

static void
prune_due(void *arg)
{
	struct dispatcher *dispatcher = arg;

	loop_set_timer(dispatcher->loop, &dispatcher->prune, PRUNE_EVERY_MS);
	if (!child_runs(&dispatcher->pruning) && !dispatcher->draining)
		(void)dispatch_prune_start(&dispatcher->pruning, dispatcher->loop,
		                           dispatcher->options.prune_ms, NULL);
}

int
dispatcher_open_target(struct dispatcher *dispatcher, const char *name,
                       const struct dispatcher_at **ret_at, struct err *err)
{
	struct dispatcher_at *at = dispatcher->at;
	const struct target *target;
	int r = target_find(name, &target, err);

	if (r < 0)
		return r;
	while (at->target != NULL && at->target != target)
		at++;
	assert(at < dispatcher->at + TARGETS_MAX);
	if (at->target == NULL) {
		r = target->check(err);
		r = r == 0 ? target->open(dispatcher->loop, &at->place, err) : r;
	}
	if (r < 0)
		return r;
	at->target = target;
	*ret_at = at;
	return 0;
}

/* The default target is opened at once: whoever starts a dispatcher learns whether cells can run. */
static int
open_all(struct dispatcher *dispatcher, struct err *err)
{
	OWN(closep) int top = dispatch_top(err);
	const struct dispatcher_at *at;
	int r = top < 0 ? top : dispatcher_open_target(dispatcher, DISPATCH_TARGET, &at, err);

	return r < 0 ? r : loop_watch_file(dispatcher->loop, &dispatcher->turn, top, LOOP_FILE_WRITTEN, err);
}

/* ---- public functions ---- */

int
dispatcher_new(struct loop *loop, struct registry *reg, const struct dispatcher_options *options,
               struct dispatcher **ret_dispatcher, struct err *err)
{
	OWN(dispatcher_freep) struct dispatcher *dispatcher = calloc(1, sizeof(*dispatcher));
	int r;

	if (dispatcher == NULL)
		return err_set(err, ENOMEM, "out of memory");
	dispatcher->loop = loop;
	dispatcher->reg = reg;
	dispatcher->options = *options;
	dispatcher->ended_seq = -1;
	if (options->concurrency == 0)
		dispatcher->options.concurrency = DISPATCH_CONCURRENCY;
	dispatcher_prepare_lists(dispatcher);
	loop_prepare_round(&dispatcher->round, look_after, dispatcher);
	loop_prepare_timer(&dispatcher->tick, tick_due, dispatcher);
	loop_prepare_timer(&dispatcher->prune, prune_due, dispatcher);
	dispatcher->pruning = (struct child){ .ended = prune_done };
	dispatcher->turn = (struct loop_file){ .changed = turn_changed, .arg = dispatcher };
	r = open_all(dispatcher, err);
	if (r < 0)
		return r;
	loop_set_timer(loop, &dispatcher->tick, TICK_MS);
	r = dispatcher_begin_pools(dispatcher, err);
	if (r < 0)
		return r;
	*ret_dispatcher = TAKE(dispatcher);
	return 0;
}

void
dispatcher_free(struct dispatcher *dispatcher)
{
	struct drive *drive;

	if (dispatcher == NULL)
		return;
	while ((drive = dispatcher->drives.first) != NULL || (drive = dispatcher->away.first) != NULL) {
		dispatcher_unlist(drive);
		drive_drop(drive);
	}
	loop_cancel_round(dispatcher->loop, &dispatcher->round);
	loop_cancel_timer(dispatcher->loop, &dispatcher->tick);
	loop_cancel_timer(dispatcher->loop, &dispatcher->prune);
	dispatcher_end_pools(dispatcher);
	child_drop(&dispatcher->pruning);
	loop_unwatch_file(dispatcher->loop, &dispatcher->turn);
	for (size_t i = 0; i < TARGETS_MAX && dispatcher->at[i].target != NULL; i++)
		dispatcher->at[i].target->close(dispatcher->at[i].place);
	free(dispatcher);
}

int
dispatcher_take(struct dispatcher *dispatcher, const char *id, struct err *err)
{
	int lock;

	if (dispatcher_find(dispatcher, id) != NULL)
		return 0;
	lock = dispatch_lock(id, err);
	return lock < 0 ? lock : dispatcher_add(dispatcher, id, lock, false, err);
}

int
dispatcher_begin(struct dispatcher *dispatcher, const char *id, int lock, struct err *err)
{
	return dispatcher_add(dispatcher, id, lock, true, err);
}

size_t
dispatcher_driven(const struct dispatcher *dispatcher)
{
	size_t n = dispatcher->away.n;

	for (const struct drive *drive = dispatcher->drives.first; drive != NULL; drive = drive->next)
		n += drive->phase != DRIVE_OVER;
	return n;
}

void
dispatcher_drain(struct dispatcher *dispatcher)
{
	dispatcher->draining = true;
}

void
dispatcher_set_adopting(struct dispatcher *dispatcher, bool adopting)
{
	dispatcher->adopting = adopting;
	loop_cancel_timer(dispatcher->loop, &dispatcher->prune);
	if (adopting && dispatcher->options.prune_ms > 0)
		loop_set_timer(dispatcher->loop, &dispatcher->prune, PRUNE_FIRST_MS);
}

/* ---- after crashes ---- */

static bool
has_row(struct db *db, const char *id)
{
	OWN(dispatch_free) struct dispatch d = {0};

	return dispatch_read(db, id, &d, NULL) != -ENOENT;
}

/* Clears the folder of a dispatch whose writer was killed before its row existed, and takes those that ended unseen. */
static void
look_into_folders(struct dispatcher *dispatcher)
{
	struct registry *reg = dispatcher->reg;
	OWN(closep) int top = dispatch_top(NULL);
	int fd = top < 0 ? -1 : openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;
	time_t age;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (!dispatch_id_ok(e->d_name) || fstatat(top, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		age = time(NULL) - st.st_ctim.tv_sec;
		if (age > ORPHAN_SECONDS && age < ORPHAN_SECONDS_MAX &&
		    !has_row(registry_db(reg), e->d_name))
			dispatch_remove_folder(e->d_name);
		else if (dispatch_is_untidy(e->d_name))
			(void)dispatcher_take(dispatcher, e->d_name, NULL);
	}
}

bool
dispatch_has_orphans(struct registry *reg, const char *but)
{
	OWN(strv_freep) char **ids = NULL;
	bool found = false;

	/* What a worker has, or will have, is driven by that. */
	if (dispatch_list_open(registry_db(reg), true, &ids, NULL) < 0)
		return false;
	for (char **id = ids; *id != NULL && !found; id++) {
		OWN(closep) int lock = but != NULL && strcmp(*id, but) == 0 ? -1 : dispatch_lock(*id, NULL);

		found = lock >= 0;
	}
	return found;
}

int
dispatcher_recover(struct dispatcher *dispatcher, size_t *ret_n, struct err *err)
{
	size_t n;
	int r = adopt(dispatcher, &n, err);

	if (r < 0)
		return r;
	if (ret_n != NULL)
		*ret_n = n;
	adopt_ended(dispatcher);
	look_into_folders(dispatcher);
	if (dispatcher->options.pool != NULL)
		dispatcher_leave_all(dispatcher);
	(void)dispatch_clear_graves(registry_db(dispatcher->reg), NULL);
	return 0;
}
