/* workspace_write.c - applying, second pass: writes to the workspace.
 *
 * Everything is created under a temporary name in its own folder, so that it gets the attributes of
 * new files there, and then renamed into place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_parts.h"

/* A replaced file keeps its owner; a new one belongs to its folder's owner. */
static int
wanted_owner(const struct walk_node *node, uid_t *ret_uid, gid_t *ret_gid)
{
	struct stat st = node->old;

	if ((st.st_mode == 0 || S_ISDIR(st.st_mode)) && fstat(node->real, &st) < 0)
		return -1;
	*ret_uid = st.st_uid;
	*ret_gid = st.st_gid;
	return 0;
}

static int
give_to_owner(const struct walk_node *node, int fd)
{
	uid_t uid;
	gid_t gid;

	if (wanted_owner(node, &uid, &gid) < 0)
		return -1;
	if (geteuid() == 0)
		return fchown(fd, uid, gid);
	/* A group that the user is not in is lost, as in any editor. */
	if (node->old.st_mode != 0 && fchown(fd, (uid_t)-1, gid) < 0 && errno != EPERM)
		return -1;
	return 0;
}

/* Remove the old folder, which now has the temporary name.  If it is a different folder, because
 * somebody replaced it meanwhile, rename it back. */
static int
remove_old(const struct apply *a, const struct walk_node *node, unsigned back, struct err *err)
{
	int r = wtree_remove(node->real, a->tmp, &node->old, err);

	if (r == -EBUSY)
		(void)renameat2(node->real, a->tmp, node->real, node->name, back);
	return r;
}

/* Rename the complete temporary file into place. */
static int
put_in_place(const struct apply *a, const struct walk_node *node, struct err *err)
{
	bool was_dir = S_ISDIR(node->old.st_mode), is_dir = S_ISDIR(node->new.st_mode);
	int real = node->real, r;

	if (node->old.st_mode == 0) {
		r = renameat2(real, a->tmp, real, node->name, RENAME_NOREPLACE);
		if (r < 0 && errno == EINVAL)
			r = renameat(real, a->tmp, real, node->name);
	} else if (!was_dir && !is_dir) {
		r = renameat(real, a->tmp, real, node->name);
	} else {
		r = was_dir ? apply_note_removal(a, node, err) : 0;
		if (r < 0)
			return r;
		r = renameat2(real, a->tmp, real, node->name, RENAME_EXCHANGE);
		if (r == 0)
			return remove_old(a, node, RENAME_EXCHANGE, err);
		/* Not every file system can exchange names. */
		if (errno != EINVAL)
			return apply_fail(node, err);
		r = wtree_remove(real, node->name, &node->old, err);
		if (r < 0)
			return r;
		r = renameat(real, a->tmp, real, node->name);
	}
	return r < 0 ? apply_fail(node, err) : 0;
}

/* The makers return -1 with errno, and may leave an incomplete file. */
static int
make_file(const struct apply *a, const struct walk_node *node)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, node->new.st_mtim };
	OWN(closep) int from = wtree_open_file(node->changes, node->name);
	OWN(closep) int to = -1;
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st) < 0) {
		errno = from < 0 ? -from : errno;
		from = from < 0 ? -1 : from;
		return -1;
	}
	to = openat(node->real, a->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	if (to < 0)
		return -1;
	r = wtree_copy_data(from, to, (uint64_t)st.st_size);
	if (r == 0 && (give_to_owner(node, to) < 0 || fchmod(to, node->mode) < 0 ||
	               futimens(to, times) < 0 || fsync(to) < 0))
		r = -errno;
	errno = -r;
	return r < 0 ? -1 : 0;
}

/* The base's mode decides whose mode is new. */
static mode_t
merged_mode(const struct walk_node *node, const struct workspace_change *judged, int base)
{
	struct stat st;

	if (judged->part || (base >= 0 && fstat(base, &st) == 0 && wtree_mode(base, &st) == node->mode))
		return node->old.st_mode & 0777;
	return node->mode;
}

/* The file was examined in the first pass; if it has changed again since, it is not replaced. */
static bool
is_as_before(const struct walk_node *node)
{
	struct stat st;

	return wtree_stat(node->real, node->name, &st) == 0 && st.st_ino == node->old.st_ino &&
	       st.st_ctim.tv_sec == node->old.st_ctim.tv_sec && st.st_ctim.tv_nsec == node->old.st_ctim.tv_nsec;
}

static int
make_merged(const struct apply *a, const struct walk_node *node, const struct workspace_change *judged,
            struct err *err)
{
	OWN(apply_merge_close) struct workspace_merge files = { .base = -1, .ours = -1, .theirs = -1, .out = -1 };
	char shown[WTREE_SHOWN_MAX];
	int r = apply_merge_open(a, node, &files);

