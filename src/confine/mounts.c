/* mounts.c - see mounts.h. */
#include "confine/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"

int
mounts_new_fs(const char *type, const char *const *options, unsigned attrs, struct err *err)
{
	OWN(closep) int fs = fsopen(type, FSOPEN_CLOEXEC);
	int mount;

	if (fs < 0)
		return err_errno(err, "cannot make a %s file system", type);
	for (; *options != NULL; options += 2)
		if (fsconfig(fs, options[1] != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
		             options[0], options[1], 0) < 0)
			return err_errno(err, "cannot set %s on a %s file system", options[0], type);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "cannot make a %s file system", type);
	mount = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
	if (mount < 0)
		return err_errno(err, "cannot mount a %s file system", type);
	return mount;
}

int
mounts_copy_tree(int dir, const char *path, struct err *err)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
	                        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	OWN(closep) int at = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	int mount;

	if (at < 0)
		return err_errno(err, "cannot open '%s'", path);
	mount = open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
	                  AT_RECURSIVE);
	if (mount < 0)
		return err_errno(err, "cannot take the mount of '%s'", path);
	return mount;
}

int
mounts_set_attrs(int mount, unsigned attrs, bool below_too, struct err *err)
{
	struct mount_attr attr = { .attr_set = attrs };
	unsigned flags = AT_EMPTY_PATH | (below_too ? AT_RECURSIVE : 0);

	if (!CONTROL_ON("mount-ro"))
		attr.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	if (!CONTROL_ON("nodev"))
		attr.attr_set &= ~(uint64_t)MOUNT_ATTR_NODEV;
	if (!CONTROL_ON("nosuid"))
		attr.attr_set &= ~(uint64_t)MOUNT_ATTR_NOSUID;
	if (mount_setattr(mount, "", flags, &attr, sizeof(attr)) < 0)
		return err_errno(err, "cannot restrict a mount");
	return 0;
}

int
mounts_make_writable(int mount, struct err *err)
{
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };

	if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(err, "cannot make a mount writable");
	return 0;
}

int
mounts_attach(int mount, int dir, const char *path, struct err *err)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH;

	if (*path == '\0')
		flags |= MOVE_MOUNT_T_EMPTY_PATH;
	if (move_mount(mount, "", dir, path, flags) < 0)
		return err_errno(err, "cannot mount at '%s'", path);
	return 0;
}

int
mounts_bind(int from_dir, const char *from, int dir, const char *path, unsigned attrs,
        struct err *err)
{
	OWN(closep) int mount = mounts_copy_tree(from_dir, from, err);
	int r;

	if (mount < 0)
		return mount;
	r = attrs == 0 ? 0 : mounts_set_attrs(mount, attrs, true, err);
	return r < 0 ? r : mounts_attach(mount, dir, path, err);
}

static int
open_inside(int root, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
	                        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

int
mounts_open_inside(int root, const char *path)
{
	return open_inside(root, path, O_PATH);
}

int
mounts_copy_inside(int root, const char *path, struct err *err)
{
	OWN(closep) int at = open_inside(root, path, O_PATH | O_DIRECTORY);
	int mount = at < 0 ? -1 : open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);

	return mount >= 0 ? mount : err_errno(err, "cannot use '/%s' of the root file system", path);
}

/* Whether DIR is on the file system of ROOT/PATH. */
static bool
is_with(int dir, int root, const char *path)
{
	struct stat st, other;

	return fstat(dir, &st) == 0 && fstatat(root, path, &other, 0) == 0 &&
	       st.st_dev == other.st_dev;
}

static int
refuse_place(int dir, const char *name, const char *path, bool is_link, struct err *err)
{
	char to[PATH_MAX];
	ssize_t n = is_link ? readlinkat(dir, name, to, sizeof(to) - 1) : -1;

	if (n < 0)
		return err_set(err, ENOENT, "'%s' does not exist in the cell and is not made, because "
		               "what it would be in is the host's: choose another place", path);
	to[n] = '\0';
	return err_set(err, ELOOP, "'%s' is a link to '%.200s' in the cell, and is not replaced, because it is the host's: "
	               "choose another place", path, to);
}

/* Makes NAME in DIR, which is PATH in the cell.  REPLACE: in the place of a link. */
static int
make_last(int root, int dir, const char *name, const char *path, bool file, uid_t owner, bool replace, struct err *err)
{
	/* The skeleton and the scratch space are tmpfs of this cell: files made there are not made
	 * on the host. */
	const bool scratch = is_with(dir, root, MOUNTS_SCRATCH) || is_with(dir, root, "dev/shm");
	struct stat st;
	const bool is_link = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
	int fd;

	/* In a build, /run is in the scratch space too. */
	if (!scratch && !is_with(dir, root, ".") && !is_with(dir, root, "run"))
		return refuse_place(dir, name, path, is_link, err);
	if (is_link && replace && unlinkat(dir, name, 0) < 0)
		return err_errno(err, "cannot replace the link '%s' in the cell", path);
	if (file ? mknodat(dir, name, S_IFREG | 0644, 0) < 0 : mkdirat(dir, name, 0755) < 0)
		return err_errno(err, "cannot make '%s' in the cell", path);
	/* A grant in ~/.config must not keep other programs out of that folder. */
	if (scratch && fchownat(dir, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot give '%s' to the agent", path);
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd : err_errno(err, "cannot open '%s' in the cell", path);
}

static int
make_missing(int root, const char *path, bool file, uid_t owner, bool replace, struct err *err)
{
	OWN(freep) char *partial = strdup(path);
	OWN(closep) int dir = -1;
	char *slash;

	if (partial == NULL)
		return err_set(err, ENOMEM, "out of memory");
	slash = strrchr(partial, '/');
	if (slash == NULL || slash[1] == '\0')
		return err_set(err, EINVAL, "'%s' is no place for a grant", path);
	*slash = '\0';
	dir = slash == partial ? open_inside(root, "/", O_PATH)
	                       : mounts_follow_target(root, partial, false, owner, err);
	return dir < 0 ? dir : make_last(root, dir, slash + 1, path, file, owner, replace, err);
}

int
mounts_make_target(int root, const char *path, bool file, uid_t owner, struct err *err)
{
	OWN(closep) int fd = open_inside(root, path, O_PATH | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && errno != ENOENT)
		return err_errno(err, "cannot open '%s' in the cell", path);
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return TAKE_FD(fd);
	return make_missing(root, path, file, owner, true, err);
}

int
mounts_follow_target(int root, const char *path, bool file, uid_t owner, struct err *err)
{
	int fd = open_inside(root, path, O_PATH);

	if (fd < 0 && errno != ENOENT)
		return err_errno(err, "cannot open '%s' in the cell", path);
	return fd >= 0 ? fd : make_missing(root, path, file, owner, false, err);
}
