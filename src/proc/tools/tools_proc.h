/* tools_proc.h - cloister-tools: the gateway between an agent and its MCP servers.
 *
 * Two processes.  The keeper has the operator's rights, starts the cells of the servers, and reads only the
 * worker's small requests.  The worker reads what the agent and the servers send, and can do nothing but
 * talk with them. */
#ifndef CLOISTER_TOOLS_PROC_H
#define CLOISTER_TOOLS_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/tools_channel.h"
#include "loop/loop.h"
#include "policy/policy.h"
#include "policy/policy_tools.h"

struct err;

#define TOOLS_WORKER "cloister-tools-worker"

/* Reads the policy at FD, and closes that. */
int tools_read_policy(int fd, struct policy **ret_policy, struct err *err);

/* ---- tools_keeper.c: the cells of the servers ---- */

#define KEEPER_STOP_MS 3000             /* between asking a cell to end and killing it */
#define KEEPER_FIND_MS 1000             /* between looks for the timeline of a cell that starts */
#define KEEPER_LOOK_MS 50               /* after a change of a timeline, until it is read */
#define KEEPER_RESTARTS_MAX 5           /* starts of one server that ended by itself, in */
#define KEEPER_RESTARTS_MS (10 * 60 * 1000)

/* Takes the worker's messages from CHANNEL. */
int tools_keeper_begin(struct loop *loop, const struct policy_tools *tools, int channel, int events, struct err *err);
/* The worker asked for what it may not ask for, or has gone. */
bool tools_keeper_is_over(void);
/* Sends the worker the channel of a courier. */
void tools_keeper_serve(int fd);
/* Ends all cells, and waits until they are gone. */
void tools_keeper_end(void);

/* ---- tools_hold.c ---- */

/* From now on the cell with this id is held to the scopes of N TOOLS; 0: to nothing.  ALL: of the server's tools. */
struct scope_hold;
int tools_hold(const char *cell, const struct policy_tools_server *server, const struct scope_hold *all,
               const struct policy_tool *const *tools, size_t n, struct err *err);

/* ---- tools_timeline.c: what the timeline of a server's cell says ---- */

#define TOOLS_RECORDS_MAX 16            /* in one reading; the next one continues */

#define TOOLS_HOLD_BY "cloister-tools"  /* in the records of such changes */
#define TOOLS_HOLD_OTHERS " and others"

struct tools_timeline {
	int dir;                        /* -1: not found yet */
	uint64_t breaches, uses, freezes;       /* the last record that was read of each */
	char held[POLICY_TOOLS_NAME_MAX + sizeof(TOOLS_HOLD_OTHERS)];   /* the tools whose scopes hold; "": the start's */
	char frozen_by[128];            /* who or what froze the cell; "": it is not frozen */
};
/* The folder of the timeline, which T owns; -1: there is none yet. */
int tools_timeline_open(struct tools_timeline *t, const char *cell);
/* OF: "server.tool", or the server if no call was running. */
typedef void tools_breach_found(void *arg, const char *of, const char *why);
/* What the cell of SERVER was refused, because its tools' scopes do not have it.  True: there may be more. */
bool tools_timeline_breaches(struct tools_timeline *t, const char *server, tools_breach_found *found, void *arg);
/* Sets FROZEN_BY.  True: there may be more. */
bool tools_timeline_freezes(struct tools_timeline *t);
void tools_timeline_close(struct tools_timeline *t);

/* ---- tools_worker.c ---- */

/* Returns only to exit, with the status.  LEARNS: no rule holds. */
int tools_worker_main(bool learns);
#endif
