/* stdio.h - relays the operator's standard input and output to a process in a cell.
 *
 * The process never gets the operator's own descriptors.  It could read and type into a terminal,
 * reopen a file or a pipe the other way round, walk out of a folder, or use a socket of another
 * network.  All bytes are relayed, through pipes or a terminal of the cell's own. */
#ifndef CLOISTER_STDIO_H
#define CLOISTER_STDIO_H
#include <stdbool.h>
#include <termios.h>

#include "loop/clipboard.h"
#include "loop/relay.h"

struct detach;
struct screen;

struct stdio {
	struct loop *loop;
	struct relay in, out, errors;
	int in_fd, out_fd, err_fd;              /* our ends of the cell's pipes */
	int host_in, host_out, host_err;        /* our own of the operator's, non-blocking */
	/* For an input file: the part that the process does not read is given back. */
	int in_unread;                          /* its end of the pipe, only to inspect */
	off_t in_start;
	/* For an input pipe: nothing is taken from it until the process reads. */
	struct loop_source peek_host, peek_in;
	size_t peeked;                          /* bytes shown to the process, still in the pipe */
	bool peeking;
	pid_t group;                            /* our process group */
	struct termios saved;
	bool raw;
	struct clipboard clipboard;             /* filters the terminal's output */
	bool may_set_clipboard;
	/* Set by the owner, or NULL; borrowed: the keys that leave the terminal, and what its output has set. */
	struct detach *detach;
	struct screen *screen;
	int write_error;                        /* errno of output that could not be written */
	/* Called whenever one of the outputs ends. */
	void (*ended)(void *arg);
	/* Sets the size of a terminal that a socket stands for; NULL if there is none such. */
	void (*resize)(void *arg, unsigned rows, unsigned columns);
	void *arg;
};

/* Open /dev/null for each of 0, 1 and 2 that is closed: otherwise the next file opened would take
 * its place. */
void stdio_fill_closed(void);

void stdio_init(struct stdio *s, struct loop *loop, void (*ended)(void *arg), void *arg);

/* Open the process's 0, 1 and 2; the caller closes them.  With TTY, only standard error is opened,
 * and only if it is not the terminal; the others are -1. */
int stdio_open(struct stdio *s, bool tty, int ret_inside[3], struct err *err);
/* A destination for output; TAKE works as a relay's sink. */
struct stdio_sink {
	ssize_t (*take)(void *arg, const unsigned char *data, size_t len);
	void *arg;
};
/* Send the process's output to OUT, and its standard error to ERRORS, or to OUT if that is NULL.
 * With INPUT the process reads our standard input, else nothing. */
int stdio_open_sinks(struct stdio *s, const struct stdio_sink *out, const struct stdio_sink *errors,
                     bool input, int ret_inside[3], struct err *err);
/* Relay the process's terminal MASTER, or the socket that stands for it, and take ownership of it.  The operator's terminal becomes
 * raw.  The process may set the operator's clipboard only with CLIPBOARD. */
int stdio_carry_terminal(struct stdio *s, int master, bool clipboard, struct err *err);
/* Send the output of the process's terminal MASTER, or of the socket that stands for it, to OUT, and take
 * ownership of it.  If OUT takes nothing, its owner calls stdio_flush() once it does. */
int stdio_carry_sink(struct stdio *s, int master, const struct stdio_sink *out, struct err *err);
/* Pass on the new size of the operator's terminal. */
void stdio_resize(struct stdio *s);

/* The process is dead: relay the rest.  True when everything is relayed. */
bool stdio_finish(struct stdio *s);
/* Relay as much as a pipe can hold, of what has arrived and can be relayed now. */
void stdio_flush(struct stdio *s);
/* Whether everything that arrived so far is relayed.  Background processes may hold the outputs
 * open for as long as they like. */
bool stdio_is_idle(const struct stdio *s);
/* Free everything and restore the terminal. */
void stdio_close(struct stdio *s);
#endif
