/* bpf_pins.c - the programs and maps that all cells of this machine share, pinned in bpffs.
 *
 * /sys/fs/bpf/cloister/ID/, where ID stands for the programs' bytes, so that builds that differ do not
 * meet.  The folder is root's alone; its lock is held while anything in it is made or removed.  What a
 * crash leaves behind, a half-made folder or a cell without a witness, the next start removes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/err.h"
#include "base/own.h"
#include "witness/bpf/bpf.h"
#include "witness_programs.h"

#define FOLDER "/sys/fs/bpf/cloister"
#define OURS FOLDER "/" WITNESS_PROGRAMS_ID
#define HALF_MADE OURS "-new"           /* bpffs takes no dots */
#define NAMES { "cells", "rings", "links", "full", "executed", "exited", "call_done" }
#define PIN_MAX 96

/* ---- owners ---- */

static uint64_t
own_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Only a process of our own namespace can be looked for. */
static bool
is_alive(const struct sample_cell *cell, uint64_t namespace)
{
	return cell->owner_ns != namespace || kill((pid_t)cell->owner, 0) == 0 || errno != ESRCH;
}

void
bpf_owners_count(int cells, struct bpf_owners *ret_owners)
{
	/* Another build's cell may be larger. */
	union {
		struct sample_cell cell;
		char room[1024];
	} value = {0};
	uint64_t namespace = own_namespace();
	uint32_t key, *last = NULL;

	memset(ret_owners, 0, sizeof(*ret_owners));
	while (bpf_map_get_next_key(cells, last, &key) == 0) {
		last = &key;
		if (bpf_map_lookup_elem(cells, &key, &value) < 0)
			continue;
		if (is_alive(&value.cell, namespace)) {
			ret_owners->n_alive++;
			ret_owners->n_full += value.cell.full != 0;
		} else if (ret_owners->n_stale < BPF_STALE_MAX) {
			ret_owners->rings[ret_owners->n_stale] = value.cell.ring;
			ret_owners->stale[ret_owners->n_stale++] = key;
		}
	}
}

/* ---- the folder ---- */

static bool
is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == BPF_FS_MAGIC;
}

/* Opens and locks the folder.  Anyone may have made it if bpffs is everyone's. */
static int
lock_folder(int *ret_lock, struct err *err)
{
	OWN(closep) int fd = -1;
	struct stat st;

	if (!is_bpffs("/sys/fs/bpf"))
		return err_set(err, ENOENT, "there is no bpffs at /sys/fs/bpf");
	(void)mkdir(FOLDER, 0700);
	fd = open(FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ENOENT, "cannot use " FOLDER);
	if (st.st_uid != 0 || (st.st_mode & 077) != 0)
		return err_set(err, ENOENT, FOLDER " is not root's alone");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot lock " FOLDER);
	*ret_lock = TAKE_FD(fd);
	return 0;
}

static void
remove_pins(const char *folder)
{
	OWN(closedirp) DIR *dir = opendir(folder);
	const struct dirent *entry;

	/* Another build's have other names. */
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	(void)rmdir(folder);
}

/* Removes the pins of other builds that have no cell any more, and what was left half-made. */
static void
sweep_builds(int folder)
{
	OWN(closedirp) DIR *dir = NULL;
	const struct dirent *entry;
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = copy >= 0 ? fdopendir(copy) : NULL;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char path[PIN_MAX], cells_path[PIN_MAX + 8];
		OWN(closep) int cells = -1;
		struct bpf_owners owners = {0};

		if (entry->d_name[0] == '.' || strcmp(entry->d_name, WITNESS_PROGRAMS_ID) == 0 ||
		    (size_t)snprintf(path, sizeof(path), FOLDER "/%s", entry->d_name) >= sizeof(path))
			continue;
		(void)snprintf(cells_path, sizeof(cells_path), "%s/cells", path);
		cells = bpf_obj_get(cells_path);
		if (cells >= 0)
			bpf_owners_count(cells, &owners);
		if (cells < 0 || owners.n_alive == 0)
			remove_pins(path);
	}
}

/* ---- pins ---- */

static int
get_pins(struct bpf_loaded *ret_loaded)
{
	static const char *const names[] = NAMES;
	int fds[ARRAY_LEN(names)];
	char path[PIN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), OURS "/%s", names[i]);
		fds[i] = bpf_obj_get(path);
		if (fds[i] >= 0)
			continue;
		while (i-- > 0)
			close(fds[i]);
		return -ENOENT;
	}
	*ret_loaded = (struct bpf_loaded){ fds[0], fds[1], fds[2], fds[3], { fds[4], fds[5], fds[6] } };
	return 0;
}

static void
make_pins(const struct bpf_loaded *loaded)
{
	static const char *const names[] = NAMES;
	const int fds[] = {
		loaded->cells, loaded->rings, loaded->links, loaded->full,
		loaded->programs[0], loaded->programs[1], loaded->programs[2],
	};
	bool done = mkdir(HALF_MADE, 0700) == 0;
	char path[PIN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), HALF_MADE "/%s", names[i]);
		done = done && bpf_obj_pin(fds[i], path) == 0;
	}
	if (!done || rename(HALF_MADE, OURS) < 0)
		remove_pins(HALF_MADE);
}

int
bpf_pins_open(struct bpf_loaded *ret_loaded, int *ret_lock, struct err *err)
{
	struct bpf_loaded loaded = BPF_LOADED_NONE;
	OWN(closep) int lock = -1;
	int r = lock_folder(&lock, err);

	if (r < 0)
		return r;
	if (get_pins(&loaded) < 0) {
		remove_pins(HALF_MADE);
		remove_pins(OURS);
		sweep_builds(lock);
		r = bpf_load(&loaded, err);
		if (r < 0)
			return r;
		/* Without pins the next cell loads its own. */
		make_pins(&loaded);
	}
	*ret_loaded = loaded;
	*ret_lock = TAKE_FD(lock);
	return 0;
}
