/* tools_channel.h - messages to, from and within cloister-tools, the gateway to an agent's MCP servers.
 *
 * All channels are datagrams, see ipc.h.  cloister-tools has two halves: the keeper has the operator's
 * rights and starts the cells of the servers; the worker reads what agents and servers send. */
#ifndef CLOISTER_TOOLS_CHANNEL_H
#define CLOISTER_TOOLS_CHANNEL_H

#define TOOLS_CONTROL_FD 3              /* keeper: ends with the cell */
#define TOOLS_POLICY_FD 4               /* keeper: a memory file with the policy (policy_put) */
#define TOOLS_EVENTS_FD 5               /* keeper: to the supervisor */
#define TOOLS_LEARNS "--learn"           /* an argument: the courier allows everything */
#define TOOLS_WORKER_FD 3               /* worker: its channel to the keeper */
#define TOOLS_WORKER_POLICY_FD 4        /* worker: as TOOLS_POLICY_FD */

#define TOOLS_EVENT_TYPE "tool"          /* the only type of event that it may send */
#define TOOLS_EVENT_MAX 4096            /* bytes of an event */
#define TOOLS_OF_MAX 512                /* bytes of what a result is of */
#define TOOLS_ASKS_MAX 64               /* results that wait at once */
#define TOOLS_WHY_MAX 512               /* bytes of a reason */
#define TOOLS_INSTANCES_MAX 256         /* cells of servers at once, of one agent's cell */

enum tools_message {
	/* ---- the supervisor, its starter, the courier ---- */

	/* keeper -> supervisor, once, first, on the control channel: it has read the policy. */
	TOOLS_READY = 1,
	/* starter -> keeper, on the control channel; fd: the channel of a courier that is being started.
	 * keeper -> worker: the same. */
	TOOLS_SERVE,
	/* courier -> worker; fd: one end of a connection on which the worker speaks HTTP. */
	TOOLS_CONNECT,
	/* keeper -> supervisor on the channel for events, and worker -> keeper:
	 *   str event  the members of a record's event, valid for members_check(), of type "tool", at
	 *              most TOOLS_EVENT_MAX bytes. */
	TOOLS_EVENT,
	/* keeper -> supervisor, on the channel for events: a result waits for approval.
	 *   u64 its number; u64 ms that it waits; 32 bytes that identify the rule; str "tool:github.get_issue";
	 *   str rule, str its reason; u64 size of the result, str its shape.
	 * Answered with TOOLS_ANSWER.  The texts are bounded as in COURIER_ASK.
	 * worker -> keeper: u64 number, from 1 on; u32 index of the server in the policy; str "tool:github.get_issue", at
	 * most TOOLS_OF_MAX bytes; str what looks like instructions, or ""; u64 size, str shape. */
	TOOLS_ASK,
	/* keeper -> supervisor, worker -> keeper: u64 number: the answer is no longer needed. */
	TOOLS_WITHDRAW,
	/* supervisor -> keeper, on the channel for events, and keeper -> worker: u64 number, u32 1 if the agent may
	 * get the result, str the reason if not. */
	TOOLS_ANSWER,

	/* ---- worker and keeper.  Instances are numbered by the worker, from 0 to
	 *      TOOLS_INSTANCES_MAX - 1; a number is used again only after TOOLS_ENDED. ---- */

	/* worker -> keeper: u32 instance; u32 index of the server in the policy; u32 index of the locked
	 * tool whose scope holds the cell from its start.  With `per: call`, TOOLS_NO_TOOL: the cell gets no
	 * request, secret or write, because it works for no call of a tool; TOOLS_UNLOCKED, without a lock only: the
	 * server's own policy. */
	TOOLS_START,
	/* keeper -> worker: u32 instance; str cell's id; fds: the server's input, output, errors. */
	TOOLS_STARTED,
	/* worker -> keeper: u32 instance; u32 enum tools_stop: end the cell. */
	TOOLS_STOP,
	/* keeper -> worker: u32 instance; str why, a sentence: the cell is gone, or could not be
	 * started. */
	TOOLS_ENDED,
	/* keeper -> worker: u32 instance; str why its cell stands still, a sentence; "": it goes on. */
	TOOLS_FROZEN,
	/* worker -> keeper: u32 instance; u32 n, and n times the index of a locked tool: from now on the
	 * cell is held to the scopes of these together; 0: to nothing at all.  Answered in order. */
	TOOLS_HOLD,
	/* keeper -> worker: u32 instance; str why the scope is not in force; "": it is. */
	TOOLS_HELD,
};
enum tools_stop {
	TOOLS_STOP_UNUSED,              /* nobody needs it any more */
	TOOLS_STOP_CLOSED,              /* the server has closed its output, so that it ends by itself */
	TOOLS_STOP_FAILED,              /* the server does not speak MCP */
	TOOLS_N_STOPS,
};
#define TOOLS_NO_TOOL 0xffffffffu
#define TOOLS_UNLOCKED 0xfffffffeu
#define TOOLS_HOLD_MAX 64               /* tools in one TOOLS_HOLD */
#endif
