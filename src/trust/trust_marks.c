/* trust_marks.c - keeps the list of folders that agents could write.
 *
 * The file has texts, each with a NUL behind it: a path, or '#' and details of the path before it.
 * A path that begins with '-' in place of '/' was cleared.  All changes are made in place, so that
 * entries never move: cells that can write there hold a lock on an entry's first byte. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"

#define ABOUT "#%016" PRIx64 ":%016" PRIx64 ":%016" PRIx64
#define ABOUT_LEN 51
#define OTHERWISE "set CLOISTER_STATE_DIR"

/* FLAGS: O_RDONLY or O_RDWR, and O_CREAT. */
static int
open_marks(int flags, struct err *err)
{
	OWN(freep) char *path = data_state_path(err);
	OWN(closep) int state = -1, fd = -1;

	if (path == NULL)
		return -ENOENT;
	state = tree_open_made(path, (flags & O_CREAT) != 0, OTHERWISE, err);
	if (state < 0)
		return state;
	fd = openat(state, TRUST_MARKS, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot open the list of folders that agents could write");
	return TAKE_FD(fd);
}

/* Identify the folder, so that it is recognised under another name. */
static bool
identify(const char *path, uint64_t *ret_inode, uint64_t *ret_born_ns)
{
	struct statx st;

	*ret_inode = *ret_born_ns = 0;
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) < 0 ||
	    (st.stx_mask & STATX_BTIME) == 0)
		return false;
	*ret_inode = st.stx_ino;
	*ret_born_ns = (uint64_t)st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec;
	return true;
}

/* ---- reading ---- */

void
trust_marks_free(struct trust_marks *m)
{
	free(m->text);
	free(m->at);
	*m = (struct trust_marks){0};
}

static int
add_mark(struct trust_marks *m, char *entry)
{
	struct trust_mark *more = reallocarray(m->at, m->n + 1, sizeof(*more));

	if (more == NULL)
		return -ENOMEM;
	m->at = more;
	more[m->n++] = (struct trust_mark){ .path = entry };
	return 0;
}

/* All entries, including cleared ones. */
static int
parse(struct trust_marks *m, size_t len, struct err *err)
{
	for (char *at = m->text; at < m->text + len; at += strlen(at) + 1) {
		struct trust_mark *last = m->n > 0 ? &m->at[m->n - 1] : NULL;

		if (at[0] == '#' && last != NULL)
			(void)sscanf(at, "#%" SCNx64 ":%" SCNx64 ":%" SCNx64, &last->inode, &last->born_ns,
			             &last->since_ns);
		else if ((at[0] == '/' || at[0] == '-') && add_mark(m, at) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int
read_marks(int fd, struct trust_marks *m, size_t *ret_len, struct err *err)
{
	int r = read_whole(fd, TRUST_MARKS_MAX, &m->text, ret_len, err);

	if (r == -EFBIG) {
		m->is_full = true;
		*ret_len = TRUST_MARKS_MAX + 1;
		return 0;
	}
	return r < 0 ? r : parse(m, *ret_len, err);
}

static bool
is_held(int fd, off_t offset)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

int
trust_marks_load(struct trust_marks *ret_marks, struct err *err)
{
	OWN(trust_marks_free) struct trust_marks m = {0};
	OWN(closep) int fd = open_marks(O_RDONLY, err);
	size_t len, n = 0;
	int r;

	if (fd == -ENOENT) {
		*ret_marks = m;
		return 0;
	}
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_SH) < 0)
		return err_errno(err, "cannot read the list of folders that agents could write");
	r = read_marks(fd, &m, &len, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < m.n; i++)
		if (m.at[i].path[0] == '/') {
			m.at[n] = m.at[i];
			m.at[n++].is_held = is_held(fd, m.at[i].path - m.text);
		}
	m.n = n;
	*ret_marks = m;
	m = (struct trust_marks){0};
	return 0;
}

/* ---- marking ---- */

struct marking {
	int fd;
	struct trust_marks marks;
	off_t end;
	const char *folder;             /* being marked; "" is "/" */
	bool is_marked;                 /* the folder itself */
	struct err *err;
};

static int
hold(const struct marking *k, off_t offset)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };

	return fcntl(k->fd, F_OFD_SETLK, &lock) == 0 ? 0 :
	       err_errno(k->err, "cannot note what the agent may write");
}

static int
write_at(const struct marking *k, const char *text, size_t len, off_t offset)
{
	return pwrite(k->fd, text, len, offset) == (ssize_t)len ? 0 :
	       err_errno(k->err, "cannot note what the agent may write");
}

/* Reuse a cleared entry, so that the list grows only with new paths. */
static int
revive(const struct marking *k, const struct trust_mark *mark, const char *about)
{
	off_t offset = mark->path - k->marks.text;
	size_t len = strlen(mark->path) + 1;
	int r = 0;

	if (mark->path[0] == '-' && mark->since_ns != 0)
		r = write_at(k, about, ABOUT_LEN, offset + (off_t)len);
	if (r == 0 && mark->path[0] == '-')
		r = write_at(k, "/", 1, offset);
	return r < 0 ? r : hold(k, offset);
}

