/* control_channel.h - requests of operators' tools to a cell's supervisor.
 *
 * A SOCK_SEQPACKET socket in the cell's runtime entry.  The peer must be the supervisor's own user
 * or root (SO_PEERCRED).  Each connection carries one request.  The supervisor may close any
 * connection: a silent one makes room for one that may want to end the cell.  So the end of a
 * connection without an answer does not mean that the cell has ended. */
#ifndef CLOISTER_CONTROL_CHANNEL_H
#define CLOISTER_CONTROL_CHANNEL_H

enum control_message {
	/* -> answered with CONTROL_IS */
	CONTROL_INFO = 1,
	/* u32 enum control_state, spec, u64 started (ns, realtime), u32 supervisor, u32 init, u32
	 * agent (host pids; 0 if not known), u64 memory, u64 pids, u32 1 if it can be frozen, u32
	 * number of requests that wait for approval, u64 processor time (us), u64 peak of memory, u64
	 * scratch space in use, u32 1 if the next two are known, u64 bytes read, u64 bytes written, u32 1
	 * if the rest is known, u64 pressure on processors, u64 on disks, u64 on memory (hundredths of
	 * a per cent) */
	CONTROL_IS,
	/* -> answered with CONTROL_ENDED once the cell has ended */
	CONTROL_WAIT,
	/* u32 grace in ms: SIGTERM, then SIGKILL; answered as CONTROL_WAIT */
	CONTROL_STOP,
	/* kill everything now; answered with CONTROL_DEAD.  The client may then send CONTROL_WAIT.
	 * The supervisor cleans up only after that, after the client hangs up, or after a second at
	 * most.  So when many cells are killed at once, all are dead sooner. */
	CONTROL_KILL,
	/* no process of the cell is left */
	CONTROL_DEAD,
	/* u32 status, str cause */
	CONTROL_ENDED,
	/* as INIT_SPAWN without the handle and the hashes; the descriptors must be pipes or
	 * /dev/null; optionally str by, as below; answered with CONTROL_STARTED, later CONTROL_EXITED */
	CONTROL_EXEC,
	/* u32 errno (0: it runs); fd: the terminal's master side, or a socket that stands for it */
	CONTROL_STARTED,
	/* u32 status as wait(2) gives it */
	CONTROL_EXITED,
	/* on an exec's connection: u32 signal for the process */
	CONTROL_SIGNAL,
	/* stop or continue every process of the cell; answered with CONTROL_DONE, even if nothing
	 * changes, or with CONTROL_REFUSED */
	CONTROL_FREEZE,
	CONTROL_THAW,
	CONTROL_DONE,
	/* u32 errno, str text: the request cannot be carried out */
	CONTROL_REFUSED,
	/* on an exec's connection: str text, to show to the user */
	CONTROL_SAYS,
	/* on an exec's connection, if a socket stands for its terminal: u32 rows, u32 columns */
	CONTROL_RESIZE,
	/* start the agent of a cell that was made with `held`; as the steering requests below, answered
	 * once the agent runs or cannot */
	CONTROL_START,
	/* u32 signal for the agent, whatever it is; answered with CONTROL_DONE */
	CONTROL_SIGNAL_AGENT,
	/* u32 rows, u32 columns, optionally as the steering requests below who asks: take a seat at the agent's
	 * terminal, which the supervisor holds; sent again when the size changes.  The first is answered with CONTROL_STARTED, which has u64 the size of the
	 * log behind its number, and fd a socket that stands for the terminal: what is in the log does not
	 * come over it.  The cell's end is CONTROL_ENDED.  Hanging up leaves the terminal. */
	CONTROL_ATTACH,
	/* Copy the changes of overlay workspaces while the cell runs; fd: a folder with an empty folder for
	 * each overlay grant, named by its number, that the inner root may fill.  Answered with CONTROL_DONE:
	 * u32 flags (enum control_copied), str why some could not be copied or "", u32 n, and n times u32:
	 * left out of this grant, see struct cell_record.  Hanging up ends it. */
	CONTROL_COPY,
	/* write the memory of the cell to the disk and free it; bring it back and go on.  Answered with CONTROL_DONE once
	 * that is done, or with CONTROL_REFUSED.  Optionally who asks, as with CONTROL_FREEZE. */
	CONTROL_PAUSE,
	CONTROL_RESUME,
	/* Two descriptors, which are empty memory files: they get the memory of the cell's machine, and the state of its
	 * devices, at one moment.  Answered with CONTROL_DONE: u64 the number of records in the cell's timeline, and str
	 * the hash of the last of them, which is about this; or with CONTROL_REFUSED. */
	CONTROL_FORK,

