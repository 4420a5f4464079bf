/* cell_place.c - gives a running cell its slot and entry, and clears up after crashes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cell/cell_unsaved.h"

/* Locks of open file descriptions: the kernel releases ours with the supervisor's last descriptor,
 * however it died. */
static int
slot_lock(int fd, unsigned slot, int command, struct flock *lock)
{
	*lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET,
	                        .l_start = slot, .l_len = 1 };
	return fcntl(fd, command, lock);
}

static int
take_slot(int lock, unsigned *ret_slot, struct err *err)
{
	struct flock fl;
	unsigned first, slot;

	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		return err_errno(err, "cannot get random bytes");
	for (unsigned i = 0; i < CELL_SLOTS; i++) {
		slot = (first + i) % CELL_SLOTS;
		if (slot_lock(lock, slot, F_OFD_SETLK, &fl) == 0) {
			*ret_slot = slot;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(err, "cannot lock the list of cells");
	}
	return err_set(err, EAGAIN, "there are %d cells already, the most that can be: "
	               "end some (or wait for `cloister purge` to end)", CELL_SLOTS);
}

static int
open_slots(int runtime, struct err *err)
{
	int lock = openat(runtime, CELL_SLOTS_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return lock < 0 ? err_errno(err, "cannot open the list of cells") : lock;
}

int
cell_place_take_all(struct err *err)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = CELL_SLOTS };
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(closep) int lock = runtime < 0 ? -1 : open_slots(runtime, err);

	if (runtime < 0 || lock < 0)
		return runtime < 0 ? runtime : lock;
	if (fcntl(lock, F_OFD_SETLK, &all) == 0)
		return TAKE_FD(lock);
	return errno == EAGAIN || errno == EACCES ? err_set(err, EBUSY, "cells are running") :
	       err_errno(err, "cannot lock the list of cells");
}

static bool
slot_is_free(int lock, unsigned slot)
{
	struct flock fl;

	return slot_lock(lock, slot, F_OFD_GETLK, &fl) == 0 && fl.l_type == F_UNLCK;
}

/* Whether a running cell has the name: a crashed one has no claim to it. */
static bool
name_is_taken(int runtime, int lock, unsigned own_slot, const char *name)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;

	if (cell_list(runtime, true, &entries, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!entries[i].far && strcmp(entries[i].name, name) == 0 && entries[i].slot != own_slot &&
		    !slot_is_free(lock, entries[i].slot))
			return true;
	return false;
}

/* A killed supervisor's entry counts too: its cgroups have that id. */
static bool
id_is_taken(int runtime, const char *id)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;

	if (cell_list(runtime, true, &entries, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(entries[i].id, id) == 0)
			return true;
	return false;
}

static int
reserve(struct cell_place *ret_place, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(closep) int lock = -1;
	struct cell_place place = { .dir = -1 };
	int r;

	if (runtime < 0)
		return runtime;
	lock = open_slots(runtime, err);
	if (lock < 0)
		return lock;
	r = take_slot(lock, &place.entry.slot, err);
	if (r < 0)
		return r;
	place.runtime = TAKE_FD(runtime);
	place.lock = TAKE_FD(lock);
	*ret_place = place;
	return 0;
}

int
cell_place_enter(const struct cell_spec *spec, struct cell_place *ret_place, struct err *err)
{
	struct cell_place place = *ret_place;
	const int runtime = place.runtime;
	OWN(closep) int dir = -1;
	int r;

	if (spec->name[0] != '\0' &&
	    name_is_taken(runtime, place.lock, place.entry.slot, spec->name))
		return err_set(err, EEXIST, "a cell called '%s' is running: choose another name, "
		               "or `cloister kill %s`", spec->name, spec->name);
	if (spec->claim && id_is_taken(runtime, spec->id))
		return err_set(err, EEXIST, "there is a cell '%s' already: choose another id", spec->id);
	snprintf(place.entry.dir, sizeof(place.entry.dir), "%s.%u.%s", spec->id,
	         place.entry.slot, spec->name);
	snprintf(place.entry.id, sizeof(place.entry.id), "%s", spec->id);
	snprintf(place.entry.name, sizeof(place.entry.name), "%s", spec->name);
	if (mkdirat(runtime, place.entry.dir, 0700) < 0)
		return err_errno(err, "cannot make the cell's runtime folder");
	dir = openat(runtime, place.entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "cannot open the cell's runtime folder");
	/* A child does not inherit this lock, and closing any descriptor of the entry in this
	 * process would release it.  So this must be the only one. */
	if (fcntl(dir, F_SETLK, &(struct flock){ .l_type = F_RDLCK, .l_whence = SEEK_SET }) < 0)
		return err_errno(err, "cannot lock the cell's runtime folder");
	if (spec->boundary[0] != '\0') {
		r = create_file_at(dir, CELL_BOUNDARY, 0600, spec->boundary, err);
		if (r < 0)
			return r;
	}
	place.dir = TAKE_FD(dir);
	*ret_place = place;
	return 0;
}

