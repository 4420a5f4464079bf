/* cell_steer.h - changes a running cell through its supervisor, for the CLI and serve: see
 * ipc/control_channel.h.
 *
 * All functions block.  A function for a request builds its message with cell_steer_put() and sends
 * it with cell_steer(). */
#ifndef CLOISTER_CELL_STEER_H
#define CLOISTER_CELL_STEER_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

struct err;

#define CELL_STEER_S 60                 /* timeout for an answer */

/* On whose behalf a request is made, and why.  BY is NULL or "" for the user of this process; serve
 * sets "token NAME" or "uid N".  Both are recorded in the cell's timeline and in the operator's.
 * With TELLS, the caller writes to the operator's timeline itself. */
struct cell_steer_who {
	const char *by, *why;
	bool tells;
};

/* Write Q to MESSAGE (steer_put()), for WHO; NULL: for the user of this process, and without a reason. */
void cell_steer_put(struct buf *message, const struct cell_steer_who *who, const struct steer_request *q);
/* Send a request over SOCKET (cell_connect()), which is good for one.  Returns 0 once it is in
 * force, or a negative errno.  *RET_ANSWER, unless NULL, gets the content of CONTROL_DONE; the
 * caller frees it. */
int cell_steer(int socket, const struct buf *message, const int *fds, size_t n_fds,
               struct ipc_message *ret_answer, struct err *err);
/* The two halves of that, for callers that ask many cells at once. */
int cell_steer_ask(int socket, const struct buf *message, const int *fds, size_t n_fds,
                   struct err *err);
int cell_steer_await(int socket, struct ipc_message *ret_answer, struct err *err);
/* Check that WHY is one line and not too long. */
int cell_steer_check_why(const char *why, struct err *err);
#endif
