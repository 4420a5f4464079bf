/* cell_approvals.h - lists and answers requests of a running cell that wait for approval: see
 * ipc/control_channel.h.
 *
 * All functions block, unless the socket does not.
 *
 * An approval is a JSON object:
 *   {"id","cell","name","state":"pending|approved|refused|timed_out|gone","asked","until",
 *    "protocol","method","scheme","host","port","path","query","headers","principal","chain","rule","place",
 *    "reason","body":{"type","size","shape"},"secrets":[...],"approvers":[...],"needs",
 *    "given":[{"by","time"}],"frozen","answer":{"by","why","time","how"}}
 * Empty texts are left out.  Times have the format of records. */
#ifndef CLOISTER_CELL_APPROVALS_H
#define CLOISTER_CELL_APPROVALS_H
#include <stdbool.h>
#include <stdint.h>

#include "cell/cell_spec.h"
#include "cell/cell_steer.h"

struct err;

/* Split "CELL-N", where CELL is an id or a name.  False if ID has another form. */
bool cell_approval_split(const char *id, char ret_cell[CELL_NAME_MAX + 1], uint64_t *ret_n);

/* ---- listing: use one connection (cell_connect()) only for these, as often as needed ---- */

/* Ask for the next approval that changed after SEEN (0: any).  With WAIT, wait until there is one. */
int cell_approvals_ask(int socket, uint64_t seen, bool wait, struct err *err);
/* Receive the answer.  Returns 1, and the caller owns *ret_json; 0 if there is none; -EAGAIN on a
 * non-blocking socket; -EPIPE if the cell has ended. */
int cell_approvals_take(int socket, uint64_t *ret_seen, char **ret_json, struct err *err);

/* ---- answering: one answer per connection ---- */

/* *RET_ENOUGH: the request is approved now, and needs no more approvals. */
int cell_approve(int socket, uint64_t n, enum control_approve how, uint64_t ms,
                 const struct cell_steer_who *who, bool *ret_enough, struct err *err);
/* The agent sees WHO->why. */
int cell_refuse(int socket, uint64_t n, const struct cell_steer_who *who, struct err *err);
#endif
