/* cell_ended.c - keeps the timelines of ended cells of which nothing else is left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

#define SAME_ID_MAX 100                 /* timelines of one reused id */

int
cell_ended_open(int state)
{
	int fd = openat(state, CELL_ENDED, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int
make_folder(int state, struct err *err)
{
	int fd = cell_ended_open(state);

	if (fd == -ENOENT && mkdirat(state, CELL_ENDED, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder of ended cells");
	if (fd == -ENOENT)
		fd = cell_ended_open(state);
	return fd < 0 ? err_set(err, -fd, "cannot open the folder of ended cells: %s",
	                        strerrordesc_np(-fd)) : fd;
}

/* ENTRY's name in the folder of ended cells: a chosen id may have been used before. */
static void
name_again(const char *entry, unsigned n, char ret_name[CELL_ENTRY_MAX + 8])
{
	bool named = strlen(entry) > CELL_ID_LEN + 1;

	if (n < 2)
		snprintf(ret_name, CELL_ENTRY_MAX + 8, "%s", entry);
	else
		snprintf(ret_name, CELL_ENTRY_MAX + 8, "%s%s%u", entry, named ? "-" : "", n);
}

/* Move the entry's folder there unchanged; RET_NAME is its name there. */
static int
move(int state, int ended, const char *entry, char ret_name[CELL_ENTRY_MAX + 8])
{
	for (unsigned n = 1; n < SAME_ID_MAX; n++) {
		name_again(entry, n, ret_name);
		if (renameat(state, entry, ended, ret_name) == 0)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			break;
	}
	return -errno;
}

static void
remove_any(int dir, const char *name)
{
	OWN(closep) int folder = -1;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return;
	folder = tree_open_dir_anyway(dir, name);
	if (folder >= 0 && tree_empty(folder, NULL) == 0)
		(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Remove everything but the timeline and the policy that explains it. */
static void
strip(int dir)
{
	OWN(closedirp) DIR *list = NULL;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;

	list = fd < 0 ? NULL : fdopendir(fd);
	while (list != NULL && (d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name) && strcmp(d->d_name, CELL_POLICY) != 0 &&
		    strncmp(d->d_name, CELL_EVENTS, sizeof(CELL_EVENTS) - 1) != 0)
			remove_any(dir, d->d_name);
}

/* Move first, which needs no room on the disk.  If this process is killed in between, the rest is
 * with the ended cells, and is pruned with them. */
int
cell_state_retire(int state, const char *entry, bool is_bare, struct err *err)
{
	OWN(closep) int ended = make_folder(state, err);
	OWN(closep) int dir = -1;
	char name[CELL_ENTRY_MAX + 8];
	int r;

	if (ended < 0)
		return ended;
	r = move(state, ended, entry, name);
	if (r < 0 && r != -ENOENT)
		return err_set(err, -r, "cannot keep the cell's timeline: %s", strerrordesc_np(-r));
	if (r < 0 || is_bare)
		return 0;
	dir = openat(ended, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir >= 0)
		strip(dir);
	return 0;
}

/* ---- retention ---- */

struct ended {
	char entry[CELL_ENTRY_MAX];
	char id[CELL_ID_LEN + 1];
	struct timespec since;
};

static int
newest_first(const void *a, const void *b)
{
	const struct timespec *x = &((const struct ended *)a)->since;
	const struct timespec *y = &((const struct ended *)b)->since;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec > y->tv_sec ? -1 : 1;
	return x->tv_nsec > y->tv_nsec ? -1 : x->tv_nsec < y->tv_nsec;
}

/* On most file systems a folder's link count is its number of folders, which shows whether pruning
 * is due.  On others, prune now and then. */
static bool
is_time(int ended, unsigned turn)
{
	struct stat st;

	if (fstat(ended, &st) == 0 && st.st_nlink > 2)
		return st.st_nlink - 2 > CELL_TIMELINES_MAX + CELL_TIMELINES_SLACK;
	return turn % CELL_TIMELINES_SLACK == 0;
}

void
cell_ended_prune(unsigned turn, int (*prunes)(void *arg, const char *id), void *arg)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) struct ended *found = NULL;
	size_t n, count = 0;
	struct stat st;

	/* One process at a time is enough. */
	if (ended < 0 || (!is_time(ended, turn) && turn % CELL_TIMELINES_LOOK != 0) ||
	    flock(ended, LOCK_EX | LOCK_NB) < 0 || cell_list(ended, false, &entries, &n, NULL) < 0)
		return;
	found = calloc(n + 1, sizeof(*found));
	for (size_t i = 0; found != NULL && i < n; i++)
		if (fstatat(ended, entries[i].dir, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			memcpy(found[count].entry, entries[i].dir, sizeof(found[count].entry));
			memcpy(found[count].id, entries[i].id, sizeof(found[count].id));
			/* The time at which the entry was moved here. */
			found[count++].since = st.st_ctim;
		}
	if (count > 0)
		qsort(found, count, sizeof(*found), newest_first);
	/* Oldest first: if two have the same id, `cloister audit` relies on that order. */
	for (size_t i = count; i-- > 0;)
		if ((i >= CELL_TIMELINES_MAX ||
		     time(NULL) - found[i].since.tv_sec > CELL_TIMELINES_DAYS * 24 * 3600L) &&
		    prunes(arg, found[i].id) == 0)
			remove_any(ended, found[i].entry);
}
