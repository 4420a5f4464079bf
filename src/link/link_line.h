/* link_line.h - the stream between a service and a worker, once TLS is off it: many talks over one mux.
 *
 * Either side opens talks.  A talk carries messages of a u32 type and fields, each behind its length, so a message may be
 * larger than a frame.  Both sides have the tables of ipc/worker_channel.h.  The peer is authenticated, and may still be
 * wrong: what it may not say ends the line.
 *
 * Callbacks come from the loop alone, and may close any talk, but not free the line. */
#ifndef CLOISTER_LINK_LINE_H
#define CLOISTER_LINK_LINE_H
#include "base/buf.h"
#include "ipc/mux.h"
#include "ipc/worker_channel.h"

struct err;
struct link_line;                       /* opaque */

#define LINK_TALKS_MAX 1024             /* that the peer may have open */

struct link_talk {
	struct link_line *line;
	uint32_t kind;                  /* enum worker_talk */
	struct mux_stream *stream;      /* private, as is what follows */
	struct buf in, out;
	struct link_talk *next;
	bool dead, theirs, finishing;
	/* The owner's: set in `opened`, or right after link_line_open(). */
	uint32_t max;                   /* bytes of a message from the peer; WORKER_MESSAGE_MAX unless the owner sets less */
	void (*heard)(void *arg, uint32_t type, struct buf *body);
	/* The peer has closed it, or the line is over.  The talk is freed then. */
	void (*closed)(void *arg);
	/* All that was sent has left, after link_talk_is_full(); may be NULL. */
	void (*drained)(void *arg);
	void *arg;
};

struct link_line_handler {
	/* The peer opens TALK, with the fields BODY.  Negative: the peer may not. */
	int (*opened)(void *arg, struct link_talk *talk, struct buf *body);
	/* It is over, after all its talks are closed.  The owner frees it later, not in here. */
	void (*ended)(void *arg);
};

/* The line owns FD.  IS_SERVICE: which side this is. */
int link_line_new(struct loop *loop, int fd, bool is_service, const struct link_line_handler *handler, void *arg,
                  struct link_line **ret_line, struct err *err);
void link_line_free(struct link_line *line);    /* calls nothing; NULL is fine */

/* BODY: the fields that open a talk of KIND.  NULL: there is no memory, or the line is over. */
struct link_talk *link_line_open(struct link_line *line, enum worker_talk kind, const struct buf *body);
/* MESSAGE was begun with ipc_begin(), or has a larger maximum and its type in front. */
void link_talk_send(struct link_talk *talk, const struct buf *message);
/* Whoever reads from elsewhere for this talk pauses. */
bool link_talk_is_full(const struct link_talk *talk);
/* Ends it, without a callback.  What was sent before may be lost: the peer ends it in an orderly way. */
void link_talk_close(struct link_talk *talk);
/* The same, once everything has left. */
void link_talk_finish(struct link_talk *talk);
#endif
