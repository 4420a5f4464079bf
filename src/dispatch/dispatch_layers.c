/* dispatch_layers.c - finds files in the root of a cell that does not run: in the host's folders, or
 * in the layers of an image, as overlayfs would show them.
 *
 * The layers of an image are a stranger's: no link of theirs is followed by the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"

#define LINKS_MAX 40                    /* as the kernel's */
#define OPAQUE "user.overlay.opaque"
#define OPAQUE_OF_ROOT "trusted.overlay.opaque"         /* as root's engine writes it */

static int
open_in(int layer, const char *at, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, layer, at, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static bool
is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Whether the layers below layer I show nothing at AT, because of a folder above it. */
static bool
hides_lower(const struct dispatch_root *root, size_t i, const char *at)
{
	const char *const opaque = root->is_engines && geteuid() == 0 ? OPAQUE_OF_ROOT : OPAQUE;
	const int layer = root->layers[i];
	char part[PATH_MAX], mark;

	for (const char *slash = strchr(at, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		OWN(closep) int fd = -1;
		struct stat st;

		snprintf(part, sizeof(part), "%.*s", (int)(slash - at), at);
		fd = open_in(layer, part, O_PATH);
		if (fd == -ENOENT)
			return false;
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
			return true;
		close(TAKE_FD(fd));
		fd = open_in(layer, part, O_RDONLY | O_DIRECTORY);
		if (fd < 0 || (fgetxattr(fd, opaque, &mark, 1) == 1 && mark == 'y'))
			return true;
	}
	return false;
}

/* The layer that has AT, a path without links in its folders; -ENOENT. */
static int
find_layer(const struct dispatch_root *root, const char *at, struct stat *ret_st)
{
	for (size_t i = root->n; i-- > 0;) {
		OWN(closep) int fd = open_in(root->layers[i], at, O_PATH);

		if (fd >= 0)
			return fstat(fd, ret_st) < 0 || is_whiteout(ret_st) ? -ENOENT : (int)i;
		if (fd != -ENOENT || hides_lower(root, i, at))
			return -ENOENT;
	}
	return -ENOENT;
}

/* A path that is being resolved: AT is done, and has no link in it; REST is to do. */
struct way {
	char at[PATH_MAX], rest[PATH_MAX];
	unsigned links;
};

static void
go_up(char at[PATH_MAX])
{
	char *slash = strrchr(at, '/');

	*(slash != NULL ? slash : at) = '\0';
}

/* The link at WAY->at is replaced by its target. */
static int
follow_link(const struct dispatch_root *root, size_t layer, struct way *way)
{
	OWN(closep) int fd = open_in(root->layers[layer], way->at, O_PATH);
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0 || ++way->links > LINKS_MAX)
		return -ELOOP;
	target[n] = '\0';
	if (snprintf(rest, sizeof(rest), "%s/%s", target, way->rest) >= (int)sizeof(rest))
		return -ENAMETOOLONG;
	memcpy(way->rest, rest, sizeof(rest));
	if (target[0] == '/')
		way->at[0] = '\0';
	else
		go_up(way->at);
	return 0;
}

/* Goes one part further; 0 at the end. */
static int
step(const struct dispatch_root *root, struct way *way, int *ret_layer)
{
	size_t skip = strspn(way->rest, "/"), n = strcspn(way->rest + skip, "/"), len = strlen(way->at);
	char part[NAME_MAX + 1];
	struct stat st = {0};

	if (n == 0)
		return 0;
	if (n > NAME_MAX || len + n + 2 > sizeof(way->at))
		return -ENAMETOOLONG;
	snprintf(part, sizeof(part), "%.*s", (int)n, way->rest + skip);
	memmove(way->rest, way->rest + skip + n, strlen(way->rest + skip + n) + 1);
	if (strcmp(part, ".") == 0)
		return 1;
	if (strcmp(part, "..") == 0) {
		go_up(way->at);
		return 1;
	}
	snprintf(way->at + len, sizeof(way->at) - len, "%s%s", len > 0 ? "/" : "", part);
	*ret_layer = find_layer(root, way->at, &st);
	if (*ret_layer < 0)
		return *ret_layer;
	if (!S_ISLNK(st.st_mode))
		return 1;
	n = (size_t)*ret_layer;
	*ret_layer = -ENOENT;
	return follow_link(root, n, way) < 0 ? -ENOENT : 1;
}

/* A cell with the host's root sees these alone. */
static bool
is_shown(const struct dispatch_root *root, const char *at)
{
	static const char *const shown[] = { "usr/", "bin/", "sbin/", "lib/", "lib32/", "lib64/", "libx32/" };

	for (size_t i = 0; root->is_host && i < ARRAY_LEN(shown); i++)
		if (strncmp(at, shown[i], strlen(shown[i])) == 0)
			return true;
	return !root->is_host;
}

int
dispatch_root_find(const struct dispatch_root *root, const char *path, struct dispatch_found *ret_found)
{
	struct way way = {0};
	int layer = -ENOENT, fd, r;
	struct stat st;

	if (strlen(path) >= sizeof(way.rest))
		return -ENAMETOOLONG;
	snprintf(way.rest, sizeof(way.rest), "%s", path);
	while ((r = step(root, &way, &layer)) > 0)
		;
	if (r < 0 || layer < 0 || !is_shown(root, way.at))
		return -ENOENT;
	fd = open_in(root->layers[layer], way.at, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0) {
		if (fd >= 0)
			close(fd);
		return -ENOENT;
	}
	ret_found->fd = fd;
	snprintf(ret_found->file, sizeof(ret_found->file), "/%s", way.at);
	snprintf(ret_found->host, sizeof(ret_found->host), "%s/%s", root->is_host ? "" : root->paths[layer], way.at);
	return 0;
}

int
dispatch_root_add(struct dispatch_root *root, const char *path, struct err *err)
{
	int fd;

	if (root->n == DISPATCH_LAYERS_MAX)
		return err_set(err, E2BIG, "the image has over %d layers", DISPATCH_LAYERS_MAX);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	root->paths[root->n] = strdup(path);
	root->layers[root->n++] = fd;
	return root->paths[root->n - 1] == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

void
dispatch_root_close(struct dispatch_root *root)
{
	for (size_t i = 0; i < root->n; i++) {
		close(root->layers[i]);
		free(root->paths[i]);
	}
	free(root->search);
	*root = (struct dispatch_root){0};
}
