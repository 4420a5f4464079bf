/* cell_call.h - a process or a terminal of a running cell, from outside: asks the supervisor for it, and reads the
 * answers.
 *
 * The only client of CONTROL_EXEC and CONTROL_ATTACH, see ipc/control_channel.h. */
#ifndef CLOISTER_CELL_CALL_H
#define CLOISTER_CELL_CALL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/ipc.h"

struct err;

/* Everything is borrowed. */
struct cell_call {
	uint32_t flags;                 /* of INIT_SPAWN */
	unsigned rows, columns;         /* of its terminal */
	const char *cwd;
	char *const *argv, *const *env;
	const char *by;                 /* who asks; NULL: this user */
};
int cell_call_exec(int socket, const struct cell_call *call, const int *fds, size_t n_fds, struct err *err);
/* Likewise for the agent's terminal, for BY (NULL: this user); again when the size changes. */
void cell_call_attach(int socket, unsigned rows, unsigned columns, const char *by);
/* Of the process. */
void cell_call_signal(int socket, int number);
void cell_call_resize(int socket, unsigned rows, unsigned columns);

struct cell_answer {
	enum { CELL_ANSWER_STARTED, CELL_ANSWER_EXITED, CELL_ANSWER_ENDED, CELL_ANSWER_SAYS, CELL_ANSWER_REFUSED } kind;
	uint32_t number;                /* the errno, the status as wait(2) gives it, the cell's status, or the errno */
	const char *text;               /* lives as long as the answer */
	bool has_log;                   /* CELL_ANSWER_STARTED: for an attach, */
	uint64_t log_size;              /* with this much of the log before the terminal's output */
	struct ipc_message message;     /* for its descriptors */
};
void cell_answer_free(struct cell_answer *answer);      /* for OWN() too */
/* As ipc_receive(); -EBADMSG if the supervisor is of another version. */
int cell_call_receive(int socket, struct cell_answer *ret_answer, struct err *err);
#endif