static int
mark_one(void *arg, const char *path)
{
	struct marking *k = arg;
	char entry[PATH_MAX + ABOUT_LEN + 2];
	uint64_t inode, born;
	struct timespec now;
	size_t len;
	int r;

	/* Everything beneath a marked folder is marked too. */
	if (k->is_marked && tree_is_beneath(path, k->folder))
		return 0;
	k->is_marked = true;
	path = *path == '\0' ? "/" : path;
	clock_gettime(CLOCK_REALTIME, &now);
	(void)identify(path, &inode, &born);
	len = (size_t)snprintf(entry, PATH_MAX, "%s", path) + 1;
	if (len > PATH_MAX)
		return err_set(k->err, ENAMETOOLONG, "'%.64s...' is too long to be granted", path);
	snprintf(entry + len, ABOUT_LEN + 1, ABOUT, inode, born,
	         (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	for (size_t i = 0; i < k->marks.n; i++)
		if (strcmp(k->marks.at[i].path + 1, path + 1) == 0 &&
		    (k->marks.at[i].since_ns == 0 || k->marks.at[i].path[0] == '-' ||
		     (k->marks.at[i].inode == inode && k->marks.at[i].born_ns == born)))
			return revive(k, &k->marks.at[i], entry + len);
	/* If the list is full, everything counts as marked, which is safe. */
	if (k->end > TRUST_MARKS_MAX)
		return 0;
	r = write_at(k, entry, len + ABOUT_LEN + 1, k->end);
	if (r == 0)
		r = hold(k, k->end);
	k->end += (off_t)(len + ABOUT_LEN + 1);
	return r;
}

int
trust_mark(const char *const *folders, size_t n, struct err *err)
{
	OWN(trust_mounts_freep) struct trust_mounts *mounts = NULL;
	OWN(closep) int fd = open_marks(O_RDWR | O_CREAT, err);
	struct marking k = { .fd = fd, .err = err };
	size_t len = 0;
	int r;

	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot note what the agent may write");
	r = trust_mounts_load(&mounts, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		/* Read the list again: the folder before may have added entries. */
		trust_marks_free(&k.marks);
		r = read_marks(fd, &k.marks, &len, err);
		k.end = (off_t)len;
		k.folder = strcmp(folders[i], "/") == 0 ? "" : folders[i];
		k.is_marked = false;
		if (r == 0)
			r = trust_mounts_each(mounts, k.folder, true, mark_one, &k);
	}
	trust_marks_free(&k.marks);
	(void)flock(fd, LOCK_UN);
	return r < 0 ? r : TAKE_FD(fd);
}

/* ---- clearing ---- */

struct clearing {
	int fd;
	struct trust_marks marks;
	size_t cleared;
	bool dry;
	struct err *err;
};

static int
clear_one(void *arg, const char *folder)
{
	struct clearing *c = arg;
	uint64_t inode, born;

	folder = *folder == '\0' ? "/" : folder;
	(void)identify(folder, &inode, &born);
	for (size_t i = 0; i < c->marks.n; i++) {
		struct trust_mark *mark = &c->marks.at[i];
		off_t offset = mark->path - c->marks.text;

		if (mark->path[0] != '/' ||
		    !(tree_is_beneath(mark->path, folder) || strcmp(folder, "/") == 0 ||
		      (born != 0 && mark->inode == inode && mark->born_ns == born)))
			continue;
		if (is_held(c->fd, offset))
			return err_set(c->err, EBUSY, "a cell that runs can write '%s': stop it first (`cloister "
			               "ps`)", mark->path);
		c->cleared++;
		if (!c->dry && pwrite(c->fd, "-", 1, offset) != 1)
			return err_errno(c->err, "cannot change the list of folders that agents could write");
	}
	return 0;
}

/* Empty the file if nothing is marked and nobody holds a lock. */
static void
tidy(struct clearing *c)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	trust_marks_free(&c->marks);
	if (read_marks(c->fd, &c->marks, &(size_t){0}, NULL) < 0)
		return;
	for (size_t i = 0; i < c->marks.n; i++)
		if (c->marks.at[i].path[0] == '/')
			return;
	if (fcntl(c->fd, F_OFD_SETLK, &all) == 0)
		(void)!ftruncate(c->fd, 0);
}

int
trust_clear(const char *folder, struct err *err)
{
	OWN(trust_mounts_freep) struct trust_mounts *mounts = NULL;
	OWN(closep) int fd = open_marks(O_RDWR, err);
	struct clearing c = { .fd = fd, .dry = true, .err = err };
	size_t len;
	int r;

	if (fd == -ENOENT)
		return err_set(err, ENOENT, "no agent could write '%s', or that was cleared already", folder);
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot change the list of folders that agents could write");
	r = trust_mounts_load(&mounts, err);
	r = r == 0 ? read_marks(fd, &c.marks, &len, err) : r;
	/* A list that is too long means nothing: clearing "/" removes it as a whole. */
	if (r == 0 && c.marks.is_full && strcmp(folder, "/") == 0)
		r = ftruncate(fd, 0) == 0 ? 0 : err_errno(err, "cannot clear the list");
	else if (r == 0)
		r = trust_mounts_each(mounts, folder, true, clear_one, &c);
	if (r == 0 && c.cleared == 0 && !c.marks.is_full)
		r = err_set(err, ENOENT, "no agent could write '%s', or that was cleared already", folder);
	c.dry = false;
	r = r == 0 && !c.marks.is_full ? trust_mounts_each(mounts, folder, true, clear_one, &c) : r;
	if (r == 0)
		tidy(&c);
	trust_marks_free(&c.marks);
	return r;
}
