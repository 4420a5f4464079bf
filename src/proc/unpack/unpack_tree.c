/* unpack_tree.c - the folders of a layer: found beneath its own without following links, and given their looks
 * at the end. */
#include <archive_entry.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/unpack/unpack.h"

#define OPAQUE_XATTR "user.overlay.opaque"
#define TIME_MAX (INT64_C(1) << 34)     /* seconds; file systems differ beyond it */

struct unpack_dir {
	char *path;
	size_t turn;                    /* the last one counts */
	struct unpack_look look;
};

void
unpack_tree_free(struct unpack_tree *t)
{
	for (size_t i = 0; i < t->n_dirs; i++)
		free(t->dirs[i].path);
	free(t->dirs);
	closep(&t->parent);
}

int
unpack_tree_count(struct unpack_tree *t, struct err *err)
{
	if (++t->entries > t->limits.entries)
		return err_set(err, E2BIG, "it has over %llu entries", (unsigned long long)t->limits.entries);
	return 0;
}

struct timespec
unpack_mtime(const struct archive_entry *entry)
{
	struct archive_entry *e = (struct archive_entry *)(uintptr_t)entry;
	int64_t seconds = archive_entry_mtime_is_set(e) ? (int64_t)archive_entry_mtime(e) : 0;
	long nanoseconds = archive_entry_mtime_nsec(e);

	if (seconds < 0 || seconds > TIME_MAX)
		seconds = 0;
	if (nanoseconds < 0 || nanoseconds > 999999999)
		nanoseconds = 0;
	return (struct timespec){ seconds, nanoseconds };
}

/* ---- opening ---- */

/* A descriptor that only finds what is in the folder, or -errno. */
static int
open_beneath(int dir, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
	                                   RESOLVE_NO_XDEV };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* The tree does not remember a folder that may be gone. */
static void
forget_parent(struct unpack_tree *t)
{
	closep(&t->parent);
	t->parent = -1;
}

int
unpack_tree_clear(struct unpack_tree *t, int dir, const char *name, struct err *err)
{
	OWN(closep) int inner = -1;
	int r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	inner = tree_open_dir(dir, name);
	if (inner < 0)
		return err_errno(err, "cannot replace '%s'", name);
	r = tree_empty(inner, err);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
		r = err_errno(err, "cannot replace '%s'", name);
	/* DIR itself may be the folder that the tree remembers: that one stays. */
	if (dir != t->parent)
		forget_parent(t);
	return r;
}

int
unpack_tree_hide(int dir, const char *name, struct err *err)
{
	OWN(closep) int fd = name[0] == '\0' ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : open_beneath(dir, name, O_RDONLY);

	if (fd < 0 || fsetxattr(fd, OPAQUE_XATTR, "y", 1, 0) < 0)
		return err_set(err, fd < 0 ? -fd : errno, "cannot mark the folder '%s' as opaque: %s", name,
		               strerror(fd < 0 ? -fd : errno));
	return 0;
}

/* A whiteout of an earlier entry stands for what lower layers have, and the folder is new. */
static int
replace_whiteout(int dir, const char *name, struct err *err)
{
	if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0700) < 0)
		return err_errno(err, "cannot make the folder '%s'", name);
	return unpack_tree_hide(dir, name, err);
}

int
unpack_tree_mkdir(struct unpack_tree *t, int dir, const char *name, struct err *err)
{
	struct stat st;
	int r;

	if (mkdirat(dir, name, 0700) == 0)
		return 0;
	if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot make the folder '%s'", name);
	if (S_ISDIR(st.st_mode))
		return 0;
	if (S_ISCHR(st.st_mode))
		return replace_whiteout(dir, name, err);
	r = unpack_tree_clear(t, dir, name, err);
	if (r == 0 && mkdirat(dir, name, 0700) < 0)
		r = err_errno(err, "cannot make the folder '%s'", name);
	return r;
}

/* A folder that no entry has named yet. */
static int
imply_dir(struct unpack_tree *t, int dir, const char *path, size_t len, const char *name, struct err *err)
{
	static const struct unpack_look plain = { .mode = 0755 };
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISCHR(st.st_mode))
		return err_set(err, EBADMSG, "its entry '%.200s' is beneath '%s', which is no folder", path, name);
	r = unpack_tree_count(t, err);
	if (r == 0)
		r = unpack_tree_mkdir(t, dir, name, err);
	return r < 0 ? r : unpack_tree_note(t, path, len, &plain, err);
}

