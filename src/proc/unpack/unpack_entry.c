/* unpack_entry.c - makes one entry of a layer. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/unpack/unpack.h"

#define XATTR_KEPT "user."
#define XATTR_OVERLAY "user.overlay."

static unsigned
known_id(int64_t id)
{
	return id < 0 || id > UNPACK_ID_MAX ? 0 : (unsigned)id;
}

static struct unpack_look
look_of(struct archive_entry *e)
{
	return (struct unpack_look){ archive_entry_perm(e), known_id(archive_entry_uid(e)),
	                             known_id(archive_entry_gid(e)), unpack_mtime(e) };
}

/* ---- attributes ---- */

static bool
is_kept_xattr(const char *name)
{
	return strncmp(name, XATTR_KEPT, sizeof(XATTR_KEPT) - 1) == 0 && name[sizeof(XATTR_KEPT) - 1] != '\0' &&
	       strncmp(name, XATTR_OVERLAY, sizeof(XATTR_OVERLAY) - 1) != 0;
}

static int
set_xattrs(int fd, struct archive_entry *e, struct err *err)
{
	const char *name;
	const void *value;
	size_t size, bytes = 0;
	int n = 0;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
		if (name == NULL || !is_kept_xattr(name))
			continue;
		bytes += strlen(name) + size;
		if (++n > UNPACK_XATTRS_MAX || bytes > UNPACK_XATTR_BYTES_MAX)
			return err_set(err, E2BIG, "its entry '%.200s' has too many attributes", archive_entry_pathname(e));
		if (fsetxattr(fd, name, value, size, 0) < 0)
			return err_errno(err, "cannot set the attribute '%.100s' of '%.200s'", name, archive_entry_pathname(e));
	}
	return 0;
}

/* ---- files ---- */

static int
bad_data(struct archive *a, struct archive_entry *e, struct err *err)
{
	if (err->code != 0)
		return -err->code;
	return err_set(err, EBADMSG, "its entry '%.200s' cannot be read: %.200s", archive_entry_pathname(e),
	               archive_error_string(a));
}

static int
write_at(int fd, const unsigned char *data, size_t len, off_t at, struct err *err)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot write a file of the layer");
		data += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int
write_data(int fd, struct archive *a, struct archive_entry *e, struct err *err)
{
	const int64_t size = archive_entry_size(e);
	const void *data;
	size_t len;
	la_int64_t at, end = 0;
	int code, r = 0;

	while (r == 0 && (code = archive_read_data_block(a, &data, &len, &at)) != ARCHIVE_EOF) {
		if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
			return bad_data(a, e, err);
		if (len == 0)
			continue;
		if (at < end || (uint64_t)at + len > (uint64_t)size)
			return err_set(err, EBADMSG, "its entry '%.200s' is larger than it says", archive_entry_pathname(e));
		r = write_at(fd, data, len, at, err);
		end = at + (la_int64_t)len;
	}
	if (r == 0 && end < size && ftruncate(fd, size) < 0)
		r = err_errno(err, "cannot write a file of the layer");
	return r;
}

static int
check_size(struct unpack_tree *t, struct archive_entry *e, struct err *err)
{
	const int64_t size = archive_entry_size(e);

	if (size < 0 || (uint64_t)size > t->limits.file)
		return err_set(err, EFBIG, "its file '%.200s' is over %llu GiB", archive_entry_pathname(e),
		               (unsigned long long)(t->limits.file >> 30));
	t->size += (uint64_t)size;
	if (t->size > t->limits.size)
		return err_set(err, EFBIG, "its files are over %llu GiB", (unsigned long long)(t->limits.size >> 30));
	return 0;
}

/* The owner comes last: then it is not ours any more. */
static int
dress(const struct unpack_tree *t, int fd, struct archive_entry *e, const struct unpack_look *look,
      struct err *err)
{
	const struct timespec times[2] = { look->mtime, look->mtime };
	int r = set_xattrs(fd, e, err);

	if (r < 0)
		return r;
	if (futimens(fd, times) < 0 ||
	    (t->keeps_owners && (look->uid | look->gid) != 0 && fchown(fd, look->uid, look->gid) < 0))
		return err_errno(err, "cannot change '%.200s'", archive_entry_pathname(e));
	return 0;
}

static int
make_file(struct unpack_tree *t, int dir, const char *name, struct archive *a, struct archive_entry *e,
          struct err *err)
{
	const struct unpack_look look = look_of(e);
	/* Whoever has no rights of root must be able to read it. */
	const mode_t mode = (look.mode & 0777) | (t->keeps_owners ? 0 : 0400);
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	OWN(closep) int fd = -1;
	int r = check_size(t, e, err);

	if (r < 0)
		return r;
	fd = openat(dir, name, flags, mode);
	if (fd < 0 && errno == EEXIST) {
		r = unpack_tree_clear(t, dir, name, err);
		fd = r < 0 ? r : openat(dir, name, flags, mode);
	}
	if (fd < 0)
		return r < 0 ? r : err_errno(err, "cannot make the file '%.200s'", name);
	r = write_data(fd, a, e, err);
	return r < 0 ? r : dress(t, fd, e, &look, err);
}

/* ---- links and the like ---- */

/* Sets time and owner of what cannot be opened. */
static int
dress_by_name(const struct unpack_tree *t, int dir, const char *name, struct archive_entry *e, struct err *err)
{
	const struct unpack_look look = look_of(e);
	const struct timespec times[2] = { look.mtime, look.mtime };

	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (t->keeps_owners && (look.uid | look.gid) != 0 &&
	     fchownat(dir, name, look.uid, look.gid, AT_SYMLINK_NOFOLLOW) < 0))
		return err_errno(err, "cannot change '%.200s'", name);
	return 0;
}

