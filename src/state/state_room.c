/* state_room.c - keeps a state within its room on the disk, and removes cached files that no cell uses.
 *
 * Whoever uses tree/COMMIT holds a shared lock of the folder.  It is removed with the state's lock and an exclusive one: it
 * loses its name first, so that nobody finds half of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/tree.h"
#include "state/state_parts.h"

#define GONE ".gone"
#define BLOCK 512
#define DEPTH_MAX 300                   /* beneath aside/: as deep as changes are kept */

/* ---- counting ---- */

static uint64_t
count(int dir, const char *but, unsigned depth)
{
	OWN(closedirp) DIR *list = tree_list(dir);
	const struct dirent *entry;
	uint64_t used = 0;
	struct stat st;

	while (list != NULL && depth < DEPTH_MAX && (entry = readdir(list)) != NULL) {
		OWN(closep) int sub = -1;

		if (tree_is_dots(entry->d_name) || (but != NULL && strcmp(entry->d_name, but) == 0) ||
		    fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		used += (uint64_t)st.st_blocks * BLOCK;
		sub = S_ISDIR(st.st_mode) ? tree_open_dir(dir, entry->d_name) : -1;
		if (sub >= 0)
			used += count(sub, NULL, depth + 1);
	}
	return used;
}

uint64_t
state_room_used(const struct state *state, bool trees)
{
	return count(state->dir, trees ? NULL : STATE_TREES, 0);
}

int
state_room_check(const struct state *state, bool trees, struct err *err)
{
	uint64_t used = state_room_used(state, trees);
	char text[NUM_TEXT_MAX], most[NUM_TEXT_MAX];

	return used <= state->limits.disk ? 0 :
	       err_set(err, ENOSPC, "state '%s' has %s on the disk, and may have %s: give it more with `cloister state limit "
	               "--max-disk SIZE %s`, or make a new one from an export", state->name, num_format_size(text, used),
	               num_format_size(most, state->limits.disk), state->name);
}

/* ---- cached files ---- */

struct cached {
	char commit[STATE_ID + 1];
	struct timespec made;
};

static int
by_age(const void *a, const void *b)
{
	const struct timespec *one = &((const struct cached *)a)->made, *other = &((const struct cached *)b)->made;

	return one->tv_sec != other->tv_sec ? (one->tv_sec > other->tv_sec) - (one->tv_sec < other->tv_sec) :
	       (one->tv_nsec > other->tv_nsec) - (one->tv_nsec < other->tv_nsec);
}

static void
empty_gone(int trees)
{
	OWN(closep) int fd = tree_open_dir(trees, GONE);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(trees, GONE, AT_REMOVEDIR);
}

static void
remove_unused(int trees, const char *commit)
{
	OWN(closep) int fd = tree_open_dir(trees, commit);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || renameat(trees, commit, trees, GONE) < 0)
		return;
	empty_gone(trees);
}

void
state_room_prune(const struct state *state, const char *but, size_t most)
{
	OWN(closep) int trees = openat(state->dir, STATE_TREES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = trees < 0 ? NULL : tree_list(trees);
	OWN(freep) struct cached *all = NULL;
	const struct dirent *entry;
	size_t n = 0, cap = 0;
	struct stat st;

	empty_gone(trees);
	while (list != NULL && n < STATE_TREES_MAX && (entry = readdir(list)) != NULL) {
		if (!state_is_id(entry->d_name) || strcmp(entry->d_name, but) == 0 ||
		    fstatat(trees, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n == cap) {
			struct cached *more = realloc(all, (cap = cap == 0 ? 16 : cap * 2) * sizeof(*all));

			if (more == NULL)
				return;
			all = more;
		}
		memcpy(all[n].commit, entry->d_name, STATE_ID + 1);
		all[n++].made = st.st_ctim;
	}
	if (n > 0)
		qsort(all, n, sizeof(*all), by_age);
	for (size_t i = 0; i + most < n; i++)
		remove_unused(trees, all[i].commit);
}

int
state_room_hold(struct state *state, const char *commit, struct err *err)
{
	char path[STATE_ID + sizeof(STATE_TREES) + 2];
	OWN(closep) int fd = -1;
	struct stat st, now;

	snprintf(path, sizeof(path), STATE_TREES "/%s", commit);
	fd = openat(state->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_errno(err, "cannot open the files of commit %.12s", commit);
	/* Somebody may be removing it. */
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 || fstatat(state->dir, path, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_ino != now.st_ino)
		return -ENOENT;
	close_fd(&state->tree);
	state->tree = TAKE_FD(fd);
	return 0;
}
