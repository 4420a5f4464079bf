/* notify_path.c - where a path of the agent leads, looked up as the kernel will do it.
 *
 * The answer holds for this moment: the agent may change links while it is looked up. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

static int
read_link(const char *path, struct notify_text *ret)
{
	ssize_t n = readlinkat(AT_FDCWD, path, ret->at, sizeof(ret->at));

	ret->len = n < 0 ? 0 : (size_t)n;
	ret->cut = n == (ssize_t)sizeof(ret->at);
	return n < 0 ? -errno : 0;
}

int
notify_link(pid_t tid, const char *what, struct notify_text *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, what);
	return read_link(path, ret);
}

int
notify_fd_path(pid_t tid, int fd, struct notify_text *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, fd);
	return read_link(path, ret);
}

static void
append(struct notify_text *to, const char *bytes, size_t len)
{
	size_t room = sizeof(to->at) - to->len;

	to->cut = to->cut || len > room;
	len = len > room ? room : len;
	memcpy(to->at + to->len, bytes, len);
	to->len += len;
}

/* Appends PATH without its empty parts and those that are ".". */
static void
append_parts(struct notify_text *to, const char *at, size_t len)
{
	while (len > 0) {
		const char *slash = memchr(at, '/', len);
		size_t part = slash == NULL ? len : (size_t)(slash - at);

		if (part > 0 && !(part == 1 && at[0] == '.')) {
			append(to, "/", 1);
			append(to, at, part);
		}
		part += slash != NULL;
		at += part;
		len -= part;
	}
}

static int
join(pid_t tid, int dir, const struct notify_text *path, struct notify_text *ret)
{
	int r = 0;

	ret->len = 0;
	ret->cut = false;
	if (path->len == 0 || path->at[0] != '/')
		r = dir == AT_FDCWD ? notify_link(tid, "cwd", ret) : notify_fd_path(tid, dir, ret);
	/* The root folder, or what is no path, such as a pipe. */
	if (r == 0 && ret->len == 1 && ret->at[0] == '/')
		ret->len = 0;
	append_parts(ret, path->at, path->len);
	ret->cut = ret->cut || path->cut;
	if (ret->len == 0)
		append(ret, "/", 1);
	return r;
}

static int
open_beneath(int root, const char *at, size_t len, int flags)
{
	const struct open_how how = { .flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
	                              .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	char path[ACT_PATH_MAX + 1];
	int fd;

	memcpy(path, at, len);
	path[len] = '\0';
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static int
name_fd(int fd, struct notify_text *ret)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return read_link(path, ret);
}

/* Names the folder as the kernel does, and leaves the last part as it is. */
static int
resolve_parent(int root, struct notify_text *path)
{
	const char *slash = memrchr(path->at, '/', path->len);
	size_t last = slash == NULL ? 0 : path->len - (size_t)(slash - path->at);
	struct notify_text folder;
	int fd, r;

	/* ".." is no name: the path stays as it is. */
	if (slash == NULL || last <= 1 || (last == 3 && memcmp(slash, "/..", 3) == 0))
		return 0;
	fd = open_beneath(root, last == path->len ? "/" : path->at, last == path->len ? 1 : path->len - last, O_DIRECTORY);
	if (fd < 0)
		return fd;
	r = name_fd(fd, &folder);
	close(fd);
	if (r < 0)
		return r;
	if (folder.len == 1)
		folder.len = 0;
	append(&folder, slash, last);
	memcpy(path->at, folder.at, folder.len);
	path->len = folder.len;
	path->cut = folder.cut;
	return 0;
}

static int
open_root(struct notify *n, pid_t tid)
{
	char path[48];
	int fd;

	if (n->root >= 0)
		return n->root;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)tid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!n->changes_root)
		n->root = fd;
	return fd < 0 ? -errno : fd;
}

static void
close_root(const struct notify *n, int root)
{
	if (root != n->root)
		close(root);
}

static int
look_up(int root, struct notify_text *path, enum notify_follow follow, int *ret_fd)
{
	int fd;

	if (follow == NOTIFY_PARENT)
		return resolve_parent(root, path);
	fd = open_beneath(root, path->at, path->len, follow == NOTIFY_NO_FOLLOW ? O_NOFOLLOW : 0);
	if (fd >= 0) {
		(void)name_fd(fd, path);
		*ret_fd = fd;
		return 0;
	}
	(void)resolve_parent(root, path);
	return fd;
}

void
notify_resolve(struct notify *n, pid_t tid, int dir, const struct notify_text *path, enum notify_follow follow,
               struct notify_file *ret)
{
	int r = join(tid, dir, path, &ret->path), root;

	ret->fd = -1;
	ret->error = -r;
	if (r < 0 || ret->path.cut)
		return;
	root = open_root(n, tid);
	r = root < 0 ? root : look_up(root, &ret->path, follow, &ret->fd);
	if (root >= 0)
		close_root(n, root);
	ret->error = -r;
}
