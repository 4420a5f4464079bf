/* file_lock.c - see file_lock.h. */
#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/own.h"

int
file_lock(int folder, const char *name, pid_t *ret_owner, struct err *err)
{
	struct flock own = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	OWN(closep) int fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "cannot open the lock '%s'", name);
	if (fcntl(fd, F_SETLK, &own) == 0)
		return TAKE_FD(fd);
	if (errno != EAGAIN && errno != EACCES)
		return err_errno(err, "cannot take the lock '%s'", name);
	*ret_owner = fcntl(fd, F_GETLK, &own) == 0 && own.l_type != F_UNLCK && own.l_pid > 0 ? own.l_pid : 0;
	return err_set(err, EBUSY, "the process %d has the lock '%s'", (int)*ret_owner, name);
}
