/* vm_control.c - a monitor's control socket, as its keeper writes and reads it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "boundary/microvm/vm.h"

static int
ended(struct err *err)
{
	return err_set(err, EPIPE, "the virtual machine's monitor ended");
}

int
vm_control_send(struct vm_control *c, const void *data, size_t len, int fd, struct err *err)
{
	union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } extra = {0};
	size_t at = 0;

	while (at < len) {
		struct iovec part = { (char *)(uintptr_t)data + at, len - at };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		ssize_t n;

		if (fd >= 0 && at == 0) {
			message.msg_control = &extra;
			message.msg_controllen = sizeof(extra.room);
			extra.header = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
			memcpy(CMSG_DATA(&extra.header), &fd, sizeof(fd));
		}
		n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
		if (n < 0 && errno == EPIPE)
			return ended(err);
		if (n < 0)
			return err_errno(err, "cannot tell the virtual machine's monitor what to do");
		at += (size_t)n;
	}
	return 0;
}

int
vm_send_byte(int socket, int fd, struct err *err)
{
	struct vm_control c = { .fd = socket };

	return vm_control_send(&c, "", 1, fd, err);
}

int
vm_receive_byte(int socket, int *ret_fd, struct err *err)
{
	union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } extra = {0};
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &extra,
	                          .msg_controllen = sizeof(extra.room) };
	const struct cmsghdr *header;
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(err, EPIPE, "the virtual machine was given up");
	header = CMSG_FIRSTHDR(&message);
	if (ret_fd == NULL)
		return 0;
	*ret_fd = -1;
	if (header != NULL && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	return 0;
}

int
vm_control_read(struct vm_control *c, struct err *err)
{
	ssize_t n;

	do
		n = read(c->fd, c->text + c->len, sizeof(c->text) - c->len);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return ended(err);
	c->len += (size_t)n;
	return 0;
}