int
cell_place_take(const struct cell_spec *spec, struct cell_place *ret_place,
                struct err *err)
{
	struct cell_place place;
	int r = reserve(&place, err);

	if (r < 0)
		return r;
	r = cell_place_enter(spec, &place, err);
	if (r < 0)
		cell_place_leave(&place, false);
	else
		*ret_place = place;
	return r;
}

static void
remove_runtime_entry(int runtime, int dir, const char *name)
{
	unlinkat(dir, CELL_CONTROL, 0);
	unlinkat(dir, CELL_WALLS, 0);
	unlinkat(dir, CELL_BOUNDARY, 0);
	unlinkat(dir, CELL_ENGINE, 0);
	unlinkat(dir, CELL_PORT, 0);
	unlinkat(dir, CELL_KILLED, 0);
	unlinkat(runtime, name, AT_REMOVEDIR);
}

void
cell_place_vacate(struct cell_place *place)
{
	remove_runtime_entry(place->runtime, place->dir, place->entry.dir);
	close_fd(&place->dir);
	place->dir = -1;
}

void
cell_place_leave(struct cell_place *place, bool cleared)
{
	if (cleared)
		remove_runtime_entry(place->runtime, place->dir, place->entry.dir);
	close_fd(&place->dir);
	close_fd(&place->lock);
	close_fd(&place->runtime);
}

static void
clear_runtime_entry(int runtime, const struct cell_entry *entry,
                    const struct cell_clearer *clearer)
{
	OWN(closep) int dir = openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);

	/* Its processes may still be dying; then a later run finds the entry again. */
	if (dir >= 0 && clearer->clear_walls(clearer->arg, dir, entry->id) == 0)
		remove_runtime_entry(runtime, dir, entry->dir);
}

static bool
is_stale(int state, const char *entry)
{
	OWN(closep) int dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);

	/* Check the lock before the record: a supervisor that ends in between has written its
	 * record by the second check. */
	if (dir < 0 || cell_state_is_live(dir) || faccessat(dir, "record", F_OK, 0) == 0 || cell_has_unsaved(dir))
		return false;
	/* A kept entry stays, but the end of its timeline is recorded once. */
	return !cell_state_is_kept(dir) ||
	       (faccessat(dir, CELL_EVENTS, F_OK, 0) == 0 && faccessat(dir, CELL_LOST, F_OK, 0) < 0);
}

static void
clear_entry(int state, const struct cell_entry *entry, const struct cell_clearer *clearer)
{
	OWN(closep) int dir = openat(state, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);

	/* Record first, then mark: if this process is killed in between, it is recorded again. */
	if (dir >= 0 && faccessat(dir, CELL_EVENTS, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (clearer->lost(clearer->arg, dir, entry->id) < 0 ||
	     create_file_at(dir, CELL_LOST, 0600, "", NULL) < 0))
		return;
	if (dir >= 0 && !cell_state_is_kept(dir))
		(void)cell_state_remove(state, entry->dir, NULL);
}

static void
clear_state(const struct cell_clearer *clearer)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	bool locked = false;
	size_t n;

	if (state < 0 || cell_list(state, false, &entries, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!is_stale(state, entries[i].dir))
			continue;
		/* An entry that is just being created is not locked yet (see cell_state_make()).
		 * Take the folder's lock and check again. */
		if (!locked)
			locked = flock(state, LOCK_EX) == 0;
		if (is_stale(state, entries[i].dir))
			clear_entry(state, &entries[i], clearer);
	}
}

void
cell_clear_stale(const struct cell_place *place, const struct cell_clearer *clearer)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;

	if (cell_list(place->runtime, true, &entries, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++) {
			if (strcmp(entries[i].dir, place->entry.dir) == 0 || entries[i].far)
				continue;
			/* Our own slot is ours: any other entry with it is left over. */
			if (entries[i].slot == place->entry.slot ||
			    slot_is_free(place->lock, entries[i].slot))
				clear_runtime_entry(place->runtime, &entries[i], clearer);
		}
	}
	clear_state(clearer);
}
