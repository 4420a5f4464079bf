/* uplink_timeline.c - see uplink.h: the timelines of this worker's cells and their output, for the services that asked for them.
 *
 * A service says how much it has, and gets the rest as it is written.  A timeline that it has not got to its end is noted in the
 * data folder (owed/HOME.CELL, with the dispatch), so that nothing is lost whoever is away meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "ipc/ipc.h"
#include "proc/dispatch/uplink_parts.h"

#define OWED "owed"
#define OWED_NAME_MAX (LINK_HOME_MAX + CELL_ID_LEN + 2)
#define DELIVERIES_MAX (WORKER_RECORDS * 4096)
#define BEGINS_MS 100                   /* until a cell that is only just made is looked for again */
#define BEGINS_MAX 100                  /* times: then it is one that was removed */

static const char *const record_files[WORKER_RECORDS] = { CELL_EVENTS, CELL_STDOUT, CELL_STDERR, CELL_TIMES,
                                                          CELL_POLICY };

struct delivery {
	struct delivery *next;
	struct service *service;
	struct link_talk *talk;         /* NULL: it is over */
	struct loop_file file;
	struct loop_timer begins;
	enum worker_record record;
	int dir, fd;                    /* its state entry, and the file there; 0: not found yet */
	unsigned looked;                /* how often for the entry */
	uint64_t at;
	bool over, complete;
	char cell[CELL_ID_LEN + 1];
};

/* ---- what is owed ---- */

static void
name_owed(const char *home, const char *cell, char ret_name[OWED_NAME_MAX])
{
	snprintf(ret_name, OWED_NAME_MAX, "%s.%s", home, cell);
}

void
uplink_owe(const char *home, const char *id, const char *cell)
{
	OWN(closep) int dir = data_folder(OWED, true, NULL);
	char name[OWED_NAME_MAX];

	name_owed(home, cell, name);
	if (dir < 0 || create_file_at(dir, name, 0600, id, NULL) < 0)
		fprintf(stderr, "cloister: the timeline of cell %s may not reach its service: nothing can be noted\n", cell);
}

static void
forget(const char *home, const char *cell)
{
	OWN(closep) int dir = data_folder(OWED, false, NULL);
	char name[OWED_NAME_MAX];

	name_owed(home, cell, name);
	if (dir >= 0)
		(void)unlinkat(dir, name, 0);
}

void
uplink_each_owed(const char *home, void (*each)(void *arg, const char *id, const char *cell), void *arg)
{
	OWN(closep) int dir = data_folder(OWED, false, NULL);
	int again = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *list = again < 0 ? NULL : fdopendir(again);
	size_t len = strlen(home);
	const struct dirent *d;

	while (list != NULL && (d = readdir(list)) != NULL) {
		OWN(freep) char *id = NULL;

		if (strncmp(d->d_name, home, len) == 0 && d->d_name[len] == '.' && strlen(d->d_name + len + 1) == CELL_ID_LEN &&
		    read_file_at(dir, d->d_name, DISPATCH_ID_LEN + 1, &id, NULL, NULL) == 0)
			each(arg, id, d->d_name + len + 1);
	}
}

