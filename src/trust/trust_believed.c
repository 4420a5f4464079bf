/* trust_believed.c - lists the files that cloister has used: paths, each with a NUL behind it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/data.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"

static int
open_list(int flags)
{
	OWN(freep) char *path = data_state_path(NULL);
	OWN(closep) int state = path == NULL ? -1 :
	                        tree_open_made(path, (flags & O_CREAT) != 0, "", NULL);

	return state < 0 ? -1 : openat(state, TRUST_BELIEVED, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* System files never come from a workspace. */
static bool
is_systems(const char *path)
{
	static const char *const systems[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc",
	                                       "/dev", "/proc", "/sys" };

	for (size_t i = 0; i < ARRAY_LEN(systems); i++)
		if (tree_is_beneath(path, systems[i]))
			return true;
	return false;
}

static bool
lists(const char *text, size_t len, const char *path)
{
	for (const char *at = text; at < text + len; at += strlen(at) + 1)
		if (strcmp(at, path) == 0)
			return true;
	return false;
}

/* If the list is full, drop the older half: files in use are soon listed again. */
static int
drop_half(int fd, char *text, size_t *len)
{
	char *half = text + *len / 2;

	half += strlen(half) + 1;
	*len -= (size_t)(half - text);
	memmove(text, half, *len);
	return ftruncate(fd, 0) == 0 && pwrite(fd, text, *len, 0) == (ssize_t)*len ? 0 : -EIO;
}

void
trust_believe(const char *path)
{
	OWN(trust_own_free) struct trust_own own = {0};
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	size_t len = 0, more = strlen(path) + 1;

	if (path[0] != '/' || more > PATH_MAX || is_systems(path))
		return;
	trust_own_find(&own);
	if (trust_own_covers(&own, path))
		return;
	fd = open_list(O_RDWR | O_CREAT);
	if (fd < 0 || flock(fd, LOCK_EX) < 0 ||
	    read_whole(fd, TRUST_BELIEVED_MAX + PATH_MAX, &text, &len, NULL) < 0 || lists(text, len, path) ||
	    (len > TRUST_BELIEVED_MAX && drop_half(fd, text, &len) < 0))
		return;
	(void)!pwrite(fd, path, more, (off_t)len);
}

int
trust_each_believed(int (*each)(void *arg, const char *path), void *arg)
{
	OWN(closep) int fd = open_list(O_RDONLY);
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = 0;

	if (fd < 0)
		return 0;
	(void)flock(fd, LOCK_SH);
	if (read_whole(fd, TRUST_BELIEVED_MAX + 2 * PATH_MAX, &text, &len, NULL) < 0)
		return 0;
	for (const char *at = text; r == 0 && at < text + len; at += strlen(at) + 1)
		r = each(arg, at);
	return r;
}
