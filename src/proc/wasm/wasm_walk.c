/* wasm_walk.c - opens a path part by part, so that neither ".." nor a link leads out of a folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/wasm/wasm_files.h"

#define DEPTH_MAX 64
#define LINKS_MAX 40

/* A path on its way: the cell's filter has no openat2(2), whose RESOLVE_BENEATH this does. */
struct walk {
	int at[DEPTH_MAX];              /* the folders that were entered, beneath the first, which is the caller's */
	size_t n;
	unsigned links;
	char path[WASM_PATH_MAX + 1];
	char *rest;                     /* in PATH */
};

static void
walk_end(const struct walk *w)
{
	for (size_t i = 1; i < w->n; i++)
		close(w->at[i]);
}

/* Puts what the link NAME says before the rest.  False: errno has the reason. */
static bool
walk_link(struct walk *w, const char *name)
{
	char text[WASM_PATH_MAX + 1];
	ssize_t n = readlinkat(w->at[w->n - 1], name, text, sizeof(text) - 1);
	size_t left = strlen(w->rest);

	if (n < 0)
		return false;
	errno = ++w->links > LINKS_MAX ? ELOOP : n == 0 || text[0] == '/' ? EXDEV : ENAMETOOLONG;
	if (errno != ENAMETOOLONG || (size_t)n + 1 + left > WASM_PATH_MAX)
		return false;
	text[n] = '/';
	memmove(w->path + n + (left > 0), w->rest, left + 1);
	memcpy(w->path, text, (size_t)n + (left > 0));
	w->rest = w->path;
	return true;
}

/* Enters the folder NAME, or follows the link. */
static bool
walk_in(struct walk *w, const char *name)
{
	OWN(closep) int fd = -1;
	struct stat st;

	if (strcmp(name, "..") == 0) {
		errno = EXDEV;
		if (w->n == 1)
			return false;
		close(w->at[--w->n]);
		return true;
	}
	fd = openat(w->at[w->n - 1], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return walk_link(w, name);
	errno = !S_ISDIR(st.st_mode) ? ENOTDIR : ENAMETOOLONG;
	if (!S_ISDIR(st.st_mode) || w->n == DEPTH_MAX)
		return false;
	w->at[w->n++] = TAKE_FD(fd);
	return true;
}

/* Opens NAME, the last part.  -1 with errno 0: it was a link, which is now the rest. */
static int
walk_open(struct walk *w, const char *name, int flags, mode_t mode)
{
	int fd = openat(w->at[w->n - 1], name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	struct stat st;

	if (fd >= 0 && ((flags & O_PATH) == 0 || (flags & O_NOFOLLOW) != 0))
		return fd;
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return fd;
	if (fd >= 0 || ((errno == ELOOP || errno == ENOTDIR) && (flags & O_NOFOLLOW) == 0)) {
		int why = fd >= 0 ? ELOOP : errno;

		closep(&fd);
		if (walk_link(w, name))
			errno = 0;
		else if (errno == EINVAL)
			errno = why;
	}
	return -1;
}

/* Without its slashes; the rest is behind it. */
static char *
walk_next(struct walk *w)
{
	char *name;

	w->rest += strspn(w->rest, "/");
	name = w->rest;
	w->rest += strcspn(w->rest, "/");
	if (*w->rest != '\0')
		*w->rest++ = '\0';
	w->rest += strspn(w->rest, "/");
	return name;
}

int
wasm_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
	OWN(walk_end) struct walk w = { .at = { dir }, .n = 1 };
	int fd;

	errno = path[0] == '\0' ? ENOENT : EXDEV;
	if (path[0] == '\0' || path[0] == '/')
		return -1;
	snprintf(w.path, sizeof(w.path), "%s", path);
	w.rest = w.path;
	for (;;) {
		char name[WASM_PATH_MAX + 1];

		snprintf(name, sizeof(name), "%s", walk_next(&w));
		if (strcmp(name, "..") != 0 && *w.rest == '\0') {
			fd = walk_open(&w, *name == '\0' ? "." : name, flags, mode);
			if (fd >= 0 || errno != 0)
				return fd;
		} else if (strcmp(name, ".") != 0 && !walk_in(&w, name)) {
			return -1;
		}
	}
}
