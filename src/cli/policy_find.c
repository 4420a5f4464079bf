/* policy_find.c - finds a file of a folder's project, such as cloister.yaml: its own, or the nearest above it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/policy.h"

static bool
is_at(const struct stat *st, const char *path)
{
	struct stat at;

	return path != NULL && stat(path, &at) == 0 && at.st_dev == st->st_dev && at.st_ino == st->st_ino;
}

/* A policy there would apply to every project, so it only counts for commands that run there. */
static bool
is_top(const struct stat *st)
{
	return is_at(st, getenv("HOME")) || is_at(st, "/");
}

/* A folder of somebody else's, or one that everybody may write, such as /tmp, may hold anybody's policy. */
static bool
may_look(const struct stat *below, const struct stat *above)
{
	return below->st_dev == above->st_dev && !is_top(above) && above->st_uid == geteuid() &&
	       (above->st_mode & S_IWOTH) == 0;
}

static bool
has(int folder, const char *file)
{
	struct stat st;

	return fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int
policy_cli_find(const char *start, const char *file, unsigned *ret_up)
{
	OWN(closep) int folder = open(start, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, above;

	if (folder < 0 || fstat(folder, &st) < 0)
		return -1;
	for (unsigned up = 0;; up++) {
		int next;

		if (has(folder, file)) {
			*ret_up = up;
			return TAKE_FD(folder);
		}
		/* Further up, may_look() checks this. */
		if (up == 0 && is_top(&st))
			return -1;
		next = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -1;
		close(folder);
		folder = next;
		if (fstat(folder, &above) < 0 || !may_look(&st, &above))
			return -1;
		st = above;
	}
}
