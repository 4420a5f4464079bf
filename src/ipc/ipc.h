/* ipc.h - messages between processes: one datagram of a SOCK_SEQPACKET socket each.
 *
 * A message is a u32 type and the fields that its channel's header documents;
 * descriptors may ride along.  Who is at the other end is known from the
 * socket, never from the message. */
#ifndef CLOISTER_IPC_H
#define CLOISTER_IPC_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

/* Fits the default socket buffer with room for the kernel's bookkeeping. */
#define IPC_MESSAGE_MAX (144 * 1024)
#define IPC_FDS_MAX 4

struct ipc_message {
	uint32_t type;
	struct buf body;                /* read position behind the type */
	int fds[IPC_FDS_MAX];           /* close-on-exec; -1 where there is none */
	size_t n_fds;
};

/* Start a message: BODY is initialised and holds the type. */
void ipc_begin(struct buf *body, uint32_t type);
/* Send BODY, which ipc_begin() started; borrows the descriptors. */
int ipc_send(int socket, const struct buf *body, const int *fds, size_t n_fds,
             struct err *err);
/* The next message: 0, or -EPIPE at the end, -EAGAIN where the socket does not
 * block, -EBADMSG for what is no message.  The caller owns *ret_message
 * (ipc_message_free), also its descriptors. */
int ipc_receive(int socket, struct ipc_message *ret_message, struct err *err);
void ipc_message_free(struct ipc_message *message);     /* for OWN() too */
/* Take descriptor I over: it is the caller's now. */
int ipc_take_fd(struct ipc_message *message, size_t i);
#endif