/* Step by step, where something is missing or in the way. */
static int
walk_to(struct unpack_tree *t, const char *path, size_t len, struct err *err)
{
	OWN(closep) int dir = fcntl(t->top, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];

	for (size_t at = 0; at < len;) {
		size_t part = strcspn(path + at, "/");
		int inner, r = 0;

		part = part > len - at ? len - at : part;
		assert(part <= NAME_MAX);
		memcpy(name, path + at, part);
		name[part] = '\0';
		inner = open_beneath(dir, name, O_PATH);
		if (inner < 0)
			r = imply_dir(t, dir, path, at + part, name, err);
		if (inner < 0 && r == 0)
			inner = open_beneath(dir, name, O_PATH);
		if (r < 0 || inner < 0)
			return r < 0 ? r : err_set(err, -inner, "cannot open the folder '%s': %s", name, strerror(-inner));
		close(dir);
		dir = inner;
		at += part + 1;
	}
	return TAKE_FD(dir);
}

int
unpack_tree_parent(struct unpack_tree *t, const struct unpack_path *path, struct err *err)
{
	char parent[PATH_MAX];
	int fd;

	if (path->parent == 0)
		return t->top;
	if (t->parent >= 0 && strncmp(t->parent_path, path->text, path->parent) == 0 &&
	    t->parent_path[path->parent] == '\0')
		return t->parent;
	memcpy(parent, path->text, path->parent);
	parent[path->parent] = '\0';
	fd = open_beneath(t->top, parent, O_PATH);
	if (fd < 0)
		fd = walk_to(t, path->text, path->parent, err);
	if (fd < 0)
		return fd;
	forget_parent(t);
	t->parent = fd;
	memcpy(t->parent_path, parent, path->parent + 1);
	return fd;
}

/* ---- looks ---- */

int
unpack_tree_note(struct unpack_tree *t, const char *path, size_t len, const struct unpack_look *look,
                 struct err *err)
{
	t->paths += len + 1;
	if (t->paths > UNPACK_PATHS_MAX)
		return err_set(err, E2BIG, "the paths of its folders take over %llu MiB",
		               (unsigned long long)(UNPACK_PATHS_MAX >> 20));
	if (t->n_dirs == t->cap_dirs) {
		size_t cap = t->cap_dirs > 0 ? 2 * t->cap_dirs : 256;
		struct unpack_dir *dirs = reallocarray(t->dirs, cap, sizeof(*dirs));

		if (dirs == NULL)
			return err_set(err, ENOMEM, "out of memory");
		t->dirs = dirs;
		t->cap_dirs = cap;
	}
	t->dirs[t->n_dirs] = (struct unpack_dir){ strndup(path, len), t->n_dirs, *look };
	if (t->dirs[t->n_dirs].path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	t->n_dirs++;
	return 0;
}

/* What is in a folder comes before it; and of one path, what was noted last. */
static int
deepest_first(const void *a, const void *b)
{
	const struct unpack_dir *one = a, *two = b;
	int order = strcmp(two->path, one->path);

	return order != 0 ? order : one->turn < two->turn ? 1 : -1;
}

static int
give_look(const struct unpack_tree *t, const struct unpack_dir *d, struct err *err)
{
	const struct timespec times[2] = { d->look.mtime, d->look.mtime };
	/* Somebody without rights must be able to remove it. */
	const mode_t mode = (d->look.mode & 01777) | (t->keeps_owners ? 0 : 0500);
	OWN(closep) int fd = open_beneath(t->top, d->path[0] == '\0' ? "." : d->path, O_RDONLY);

	/* A later entry has replaced it. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd < 0)
		return err_set(err, -fd, "cannot open the folder '%s': %s", d->path, strerror(-fd));
	if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0 ||
	    (t->keeps_owners && fchown(fd, d->look.uid, d->look.gid) < 0))
		return err_errno(err, "cannot change the folder '%s'", d->path);
	return 0;
}

int
unpack_tree_finish(struct unpack_tree *t, struct err *err)
{
	int r = 0;

	forget_parent(t);
	if (t->n_dirs > 0)
		qsort(t->dirs, t->n_dirs, sizeof(*t->dirs), deepest_first);
	for (size_t i = 0; r == 0 && i < t->n_dirs; i++)
		if (i == 0 || strcmp(t->dirs[i].path, t->dirs[i - 1].path) != 0)
			r = give_look(t, &t->dirs[i], err);
	return r;
}