static int
make_symlink(struct unpack_tree *t, int dir, const char *name, struct archive_entry *e, struct err *err)
{
	const char *target = archive_entry_symlink(e);
	int r = unpack_tree_clear(t, dir, name, err);

	if (r < 0)
		return r;
	if (target == NULL || target[0] == '\0')
		return err_set(err, EBADMSG, "its link '%.200s' has no target", archive_entry_pathname(e));
	if (symlinkat(target, dir, name) < 0)
		return err_errno(err, "cannot make the link '%.200s'", name);
	return dress_by_name(t, dir, name, e, err);
}

static int
make_fifo(struct unpack_tree *t, int dir, const char *name, struct archive_entry *e, struct err *err)
{
	int r = unpack_tree_clear(t, dir, name, err);

	if (r == 0 && mknodat(dir, name, S_IFIFO | (archive_entry_perm(e) & 0777), 0) < 0)
		r = err_errno(err, "cannot make the pipe '%.200s'", name);
	return r < 0 ? r : dress_by_name(t, dir, name, e, err);
}

/* TARGET is an earlier entry of this layer: a whiteout that we made is none. */
static int
make_hard_link(struct unpack_tree *t, const struct unpack_path *path, const char *target, struct err *err)
{
	struct unpack_path old;
	struct stat st;
	OWN(closep) int from = -1;
	int dir, r = unpack_path_parse(target, &old, err);

	if (r < 0)
		return r;
	if (old.kind != UNPACK_ENTRY)
		return err_set(err, EBADMSG, "its link '%.200s' is to no file of the layer", path->text);
	if (strcmp(old.text, path->text) == 0)
		return 0;
	dir = unpack_tree_parent(t, &old, err);
	/* The tree remembers one folder only. */
	from = dir < 0 ? dir : fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (from < 0)
		return from;
	if (fstatat(from, old.name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode))
		return err_set(err, EBADMSG, "its link '%.200s' is to '%.200s', which is no file of the layer", path->text,
		               target);
	dir = unpack_tree_parent(t, path, err);
	r = dir < 0 ? dir : unpack_tree_clear(t, dir, path->name, err);
	/* Without AT_SYMLINK_FOLLOW, a link to a link is the same link. */
	if (r >= 0 && linkat(from, old.name, dir, path->name, 0) < 0)
		r = err_errno(err, "cannot link '%.200s' to '%.200s'", path->text, target);
	return r < 0 ? r : 0;
}

/* ---- folders and whiteouts ---- */

static int
make_dir(struct unpack_tree *t, int dir, const struct unpack_path *path, struct archive_entry *e, struct err *err)
{
	const struct unpack_look look = look_of(e);
	OWN(closep) int fd = -1;
	int r = path->kind == UNPACK_TOP ? 0 : unpack_tree_mkdir(t, dir, path->name, err);

	if (r < 0)
		return r;
	fd = openat(dir, path->kind == UNPACK_TOP ? "." : path->name,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open the folder '%.200s'", path->text);
	r = set_xattrs(fd, e, err);
	return r < 0 ? r : unpack_tree_note(t, path->text, strlen(path->text), &look, err);
}

/* It hides only what lower layers have: a file of this layer stays. */
static int
make_whiteout(int dir, const char *name, struct err *err)
{
	struct stat st;

	if (mknodat(dir, name, S_IFCHR, 0) == 0)
		return 0;
	if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot make the whiteout of '%.200s'", name);
	return S_ISDIR(st.st_mode) ? unpack_tree_hide(dir, name, err) : 0;
}

static int
make_opaque(int dir, struct err *err)
{
	/* The tree's descriptor may only find names. */
	OWN(closep) int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_errno(err, "cannot open a folder") : unpack_tree_hide(fd, "", err);
}

/* ---- all of them ---- */

static int
make_by_type(struct unpack_tree *t, int dir, const struct unpack_path *path, struct archive *a,
             struct archive_entry *e, struct err *err)
{
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(t, dir, path->name, a, e, err);
	case AE_IFDIR:
		return make_dir(t, dir, path, e, err);
	case AE_IFLNK:
		return make_symlink(t, dir, path->name, e, err);
	case AE_IFIFO:
		return make_fifo(t, dir, path->name, e, err);
	default:
		/* Devices and sockets: no cell has them. */
		t->left_out++;
		return unpack_tree_clear(t, dir, path->name, err);
	}
}

int
unpack_entry(struct unpack_tree *t, struct archive *a, struct archive_entry *entry, struct err *err)
{
	const char *text = archive_entry_pathname(entry), *target = archive_entry_hardlink(entry);
	struct unpack_path path;
	int dir, r = unpack_tree_count(t, err);

	path.kind = UNPACK_IGNORED;
	if (r == 0 && text == NULL)
		r = err_set(err, EBADMSG, "one of its entries has no name");
	if (r == 0)
		r = unpack_path_parse(text, &path, err);
	if (r < 0 || path.kind == UNPACK_IGNORED)
		return r;
	if (path.kind == UNPACK_TOP && (target != NULL || archive_entry_filetype(entry) != AE_IFDIR))
		return err_set(err, EBADMSG, "its entry '%.200s' would replace its folder", text);
	if (path.kind == UNPACK_ENTRY && target != NULL)
		return make_hard_link(t, &path, target, err);
	dir = unpack_tree_parent(t, &path, err);
	if (dir < 0)
		return dir;
	if (path.kind == UNPACK_WHITEOUT)
		return make_whiteout(dir, path.name, err);
	if (path.kind == UNPACK_OPAQUE)
		return make_opaque(dir, err);
	return make_by_type(t, dir, &path, a, entry, err);
}
