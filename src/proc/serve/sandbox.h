/* sandbox.h - shared by the requests that use the cell of a running dispatch.
 *
 * The registration of the dispatch's agent permits it (`sandbox: true`), for operators and for the agents that may
 * see the dispatch.  Everything happens in the cell, with the rights of its agent. */
#ifndef CLOISTER_SANDBOX_H
#define CLOISTER_SANDBOX_H
#include <stdbool.h>

#include "cell/cell_spec.h"
#include "proc/serve/api.h"
#include "proc/serve/inside.h"

/* In a thread: the cell of the sandbox in the path's first parameter, whose dispatch is in C->id then; otherwise the
 * call has failed. */
int sandbox_find(struct api_call *c, char ret_cell[CELL_ID_LEN + 1]);
/* In a thread: the cell of D, which has begun, can be reached from here, or is over; otherwise the call has failed. */
int sandbox_reach(struct api_call *c, const struct dispatch *d);
/* In a thread: starts one of init's own programs in it, as C->inside. */
int sandbox_start(struct api_call *c, char *const *argv);
/* The same for any command. */
int sandbox_run(struct api_call *c, struct inside_order *order);
/* The query's path, if it is one; otherwise the call has failed. */
int sandbox_path(struct api_call *c, const char **ret_path);
/* The error of one of init's own programs, which ended with STATUS: of VERB ("read") and PATH.  False: it went well. */
bool sandbox_failed(int status, const char *verb, const char *path, struct err *ret_err);
#endif