	/* Steering requests.  Each begins with:
	 *   str by   who asks, at most CONTROL_BY_MAX bytes.  "": the peer, as the kernel reports it.
	 *            serve names the party that it acts for: "token NAME", "uid N".
	 *   str why  may be "", at most CONTROL_WHY_MAX bytes.
	 *   u32      flags (enum control_who).
	 * CONTROL_STOP, CONTROL_KILL, CONTROL_FREEZE and CONTROL_THAW may end with the same fields.
	 * The request is recorded in the cell's timeline and in the operator's.  The answer is
	 * CONTROL_DONE, with the request's own fields, once the change is in force.  If it is
	 * CONTROL_REFUSED, nothing has changed.
	 *
	 * To add a request: give it a number here, in the block of its kind, and a row in
	 * steer/steer.c; answer it in a file of its own, using supervisor_steer.h; send it with
	 * cell_steer.h. */

	/* str action ("policy", "allow", "deny") and str the rule added or "", both for the
	 * timeline; str hash of the policy to replace ("": any; -ESTALE if it has changed since);
	 * u32 flags (enum control_policy); u32 front, u32 back: this many rules at the beginning
	 * and at the end of the first layer are unchanged and keep their counts.  Three
	 * descriptors: the policy (policy_put) and its text (YAML that includes nothing), both
	 * sealed, and the counts, a u64 for each rule of all layers, sealed only in size.  The
	 * answer: str hash of the policy. */
	CONTROL_SET_POLICY = 32,
	/* The answer: str hash, u64 how often the policy was set, str principal, str chain, and the
	 * three descriptors. */
	CONTROL_GET_POLICY,
	/* The answer: str the cell's principal, and descriptors: the policy, the cell's ledger
	 * (ledger.h), and its principal's ledger, if any. */
	CONTROL_GET_BUDGET = 48,
	/* u32 enum policy_per, u64 key of the budget in its ledger, u32 enum policy_kind, u64 the
	 * new limit, str the budget's name, for the timeline. */
	CONTROL_RAISE,
	/* Requests that wait for approval.  Sent repeatedly on a connection of its own: str by, str
	 * why (both ""), u64 the last change seen (0: none), u32 1 to wait for the next change if
	 * there is none.  Answered with CONTROL_APPROVAL, or with CONTROL_DONE if there is none. */
	CONTROL_APPROVALS = 40,
	/* u64 the number of its last change, str the approval: a JSON object */
	CONTROL_APPROVAL,
	/* u64 its number, u32 enum control_approve, u64 ms (for CONTROL_APPROVE_FOR).  The answer:
	 * u32 1 if it is approved now, 0 if more approvals are needed. */
	CONTROL_APPROVE,
	/* u64 its number; the agent sees WHY */
	CONTROL_REFUSE_ASKED,
	/* Numbers 40 to 47: approvals; 48 to 55: budgets and limits; 56 to 63: revoked secrets, and
	 * the cell's lifetime. */

	/* str name of a secret of the cell, which becomes useless; optionally u32 1: to the agent
	 * it looks as if the service revoked it */
	CONTROL_REVOKE = 56,
	/* str name; fd, sealed: its new value with a definition (bound.h); only the courier reads
	 * it */
	CONTROL_ROTATE,
	/* The answer: u32 n, and n times: str "NAME SCHEME HOST...", u32 1 if it is revoked, u64
	 * number of requests that used it. */
	CONTROL_SECRETS,
	/* u64 ms that the cell lives from now on; 0: no limit. */
	CONTROL_TTL,
	/* The answer: u32 enum cell_lost bits: grants that the cell has lost. */
	CONTROL_LOST_RIGHTS,

	/* Commit the cell's states, while it runs.  Answered with CONTROL_DONE: u32 n, and n times: str state, str branch,
	 * str commit, u32 1 if nothing was changed, u64 refused changes, str why it was not committed, or "". */
	CONTROL_CHECKPOINT = 64,
};
/* STILL: the cell was frozen all the time.  CHANGED: something was changed meanwhile. */
enum control_copied { CONTROL_COPIED_STILL = 1, CONTROL_COPIED_CHANGED = 2 };
/* The client itself writes to the operator's timeline: for all cells at once, or as serve. */
enum control_who { CONTROL_WHO_TELLS = 1 };
enum control_policy { CONTROL_POLICY_NOW = 1 }; /* cut off requests in flight that it refuses */
/* Only this request; everything that its rule asks for, for a time; the same for the rest of the
 * cell's life. */
enum control_approve { CONTROL_APPROVE_ONCE, CONTROL_APPROVE_FOR, CONTROL_APPROVE_RULE };
#define CONTROL_APPROVE_MS (7ULL * 24 * 60 * 60 * 1000)
#define CONTROL_BY_MAX 160
#define CONTROL_WHY_MAX 1000
#define CONTROL_RULE_MAX 2000           /* bytes of a rule, for the timeline */
/* DEAD: no process is left, and the supervisor cleans up. */
enum control_state { CONTROL_STATE_RUNS, CONTROL_STATE_FROZEN, CONTROL_STATE_DEAD, CONTROL_STATE_PAUSED,
                     CONTROL_STATE_SILENT };    /* never sent: it lives, but does not answer */
#endif