	if (r < 0) {
		errno = -r;
		return apply_fail(node, err);
	}
	files.out = openat(node->real, a->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (files.out < 0)
		return apply_fail(node, err);
	r = a->how->merge(a->how->arg, &files, err);
	if (r >= 0 && (r > WORKSPACE_MERGED_MARKED || !is_as_before(node)))
		return err_set(err, EBUSY, "'%s' changed while the changes were being applied: apply again",
		               wtree_show(shown, node->path));
	if (r < 0)
		return r;
	if (give_to_owner(node, files.out) < 0 || fchmod(files.out, merged_mode(node, judged, files.base)) < 0 ||
	    fsync(files.out) < 0)
		return apply_fail(node, err);
	return 0;
}

/* The temporary name may be something else by now, which root must not give away.  So check,
 * through the same descriptor, that it is our link to TARGET. */
static int
open_made_link(const struct apply *a, const struct walk_node *node, const char *target)
{
	OWN(closep) int fd = openat(node->real, a->tmp, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char now[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	n = S_ISLNK(st.st_mode) ? readlinkat(fd, "", now, sizeof(now)) : 0;
	if (n != (ssize_t)strlen(target) || memcmp(now, target, (size_t)n) != 0 ||
	    st.st_uid != geteuid() || st.st_nlink != 1) {
		errno = EBUSY;
		return -1;
	}
	return TAKE_FD(fd);
}

static int
make_link(const struct apply *a, const struct walk_node *node)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, node->new.st_mtim };
	OWN(closep) int fd = -1;
	char target[PATH_MAX];
	ssize_t n = readlinkat(node->changes, node->name, target, sizeof(target) - 1);
	uid_t uid;
	gid_t gid;

	if (n < 0)
		return -1;
	target[n] = '\0';
	if (symlinkat(target, node->real, a->tmp) < 0)
		return -1;
	fd = open_made_link(a, node, target);
	if (fd < 0 || utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
		return -1;
	if (geteuid() != 0)
		return 0;
	if (wanted_owner(node, &uid, &gid) < 0)
		return -1;
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH);
}

/* The same for a folder: as it was created, and empty. */
static bool
is_made_dir(int dir, const struct stat *st)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *stream = again < 0 ? NULL : fdopendir(again);
	size_t n = 0;

	if (stream == NULL && again >= 0)
		close(again);
	while (stream != NULL && n < 3 && readdir(stream) != NULL)
		n++;
	return n == 2 && st->st_uid == geteuid() && (st->st_mode & 01077) == 0;
}

static int
make_dir(const struct apply *a, const struct walk_node *node)
{
	OWN(closep) int dir = -1;
	struct stat st;

	if (mkdirat(node->real, a->tmp, 0700) < 0)
		return -1;
	dir = tree_open_dir(node->real, a->tmp);
	if (dir < 0) {
		errno = -dir;
		dir = -1;
		return -1;
	}
	if (fstat(dir, &st) < 0)
		return -1;
	if (!is_made_dir(dir, &st)) {
		errno = EBUSY;
		return -1;
	}
	/* The owner keeps access until everything is written; apply_clear sets the rest. */
	if (give_to_owner(node, dir) < 0 ||
	    fchmod(dir, (st.st_mode & 02000) | node->mode | 0700) < 0)
		return -1;
	return 0;
}

static int
write_deletion(const struct apply *a, const struct walk_node *node, struct err *err)
{
	int r;

	if (!S_ISDIR(node->old.st_mode))
		return unlinkat(node->real, node->name, 0) < 0 && errno != ENOENT ?
		       apply_fail(node, err) : 0;
	r = apply_note_removal(a, node, err);
	if (r < 0)
		return r;
	/* The folder disappears in one step: nobody sees it partly removed. */
	if (renameat(node->real, node->name, node->real, a->tmp) < 0)
		return apply_fail(node, err);
	return remove_old(a, node, RENAME_NOREPLACE, err);
}

static int
write_change(const struct apply *a, const struct walk_node *node, struct err *err)
{
	const struct workspace_change *judged = apply_find_judged(a, node->path);
	int r;

	if (node->real < 0) {
		errno = ENOENT;
		return apply_fail(node, err);
	}
	if (node->change.kind == WORKSPACE_DELETED)
		return write_deletion(a, node, err);
	if (judged != NULL && (judged->merged || judged->part)) {
		r = make_merged(a, node, judged, err);
		r = r < 0 ? r : put_in_place(a, node, err);
		if (r < 0)
			apply_drop_temporary(node->real, a->tmp);
		return r;
	}
	if (S_ISREG(node->new.st_mode))
		r = make_file(a, node);
	else if (S_ISLNK(node->new.st_mode))
		r = make_link(a, node);
	else if (S_ISDIR(node->old.st_mode))
		return 0;               /* only its mode, once its contents are written */
	else
		r = make_dir(a, node);
	r = r < 0 ? apply_fail(node, err) : put_in_place(a, node, err);
	if (r < 0)
		apply_drop_temporary(node->real, a->tmp);
	return r;
}

static int
write_visit(void *arg, const struct walk_node *node, struct err *err)
{
	struct apply *a = arg;
	int r = apply_stopped(a, err);

	if (r == 0 && S_ISDIR(node->new.st_mode))
		r = apply_unlock(node, err);
	if (r < 0 || !node->differs)
		return r;
	/* On the way to a named path: the folder is needed, its mode is not. */
	if (!node->chosen)
		return S_ISDIR(node->old.st_mode) || node->blocks ? 0 : write_change(a, node, err);
	if (!node->change.held)
		r = write_change(a, node, err);
	if (r == 0)
		apply_tell(a, node);
	return r;
}

static int
write_enter(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
            bool opaque, struct err *err)
{
	(void)node, (void)dir_changes, (void)opaque;
	return dir_real < 0 ? 0 : apply_sweep(arg, dir_real, err);
}

static int
write_leave(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
            struct err *err)
{
	(void)arg, (void)dir_changes;
	return apply_settles(node) ? 0 : apply_lock(node, dir_real, err);
}

const struct walk_hooks apply_write = {
	.judge = apply_judge, .visit = write_visit, .enter = write_enter, .leave = write_leave
};
