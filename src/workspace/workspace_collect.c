/* workspace_collect.c - copies an overlay's changes to the host's file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace.h"
#include "workspace/workspace_tree.h"

/* Holds one link to each file with several names, named by its inode number.  So a hundred names of
 * a large file do not fill the host's disk.  The folder's name is reserved for us, so the agent
 * cannot block it. */
#define LINKS ".cloister-links.tmp"

struct collect {
	int top;
	int links;                      /* LINKS in TOP, -1 until needed */
	dev_t dev;                      /* of FROM: nothing is mounted beneath it */
	uint64_t entries, skipped;
	struct wtree_path path;
	bool live;                      /* the agent may change FROM meanwhile */
	bool changed;                   /* it did */
	struct timespec since;          /* with LIVE: when this began, by the clock of files' times */
};

static int
fail(const struct collect *c, int code, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	wtree_show(shown, c->path.text);
	if (code == EOPNOTSUPP)
		return err_set(err, code, "cannot keep '%s': the file system that changes are "
		               "kept on has no extended attributes", shown);
	errno = code;
	return err_errno(err, "cannot keep '%s'", shown);
}

/* Whether CODE is due to a change of FROM meanwhile: then the entry is left out. */
static bool
is_of_change(struct collect *c, int code)
{
	static const int codes[] = { ENOENT, ENXIO, EEXIST, ENOTDIR, EISDIR, ELOOP, EINVAL, ESTALE, EIO };

	for (size_t i = 0; c->live && i < ARRAY_LEN(codes); i++)
		if (codes[i] == code)
			return c->changed = true;
	return false;
}

/* Whether the file system of TO cannot hold such a file at all.  One file must not cost the
 * operator all the others. */
static bool
cannot_be_kept(int code)
{
	return code == EFBIG || code == ENAMETOOLONG || code == EILSEQ;
}

static const struct timespec *
times_of(const struct stat *st, struct timespec times[2])
{
	times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	times[1] = st->st_mtim;
	return times;
}

static void
link_name(const struct stat *st, char name[32])
{
	snprintf(name, 32, "%" PRIu64, (uint64_t)st->st_ino);
}

/* Whether NAME became another link to a file that is already there. */
static bool
is_linked(struct collect *c, int to, const char *name, const struct stat *st)
{
	char link[32];

	if (st->st_nlink < 2)
		return false;
	if (c->links < 0 && mkdirat(c->top, LINKS, 0700) == 0)
		c->links = openat(c->top, LINKS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->links < 0)
		return false;
	link_name(st, link);
	if (linkat(c->links, link, to, name, 0) == 0)
		return true;
	/* The host's file system allows fewer links: the next name gets a second copy. */
	if (errno == EMLINK)
		unlinkat(c->links, link, 0);
	return false;
}

static void
remember_link(struct collect *c, int to, const char *name, const struct stat *st)
{
	char link[32];

	if (st->st_nlink < 2 || c->links < 0)
		return;
	link_name(st, link);
	if (linkat(to, name, c->links, link, 0) < 0)
		return;                 /* then the next name gets a copy */
}

