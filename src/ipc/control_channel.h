/* control_channel.h - what operators' tools ask of a cell's supervisor.
 *
 * A SOCK_SEQPACKET socket in the cell's runtime entry.  The peer must be the
 * supervisor's own user or root (SO_PEERCRED).  One connection, one request.
 *
 * A supervisor may hang up on anybody: one that has said nothing makes room for one that may want to
 * end the cell.  So a connection that ends without an answer says nothing about the cell. */
#ifndef CLOISTER_CONTROL_CHANNEL_H
#define CLOISTER_CONTROL_CHANNEL_H

enum control_message {
	/* -> answered with CONTROL_IS */
	CONTROL_INFO = 1,
	/* u32 enum control_state, spec, u64 started (ns, realtime), u32 supervisor, u32 init,
	 * u32 agent (pids as the host sees them; 0 if not known), u64 memory, u64 pids, u32 1: it can
	 * be frozen, u32 how many requests wait for people */
	CONTROL_IS,
	/* -> answered with CONTROL_ENDED once the cell has ended */
	CONTROL_WAIT,
	/* u32 grace in ms: SIGTERM, then SIGKILL; answered as CONTROL_WAIT */
	CONTROL_STOP,
	/* everything dies now; answered with CONTROL_DEAD.  Whoever asked may then ask to
	 * wait; until it does or hangs up (a second at most), the supervisor does not
	 * begin to tidy: of many cells that are killed at once, all are dead sooner. */
	CONTROL_KILL,
	/* nothing of the cell runs any more */
	CONTROL_DEAD,
	/* u32 status, str cause */
	CONTROL_ENDED,
	/* as INIT_SPAWN without the handle; the descriptors must be pipes or
	 * /dev/null; answered with CONTROL_STARTED, later CONTROL_EXITED */
	CONTROL_EXEC,
	/* u32 errno (0: it runs); fd: the terminal's master side */
	CONTROL_STARTED,
	/* u32 status as wait(2) gives it */
	CONTROL_EXITED,
	/* on an exec's connection: u32 signal for the process */
	CONTROL_SIGNAL,
	/* all of it stops where it is, or goes on; answered with CONTROL_DONE, also if it was so
	 * before, or CONTROL_REFUSED */
	CONTROL_FREEZE,
	CONTROL_THAW,
	CONTROL_DONE,
	/* u32 errno, str text: the request cannot be carried out */
	CONTROL_REFUSED,
	/* on an exec's connection: str text, for whoever sits there */
	CONTROL_SAYS,

	/* Steering.  Each request begins with str by ("": the peer, as the kernel says; what serve
	 * puts there says whom it acts for: "token NAME", "uid N"), at most CONTROL_BY_MAX bytes,
	 * str why, which may be "", at most CONTROL_WHY_MAX, and u32 flags (enum control_who).
	 * CONTROL_STOP, CONTROL_KILL, CONTROL_FREEZE and CONTROL_THAW may end with the same.  It is
	 * in the cell's timeline, and in the operator's.  It is answered with CONTROL_DONE,
	 * and what the request has for that, once what was asked for is in force, or with
	 * CONTROL_REFUSED, and then nothing has changed.
	 *
	 * A new one: a number here, in the block of its kind; a row in supervisor_control.c; its
	 * answer in a file of its own, by way of supervisor_steer.h; who asks it: cell_steer.h. */

	/* str did ("policy", "allow", "deny") and str the rule that was added or "", for the record,
	 * str hash of the policy that this one comes after ("": any; -ESTALE: it is another one by
	 * now), u32 flags (enum control_policy), u32 front, u32 back: so many rules of its first layer, at
	 * the beginning and at the end, are those of the policy before, and keep their counts.
	 * fds, all sealed: the policy (policy_put), its text (YAML that includes nothing), and
	 * counts, which are sealed only in their size: a u64 for each rule of all layers.
	 * The answer: str hash of the policy. */
	CONTROL_SET_POLICY = 32,
	/* The answer: str hash, u64 how often the policy was set, str principal, str chain, and the
	 * three descriptors. */
	CONTROL_GET_POLICY,
	/* The answer: str the cell's principal, and descriptors: the policy, the cell's ledger
	 * (ledger.h), and that of its principal if it has one. */
	CONTROL_GET_BUDGET = 48,
	/* u32 enum policy_per, u64 key of the budget in its ledger, u32 enum policy_kind, u64 the limit
	 * from now on, str the budget's name, for the record. */
	CONTROL_RAISE,
	/* Requests that wait for people.  On a connection for these alone, as often as wanted: str by,
	 * str why (both ""), u64 the change that was seen last (0: none), u32 1 to wait for the next
	 * if there is none.  Answered with CONTROL_APPROVAL, or CONTROL_DONE if there is none. */
	CONTROL_APPROVALS = 40,
	/* u64 the number of its last change, str the approval: a JSON object */
	CONTROL_APPROVAL,
	/* u64 its number, u32 enum control_approve, u64 ms (of CONTROL_APPROVE_FOR).  The answer: u32 1
	 * if it is approved now, 0 if more people have to. */
	CONTROL_APPROVE,
	/* u64 its number; WHY is told to the agent */
	CONTROL_REFUSE_ASKED,
	/* 40 to 47: requests that wait; 48 to 55: budgets and limits; 56 to 63:
	 * secrets taken back, and how long the cell lives. */

	/* str name of a secret of the cell: it is of no use any more; and perhaps u32 1: the agent is
	 * to take it for the service's doing */
	CONTROL_REVOKE = 56,
	/* str name; fd, sealed: its new value, with a definition (bound.h), which nobody but the
	 * courier reads */
	CONTROL_ROTATE,
	/* The answer: u32 n, and n times: str "NAME SCHEME HOST...", u32 1 if it is revoked, u64 how
	 * many requests it went with. */
	CONTROL_SECRETS,
	/* u64 ms from now on, or 0: until then it lives. */
	CONTROL_TTL,
	/* The answer: u32 enum cell_taken bits: what the cell was granted and has not any more. */
	CONTROL_TAKEN,
};
/* Who asks has told the operator's timeline, or will: of all cells at once, or as serve. */
enum control_who { CONTROL_WHO_TELLS = 1 };
enum control_policy { CONTROL_POLICY_NOW = 1 }; /* what is under way and refused by it is cut off */
/* Only this one; all that its rule asks for, for a time; for the rest of the cell's life. */
enum control_approve { CONTROL_APPROVE_ONCE, CONTROL_APPROVE_FOR, CONTROL_APPROVE_RULE };
#define CONTROL_APPROVE_MS (7ULL * 24 * 60 * 60 * 1000)
#define CONTROL_BY_MAX 160
#define CONTROL_WHY_MAX 1000
#define CONTROL_RULE_MAX 2000           /* bytes of a rule, for the record */
/* DEAD: nothing of it runs any more, and the supervisor tidies up. */
enum control_state { CONTROL_STATE_RUNS, CONTROL_STATE_FROZEN, CONTROL_STATE_DEAD,
                     CONTROL_STATE_SILENT };    /* never sent: it lives, and does not answer */
#endif
