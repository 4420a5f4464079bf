/* notify_fd.c - what the descriptors and folders of an agent's process are.
 *
 * A process that is not dumpable hides the links of its descriptors from an ordinary user, even from the owner of its
 * user namespace.  A copy of such a descriptor can still be taken, and named.  Nor does Linux name a file whose path
 * is over 4 KiB: then a folder above it is named. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

#define OF_THREAD O_EXCL                /* PIDFD_THREAD, of Linux 6.9 */
#define UP_16 "../../../../../../../../../../../../../../../../"
#define UP_MAX 64                       /* folders at once */
#define UP_TRIES 40

static int
read_link(const char *path, struct notify_text *ret)
{
	ssize_t n = readlinkat(AT_FDCWD, path, ret->at, sizeof(ret->at));

	ret->len = n < 0 ? 0 : (size_t)n;
	ret->cut = n == (ssize_t)sizeof(ret->at);
	return n < 0 ? -errno : 0;
}

static int
link_of(int fd, struct notify_text *ret)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return read_link(path, ret);
}

int
notify_name(int fd, struct notify_text *ret)
{
	static const char up_max[] = UP_16 UP_16 UP_16 UP_16;
	int at, up, r = link_of(fd, ret);
	unsigned folders = 1;

	if (r != -ENAMETOOLONG)
		return r;
	at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	for (unsigned i = 0; at >= 0 && r == -ENAMETOOLONG && i < UP_TRIES; i++) {
		up = openat(at, up_max + strlen("../") * (UP_MAX - folders), O_PATH | O_DIRECTORY | O_CLOEXEC);
		folders = i < 3 || folders == UP_MAX ? folders : 2 * folders;
		close(at);
		at = up;
		if (at >= 0)
			r = link_of(at, ret);
	}
	closep(&at);
	ret->cut = true;
	return r == -ENAMETOOLONG ? 0 : r;
}

int
notify_link(pid_t tid, const char *what, struct notify_text *ret)
{
	OWN(closep) int fd = -1;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, what);
	r = read_link(path, ret);
	if (r != -ENAMETOOLONG)
		return r;
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : notify_name(fd, ret);
}

int
notify_fd_take(pid_t tid, int fd)
{
	OWN(closep) int of = (int)syscall(SYS_pidfd_open, tid, OF_THREAD);
	int copy;

	/* Before, only the first thread can be named. */
	if (of < 0 && errno == EINVAL)
		of = (int)syscall(SYS_pidfd_open, tid, 0);
	copy = of < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, of, fd, 0);
	return copy < 0 ? -errno : copy;
}

int
notify_fd_open(pid_t tid, int fd)
{
	char path[64];
	int own;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, fd);
	own = open(path, O_PATH | O_CLOEXEC);
	return own >= 0 ? own : errno == EACCES || errno == EPERM ? notify_fd_take(tid, fd) : -errno;
}

int
notify_fd_path(pid_t tid, int fd, struct notify_text *ret)
{
	OWN(closep) int own = -1;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, fd);
	r = read_link(path, ret);
	if (r != -EACCES && r != -EPERM && r != -ENAMETOOLONG)
		return r;
	own = notify_fd_open(tid, fd);
	if (own < 0) {
		r = own;
		own = -1;
		return r;
	}
	return notify_name(own, ret);
}
