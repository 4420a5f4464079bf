/* bpf_links.c - finds the file that a name led to, when the call that named it has returned.
 *
 * The kernel's programs see which file was opened, but of a file that was renamed, removed or changed only the name
 * that the process passed.  A symbolic link in it leads elsewhere, and may be gone by now.  Links that the cell made are
 * known from its own calls, which come in their order: so they are followed as they were at that time.  Others are
 * looked up in the file system, as it is now. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "witness/bpf/bpf.h"

#define FOLLOWED_MAX 40                 /* as the kernel */
#define DELETED " (deleted)"

/* ---- links that the cell made ---- */

static struct bpf_link *
find_link(struct bpf_links *links, const char *path, size_t len)
{
	for (size_t i = 0; i < links->n; i++)
		if (links->all[i].len == len && memcmp(links->all[i].path, path, len) == 0)
			return &links->all[i];
	return NULL;
}

static void
drop_link(struct bpf_links *links, struct bpf_link *link)
{
	free(link->path);
	free(link->to);
	*link = links->all[--links->n];
}

/* If there are too many, the oldest goes. */
static void
add_link(struct bpf_links *links, const struct act_text *path, const char *to, size_t len)
{
	struct bpf_link link = { .path = malloc(path->len + 1), .len = path->len, .to = malloc(len + 1) };
	struct bpf_link *old = find_link(links, path->at, path->len);

	if (old != NULL)
		drop_link(links, old);
	if (links->n == BPF_LINKS_MAX)
		drop_link(links, &links->all[links->oldest++ % BPF_LINKS_MAX]);
	if (link.path == NULL || link.to == NULL || path->cut) {
		free(link.path);
		free(link.to);
		return;
	}
	memcpy(link.path, path->at, path->len);
	memcpy(link.to, to, len);
	link.path[path->len] = link.to[len] = '\0';
	links->all[links->n++] = link;
}

/* PATH, a link or a folder with links in it, is TO from now on. */
static void
move_links(struct bpf_links *links, const struct act_text *path, const struct act_text *to)
{
	struct bpf_link *there = find_link(links, to->at, to->len);

	if (there != NULL)
		drop_link(links, there);
	for (size_t i = 0; i < links->n; i++) {
		struct bpf_link *link = &links->all[i];
		size_t rest = link->len - path->len;
		char *moved;

		if (link->len < path->len || memcmp(link->path, path->at, path->len) != 0 ||
		    (rest > 0 && link->path[path->len] != '/') || to->len + rest > ACT_PATH_MAX)
			continue;
		moved = malloc(to->len + rest + 1);
		if (moved == NULL)
			continue;
		memcpy(moved, to->at, to->len);
		memcpy(moved + to->len, link->path + path->len, rest + 1);
		free(link->path);
		link->path = moved;
		link->len = to->len + rest;
	}
}

/* Puts IN, without dots and with known links followed, into OUT.  False: it is too long. */
static bool
walk(struct bpf_links *links, const char *in, bool follow, char out[BPF_RAW_MAX], bool *ret_followed)
{
	char rest[BPF_RAW_MAX], next[BPF_RAW_MAX];
	unsigned followed = 0;
	size_t n = 0;

	snprintf(rest, sizeof(rest), "%s", in);
	for (char *at = rest; *at != '\0';) {
		size_t len = strcspn(at, "/"), more = len + strspn(at + len, "/");
		const struct bpf_link *link;
		size_t before = n;

		if (len == 2 && at[0] == '.' && at[1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && at[0] == '.')) {
			if (n + len + 2 > BPF_RAW_MAX)
				return false;
			out[n++] = '/';
			memcpy(out + n, at, len);
			n += len;
		}
		link = n > before && (follow || at[len] != '\0') ? find_link(links, out, n) : NULL;
		at += more;
		if (link == NULL)
			continue;
		if (++followed > FOLLOWED_MAX ||
		    snprintf(next, sizeof(next), "%s/%s", link->to, at) >= (int)sizeof(next))
			return false;
		n = link->to[0] == '/' ? 0 : before;
		memcpy(rest, next, sizeof(rest));
		at = rest;
		/* The slash that was put there names nothing. */
		if (rest[strlen(rest) - 1] == '/')
			rest[strlen(rest) - 1] = '\0';
	}
	out[n] = '\0';
	if (n == 0)
		memcpy(out, "/", 2);
	*ret_followed = followed > 0;
	return true;
}

