/* server_copies.c - see server_copies.h. */
#include "tools/server_copies.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

#define NEW "new"                       /* a copy that is being made */

/* Whoever made it is gone if nobody holds its lock. */
static void
remove_if_left(int top, const char *name)
{
	OWN(closep) int dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0 && tree_empty(dir, NULL) == 0)
		(void)unlinkat(top, name, AT_REMOVEDIR);
}

static void
remove_left(int top)
{
	OWN(closedirp) DIR *list = tree_list(top);
	struct dirent *d;

	while (list != NULL && (d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name))
			remove_if_left(top, d->d_name);
}

int
server_copies_open(char ret_path[PATH_MAX], struct err *err)
{
	OWN(freep) char *state = data_state_path(err), *path = state == NULL ? NULL : str_format("%s/" SERVER_COPIES, state);
	OWN(freep) char *real = NULL;
	OWN(closep) int top = path == NULL ? -1 : tree_open_made(path, true, "set CLOISTER_STATE_DIR", err), dir = -1;

	if (path == NULL || top < 0)
		return path == NULL ? err_set(err, ENOENT, "there is no state folder") : top;
	real = realpath(path, NULL);
	if (real == NULL || flock(top, LOCK_EX) < 0)
		return err_errno(err, "cannot use '%s'", path);
	remove_left(top);
	if (snprintf(ret_path, PATH_MAX, "%s/XXXXXX", real) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the path of the state folder is too long");
	if (mkdtemp(ret_path) == NULL)
		return err_errno(err, "cannot make a folder in '%s'", real);
	dir = open(ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0 ? err_errno(err, "cannot use '%s'", ret_path) : TAKE_FD(dir);
}

void
server_copies_close(int dir, const char *path)
{
	(void)tree_empty(dir, NULL);
	(void)rmdir(path);
	close(dir);
}

/* Hashes FROM, and with TO >= 0 writes it there: the same bytes. */
static int
pass(int from, int to, uint64_t max, char ret_hex[2 * HASH_LEN + 1], struct err *err)
{
	unsigned char sum[HASH_LEN];
	uint64_t size;
	int r = to < 0 ? hash_fd(from, max, sum, &size, err) : hash_copy(from, to, max, sum, &size, err);

	if (r == 0)
		codec_hex(sum, sizeof(sum), ret_hex);
	return r;
}

int
server_copies_take(int dir, int from, uint64_t max, const char *pin, char ret_hex[2 * HASH_LEN + 1], struct err *err)
{
	OWN(closep) int to = -1;
	int r;

	if (faccessat(dir, pin, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return pass(from, -1, max, ret_hex, err);
	(void)unlinkat(dir, NEW, 0);
	to = openat(dir, NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return err_errno(err, "cannot make a copy");
	r = pass(from, to, max, ret_hex, err);
	/* As root, the cell's user is nobody outside. */
	if (r == 0 && strcmp(ret_hex, pin) == 0)
		return fchmod(to, 0555) < 0 || renameat(dir, NEW, dir, pin) < 0 ? err_errno(err, "cannot keep a copy") : 0;
	(void)unlinkat(dir, NEW, 0);
	return r;
}
