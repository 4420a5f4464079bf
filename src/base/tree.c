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

/* Limits the descriptors and stack in use.  A deeper tree is folded: the folder at the limit is
 * moved to the top, and removed in a later pass. */
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

/* ---- resolving paths ---- */

#define LINKS_MAX 40                    /* the kernel's limit */

struct following {
	char at[PATH_MAX], rest[PATH_MAX];      /* resolved so far, without links; still to resolve */
	int links;
	int (*step)(void *arg, const char *at, int found);
	void *arg;
};

/* Put the target of the link at AT in front of REST.  Returns 1 for a link, 0 for anything else, or
 * -errno if AT cannot be examined. */
static int
follow_link(struct following *f)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlink(f->at, target, sizeof(target) - 1);

	if (n < 0)
		return errno == EINVAL ? 0 : -errno;
	target[n] = '\0';
	if (snprintf(joined, sizeof(joined), "%s/%s", target, f->rest) >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(f->rest, joined, strlen(joined) + 1);
	return 1;
}

/* Move a name of LEN bytes from REST to AT. */
static int
follow_name(struct following *f, size_t len)
{
	size_t was = strlen(f->at);
	int found, r;

	if (was + 1 + len >= PATH_MAX)
		return -ENAMETOOLONG;
	f->at[was] = '/';
	memcpy(f->at + was + 1, f->rest, len);
	f->at[was + 1 + len] = '\0';
	memmove(f->rest, f->rest + len, strlen(f->rest + len) + 1);
	found = follow_link(f);
	r = f->step(f->arg, f->at, found);
	if (r < 0 || (found > 0 && ++f->links > LINKS_MAX))
		return r < 0 ? r : -ELOOP;
	if (found > 0)
		f->at[f->rest[0] == '/' ? 0 : was] = '\0';
	return 1;
}

/* Returns 1 if there is more, 0 at the end. */
static int
follow_step(struct following *f)
{
	size_t skip = strspn(f->rest, "/"), len = strcspn(f->rest + skip, "/");
	char *slash = strrchr(f->at, '/');

	memmove(f->rest, f->rest + skip, strlen(f->rest + skip) + 1);
	if (len == 0)
		return 0;
	if (len > 2 || memcmp(f->rest, "..", len) != 0)
		return follow_name(f, len);
	if (len == 2 && slash != NULL)
		*slash = '\0';
	memmove(f->rest, f->rest + len, strlen(f->rest + len) + 1);
	return 1;
}

int
tree_follow(const char *path, int (*step)(void *arg, const char *at, int found), void *arg,
            char ret_end[PATH_MAX])
{
	struct following f = { .step = step, .arg = arg };
	int r = 1;

	if (path[0] != '/' && (getcwd(f.at, sizeof(f.at)) == NULL || f.at[0] != '/'))
		return -ENOENT;
	if (strcmp(f.at, "/") == 0)
		f.at[0] = '\0';
	if (snprintf(f.rest, sizeof(f.rest), "%s", path) >= (int)sizeof(f.rest))
		return -ENAMETOOLONG;
	while (r > 0)
		r = follow_step(&f);
	if (r == 0)
		memcpy(ret_end, f.at, sizeof(f.at));
	return r;
}

/* ---- opening and removing ---- */

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
	/* A folder that can be listed but not searched is useless. */
	if (fstatat(fd, ".", &st, 0) < 0 && errno == EACCES) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

int
tree_open_resolved(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
	                        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int
tree_open_dir_anyway(int dir, const char *name)
{
	int fd = tree_open_dir(dir, name);
	struct stat st;

	/* Do not follow a link: the folder may have become one by now. */
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

	/* The stranger may already have created such a name. */
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

/* Takes ownership of FD. */
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
	/* Some file systems skip names while others are being removed.  Folded folders are at the
	 * top now. */
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

/* Service users often have a home folder that does not exist. */
static int
cannot_make(const char *path, const char *otherwise, struct err *err)
{
	return err_set(err, errno, "cannot make '%s' for cloister's own files: %s: %s", path,
	               strerrordesc_np(errno), otherwise);
}

static int
make_folders(const char *path, const char *otherwise, struct err *err)
{
	OWN(freep) char *partial = strdup(path);

	if (partial == NULL)
		return err_errno(err, "cannot open '%s'", path);
	for (char *slash = partial + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		/* Root's vault is inside the later state folder, so the folder must be private from
		 * the start. */
		if (mkdir(partial, 0700) < 0 && errno != EEXIST)
			return cannot_make(partial, otherwise, err);
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return cannot_make(path, otherwise, err);
	return 0;
}

int
tree_open_made(const char *path, bool make, const char *otherwise, struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	struct stat st;
	int fd = open(path, flags), r;

	if (fd < 0 && errno == ENOENT && make) {
		r = make_folders(path, otherwise, err);
		if (r < 0)
			return r;
		fd = open(path, flags);
	}
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	/* In a shared /tmp somebody else may have created it first. */
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
		close(fd);
		return err_set(err, EPERM, "'%s' belongs to or is writable by somebody else: "
		               "remove it, or %s", path, otherwise);
	}
	return fd;
}

DIR *
tree_list(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (list == NULL)
		closep(&fd);
	return list;
}

int
tree_has_entries(int dir)
{
	OWN(closedirp) DIR *list = tree_list(dir);
	struct dirent *d;

	if (list == NULL)
		return -errno;
	while ((d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name))
			return 1;
	return 0;
}
