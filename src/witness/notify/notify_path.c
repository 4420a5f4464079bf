/* notify_path.c - where a path of the agent leads, looked up as the kernel will do it.
 *
 * The answer holds for this moment: the agent may change links while it is looked up. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

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

#define LINKS_MAX 40                    /* as many as the kernel follows */
#define PARTS_MAX 64                    /* at the end of a path that do not exist */
#define AGAIN_MAX 16                    /* while somebody renames folders */

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

/* A lookup of one path. */
struct lookup {
	int root;
	pid_t tid, host;                /* of the caller, and of its process */
	uid_t uid;                      /* the agent's, as far as it is known */
	enum notify_follow follow;
	struct notify_text *path;
	unsigned links;                 /* that were followed */
};

/* The link behind REST of the process or thread PID. */
static int
read_link_of(pid_t pid, const char *own, size_t len, struct notify_text *ret)
{
	char what[64];
	int fd, r;

	snprintf(what, sizeof(what), "%.*s", (int)len, own);
	r = len < sizeof(what) ? notify_link(pid, what, ret) : -ENAMETOOLONG;
	return r == -EACCES && sscanf(what, "fd/%9d", &fd) == 1 ? notify_fd_path(pid, fd, ret) : r;
}

/* Reads the link that TEXT begins with, as it is for the caller.  *ret_rest is what follows it.  -ENOENT: there is
 * none. */
static int
read_own_link(const struct lookup *l, const char *text, const char **ret_rest, struct notify_text *ret)
{
	char path[ACT_PATH_MAX + 1];
	const char *of_thread = skip(text, "/proc/thread-self/"), *own = skip(text, "/proc/self/"), *rest;
	ssize_t n;

	if (own == NULL && skip(text, "/dev/fd/") != NULL)
		own = text + strlen("/dev/");
	own = of_thread != NULL ? of_thread : own;
	rest = skip_link(own != NULL ? own : skip_number(skip(text, "/proc/")));
	if (rest == NULL)
		return -ENOENT;
	*ret_rest = rest;
	if (own != NULL)
		return read_link_of(of_thread != NULL ? l->tid : l->host, own, (size_t)(rest - own), ret);
	snprintf(path, sizeof(path), "%.*s", (int)(rest - text - 1), text + 1);
	n = readlinkat(l->root, path, ret->at, sizeof(ret->at));
	ret->len = n < 0 ? 0 : (size_t)n;
	ret->cut = n == (ssize_t)sizeof(ret->at);
	return n < 0 ? -errno : 0;
}

/* Puts PLACE, and REST behind it, in place of the path. */
static void
put_place(struct notify_text *path, struct notify_text *place, const char *rest, size_t len)
{
	if (place->len == 1 && place->at[0] == '/' && len > 0)
		place->len = 0;
	append(place, rest, len);
	*path = *place;
}

