/* tree.c - see tree.h. */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

/* Descriptors and stack used at once.  A tree deeper than this is folded: the
 * folder at the limit is moved to the top and emptied in a later pass. */
#define DEPTH_MAX 32

struct tree_walk {
	int top;
	uint64_t moved;
	bool again;             /* something was moved to the top */
};

static bool
is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int
open_folder(int parent, const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(parent, name, flags);

	if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
		fd = openat(parent, name, flags);
	return fd;
}

static int empty_folder(struct tree_walk *walk, int dir, int depth, struct err *err);

static int
remove_folder(struct tree_walk *walk, int parent, const char *name, int depth,
              struct err *err)
{
	char moved[48];
	int fd, r;

	if (depth == DEPTH_MAX) {
		snprintf(moved, sizeof(moved), ".removing-%llu", (unsigned long long)walk->moved++);
		if (renameat(parent, name, walk->top, moved) < 0)
			return err_errno(err, "cannot remove '%s'", name);
		walk->again = true;
		return 0;
	}
	fd = open_folder(parent, name);
	if (fd < 0)
		return err_errno(err, "cannot open '%s' to remove it", name);
	r = empty_folder(walk, fd, depth + 1, err);
	if (r < 0)
		return r;
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
		return err_errno(err, "cannot remove '%s'", name);
	return 0;
}

/* Takes DIR over. */
static int
empty_folder(struct tree_walk *walk, int dir, int depth, struct err *err)
{
	OWN(closedirp) DIR *stream = fdopendir(dir);
	struct dirent *d;
	struct stat st;
	int r;

	if (stream == NULL) {
		close(dir);
		return err_errno(err, "cannot list a folder to remove it");
	}
	if (fstat(dir, &st) == 0 && (st.st_mode & 0300) != 0300)
		(void)fchmod(dir, 0700);
	while ((d = readdir(stream)) != NULL) {
		if (is_dots(d->d_name) || unlinkat(dir, d->d_name, 0) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return err_errno(err, "cannot remove '%s'", d->d_name);
		r = remove_folder(walk, dir, d->d_name, depth, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int
tree_empty(int dir, struct err *err)
{
	struct tree_walk walk = { .top = dir };
	int fd, r;

	do {
		walk.again = false;
		fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return err_errno(err, "cannot list a folder to remove it");
		r = empty_folder(&walk, fd, 0, err);
	} while (r == 0 && walk.again);
	return r;
}
