/* disk_tree.c - what a folder looks like: any change of a file in it changes the hash. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "proc/disk/disk_proc.h"

struct walk {
	struct disk_tree *tree;
	struct hash hash;
	dev_t device;
	uint64_t mount;
	char path[PATH_MAX];            /* beneath the folder; "" at its top */
	bool whole;
};

void
disk_tree_free(struct disk_tree *t)
{
	for (size_t i = 0; i < t->n_left_out; i++)
		free(t->left_out[i]);
	free(t->left_out);
	*t = (struct disk_tree){0};
}

static int
leave_out(struct walk *w, struct err *err)
{
	struct disk_tree *t = w->tree;
	char **more = reallocarray(t->left_out, t->n_left_out + 1, sizeof(*more));

	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	t->left_out = more;
	if (t->n_left_out >= DISK_LEFT_OUT_MAX)
		return err_set(err, E2BIG, "more than %d files in it cannot be read", DISK_LEFT_OUT_MAX);
	t->left_out[t->n_left_out] = strdup(w->path);
	if (t->left_out[t->n_left_out] == NULL)
		return err_set(err, ENOMEM, "out of memory");
	t->n_left_out++;
	return 0;
}

static void
add(struct walk *w, const char *name, const struct stat *st)
{
	const uint64_t numbers[] = { st->st_mode, (uint64_t)st->st_size, st->st_uid, st->st_gid, st->st_ino, st->st_rdev,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec };

	hash_add(&w->hash, name, strlen(name) + 1);
	hash_add(&w->hash, numbers, sizeof(numbers));
	if (S_ISREG(st->st_mode))
		w->tree->size += (uint64_t)st->st_size < DISK_SIZE_MAX ? (uint64_t)st->st_size : DISK_SIZE_MAX;
	if (st->st_mtim.tv_sec > w->tree->newest)
		w->tree->newest = st->st_mtim.tv_sec;
}

/* A bind mount may be of the same device. */
static int
mount_of(int dir, const char *name, uint64_t *ret_mount)
{
	struct statx sx;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH, STATX_MNT_ID, &sx) < 0)
		return -errno;
	*ret_mount = (sx.stx_mask & STATX_MNT_ID) != 0 ? sx.stx_mnt_id : 0;
	return 0;
}

/* As a cell sees the top of a root file system. */
static bool
is_shown(const struct walk *w, const char *name, mode_t mode)
{
	if (w->path[0] != '\0' || w->whole)
		return true;
	return (ns_is_programs(name) || strcmp(name, "etc") == 0) && (S_ISDIR(mode) || S_ISLNK(mode));
}

static int list(struct walk *w, int dir, int depth, struct err *err);

static int
look(struct walk *w, int dir, const char *name, int depth, struct err *err)
{
	const size_t end = strlen(w->path);
	OWN(closep) int inner = -1;
	struct stat st;
	bool shown, readable = true;
	uint64_t mount = 0;
	int r = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || mount_of(dir, name, &mount) < 0)
		return err_errno(err, "cannot look at '%s/%s'", w->path, name);
	shown = is_shown(w, name, st.st_mode) && st.st_dev == w->device && mount == w->mount;
	if ((size_t)snprintf(w->path + end, sizeof(w->path) - end, "%s%s", end > 0 ? "/" : "", name) >=
	    sizeof(w->path) - end)
		return err_set(err, ENAMETOOLONG, "the path of '%s' is too long", name);
	/* What a cell never sees may change. */
	if (shown)
		add(w, name, &st);
	if (shown && S_ISDIR(st.st_mode)) {
		inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		readable = inner >= 0 || errno != EACCES;
		r = inner >= 0 ? list(w, inner, depth + 1, err) : readable ? err_errno(err, "cannot open '%s'", w->path) : 0;
	} else if (shown && S_ISREG(st.st_mode)) {
		readable = faccessat(dir, name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
	}
	if (!readable)
		hash_add(&w->hash, "", 1);
	if (r == 0 && (!shown || !readable))
		r = leave_out(w, err);
	w->path[end] = '\0';
	return r;
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_entry(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int
list(struct walk *w, int dir, int depth, struct err *err)
{
	struct dirent **names = NULL;
	int n = depth > DISK_DEPTH_MAX ? 0 : scandirat(dir, ".", &names, is_entry, by_bytes), r = 0;

	if (depth > DISK_DEPTH_MAX)
		return err_set(err, ELOOP, "its folders are over %d deep", DISK_DEPTH_MAX);
	if (n < 0)
		return err_errno(err, "cannot list '%s'", w->path);
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = look(w, dir, names[i]->d_name, depth, err);
		free(names[i]);
	}
	free(names);
	if (r == 0 && w->tree->size > DISK_SIZE_MAX)
		r = err_set(err, EFBIG, "its files are over %llu GiB", DISK_SIZE_MAX >> 30);
	/* The end of a folder is part of what it looks like. */
	hash_add(&w->hash, "/", 2);
	return r;
}

int
disk_look(bool whole, struct disk_tree *ret_tree, struct err *err)
{
	OWN(disk_tree_free) struct disk_tree tree = {0};
	OWN(closep) int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk w = { .tree = &tree, .whole = whole };
	struct stat st;
	int r;

	if (dir < 0 || fstat(dir, &st) < 0 || mount_of(dir, "", &w.mount) < 0)
		return err_errno(err, "cannot open it");
	hash_begin(&w.hash);
	w.device = st.st_dev;
	hash_add(&w.hash, &st.st_dev, sizeof(st.st_dev));
	hash_add(&w.hash, &st.st_ino, sizeof(st.st_ino));
	r = list(&w, dir, 0, err);
	if (r < 0)
		return r;
	hash_end(&w.hash, tree.hash);
	*ret_tree = tree;
	tree = (struct disk_tree){0};
	return 0;
}
