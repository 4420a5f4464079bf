/* porter_paths.c - changes of a file's mode, owner and times, for which Landlock has no right.
 *
 * The file is opened as the caller finds it (O_PATH), has to be beneath a folder that the cell may change, and is changed
 * by that descriptor: the very file that was checked. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/process/porter.h"

#ifndef AT_SYMLINK_NOFOLLOW
#error "fcntl.h lacks AT_SYMLINK_NOFOLLOW"
#endif

/* "/proc/self" is the caller's. */
static bool
is_of_self(const char *path, const char *name, const char **ret_rest)
{
	const size_t len = strlen(name);

	if (strncmp(path, name, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return false;
	*ret_rest = path + len;
	return true;
}

int
porter_open_path(const struct porter_call *c, int dirfd, const char *path, int flags)
{
	OWN(closep) int from = -1;
	const char *rest;
	char whole[PATH_MAX + 32], base[64];
	int fd;

	if (path[0] == '/') {
		if (is_of_self(path, "/proc/self", &rest) || is_of_self(path, "/proc/thread-self", &rest) ||
		    is_of_self(path, "/dev/fd", &rest))
			snprintf(whole, sizeof(whole), "/proc/%d%s%s", (int)c->tid, path[1] == 'd' ? "/fd" : "", rest);
		else
			snprintf(whole, sizeof(whole), "%s", path);
		fd = open(whole, O_PATH | O_CLOEXEC | flags);
		return fd < 0 ? -errno : fd;
	}
	if (dirfd == AT_FDCWD)
		snprintf(base, sizeof(base), "/proc/%d/cwd", (int)c->tid);
	else
		snprintf(base, sizeof(base), "/proc/%d/fd/%d", (int)c->tid, dirfd);
	from = open(base, O_PATH | O_CLOEXEC);
	if (from < 0)
		return errno == ENOENT ? -EBADF : -errno;
	if (path[0] == '\0')
		return TAKE_FD(from);
	fd = openat(from, path, O_PATH | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

static bool
may_change(const struct porter *p, int fd)
{
	char link[40], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	for (size_t i = 0; p->roots[i] != NULL; i++) {
		const size_t len = strlen(p->roots[i]);

		if (strncmp(path, p->roots[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
			return true;
	}
	return false;
}

/* A file without a path: in memory, a pipe, a socket.  Nobody else has it. */
static bool
is_nameless(int fd)
{
	char link[40], path[64];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	return n > 0 && fstat(fd, &st) == 0 && (path[0] != '/' || strncmp(path, "/memfd:", 7) == 0) &&
	       (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode));
}

struct change {
	enum { MODE, OWNER, TIMES } what;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	bool now;
	struct timespec times[2];
};

static int
change_file(struct porter *p, const struct porter_call *c, int fd, const struct change *change)
{
	char link[40];
	int r;

	if (!porter_is_valid(p, c))
		return -EINTR;
	if (!may_change(p, fd) && !is_nameless(fd))
		return -EPERM;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	switch (change->what) {
	case MODE:
		r = fchmodat(AT_FDCWD, link, change->mode, 0);
		break;
	case OWNER:
		r = fchownat(fd, "", change->uid, change->gid, AT_EMPTY_PATH);
		break;
	default:
		r = utimensat(AT_FDCWD, link, change->now ? NULL : change->times, 0);
		break;
	}
	return r < 0 ? -errno : 0;
}

static int
change_path(struct porter *p, const struct porter_call *c, int dirfd, uint64_t at, int flags, const struct change *change)
{
	char path[PATH_MAX];
	OWN(closep) int fd = -1;
	int r = porter_read_path(c, at, path, sizeof(path));

	if (r < 0)
		return r;
	if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
		return -EINVAL;
	if (path[0] == '\0' && (flags & AT_EMPTY_PATH) == 0)
		return -ENOENT;
	fd = porter_open_path(c, dirfd, path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0);
	if (fd < 0)
		return fd;
	/* A link has no mode, and its descriptor would lead to what it points to. */
	if (change->what != OWNER && (flags & AT_SYMLINK_NOFOLLOW) != 0) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode))
			return change->what == MODE ? -EOPNOTSUPP : 0;
	}
	return change_file(p, c, fd, change);
}

static int
change_fd(struct porter *p, const struct porter_call *c, const struct change *change)
{
	OWN(closep) int fd = porter_open_path(c, (int)c->data.args[0], "", 0);

	return fd < 0 ? fd : change_file(p, c, fd, change);
}

static struct change
mode_of(const struct porter_call *c, int at)
{
	return (struct change){ .what = MODE, .mode = (mode_t)c->data.args[at] & 01777 };
}

static struct change
owner_of(const struct porter_call *c, int at)
{
	return (struct change){ .what = OWNER, .uid = (uid_t)c->data.args[at], .gid = (gid_t)c->data.args[at + 1] };
}

int
porter_chmod(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = mode_of(c, 1);

	(void)ret_value;
	return change_path(p, c, AT_FDCWD, c->data.args[0], 0, &change);
}

int
porter_fchmod(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = mode_of(c, 1);

	(void)ret_value;
	return change_fd(p, c, &change);
}

int
porter_fchmodat(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = mode_of(c, 2);

	(void)ret_value;
	return change_path(p, c, (int)c->data.args[0], c->data.args[1], 0, &change);
}

int
porter_fchmodat2(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = mode_of(c, 2);

	(void)ret_value;
	return change_path(p, c, (int)c->data.args[0], c->data.args[1], (int)c->data.args[3], &change);
}

int
porter_chown(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = owner_of(c, 1);

	(void)ret_value;
	return change_path(p, c, AT_FDCWD, c->data.args[0], 0, &change);
}

int
porter_lchown(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = owner_of(c, 1);

	(void)ret_value;
	return change_path(p, c, AT_FDCWD, c->data.args[0], AT_SYMLINK_NOFOLLOW, &change);
}

int
porter_fchown(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = owner_of(c, 1);

	(void)ret_value;
	return change_fd(p, c, &change);
}

int
porter_fchownat(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const struct change change = owner_of(c, 2);

	(void)ret_value;
	return change_path(p, c, (int)c->data.args[0], c->data.args[1], (int)c->data.args[4], &change);
}

int
porter_utimensat(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct change change = { .what = TIMES, .now = c->data.args[2] == 0 };
	int r = change.now ? 0 : porter_read(c, c->data.args[2], change.times, sizeof(change.times));

	(void)ret_value;
	if (r < 0)
		return r;
	/* futimens(3) */
	return c->data.args[1] == 0 ? change_fd(p, c, &change) :
	       change_path(p, c, (int)c->data.args[0], c->data.args[1], (int)c->data.args[3], &change);
}
