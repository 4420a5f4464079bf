/* cell_writable.c - the folders that agents could write: paths with a NUL behind each. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>

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

/* A place on the way to something: where nothing can be said of it, it counts as the agent's. */
static int
distrust_step(void *arg, const char *at, int found)
{
	(void)arg;
	return cell_writable_covers(at) ? -EPERM : found < 0 ? found : 0;
}

bool
cell_writable_leads(const char *path)
{
	char end[PATH_MAX];

	return tree_follow(path, distrust_step, NULL, end) < 0;
}
