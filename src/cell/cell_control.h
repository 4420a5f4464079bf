/* cell_control.h - asking a running cell's supervisor: see ipc/control_channel.h.  All of it
 * blocks. */
#ifndef CLOISTER_CELL_CONTROL_H
#define CLOISTER_CELL_CONTROL_H
#include <stdint.h>

#include "cell/cell_dirs.h"
#include "ipc/ipc.h"

struct cell_steer_who;
struct err;
struct json;

/* Send a message that has only a type. */
int cell_control_ask(int socket, uint32_t type, struct err *err);
/* The same of CONTROL_KILL, CONTROL_FREEZE and CONTROL_THAW, on whose behalf; WHO may be NULL, here
 * and below: who runs this process. */
int cell_control_ask_for(int socket, uint32_t type, const struct cell_steer_who *who, struct err *err);
int cell_control_ask_stop(int socket, uint32_t grace_ms, const struct cell_steer_who *who,
                          struct err *err);
/* CONTROL_KILL's first answer: nothing of the cell runs any more.  Anything else, the end of the
 * connection too, says nothing about the cell: boundary/halt.h. */
int cell_control_await_dead(int socket, struct err *err);
/* The end of a cell: its status and cause ("" if none).  -EPIPE: the supervisor hung up, and only
 * cell_is_alive() knows about the cell. */
int cell_control_await_end(int socket, uint32_t *ret_status, char cause[256], struct err *err);
/* CONTROL_FREEZE and CONTROL_THAW: asked for and done, or refused. */
int cell_control_do(int socket, uint32_t type, const struct cell_steer_who *who, struct err *err);
/* The same, from connecting on: -ENOENT if the cell has ended, -EAGAIN if it lives and does not
 * answer within CELL_ANSWER_MS. */
int cell_control_ask_one(int runtime, const struct cell_entry *entry, uint32_t type,
                         const struct cell_steer_who *who, struct err *err);

/* CONTROL_INFO: what follows the state in the answer is in *ret_message. */
int cell_control_ask_info(int socket, struct ipc_message *ret_message, uint32_t *ret_state,
                          struct err *err);

/* A running cell, as its supervisor tells.  Of one in CONTROL_STATE_SILENT, which does not answer
 * within CELL_ANSWER_MS, only id, name, supervisor and about when it started are known. */
struct cell_info {
	struct cell_spec spec;
	uint64_t started_ns, memory, pids;
	uint32_t state, supervisor, init, agent;
	uint32_t can_freeze;            /* 0: it has no cgroup to be frozen by */
	uint32_t waiting;               /* requests, for people to approve them */
};
/* -ENOENT: it has ended.  The caller frees its spec. */
int cell_control_info(int runtime, const struct cell_entry *entry, struct cell_info *ret_info,
                      struct err *err);
const char *cell_info_state(const struct cell_info *info);      /* "running", ... */

/* One object, as `cloister ps --json` and the API have it. */
void cell_info_json(struct json *w, const struct cell_info *info);
void cell_record_json(struct json *w, const struct cell_record *record);
#endif
