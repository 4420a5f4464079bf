/* cell_approvals.h - requests of a running cell that wait for people: see ipc/control_channel.h.
 * All of it blocks, unless the socket does not.
 *
 * An approval is a JSON object:
 *   {"id","cell","name","state":"pending|approved|refused|timed_out|gone","asked","until",
 *    "protocol","method","scheme","host","port","path","query","headers","principal","chain","rule","place",
 *    "reason","body":{"type","size","shape"},"secrets":[...],"approvers":[...],"needs",
 *    "given":[{"by","time"}],"frozen","answer":{"by","why","time","how"}}
 * Texts that are empty are left out.  Times are as records have them. */
#ifndef CLOISTER_CELL_APPROVALS_H
#define CLOISTER_CELL_APPROVALS_H
#include <stdbool.h>
#include <stdint.h>

#include "cell/cell_spec.h"
#include "cell/cell_steer.h"

struct err;

/* "CELL-N", CELL being an id or a name: its parts.  False: it is none. */
bool cell_approval_split(const char *id, char ret_cell[CELL_NAME_MAX + 1], uint64_t *ret_n);

/* ---- what there is: a connection (cell_connect()) is for these alone, as often as wanted ---- */

/* Ask for the next that changed after SEEN (0: any); with WAIT, for when there is one. */
int cell_approvals_ask(int socket, uint64_t seen, bool wait, struct err *err);
/* The answer: 1, and the caller owns *ret_json; 0 if there is none; -EAGAIN where SOCKET does not
 * block; -EPIPE when the cell has ended. */
int cell_approvals_take(int socket, uint64_t *ret_seen, char **ret_json, struct err *err);

/* ---- answers: one to a connection ---- */

/* *RET_ENOUGH: it is approved now, and does not wait for more people. */
int cell_approve(int socket, uint64_t n, enum control_approve how, uint64_t ms,
                 const struct cell_steer_who *who, bool *ret_enough, struct err *err);
/* WHO->why is told to the agent. */
int cell_refuse(int socket, uint64_t n, const struct cell_steer_who *who, struct err *err);
#endif
