/* ipc.c - see ipc.h. */
#include "ipc/ipc.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

void
ipc_begin(struct buf *body, uint32_t type)
{
	buf_init(body, IPC_MESSAGE_MAX);
	buf_put_u32(body, type);
}

/* The kernel counts descriptors in flight per user, against the sender's limit on open files.  An
 * agent of the same user can use that up.  Its own limit is lower (ns_child.c), so raising ours
 * leaves room. */
static ssize_t
send_beyond(int socket, const struct msghdr *msg)
{
	struct rlimit was, most;
	ssize_t n;
	int error;

	if (getrlimit(RLIMIT_NOFILE, &was) < 0 || was.rlim_cur == was.rlim_max) {
		errno = ETOOMANYREFS;
		return -1;
	}
	most = (struct rlimit){ was.rlim_max, was.rlim_max };
	(void)setrlimit(RLIMIT_NOFILE, &most);
	n = sendmsg(socket, msg, MSG_NOSIGNAL);
	error = errno;
	(void)setrlimit(RLIMIT_NOFILE, &was);
	errno = error;
	return n;
}

int
ipc_write(int fd, const struct buf *message, struct err *err)
{
	uint32_t len = htole32((uint32_t)message->len);
	int r = write_all(fd, &len, sizeof(len), err);

	return r < 0 ? r : write_all(fd, message->data, message->len, err);
}

int
ipc_send(int socket, const struct buf *body, const int *fds, size_t n_fds,
         struct err *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * IPC_FDS_MAX)];
	} control = {0};
	struct iovec iov = { .iov_base = body->data, .iov_len = body->len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;
	ssize_t n;

	if (buf_failed(body) || n_fds > IPC_FDS_MAX)
		return err_set(err, E2BIG, "a message between processes is over %d KiB",
		               IPC_MESSAGE_MAX / 1024);
	if (n_fds > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
	}
	do
		n = sendmsg(socket, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ETOOMANYREFS)
		n = send_beyond(socket, &msg);
	if (n < 0)
		return err_errno(err, "cannot send to another process of the cell");
	return 0;
}

/* Take the message's descriptors.  If there are too many, the kernel closes the rest and sets
 * MSG_CTRUNC. */
static void
ipc_take_rights(struct msghdr *msg, struct ipc_message *message)
{
	struct cmsghdr *cmsg;
	size_t n;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (n > IPC_FDS_MAX - message->n_fds)
			n = IPC_FDS_MAX - message->n_fds;
		memcpy(message->fds + message->n_fds, CMSG_DATA(cmsg), n * sizeof(int));
		message->n_fds += n;
	}
}

int
ipc_receive(int socket, struct ipc_message *ret_message, struct err *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * IPC_FDS_MAX)];
	} control = {0};
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	OWN(freep) void *data = NULL;
	int reset = 0;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
	                      .msg_control = control.bytes,
	                      .msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	/* A peer that exits with unread messages resets the connection, but its earlier messages
	 * are still there. */
	do
		n = recv(socket, NULL, 0, MSG_PEEK | MSG_TRUNC);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
	if (n < 0)
		return err_errno(err, "cannot hear from another process of the cell");
	if (n == 0)
		return err_set(err, EPIPE, "the other process has gone");
	if (n > IPC_MESSAGE_MAX)
		return err_set(err, EBADMSG, "a message between processes is too long");
	data = malloc((size_t)n);
	if (data == NULL)
		return err_errno(err, "cannot hear from another process of the cell");
	iov = (struct iovec){ .iov_base = data, .iov_len = (size_t)n };
	do
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
	if (n < 0)
		return err_errno(err, "cannot hear from another process of the cell");
	ipc_take_rights(&msg, &message);
	message.body = (struct buf){ .data = TAKE(data), .len = (size_t)n,
	                             .cap = (size_t)n, .max = (size_t)n, .high = (size_t)n };
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
	    buf_get_u32(&message.body, &message.type) < 0)
		return err_set(err, EBADMSG, "a message between processes is malformed");
	*ret_message = message;
	message = (struct ipc_message){ .fds = { -1, -1, -1, -1 } };
	return 0;
}

void
ipc_message_free(struct ipc_message *message)
{
	for (size_t i = 0; i < message->n_fds; i++)
		closep(&message->fds[i]);
	message->n_fds = 0;
	buf_free(&message->body);
}

int
ipc_take_fd(struct ipc_message *message, size_t i)
{
	return i < message->n_fds ? TAKE_FD(message->fds[i]) : -1;
}
