/* inside.h - a process in a running cell, whose standard streams the service has.
 *
 * inside_open() blocks: call it in a thread.  The rest belongs to the loop.  The process has the rights and the
 * environment of the cell's agent.  Whatever it writes is the agent's word. */
#ifndef CLOISTER_INSIDE_H
#define CLOISTER_INSIDE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "loop/loop.h"

enum inside_stream { INSIDE_OUT, INSIDE_ERR, INSIDE_STREAMS };

/* All of it is borrowed. */
struct inside_order {
	char *const *argv;
	char *const *env;               /* "NAME=VALUE", besides the agent's own; NULL: none */
	const char *cwd;                /* in the cell; NULL: the agent's */
	const char *by;                 /* who asks for it: for the cell's record */
	bool own;                       /* one of init's own programs: INIT_OWN */
	bool tty;
	unsigned rows, columns;         /* of the terminal */
};

struct inside {
	/* The ends of its streams, non-blocking; 0: closed.  With a terminal, INSIDE_OUT is that, and TO a copy. */
	int to, from[INSIDE_STREAMS];
	/* Called in the loop.  STARTED: it runs, or ERROR explains why not; then nothing else is called. */
	void (*started)(void *arg, const struct err *error);
	/* It has ended with STATUS, as wait(2) gives it; or ERROR: nobody knows, because its cell has ended or its
	 * supervisor hung up. */
	void (*ended)(void *arg, int status, const struct err *error);
	void *arg;
	char cause[256];                /* why the cell of a terminal ended; "": its agent did */
	/* private */
	struct loop *loop;
	struct loop_source source;      /* the control socket */
	char *name;                     /* for errors */
	bool tty, attached, has_started, has_ended;
};

/* Starts the process in CELL, an id.  -ENOENT: that cell has ended.  The caller owns *ret_inside. */
int inside_open(const char *cell, const struct inside_order *order, struct inside **ret_inside, struct err *err);
/* Joins the terminal of the agent of CELL, an id, with the ORDER's size: it is INSIDE_OUT and TO.  It has STARTED, and
 * ENDED is that of the cell.  BEFORE, a CELL_SCREEN_BUF, is what draws the screen as it is.  Blocks, for a few seconds
 * at most.  -ENOTTY: the cell has no terminal to join. */
int inside_attach(const char *cell, const struct inside_order *order, struct inside **ret_inside, struct buf *before,
                  struct err *err);
/* From now on the functions above are called, which must be set. */
int inside_watch(struct inside *inside, struct loop *loop, struct err *err);
void inside_signal(struct inside *inside, int number);
void inside_resize(struct inside *inside, unsigned rows, unsigned columns);
void inside_close_input(struct inside *inside);
/* Kills the process if it runs, or leaves the terminal, and frees everything; NULL is fine. */
void inside_free(struct inside *inside);

/* As read(2): -EAGAIN if there is nothing yet, 0 at the end. */
ssize_t inside_read(struct inside *inside, enum inside_stream stream, void *data, size_t len);
/* As write(2), of what fits: -EAGAIN; -EPIPE if nobody reads it. */
ssize_t inside_write(struct inside *inside, const void *data, size_t len);

/* The status as a shell gives it. */
int inside_status(int status);
#endif