static bool
is_owed(const char *home, const char *cell)
{
	OWN(closep) int dir = data_folder(OWED, false, NULL);
	char name[OWED_NAME_MAX];

	name_owed(home, cell, name);
	return dir >= 0 && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- a delivery ---- */

static void
settle(struct delivery *d)
{
	if (d->over)
		return;
	d->over = true;
	if (d->talk != NULL)
		link_talk_finish(TAKE(d->talk));
	loop_at_round_end(d->service->uplink->loop, &d->service->uplink->sweep);
}

static int
open_in(int folder, const char *cell)
{
	struct cell_entry entry;

	return folder < 0 || cell_find(folder, false, cell, &entry, NULL) < 0 || strcmp(entry.id, cell) != 0 ? -1 :
	       openat(folder, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static void
find_entry(struct delivery *d)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	/* In this order: the entry moves when the cell ends. */
	OWN(closep) int here = open_in(state, d->cell);
	int dir = here >= 0 ? TAKE_FD(here) : open_in(ended, d->cell);

	if (dir < 0)
		return;
	d->dir = dir;
	/* A cell without output has no file of it. */
	(void)loop_watch_file(d->service->uplink->loop, &d->file, d->dir, LOOP_FILE_CREATED, NULL);
}

static void
find(struct delivery *d)
{
	struct loop *loop = d->service->uplink->loop;
	int fd;

	if (d->dir == 0)
		find_entry(d);
	fd = d->dir == 0 ? -1 : openat(d->dir, record_files[d->record], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	d->fd = fd;
	loop_unwatch_file(loop, &d->file);
	(void)loop_watch_file(loop, &d->file, d->fd, LOOP_FILE_MODIFIED, NULL);
}

/* 1: some was sent, 0: there is no more now. */
static int
send_some(struct delivery *d)
{
	OWN(buf_free) struct buf message = BUF(WORKER_PART_MAX + 4);
	unsigned char *at;
	bool lines = d->record == WORKER_EVENTS || d->record == WORKER_TIMES;
	const char *end;
	ssize_t n;

	buf_put_u32(&message, WORKER_PART);
	at = buf_add(&message, WORKER_PART_MAX);
	n = at == NULL ? -1 : pread(d->fd, at, WORKER_PART_MAX, (off_t)d->at);
	end = n <= 0 ? NULL : !lines ? (const char *)at + n - 1 : memrchr(at, '\n', (size_t)n);
	if (end == NULL)
		return 0;
	n = end + 1 - (const char *)at;
	message.len = 4 + (size_t)n;
	d->at += (uint64_t)n;
	link_talk_send(d->talk, &message);
	return 1;
}

/* Its cell is only just made.  What `cloister purge` has removed can no longer be delivered. */
static void
look_again(struct delivery *d)
{
	if (d->looked < BEGINS_MAX) {
		loop_set_timer(d->service->uplink->loop, &d->begins, BEGINS_MS);
		return;
	}
	if (d->record == WORKER_EVENTS) {
		fprintf(stderr, "cloister: the timeline of cell %s is not there any more: its service does not get it\n", d->cell);
		forget(d->service->known.home, d->cell);
	}
	settle(d);
}

/* An entry that is only just being made is not locked yet: it is looked at again when nobody works on the folder. */
static bool
is_live(const struct delivery *d)
{
	OWN(closep) int state = -1;

	if (cell_state_is_live(d->dir))
		return true;
	state = cell_state_open(false, NULL);
	if (state >= 0)
		(void)flock(state, LOCK_EX);
	return cell_state_is_live(d->dir);
}

static void
go_on(struct delivery *d)
{
	OWN(buf_free) struct buf message = {0};
	bool live;

	if (d->over || d->talk == NULL || d->complete)
		return;
	if (d->dir == 0)
		find(d);
	if (d->dir == 0) {
		look_again(d);
		return;
	}
	/* Asked before the last look at the file. */
	live = is_live(d);
	if (d->fd == 0)
		find(d);
	while (d->fd != 0 && d->talk != NULL && !link_talk_is_full(d->talk) && send_some(d) > 0)
		;
	if (d->talk == NULL || link_talk_is_full(d->talk) || live)
		return;
	d->complete = true;
	ipc_begin(&message, WORKER_COMPLETE);
	link_talk_send(d->talk, &message);
}

static void
again(void *arg)
{
	go_on(arg);
}

static void
begins_due(void *arg)
{
	struct delivery *d = arg;

	d->looked++;
	go_on(d);
}

static void
changed(void *arg, const char *name)
{
	(void)name;
	go_on(arg);
}

static void
heard(void *arg, uint32_t type, struct buf *body)
{
	struct delivery *d = arg;

	(void)body;
	if (type == WORKER_KEPT && d->complete && d->record == WORKER_EVENTS)
		forget(d->service->known.home, d->cell);
	settle(d);
}

static void
closed(void *arg)
{
	struct delivery *d = arg;

	d->talk = NULL;
	settle(d);
}

void
uplink_look_at_deliveries(struct uplink *u)
{
	for (struct delivery *d = u->deliveries; d != NULL; d = d->next)
		go_on(d);
}

void
uplink_sweep_deliveries(struct uplink *u)
{
	struct delivery **at = &u->deliveries, *d;

	while ((d = *at) != NULL) {
		if (!d->over) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		loop_unwatch_file(u->loop, &d->file);
		loop_cancel_timer(u->loop, &d->begins);
		close_fd(&d->fd);
		close_fd(&d->dir);
		free(d);
	}
}

void
uplink_drop_deliveries(struct uplink *u, const struct service *s)
{
	for (struct delivery *d = u->deliveries; d != NULL; d = d->next)
		if (s == NULL || d->service == s) {
			d->talk = NULL;
			d->over = true;
		}
	uplink_sweep_deliveries(u);
}

int
uplink_deliver(struct service *s, struct link_talk *talk, struct buf *body)
{
	struct uplink *u = s->uplink;
	struct delivery *d;
	const char *cell;
	uint32_t record;
	uint64_t at;
	size_t n = 0;

	if (buf_get_str(body, &cell) < 0 || buf_get_u32(body, &record) < 0 || record >= WORKER_RECORDS ||
	    buf_get_u64(body, &at) < 0 || buf_left(body) != 0 || at > INT64_MAX)
		return -EBADMSG;
	for (d = u->deliveries; d != NULL; d = d->next)
		n += d->service == s;
	d = strlen(cell) != CELL_ID_LEN || n >= DELIVERIES_MAX || !is_owed(s->known.home, cell) ? NULL : calloc(1, sizeof(*d));
	if (d == NULL) {
		link_talk_finish(talk);
		return 0;
	}
	*d = (struct delivery){ .service = s, .next = u->deliveries, .talk = talk, .record = (enum worker_record)record, .at = at,
		.file = { .changed = changed, .arg = d } };
	snprintf(d->cell, sizeof(d->cell), "%s", cell);
	loop_prepare_timer(&d->begins, begins_due, d);
	talk->max = sizeof(uint32_t);
	talk->heard = heard;
	talk->closed = closed;
	talk->drained = again;
	talk->arg = d;
	u->deliveries = d;
	go_on(d);
	return 0;
}
