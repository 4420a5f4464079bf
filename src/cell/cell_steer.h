/* cell_steer.h - changing a running cell, by way of its supervisor: see ipc/control_channel.h.
 * All of it blocks.
 *
 * For the CLI and for serve alike.  A new request: a function that puts its message together
 * with cell_steer_begin() and sends it with cell_steer(), in a file of its own. */
#ifndef CLOISTER_CELL_STEER_H
#define CLOISTER_CELL_STEER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"

struct err;

#define CELL_STEER_S 60                 /* how long an answer is waited for */

/* On whose behalf it is asked for, and why.  BY is NULL or "" for who runs this process; what
 * serve puts there is "token NAME" or "uid N".  Both are recorded, in the cell's timeline and, unless
 * TELLS, in which case the caller does so, in the operator's. */
struct cell_steer_who {
	const char *by, *why;
	bool tells;
};

/* What all requests begin with. */
void cell_steer_put_who(struct buf *message, const struct cell_steer_who *who);
/* MESSAGE is initialised and holds that. */
void cell_steer_begin(struct buf *message, uint32_t type, const struct cell_steer_who *who);
/* Ask over SOCKET (cell_connect()), which is good for one request: 0 once it is in force, or
 * negative, why it is not.  *RET_ANSWER, which may be NULL, is what CONTROL_DONE carries; the
 * caller frees it. */
int cell_steer(int socket, const struct buf *message, const int *fds, size_t n_fds,
               struct ipc_message *ret_answer, struct err *err);
/* The two halves of that, for who asks many at once. */
int cell_steer_ask(int socket, const struct buf *message, const int *fds, size_t n_fds,
                   struct err *err);
int cell_steer_await(int socket, struct ipc_message *ret_answer, struct err *err);
/* What WHY may be: one line, not too long. */
int cell_steer_check_why(const char *why, struct err *err);
#endif
