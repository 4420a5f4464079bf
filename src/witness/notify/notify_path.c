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
	/* It may not pass for a path from the root folder. */
	if (r < 0) {
		*ret = *path;
		return r;
	}
	/* The root folder, or what is no path, such as a pipe. */
	if (ret->len == 1 && ret->at[0] == '/')
		ret->len = 0;
	append_parts(ret, path->at, path->len);
	ret->cut = ret->cut || path->cut;
	if (ret->len == 0)
		append(ret, "/", 1);
	return 0;
}

/* ---- links of /proc, which lead to another place for each process ---- */

#define LINKS_MAX 8                     /* in a row */

static const char *
skip(const char *text, const char *front)
{
	size_t len = text == NULL ? 0 : strlen(front);

	return text != NULL && strncmp(text, front, len) == 0 ? text + len : NULL;
}

/* Behind digits and a slash; NULL: there are none. */
static const char *
skip_number(const char *text)
{
	size_t len = text == NULL ? 0 : strspn(text, "0123456789");

	return len > 0 && text[len] == '/' ? text + len + 1 : NULL;
}

/* Behind the name of such a link in the folder of a process, at its end or a slash; NULL: it is none. */
static const char *
skip_link(const char *text)
{
	static const char *const names[] = { "cwd", "root", "exe" };
	const char *task = skip_number(skip(text, "task/")), *at = skip(task != NULL ? task : text, "fd/");
	size_t len = at == NULL ? 0 : strspn(at, "0123456789");

	if (len > 0 && (at[len] == '/' || at[len] == '\0'))
		return at + len;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		at = skip(task != NULL ? task : text, names[i]);
		if (at != NULL && (*at == '/' || *at == '\0'))
			return at;
	}
	return NULL;
}

/* Reads the link that TEXT begins with, as it is for TID.  *ret_rest is what follows it.  -ENOENT: there is none. */
static int
read_own_link(int root, pid_t tid, const char *text, const char **ret_rest, struct notify_text *ret)
{
	char path[ACT_PATH_MAX + 64];
	const char *own = skip(text, "/proc/self/"), *rest;
	ssize_t n;

	if (own == NULL)
		own = skip(text, "/proc/thread-self/");
	if (own == NULL && skip(text, "/dev/fd/") != NULL)
		own = text + strlen("/dev/");
	rest = skip_link(own != NULL ? own : skip_number(skip(text, "/proc/")));
	if (rest == NULL)
		return -ENOENT;
	if (own != NULL)
		snprintf(path, sizeof(path), "/proc/%d/%.*s", (int)tid, (int)(rest - own), own);
	else
		snprintf(path, sizeof(path), "%.*s", (int)(rest - text - 1), text + 1);
	n = readlinkat(own != NULL ? AT_FDCWD : root, path, ret->at, sizeof(ret->at));
	ret->len = n < 0 ? 0 : (size_t)n;
	ret->cut = n == (ssize_t)sizeof(ret->at);
	*ret_rest = rest;
	return n < 0 ? -errno : 0;
}

/* Puts the places into PATH that its links of /proc lead to. */
static int
follow_own_links(int root, pid_t tid, enum notify_follow follow, struct notify_text *path)
{
	char text[ACT_PATH_MAX + 1];
	struct notify_text place;
	const char *rest;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < LINKS_MAX; i++) {
		memcpy(text, path->at, path->len);
		text[path->len] = '\0';
		r = read_own_link(root, tid, text, &rest, &place);
		/* The link itself is meant. */
		if (r == 0 && *rest == '\0' && follow != NOTIFY_FOLLOW)
			return 0;
		if (r == 0) {
			if (place.len == 1 && *rest != '\0')
				place.len = 0;
			append(&place, rest, strlen(rest));
			*path = place;
		}
	}
	return r == -ENOENT ? 0 : r == 0 ? -ELOOP : r;
}

bool
notify_is_memory(const struct notify_text *path)
{
	static const char front[] = "/memfd:";

	return path->len >= strlen(front) && memcmp(path->at, front, strlen(front)) == 0;
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
	if (r < 0 || ret->path.cut) {
		n->doubtful = true;
		return;
	}
	root = open_root(n, tid);
	r = root < 0 ? root : follow_own_links(root, tid, follow, &ret->path);
	/* A file in memory has no other name. */
	if (r == 0 && !notify_is_memory(&ret->path))
		r = look_up(root, &ret->path, follow, &ret->fd);
	if (root >= 0)
		close_root(n, root);
	n->doubtful = n->doubtful || r == -ELOOP || r == -EXDEV;
	ret->error = -r;
}