/* Puts the places into the path that its links of /proc lead to.  1: it leads to no file with a name. */
static int
follow_own_links(struct lookup *l)
{
	char text[ACT_PATH_MAX + 1];
	struct notify_text place;
	const char *rest;
	int r = 0;

	while (r == 0) {
		memcpy(text, l->path->at, l->path->len);
		text[l->path->len] = '\0';
		r = read_own_link(l, text, &rest, &place);
		/* The link itself is meant. */
		if (r == 0 && *rest == '\0' && l->follow != NOTIFY_FOLLOW)
			return 0;
		if (r == 0 && (place.len == 0 || place.at[0] != '/'))
			return place.cut ? -ENAMETOOLONG : 1;
		if (r == 0)
			put_place(l->path, &place, rest, strlen(rest));
		if (r == 0 && ++l->links > LINKS_MAX)
			return -ELOOP;
	}
	return r == -ENOENT ? 0 : r;
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
	int fd = -1;

	memcpy(path, at, len);
	path[len] = '\0';
	for (unsigned i = 0; fd < 0 && i < AGAIN_MAX && (i == 0 || errno == EAGAIN); i++)
		fd = (int)syscall(SYS_openat2, root, len == 0 ? "/" : path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/* Where the last part of the first LEN bytes begins: at its slash. */
static size_t
last_part(const struct notify_text *path, size_t len)
{
	const char *slash = len == 0 ? NULL : memrchr(path->at, '/', len);

	return slash == NULL ? 0 : (size_t)(slash - path->at);
}

/* The folder FD is what is before AT in the path: names it as the kernel does.  *ret_at is where AT is then. */
static int
name_folder(struct notify_text *path, int fd, size_t at, size_t *ret_at)
{
	struct notify_text folder;
	int r = notify_name(fd, &folder);

	if (r < 0 || folder.cut || folder.len == 0)
		return r < 0 ? r : -ENAMETOOLONG;
	*ret_at = folder.len == 1 ? 0 : folder.len;
	put_place(path, &folder, path->at + at, path->len - at);
	return path->cut ? -ENAMETOOLONG : 0;
}

static int
name_parent(const struct lookup *l)
{
	struct notify_text *path = l->path;
	size_t at = last_part(path, path->len);
	OWN(closep) int fd = -1;

	/* ".." is no name: the path stays as it is. */
	if (path->len - at <= 1 || (path->len - at == 3 && memcmp(path->at + at, "/..", 3) == 0))
		return 0;
	fd = open_beneath(l->root, path->at, at, O_DIRECTORY);
	return fd < 0 ? fd : name_folder(path, fd, at, &at);
}

/* Puts the link TO of the folder before AT in place of the part there; REST is behind it. */
static void
put_link(struct notify_text *path, size_t at, const struct notify_text *to, size_t rest)
{
	struct notify_text next = { .len = 0 };

	if (to->at[0] != '/')
		append(&next, path->at, at);
	append_parts(&next, to->at, to->len);
	append(&next, path->at + rest, path->len - rest);
	if (next.len == 0)
		append(&next, "/", 1);
	*path = next;
}

/* Who may open the folder may let others in, while the path is looked up. */
static bool
is_callers(const struct lookup *l, int folder)
{
	struct stat st;

	return fstat(folder, &st) == 0 && st.st_uid == l->uid;
}

/* The length of the part behind the slash at AT. */
static size_t
part_len(const struct notify_text *path, size_t at)
{
	const char *end = path->len <= at + 1 ? NULL : memchr(path->at + at + 1, '/', path->len - at - 1);

	return path->len <= at ? 0 : end == NULL ? path->len - at - 1 : (size_t)(end - path->at) - at - 1;
}

/* The path cannot be opened: names the longest part of it that is a folder, and follows what is behind it if it is a
 * link, such as those that lead to /proc.  1: there may be more to follow; 0: there is none. */
static int
step(struct lookup *l)
{
	OWN(closep) int fd = -1;
	struct notify_text *path = l->path, before = *path, to = { .len = 0 };
	char name[NAME_MAX + 1];
	size_t at = path->len, len;
	ssize_t n;
	int r;

	for (unsigned i = 0; fd < 0 && at > 0 && i < PARTS_MAX; i++) {
		at = last_part(path, at);
		fd = open_beneath(l->root, path->at, at, O_DIRECTORY);
	}
	r = fd < 0 ? -ELOOP : name_folder(path, fd, at, &at);
	len = r < 0 ? 0 : part_len(path, at);
	if (r < 0 || ++l->links > LINKS_MAX)
		return r < 0 ? r : -ELOOP;
	/* No such name is there. */
	if (len == 0 || len > NAME_MAX)
		return 0;
	memcpy(name, path->at + at + 1, len);
	name[len] = '\0';
	n = readlinkat(fd, name, to.at, sizeof(to.at));
	if (n < 0 && errno == EACCES && is_callers(l, fd))
		return -EXDEV;
	/* By its own name, the folder may be one of /proc. */
	if (n <= 0 || (at + 1 + len == path->len && l->follow != NOTIFY_FOLLOW))
		return before.len != path->len || memcmp(before.at, path->at, path->len) != 0;
	to.len = (size_t)n;
	put_link(path, at, &to, at + 1 + len);
	return path->cut ? -ENAMETOOLONG : 1;
}

static int
look_up(struct lookup *l, int *ret_fd)
{
	int r, more;

	do {
		r = follow_own_links(l);
		/* A file in memory has no other name. */
		if (r != 0 || notify_is_memory(l->path))
			return r < 0 ? r : 0;
		if (l->follow == NOTIFY_PARENT) {
			r = name_parent(l);
		} else {
			r = open_beneath(l->root, l->path->at, l->path->len, l->follow == NOTIFY_NO_FOLLOW ? O_NOFOLLOW : 0);
			if (r >= 0) {
				*ret_fd = r;
				r = notify_name(r, l->path);
				return r == 0 && l->path->cut ? -ENAMETOOLONG : r;
			}
		}
		more = r == 0 || r == -EAGAIN ? 0 : step(l);
	} while (more > 0);
	return more < 0 ? more : r;
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

/* Whether it is not known where the path leads: the agent may yet have it lead somewhere. */
static bool
is_doubtful(int r)
{
	return r == -ELOOP || r == -EXDEV || r == -EAGAIN || r == -ENAMETOOLONG;
}

void
notify_resolve(struct notify *n, pid_t tid, int dir, const struct notify_text *path, enum notify_follow follow,
               struct notify_file *ret)
{
	struct lookup l = { .tid = tid, .host = n->seen.act.host_pid, .uid = n->uid, .follow = follow, .path = &ret->path };
	int r = join(tid, dir, path, &ret->path);

	ret->fd = -1;
	ret->error = -r;
	if (r < 0 || ret->path.cut) {
		n->doubtful = true;
		return;
	}
	/* The descriptor is no folder. */
	if (ret->path.at[0] != '/') {
		ret->error = ENOTDIR;
		return;
	}
	l.root = open_root(n, tid);
	r = l.root < 0 ? -EXDEV : look_up(&l, &ret->fd);
	if (l.root >= 0 && l.root != n->root)
		close(l.root);
	n->doubtful = n->doubtful || is_doubtful(r);
	ret->error = -r;
}
