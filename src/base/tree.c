/* tree.c - see tree.h. */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

/* Descriptors and stack used at once.  A tree that is deeper is folded: the
 * folder at the limit is moved to the top, and its turn comes in a later pass. */
#define REMOVE_DEPTH 32

bool
tree_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool
tree_is_beneath(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

int
tree_open_dir(int dir, const char *name)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
	                                   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	struct stat st;

	if (fd < 0)
		return -errno;
	/* One that may be listed but not searched is of no use. */
	if (fstatat(fd, ".", &st, 0) < 0 && errno == EACCES) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

int
tree_open_dir_anyway(int dir, const char *name)
{
	int fd = tree_open_dir(dir, name);
	struct stat st;

	/* Not through a link: the folder may have become one by now. */
	if (fd == -EACCES && fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
		fd = tree_open_dir(dir, name);
	if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)fchmod(fd, (st.st_mode & 07777) | 0700);
	return fd;
}

struct removal {
	int top;
	unsigned long moved;
};

static int
fold(struct removal *rm, int dir, const char *name, struct err *err)
{
	char moved[48];
	int r;

	/* The stranger may have such a name there already. */
	do {
		snprintf(moved, sizeof(moved), ".cloister-%lu.tmp", rm->moved++);
		r = renameat2(dir, name, rm->top, moved, RENAME_NOREPLACE);
		if (r < 0 && errno == EINVAL)
			r = renameat(dir, name, rm->top, moved);
	} while (r < 0 && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
	return r < 0 ? err_errno(err, "cannot remove '%s'", name) : 0;
}

static int remove_all(struct removal *rm, int fd, int depth, struct err *err);

static int
remove_one(struct removal *rm, int dir, const char *name, int depth, struct err *err)
{
	int fd, r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return err_errno(err, "cannot remove '%s'", name);
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_errno(err, "cannot remove '%s'", name);
	if (depth == REMOVE_DEPTH)
		return fold(rm, dir, name, err);
	fd = tree_open_dir_anyway(dir, name);
	if (fd < 0)
		return err_set(err, -fd, "cannot remove '%s': %s", name, strerrordesc_np(-fd));
	r = remove_all(rm, fd, depth + 1, err);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(err, "cannot remove '%s'", name);
	return r;
}

/* Takes FD over. */
static int
remove_all(struct removal *rm, int fd, int depth, struct err *err)
{
	OWN(closedirp) DIR *stream = fdopendir(fd);
	struct dirent *d;
	size_t removed;
	int r = 0;

	if (stream == NULL) {
		r = err_errno(err, "cannot list a folder to remove it");
		close(fd);
		return r;
	}
	/* Some file systems skip names while others are being removed; and what was
	 * folded is at the top now. */
	do {
		removed = 0;
		rewinddir(stream);
		while (r == 0 && (d = readdir(stream)) != NULL) {
			if (tree_is_dots(d->d_name))
				continue;
			r = remove_one(rm, fd, d->d_name, depth, err);
			removed++;
		}
	} while (r == 0 && removed > 0);
	return r;
}

int
tree_empty(int dir, struct err *err)
{
	struct removal rm = { .top = dir };
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot list a folder to remove it");
	return remove_all(&rm, fd, 0, err);
}

/* ---- folders of our own ---- */

static int
make_folders(const char *path, struct err *err)
{
	OWN(freep) char *partial = strdup(path);

	if (partial == NULL)
		return err_errno(err, "cannot open '%s'", path);
	for (char *slash = partial + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		if (mkdir(partial, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '%s' for cloister's own files", partial);
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '%s' for cloister's own files", path);
	return 0;
}

int
tree_open_made(const char *path, bool make, const char *otherwise, struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	struct stat st;
	int fd = open(path, flags), r;

	if (fd < 0 && errno == ENOENT && make) {
		r = make_folders(path, err);
		if (r < 0)
			return r;
		fd = open(path, flags);
	}
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	/* In a shared /tmp somebody else may have made it first. */
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
		close(fd);
		return err_set(err, EPERM, "'%s' belongs to or is writable by somebody else: "
		               "remove it, or %s", path, otherwise);
	}
	return fd;
}
