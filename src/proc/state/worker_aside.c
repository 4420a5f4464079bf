/* worker_aside.c - copies changes that are refused to aside/NAME, with their paths.
 *
 * Files keep their bytes and holes; their modes are dropped. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/tree.h"
#include "proc/state/state_proc.h"
#include "workspace/workspace_tree.h"

#define DISK_BLOCK 512

/* Counts what is beneath DIR. */
static void
count(struct worker_aside *a, int dir, unsigned depth)
{
	OWN(closedirp) DIR *list = tree_list(dir);
	const struct dirent *entry;

	while (list != NULL && depth < 2 * WORKSPACE_DEPTH_MAX && (entry = readdir(list)) != NULL) {
		struct stat st;

		if (tree_is_dots(entry->d_name) || fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		a->used += (uint64_t)st.st_blocks * DISK_BLOCK;
		a->names++;
		if (S_ISDIR(st.st_mode)) {
			OWN(closep) int sub = tree_open_dir(dir, entry->d_name);

			if (sub >= 0)
				count(a, sub, depth + 1);
		}
	}
}

static int
open_aside(struct worker_aside *a, struct err *err)
{
	OWN(closep) int all = -1;

	if (a->dir > 0)
		return 0;
	if (a->name == NULL || *a->name == '\0')
		return err_set(err, EPERM, "something in it must not be stored, and there is no place for it");
	all = openat(STATE_DIR_FD, STATE_ASIDE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all < 0)
		return err_errno(err, "cannot open '" STATE_ASIDE "'");
	count(a, all, 0);
	if (mkdirat(all, a->name, 0700) < 0)
		return err_errno(err, "cannot make '" STATE_ASIDE "/%s'", a->name);
	a->dir = openat(all, a->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return a->dir < 0 ? err_errno(err, "cannot open '" STATE_ASIDE "/%s'", a->name) : 0;
}

void
worker_close_aside(struct worker_aside *a)
{
	close_fd(&a->dir);
}

void
worker_drop_aside(const char *name)
{
	OWN(closep) int all = openat(STATE_DIR_FD, STATE_ASIDE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closep) int fd = all < 0 ? -1 : tree_open_dir(all, name);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(all, name, AT_REMOVEDIR);
}

static int
fail(const char *path, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	return err_errno(err, "cannot put '%s' aside", wtree_show(shown, path));
}

/* An empty file has no bytes, but it takes an inode. */
static int
add(struct worker_aside *a, const struct stat *st, const char *path, struct err *err)
{
	char shown[WTREE_SHOWN_MAX], most[NUM_TEXT_MAX];

	a->used += (uint64_t)st->st_blocks * DISK_BLOCK;
	if (++a->names > STATE_ASIDE_FILES)
		return err_set(err, ENOSPC, "cannot put '%s' aside: what is aside would have over %d files; look at it with `cloister state "
		               "show`, then remove it", wtree_show(shown, path), STATE_ASIDE_FILES);
	return a->used <= STATE_ASIDE_BYTES ? 0 :
	       err_set(err, ENOSPC, "cannot put '%s' aside: what is aside would have over %s; look at it with `cloister state show`, "
	               "then remove it", wtree_show(shown, path), num_format_size(most, STATE_ASIDE_BYTES));
}

static int copy(struct worker_aside *a, int from, int to, const char *name, const char *path, unsigned depth, struct err *err);

static int
copy_file(int from, int to, const char *name, const char *path, struct err *err)
{
	OWN(closep) int in = wtree_open_file(from, name), out = -1;
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return fail(path, err);
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return fail(path, err);
	r = wtree_copy_data(in, out, (uint64_t)st.st_size);
	errno = -r;
	return r < 0 ? fail(path, err) : 0;
}

static int
copy_folder(struct worker_aside *a, int from, int to, const char *name, const char *path, unsigned depth, struct err *err)
{
	OWN(closep) int in = tree_open_dir(from, name), out = -1;
	OWN(wtree_names_free) struct wtree_names names = {0};
	int r;

	if (in < 0 || mkdirat(to, name, 0700) < 0)
		return fail(path, err);
	out = tree_open_dir(to, name);
	if (out < 0 || depth > 2 * WORKSPACE_DEPTH_MAX)
		return fail(path, err);
	r = wtree_names_load(in, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = copy(a, in, out, names.name[i], path, depth + 1, err);
	return r;
}

static int
copy(struct worker_aside *a, int from, int to, const char *name, const char *path, unsigned depth, struct err *err)
{
	char target[4096];
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(path, err);
	r = add(a, &st, path, err);
	if (r < 0)
		return r;
	if (S_ISREG(st.st_mode))
		return copy_file(from, to, name, path, err);
	if (S_ISDIR(st.st_mode))
		return copy_folder(a, from, to, name, path, depth, err);
	/* A socket or a device has nothing to keep. */
	if (!S_ISLNK(st.st_mode))
		return 0;
	n = readlinkat(from, name, target, sizeof(target) - 1);
	if (n < 0)
		return fail(path, err);
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? fail(path, err) : 0;
}

int
worker_keep_aside(struct worker_aside *a, int dir, const char *name, const char *path, struct err *err)
{
	const char *at = path, *slash;
	OWN(closep) int folder = -1;
	char part[256];
	int r = open_aside(a, err), next;

	if (r < 0)
		return r;
	folder = openat(a->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (; folder >= 0 && (slash = strchr(at, '/')) != NULL; at = slash + 1) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - at), at);
		if (mkdirat(folder, part, 0700) < 0 && errno != EEXIST)
			return fail(path, err);
		next = tree_open_dir(folder, part);
		close(folder);
		folder = next;
	}
	return folder < 0 ? fail(path, err) : copy(a, dir, folder, name, path, 0, err);
}
