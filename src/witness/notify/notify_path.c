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
	ret->cut = path->cut;
	if (path->len == 0 || path->at[0] != '/')
		r = dir == AT_FDCWD ? notify_link(tid, "cwd", ret) : notify_fd_path(tid, dir, ret);
	/* The root folder, or what is no path, such as a pipe. */
	if (r == 0 && ret->len == 1 && ret->at[0] == '/')
		ret->len = 0;
	append_parts(ret, path->at, path->len);
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

	/* ".." is no name: then the folder itself is meant. */
	if (slash == NULL || last <= 1 || (last == 3 && memcmp(slash, "/..", 3) == 0))
		return -EINVAL;
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

void
notify_resolve(pid_t tid, int dir, const struct notify_text *path, enum notify_follow follow, struct notify_file *ret)
{
	OWN(closep) int root = -1;
	char of[48];
	int r = join(tid, dir, path, &ret->path);

	ret->fd = -1;
	ret->error = -r;
	if (r < 0 || ret->path.cut)
		return;
	snprintf(of, sizeof(of), "/proc/%d/root", (int)tid);
	root = open(of, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		ret->error = errno;
		return;
	}
	if (follow == NOTIFY_PARENT) {
		r = resolve_parent(root, &ret->path);
		ret->error = r == -EINVAL ? 0 : -r;
		return;
	}
	ret->fd = open_beneath(root, ret->path.at, ret->path.len, follow == NOTIFY_NO_FOLLOW ? O_NOFOLLOW : 0);
	if (ret->fd >= 0) {
		(void)name_fd(ret->fd, &ret->path);
		return;
	}
	ret->error = -ret->fd;
	ret->fd = -1;
	(void)resolve_parent(root, &ret->path);
}
