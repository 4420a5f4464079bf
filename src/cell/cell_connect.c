/* cell_connect.c - the way to a running cell's supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"

int
cell_connect(int runtime, const struct cell_entry *entry, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int dir = openat(runtime, entry->dir, O_PATH | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);
	OWN(closep) int fd = -1;

	if (dir < 0)
		return err_set(err, ENOENT, "cell %s has just ended", entry->id);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" CELL_CONTROL, dir);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT)
			return err_set(err, ENOENT, "cell %s has just ended", entry->id);
		return err_errno(err, "cannot reach cell %s", entry->id);
	}
	return TAKE_FD(fd);
}
