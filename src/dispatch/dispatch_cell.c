/* dispatch_cell.c - the cell of an attempt: whether it runs, and how it is told to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch_parts.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"

/* Cells of dispatches have no names. */
static int
open_entry(int state, const char *cell)
{
	char entry[CELL_ENTRY_MAX];

	snprintf(entry, sizeof(entry), "%s.", cell);
	return openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int
dispatch_cell_open(const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	int fd = state < 0 ? -1 : open_entry(state, cell);

	return fd < 0 ? -ENOENT : fd;
}

/* A supervisor opens streams before it starts the agent. */
static bool
is_empty(int entry)
{
	int fd = openat(entry, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (!tree_is_dots(d->d_name))
			return false;
	return dir != NULL;
}

enum dispatch_cell_state
dispatch_cell_look(const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int entry = state < 0 ? -1 : open_entry(state, cell);

	if (entry < 0)
		return DISPATCH_CELL_NONE;
	if (cell_state_is_live(entry))
		return DISPATCH_CELL_LIVE;
	/* One that is only just being made is not locked yet, see cell_state_make(): ask again when
	 * nobody is at it. */
	(void)flock(state, LOCK_EX);
	if (cell_state_is_live(entry))
		return DISPATCH_CELL_LIVE;
	if (faccessat(entry, "record", F_OK, 0) == 0)
		return DISPATCH_CELL_ENDED;
	return is_empty(entry) ? DISPATCH_CELL_GRAVE : DISPATCH_CELL_LOST;
}

static int
connect_to(const char *cell, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	struct cell_entry entry;
	int r = runtime < 0 ? runtime : cell_find(runtime, true, cell, &entry, err);

	if (r == 0 && strcmp(entry.id, cell) != 0)
		r = err_set(err, ENOENT, "there is no cell '%s'", cell);
	return r < 0 ? r : cell_connect(runtime, &entry, err);
}

int
dispatch_cell_wait(const char *cell, struct err *err)
{
	OWN(closep) int fd = connect_to(cell, err);
	OWN(buf_free) struct buf message = {0};
	int r;

	if (fd < 0)
		return fd;
	ipc_begin(&message, CONTROL_WAIT);
	r = ipc_send(fd, &message, NULL, 0, err);
	if (r == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "cannot wait for cell %s", cell);
	return r < 0 ? r : TAKE_FD(fd);
}

int
dispatch_cell_stop(const char *cell, uint64_t grace_ms, struct err *err)
{
	OWN(closep) int fd = connect_to(cell, err);
	OWN(buf_free) struct buf message = {0};

	if (fd < 0)
		return fd;
	ipc_begin(&message, CONTROL_STOP);
	buf_put_u32(&message, grace_ms < UINT32_MAX ? (uint32_t)grace_ms : UINT32_MAX);
	return ipc_send(fd, &message, NULL, 0, err);
}

int
dispatch_cell_discard(const char *cell, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	char entry[CELL_ENTRY_MAX];

	snprintf(entry, sizeof(entry), "%s.", cell);
	return state < 0 ? 0 : cell_state_remove(state, entry, err);
}
