/* cell_connect.c - connects to a running cell's supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"

#define PAUSE_MS 5
#define OTHERS 16                       /* other open descriptors */

/* A cell that is about to listen has no socket yet.  A stopped supervisor has a full queue.  Only
 * the lock distinguishes them from a cell that has ended. */
static int
judge_failure(int runtime, const struct cell_entry *entry, struct err *err)
{
	if (errno != ECONNREFUSED && errno != ENOENT && errno != EAGAIN)
		return err_errno(err, "cannot reach cell %s", entry->id);
	if (cell_is_alive(runtime, entry))
		return cell_is_silent(entry, err);
	return err_set(err, ENOENT, "cell %s has just ended", entry->id);
}

int
cell_connect_now(int runtime, const struct cell_entry *entry, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int dir = openat(runtime, entry->dir, O_PATH | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);
	OWN(closep) int fd = -1;

	if (dir < 0)
		return err_set(err, ENOENT, "cell %s has just ended", entry->id);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" CELL_CONTROL, dir);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return judge_failure(runtime, entry, err);
	if (fcntl(fd, F_SETFL, 0) < 0)
		return err_errno(err, "cannot prepare a socket");
	return TAKE_FD(fd);
}

size_t
cell_connect_max(void)
{
	struct rlimit files = { .rlim_cur = 0 };

	io_raise_files();
	(void)getrlimit(RLIMIT_NOFILE, &files);
	return files.rlim_cur > OTHERS + 1 ? (size_t)files.rlim_cur - OTHERS : 1;
}

int
cell_connect(int runtime, const struct cell_entry *entry, struct err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	int fd = cell_connect_now(runtime, entry, err);

	for (int i = 0; fd == -EAGAIN && i < CELL_ANSWER_MS / PAUSE_MS; i++) {
		(void)nanosleep(&pause, NULL);
		fd = cell_connect_now(runtime, entry, err);
	}
	return fd;
}
