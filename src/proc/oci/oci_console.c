/* oci_console.c - the terminal of a container: the engine has its master side, the supervisor its slave.
 *
 * The container's process has neither: the supervisor carries the bytes between this terminal and one of the
 * cell's own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/oci/oci.h"

static int
send_master(const char *path, int master, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = {0};
	char name[] = "terminal";
	struct iovec data = { name, sizeof(name) - 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
	                          .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(err, ENAMETOOLONG, "the path of the console socket is too long");
	memcpy(address.sun_path, path, strlen(path) + 1);
	*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(header), &master, sizeof(master));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || sendmsg(fd, &message, 0) < 0)
		return err_errno(err, "cannot send the terminal to '%s'", path);
	return 0;
}

int
oci_open_console(const char *path, unsigned rows, unsigned columns, struct err *err)
{
	OWN(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
	struct termios raw;
	int unlock = 0, r;

	if (path == NULL)
		return err_set(err, EINVAL, "the container has a terminal, so --console-socket is needed");
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
	    (slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 || tcgetattr(slave, &raw) < 0)
		return err_errno(err, "cannot make a terminal");
	/* The cell's own terminal echoes and translates. */
	cfmakeraw(&raw);
	if (tcsetattr(slave, TCSANOW, &raw) < 0 || (rows > 0 && ioctl(master, TIOCSWINSZ, &size) < 0))
		return err_errno(err, "cannot prepare a terminal");
	r = send_master(path, master, err);
	return r < 0 ? r : TAKE_FD(slave);
}

int
oci_enter_console(int fd, struct err *err)
{
	if (ioctl(fd, TIOCSCTTY, 0) < 0)
		return err_errno(err, "cannot enter the terminal");
	for (int i = 0; i < 3; i++)
		if (dup2(fd, i) < 0)
			return err_errno(err, "cannot enter the terminal");
	return 0;
}
