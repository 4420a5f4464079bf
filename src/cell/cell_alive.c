/* cell_alive.c - asks the kernel whether a cell lives, and for its supervisor's pid. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"

static bool
slot_is_locked(int runtime, unsigned slot)
{
	OWN(closep) int fd = openat(runtime, CELL_SLOTS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1 };

	if (fd < 0)
		return errno != ENOENT;
	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

static int
open_entry(int runtime, const struct cell_entry *entry)
{
	return openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Whether a supervisor holds the entry's own lock; *ret_pid is 0 if its pid is not visible in this
 * pid namespace. */
static bool
has_holder(int dir, pid_t *ret_pid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(dir, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return false;
	*ret_pid = lock.l_pid > 0 ? lock.l_pid : 0;
	return true;
}

/* A crashed cell leaves its entry, and another cell may use its slot by now. */
static bool
slot_is_anothers(int runtime, const struct cell_entry *entry)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;
	pid_t pid;

	if (cell_list(runtime, true, &entries, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		OWN(closep) int dir = -1;

		if (entries[i].slot != entry->slot || strcmp(entries[i].dir, entry->dir) == 0)
			continue;
		dir = open_entry(runtime, &entries[i]);
		if (dir >= 0 && has_holder(dir, &pid))
			return true;
	}
	return false;
}

bool
cell_is_alive(int runtime, const struct cell_entry *entry)
{
	OWN(closep) int dir = open_entry(runtime, entry);
	pid_t pid;

	if (dir < 0)
		return errno != ENOENT;
	if (entry->far)
		return has_holder(dir, &pid);
	return slot_is_locked(runtime, entry->slot) &&
	       (has_holder(dir, &pid) || !slot_is_anothers(runtime, entry));
}

pid_t
cell_supervisor(int runtime, const struct cell_entry *entry)
{
	OWN(closep) int dir = open_entry(runtime, entry);
	pid_t pid = 0;

	return dir >= 0 && has_holder(dir, &pid) ? pid : 0;
}

int
cell_is_silent(const struct cell_entry *entry, struct err *err)
{
	if (entry->far)
		return err_set(err, EAGAIN, "cell %s is on another machine, which does not answer now", entry->id);
	return err_set(err, EAGAIN, "cell %s is not answering: its supervisor is stopped or too busy; "
	               "`cloister kill %s` ends the cell all the same", entry->id, entry->id);
}
