/* cell_writable.c - the folders that agents could write: paths with a NUL behind each. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

static bool
lists(const char *text, size_t len, const char *path)
{
	for (const char *at = text; at < text + len; at += strlen(at) + 1)
		if (tree_is_beneath(path, at))
			return true;
	return false;
}

int
cell_writable_note(const struct cell_spec *spec, struct err *err)
{
	OWN(closep) int state = -1, fd = -1;
	OWN(freep) char *text = NULL;
	size_t len, n = 0;
	int r = 0;

	for (size_t i = 0; i < spec->n_grants; i++)
		n += spec->grants[i].access == CELL_WRITE;
	if (n == 0)
		return 0;
	state = cell_state_open(true, err);
	if (state < 0)
		return state;
	fd = openat(state, CELL_WRITABLE, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot note what the agent may write");
	r = read_file_at(state, CELL_WRITABLE, CELL_WRITABLE_MAX, &text, &len, err);
	for (size_t i = 0; r == 0 && i < spec->n_grants; i++) {
		const char *host = spec->grants[i].host;

		if (spec->grants[i].access == CELL_WRITE && !lists(text, len, host))
			r = write_all(fd, host, strlen(host) + 1, err);
	}
	/* Full: then everything counts as written, which is safe. */
	return r == -EFBIG ? 0 : r;
}

bool
cell_writable_covers(const char *path)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (state < 0)
		return false;
	r = read_file_at(state, CELL_WRITABLE, CELL_WRITABLE_MAX, &text, &len, NULL);
	return r == -ENOENT ? false : r < 0 ? true : lists(text, len, path);
}

#define LINKS_MAX 40                    /* as the kernel has it */

/* What comes behind a link at AT: its target, then REST.  0: there is none; negative: it
 * leads nowhere that can be said. */
static int
follow_link(const char *at, char rest[PATH_MAX])
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlink(at, target, sizeof(target) - 1);

	if (n < 0)
		return errno == EINVAL ? 0 : -errno;
	target[n] = '\0';
	if (snprintf(joined, sizeof(joined), "%s/%s", target, rest) >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(rest, joined, strlen(joined) + 1);
	return 1;
}

/* One part of REST, behind AT, which has no links in it.  1: there are more; 0: that was
 * all; negative: it is not the operator's word alone. */
static int
take_step(char at[PATH_MAX], char rest[PATH_MAX], int *links)
{
	size_t skip = strspn(rest, "/"), len = strcspn(rest + skip, "/"), was;
	const char *part = rest + skip;
	int r;

	if (skip > 0)
		memmove(rest, part, strlen(part) + 1);
	if (len == 0)
		return 0;
	was = strlen(at);
	if (len == 2 && memcmp(rest, "..", 2) == 0) {
		at[was > 0 ? (size_t)(strrchr(at, '/') - at) : 0] = '\0';
	} else if (len != 1 || rest[0] != '.') {
		if (was + 1 + len >= PATH_MAX)
			return -ENAMETOOLONG;
		at[was] = '/';
		memcpy(at + was + 1, rest, len);
		at[was + 1 + len] = '\0';
		if (cell_writable_covers(at))
			return -EPERM;
		memmove(rest, rest + len, strlen(rest + len) + 1);
		r = follow_link(at, rest);
		if (r < 0 || (r > 0 && ++*links > LINKS_MAX))
			return r < 0 ? r : -ELOOP;
		if (r > 0)
			at[rest[0] == '/' ? 0 : was] = '\0';
		return 1;
	}
	memmove(rest, rest + len, strlen(rest + len) + 1);
	return 1;
}

bool
cell_writable_leads(const char *path)
{
	char at[PATH_MAX] = "", rest[PATH_MAX];
	int r = 1, links = 0;

	if (path[0] != '/' && (getcwd(at, sizeof(at)) == NULL || at[0] != '/'))
		return true;
	if (strcmp(at, "/") == 0)
		at[0] = '\0';
	if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
		return true;
	while (r > 0)
		r = take_step(at, rest, &links);
	return r < 0;
}