/* ---- other links ---- */

static int
open_root(const struct bpf_links *links, pid_t host)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)host);
	fd = host > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0)
		return fd;
	/* The process has ended. */
	snprintf(path, sizeof(path), "/proc/%d/root", (int)links->first);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The path of what NAME leads to, as the kernel names it; its length, or 0. */
static size_t
look_up(int root, const char *name, char ret[BPF_RAW_MAX])
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	OWN(closep) int fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	const size_t deleted = sizeof(DELETED) - 1;
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : readlink(path, ret, ACT_PATH_MAX - 1);
	if (n <= 0 || ret[0] != '/' || ((size_t)n > deleted && memcmp(ret + n - deleted, DELETED, deleted) == 0))
		return 0;
	ret[n] = '\0';
	return (size_t)n;
}

/* With the last name as it is. */
static size_t
look_up_folder(int root, char *path, char ret[BPF_RAW_MAX])
{
	char *last = strrchr(path, '/') + 1;
	size_t n;

	if (*last == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		return look_up(root, path, ret);
	last[-1] = '\0';
	n = look_up(root, path[0] == '\0' ? "/" : path, ret);
	last[-1] = '/';
	if (n == 0 || n + strlen(last) + 2 > BPF_RAW_MAX)
		return 0;
	if (n > 1)
		ret[n++] = '/';
	memcpy(ret + n, last, strlen(last) + 1);
	return n + strlen(last);
}

/* ---- both ---- */

/* Where the name RAW leads; ROOM is what it points into. */
static void
resolve(struct bpf_links *links, pid_t host, const char *raw, bool follow, char room[BPF_RAW_MAX], struct act_text *path)
{
	OWN(closep) int root = -1;
	char known[BPF_RAW_MAX], *name = known;
	bool followed = false;
	size_t n;

	if (raw[0] != '/' || path->cut || !walk(links, raw, follow, known, &followed))
		return;
	/* As it was passed, because what ".." means depends on links, too. */
	if (!followed)
		snprintf(known, sizeof(known), "%s", raw);
	for (n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
		name[n - 1] = '\0';
	root = open_root(links, host);
	n = root < 0 || !follow ? 0 : look_up(root, name, room);
	if (n == 0 && root >= 0)
		n = look_up_folder(root, name, room);
	/* It is gone: then the links that are known have to suffice. */
	if (n == 0 && followed) {
		n = strlen(known);
		memcpy(room, known, n + 1);
	}
	if (n > 0 && n <= ACT_PATH_MAX)
		*path = (struct act_text){ room, n, false };
}

void
bpf_links_follow(struct bpf_links *links, struct bpf_texts *texts, struct act *act)
{
	const struct bpf_link *link;

	if (act->kind != ACT_FILE)
		return;
	if (texts->raw[0] != '\0')
		resolve(links, act->host_pid, texts->raw, texts->follows, texts->real, &act->path);
	if (texts->raw_to[0] != '\0')
		resolve(links, act->host_pid, texts->raw_to, false, texts->real_to, &act->to);
	if (act->file == ACT_REMOVE && (link = find_link(links, act->path.at, act->path.len)) != NULL)
		drop_link(links, (struct bpf_link *)(uintptr_t)link);
	else if (act->file == ACT_RENAME)
		move_links(links, &act->path, &act->to);
	else if (texts->is_symlink)
		add_link(links, &act->to, act->path.at, act->path.len);
	else if (act->file == ACT_LINK && (link = find_link(links, act->path.at, act->path.len)) != NULL)
		add_link(links, &act->to, link->to, strlen(link->to));
}

void
bpf_links_free(struct bpf_links *links)
{
	while (links->n > 0)
		drop_link(links, &links->all[links->n - 1]);
}
