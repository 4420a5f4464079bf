/* ipc.h - messages between processes, each one datagram of a SOCK_SEQPACKET socket.
 *
 * A message is a u32 type and the fields that its channel's header documents.  Descriptors may come
 * with it.  The socket identifies the peer, never the message. */
#ifndef CLOISTER_IPC_H
#define CLOISTER_IPC_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

/* Fits the default socket buffer with room for the kernel's bookkeeping. */
#define IPC_MESSAGE_MAX (144 * 1024)
#define IPC_FDS_MAX 5

struct ipc_message {
	uint32_t type;
	struct buf body;                /* its read position is behind the type */
	int fds[IPC_FDS_MAX];           /* close-on-exec; -1 if there is none */
	size_t n_fds;
};

/* Start a message: BODY is initialised and holds the type. */
void ipc_begin(struct buf *body, uint32_t type);
/* Write MESSAGE behind its length, a u32, to a stream that passes no messages; waits until it is written. */
int ipc_write(int fd, const struct buf *message, struct err *err);
/* Send BODY, which ipc_begin() started; borrows the descriptors. */
int ipc_send(int socket, const struct buf *body, const int *fds, size_t n_fds,
             struct err *err);
/* Receive the next message.  Returns 0, -EPIPE at the end, -EAGAIN on a non-blocking socket, or
 * -EBADMSG for an invalid message.  The caller owns *ret_message (ipc_message_free) and its
 * descriptors. */
int ipc_receive(int socket, struct ipc_message *ret_message, struct err *err);
void ipc_message_free(struct ipc_message *message);     /* for OWN() too */
/* Take descriptor I: the caller owns it. */
int ipc_take_fd(struct ipc_message *message, size_t i);
#endif
