/* stdio.h - the operator's standard input and output, carried to a process in a cell.
 *
 * Nothing of the operator's goes in as it is: a terminal could be read and typed
 * into, a file or a pipe reopened the other way round, a folder walked out of, and a
 * socket belongs to another network.  All of it is carried, through pipes or a
 * terminal of the cell's own. */
#ifndef CLOISTER_STDIO_H
#define CLOISTER_STDIO_H
#include <stdbool.h>
#include <termios.h>

#include "loop/relay.h"

struct stdio {
	struct loop *loop;
	struct relay in, out, errors;
	int in_fd, out_fd, err_fd;              /* our ends of the cell's */
	int host_in, host_out, host_err;        /* ours of the operator's, not blocking */
	/* A file that is read: what the process leaves of it is given back. */
	int in_unread;                          /* its end of the pipe, to look at only */
	off_t in_start;
	/* A pipe that is read: until the process reads, nothing is taken from it. */
	struct loop_source peek_host, peek_in;
	size_t peeked;                          /* shown to the process, still in the pipe */
	bool peeking;
	struct termios saved;
	bool raw;
	struct clipboard clipboard;             /* of the terminal's output */
	int write_error;                        /* output that could not be written */
	/* Called whenever one of the outputs has come to its end. */
	void (*ended)(void *arg);
	void *arg;
};

/* What is closed of 0, 1 and 2 becomes /dev/null: otherwise the next file that is
 * opened would be taken for it. */
void stdio_fill_closed(void);

void stdio_init(struct stdio *s, struct loop *loop, void (*ended)(void *arg), void *arg);

/* What the process will have as 0, 1 and 2; the caller closes them.  With TTY
 * only standard error, and only where that is not the terminal; the rest is -1. */
int stdio_open(struct stdio *s, bool tty, int ret_inside[3], struct err *err);
/* Where output goes instead; TAKE is as a relay's sink. */
struct stdio_sink {
	ssize_t (*take)(void *arg, const unsigned char *data, size_t len);
	void *arg;
};
/* All output of the process goes to OUT, or what is for standard error to ERRORS if that is not
 * NULL; its input is ours with INPUT, and else nothing. */
int stdio_open_sinks(struct stdio *s, const struct stdio_sink *out, const struct stdio_sink *errors,
                     bool input, int ret_inside[3], struct err *err);
/* MASTER, taken over, is the process's terminal: the operator's becomes raw.  Only with CLIPBOARD may
 * the process set the operator's clipboard. */
int stdio_carry_terminal(struct stdio *s, int master, bool clipboard, struct err *err);
/* The operator's terminal has changed its size. */
void stdio_resize(struct stdio *s);

/* The process is dead: carry what is left.  True when all is carried. */
bool stdio_finish(struct stdio *s);
/* All that came so far is carried.  (What a process left running in the background may
 * hold its outputs open for as long as it likes.) */
bool stdio_is_idle(const struct stdio *s);
/* Let go of everything and give the terminal back as it was. */
void stdio_close(struct stdio *s);
#endif
