/* cell_control.h - sends requests to a running cell's supervisor: see ipc/control_channel.h.
 *
 * All functions block. */
#ifndef CLOISTER_CELL_CONTROL_H
#define CLOISTER_CELL_CONTROL_H
#include <stdint.h>

#include "cell/cell_dirs.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

struct cell_steer_who;
struct err;
struct json;

/* Send a request without numbers and texts, on behalf of WHO.  Here and below, a NULL WHO is the user
 * of this process. */
int cell_control_ask(int socket, enum steer_verb verb, const struct cell_steer_who *who, struct err *err);
int cell_control_ask_stop(int socket, uint32_t grace_ms, const struct cell_steer_who *who,
                          struct err *err);
/* CONTROL_KILL's first answer: no process of the cell is left.  No other result, nor the end of the
 * connection, means that the cell is dead: see boundary/halt.h. */
int cell_control_await_dead(int socket, struct err *err);
/* Wait for the end of a cell: its status and cause ("" if none).  -EPIPE: the supervisor hung up,
 * and only cell_is_alive() knows about the cell. */
int cell_control_await_end(int socket, uint32_t *ret_status, char cause[256], struct err *err);
/* Send VERB_FREEZE or VERB_THAW, and wait until it is done or refused. */
int cell_control_do(int socket, enum steer_verb verb, const struct cell_steer_who *who, struct err *err);
/* The same, including the connection: -ENOENT if the cell has ended, -EAGAIN if it lives and does
 * not answer within CELL_ANSWER_MS. */
int cell_control_ask_one(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                         const struct cell_steer_who *who, struct err *err);

/* Send CONTROL_INFO.  *ret_message has the rest of the answer, behind the state. */
int cell_control_ask_info(int socket, struct ipc_message *ret_message, uint32_t *ret_state,
                          struct err *err);

/* What a cell uses; a number that is 0 is unknown, unless it is marked as known. */
struct cell_use {
	uint64_t cpu_us, peak, disk;
	uint64_t read, written;
	uint64_t pressure_cpu, pressure_io, pressure_memory;    /* hundredths of a per cent of the last 10 s */
	uint32_t has_io, has_pressure;
};

/* A running cell, as its supervisor describes it.  In CONTROL_STATE_SILENT it does not answer
 * within CELL_ANSWER_MS: then only its id, name, supervisor and approximate start are known. */
struct cell_info {
	struct cell_spec spec;
	uint64_t started_ns, memory, pids;
	uint32_t state, supervisor, init, agent;
	uint32_t can_freeze;            /* 0: it has no cgroup to freeze */
	uint32_t waiting;               /* requests that wait for approval */
	struct cell_use use;
	char machine[CELL_MACHINE_MAX + 1];     /* "": this one */
};
/* -ENOENT: the cell has ended.  The caller frees the spec. */
int cell_control_info(int runtime, const struct cell_entry *entry, struct cell_info *ret_info,
                      struct err *err);
/* The word for a state, in every command, in JSON, in the API and in `top`: "running", "waiting" (it runs, and
 * requests wait for approval), "frozen", "paused", "ending", "silent", "ended", or "restarting" (none runs: the next
 * one starts soon). */
const char *cell_state_word(uint32_t state, uint32_t waiting);
#define CELL_STATE_ENDED (CONTROL_STATE_SILENT + 1)     /* states for cell_state_word() */
#define CELL_STATE_RESTARTS (CONTROL_STATE_SILENT + 2)
const char *cell_info_state(const struct cell_info *info);

/* Write one object, as in `cloister ps --json` and the API. */
void cell_info_json(struct json *w, const struct cell_info *info);
void cell_record_json(struct json *w, const struct cell_record *record);
#endif
