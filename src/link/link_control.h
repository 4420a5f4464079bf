/* link_control.h - one connection to a cell's control socket, carried over a talk: messages, the files that come with them,
 * and the bytes of pipes and terminals.
 *
 * Both sides are the same but for what they let through: HANDLER checks each message.  The peer is authenticated, and may be
 * hostile: what it sends is bounded, and what breaks the rules ends this one connection. */
#ifndef CLOISTER_LINK_CONTROL_H
#define CLOISTER_LINK_CONTROL_H
#include "link/link_line.h"

struct link_control;                    /* opaque */

struct link_control_handler {
	/* A message of TYPE is about to go to the peer (OUT), or has come from it.  BODY has its fields, and may be replaced by
	 * others, of which the link_control becomes the owner.  Negative: it is not let through, and the connection ends;
	 * -EPERM with OUT: the sender is refused, for the reason in ERR.  1 with OUT: it goes without its descriptors.  1
	 * without: the owner passes it on later, with link_control_pass(), or refuses it. */
	int (*check)(void *arg, bool out, uint32_t type, struct buf *body, size_t n_fds, struct err *err);
	/* FD is an end of a pipe that goes to the socket.  NULL: nothing is done with it. */
	void (*made)(void *arg, int fd);
	/* It is over.  The owner frees it later, not in here. */
	void (*over)(void *arg);
};

/* Owns SOCKET, a control socket's connection (SOCK_SEQPACKET).  TALK is its own from now on. */
int link_control_new(struct loop *loop, int socket, struct link_talk *talk, const struct link_control_handler *handler,
                     void *arg, struct link_control **ret_control, struct err *err);
/* Ends the talk, too.  NULL is fine. */
void link_control_free(struct link_control *control);
/* Passes a message of the peer's on to the socket. */
void link_control_pass(struct link_control *control, uint32_t type, const struct buf *body, const int *fds, size_t n_fds);
/* Answers the peer with CONTROL_REFUSED, and ends the connection. */
void link_control_refuse(struct link_control *control, const struct err *err);
/* The line of its talk is about to be freed. */
void link_control_forget(struct link_control *control);
#endif
