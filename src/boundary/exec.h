/* exec.h - runs another process in a running cell, over the control socket of its supervisor.
 *
 * The caller's standard input and output are relayed, through pipes or a terminal of the cell's own, and its
 * signals are passed on. */
#ifndef CLOISTER_EXEC_H
#define CLOISTER_EXEC_H
#include <stdbool.h>

#include "base/err.h"
#include "cell/cell_dirs.h"
#include "cell/cell_spec.h"
#include "loop/stdio.h"

/* Everything is borrowed until exec_run() returns. */
struct exec {
	char *const *argv, *const *env;
	const char *cwd;                /* in the cell */
	bool tty, clipboard;
	unsigned rows, columns;         /* of the terminal, if standard input is none */
	const struct cell_spec *cell;   /* the cell's own description */
	struct cell_entry entry;
	/* Called once the process runs, and for a line of the supervisor's; NULL: not. */
	void (*started)(void *arg);
	void (*says)(struct exec *exec, const char *text);
	void *arg;

	/* The outcome, and the rest: exec.c. */
	struct err err;                 /* code 0: the process ran, and ended with STATUS */
	int status;                     /* as of a shell; after an error the one to report, or 0 */
	bool is_cell_gone;              /* the cell ended before the process did */
	bool exited;
	struct loop *loop;
	struct stdio stdio;
	struct loop_source source;
};

/* Runs the process to its end.  SOCKET is connected to the supervisor, and is closed when this process ends. */
void exec_run(struct exec *exec, int socket);
#endif
