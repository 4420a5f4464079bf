/* relay.h - carries bytes from one descriptor to another, never blocking the loop.
 *
 * What a relay holds is bounded; it reads only when it has room.  Descriptors
 * are borrowed and their flags are left as they are, because the open file may
 * be shared with other processes. */
#ifndef CLOISTER_RELAY_H
#define CLOISTER_RELAY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "loop/clipboard.h"
#include "loop/loop.h"

struct err;

#define RELAY_BUFFER 65536

struct relay {
	struct loop *loop;
	struct loop_source from, to;
	unsigned char *data;            /* RELAY_BUFFER bytes, while it runs */
	size_t start, len;
	bool from_ended;
	bool always_from, always_to;    /* regular files are always ready */
	int error;                      /* why TO took no more, if it was not EPIPE */
	bool may_block;                 /* TO has no O_NONBLOCK of ours */
	bool from_pipe;
	struct loop_timer again;        /* steps a relay that nothing can wake */
	/* Called once, at the end of FROM (all of it carried) or when TO takes no
	 * more.  It may free the relay. */
	void (*done)(void *arg, struct relay *relay);
	/* Instead of writing to a descriptor; returns how many bytes it took, or -1 and EAGAIN: it
	 * is asked again in the next round. */
	ssize_t (*sink)(void *arg, const unsigned char *data, size_t len);
	void *arg, *sink_arg;
	struct clipboard *clipboard;    /* what it filters, or NULL; borrowed */
};

/* FROM and TO (-1 with a sink) are borrowed until done or relay_drop(). */
int relay_start(struct relay *relay, struct loop *loop, int from, int to,
                struct err *err);
/* Everything that can be carried without waiting, right now. */
void relay_flush(struct relay *relay);
/* Stop; nothing more is called. */
void relay_drop(struct relay *relay);

/* Read from a pipe that others may read too, without ever waiting; -1 and EAGAIN if
 * there is nothing. */
ssize_t relay_read_pipe(int fd, void *data, size_t len);

/* The same open terminal, pipe or device as FD through a description of our own
 * that does not block; a duplicate of FD where that cannot be had. */
int relay_reopen(int fd, int flags);
#endif