static int
copy_file(int from, int to, const char *name)
{
	OWN(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	OWN(closep) int out = -1;
	struct timespec times[2];
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = wtree_copy_data(in, out, (uint64_t)st.st_size);
	if (r == 0)
		r = wtree_set_mode(out, st.st_mode);
	if (r == 0 && futimens(out, times_of(&st, times)) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(to, name, 0);
	return r;
}

static int
collect_file(struct collect *c, int from, int to, const char *name, const struct stat *st)
{
	int r;

	if (is_linked(c, to, name, st))
		return 0;
	r = copy_file(from, to, name);
	if (r == 0)
		remember_link(c, to, name, st);
	return r;
}

static int
collect_link(int from, int to, const char *name, const struct stat *st)
{
	struct timespec times[2];
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (symlinkat(target, to, name) < 0 ||
	    utimensat(to, name, times_of(st, times), AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int collect_dir(struct collect *c, int from, int to, int depth, struct err *err);

static int
collect_subdir(struct collect *c, int from, int to, const char *name, int depth,
               struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	OWN(closep) int in = openat(from, name, flags);
	OWN(closep) int out = -1;
	struct timespec times[2];
	char shown[WTREE_SHOWN_MAX];
	struct stat st;
	int r;

	if (depth >= WORKSPACE_DEPTH_MAX)
		return err_set(err, ENAMETOOLONG, "cannot keep '%s': folders are more than %d deep",
		               wtree_show(shown, c->path.text), WORKSPACE_DEPTH_MAX);
	if (in < 0 || fstat(in, &st) < 0)
		return is_of_change(c, errno) ? 0 : fail(c, errno, err);
	if (st.st_dev != c->dev)
		return fail(c, EXDEV, err);
	if (mkdirat(to, name, 0700) < 0 || (out = openat(to, name, flags)) < 0)
		return is_of_change(c, errno) ? 0 : fail(c, errno, err);
	if (wtree_is_opaque(in) && fsetxattr(out, WTREE_OPAQUE, "y", 1, 0) < 0)
		return fail(c, errno, err);
	r = collect_dir(c, TAKE_FD(in), out, depth + 1, err);
	if (r < 0)
		return r;
	r = wtree_set_mode(out, st.st_mode);
	if (r < 0 || futimens(out, times_of(&st, times)) < 0)
		return fail(c, r < 0 ? -r : errno, err);
	return 0;
}

static int
collect_entry(struct collect *c, int from, int to, const char *name, int depth,
              struct err *err)
{
	struct stat st;
	int r = 0;

	if (++c->entries > WORKSPACE_ENTRIES_MAX)
		return err_set(err, E2BIG, "cannot keep more than %d changed files",
		               WORKSPACE_ENTRIES_MAX);
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return is_of_change(c, errno) ? 0 : fail(c, errno, err);
	if (S_ISDIR(st.st_mode))
		return collect_subdir(c, from, to, name, depth, err);
	if (S_ISREG(st.st_mode))
		r = collect_file(c, from, to, name, &st);
	else if (S_ISLNK(st.st_mode))
		r = collect_link(from, to, name, &st);
	else if (wtree_is_whiteout(&st))
		r = mknodat(to, name, S_IFCHR | 0600, makedev(0, 0)) < 0 ? -errno : 0;
	else
		c->skipped++;
	if (r < 0 && cannot_be_kept(-r)) {
		c->skipped++;
		r = 0;
	}
	return r == 0 || is_of_change(c, -r) ? 0 : fail(c, -r, err);
}

/* Takes ownership of FROM. */
static int
collect_dir(struct collect *c, int from, int to, int depth, struct err *err)
{
	OWN(closedirp) DIR *stream = fdopendir(from);
	size_t len = c->path.len;
	struct dirent *d;
	int r = 0;

	if (stream == NULL) {
		r = err_errno(err, "cannot list a changed folder");
		close(from);
		return r;
	}
	while (r == 0 && (errno = 0, d = readdir(stream)) != NULL) {
		if (tree_is_dots(d->d_name))
			continue;
		if (wtree_is_ours(d->d_name)) {
			c->skipped++;
			continue;
		}
		r = wtree_path_push(&c->path, d->d_name, err);
		if (r == 0)
			r = collect_entry(c, from, to, d->d_name, depth, err);
		wtree_path_pop(&c->path, len);
	}
	if (r == 0 && errno != 0)
		r = err_errno(err, "cannot list a changed folder");
	return r;
}

/* ---- a cell that runs ---- */

static bool
is_new(const struct collect *c, const struct stat *st)
{
	return st->st_ctim.tv_sec > c->since.tv_sec ||
	       (st->st_ctim.tv_sec == c->since.tv_sec && st->st_ctim.tv_nsec >= c->since.tv_nsec);
}

/* Whether nothing beneath FROM, which it takes, has changed since the copy began.  A folder is looked at last: an
 * entry that has gone meanwhile changes it. */
static bool
is_still(const struct collect *c, int from, int depth)
{
	OWN(closedirp) DIR *stream = fdopendir(from);
	struct dirent *d;
	struct stat st;

	if (stream == NULL) {
		close(from);
		return false;
	}
	while ((errno = 0, d = readdir(stream)) != NULL) {
		if (tree_is_dots(d->d_name))
			continue;
		if (fstatat(from, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_new(c, &st))
			return false;
		if (S_ISDIR(st.st_mode)) {
			int fd = openat(from, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (fd < 0 || depth >= WORKSPACE_DEPTH_MAX || !is_still(c, fd, depth + 1))
				return false;
		}
	}
	return errno == 0 && fstat(from, &st) == 0 && !is_new(c, &st);
}

static int
collect_all(struct collect *c, int from, struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	struct stat st;
	int fd, r;

	if (fstat(from, &st) < 0)
		return err_errno(err, "cannot look at the changed files");
	c->dev = st.st_dev;
	fd = openat(from, ".", flags);
	if (fd < 0)
		return err_errno(err, "cannot list the changed files");
	r = collect_dir(c, fd, c->top, 0, err);
	wtree_path_free(&c->path);
	if (c->links >= 0) {
		close(c->links);
		if (r == 0)
			r = wtree_remove(c->top, LINKS, NULL, err);
	}
	fd = r < 0 || !c->live || c->changed ? -1 : openat(from, ".", flags);
	c->changed |= fd >= 0 && !is_still(c, fd, 0);
	return r;
}

int
workspace_collect(int from, int to, uint64_t *ret_skipped, struct err *err)
{
	struct collect c = { .top = to, .links = -1 };
	int r = collect_all(&c, from, err);

	if (r == 0)
		*ret_skipped = c.skipped;
	return r;
}

int
workspace_collect_live(int from, int to, uint64_t *ret_skipped, bool *ret_changed, struct err *err)
{
	struct collect c = { .top = to, .links = -1, .live = true };
	int r;

	/* The kernel takes the times of files from this clock. */
	if (clock_gettime(CLOCK_REALTIME_COARSE, &c.since) < 0)
		return err_errno(err, "cannot read the clock");
	r = collect_all(&c, from, err);
	if (r == 0) {
		*ret_skipped = c.skipped;
		*ret_changed = c.changed;
	}
	return r;
}
