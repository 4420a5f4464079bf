/* courier_channel.h - what supervisor and courier say to each other: datagrams, see
 * ipc.h. */
#ifndef CLOISTER_COURIER_CHANNEL_H
#define CLOISTER_COURIER_CHANNEL_H

/* Where the helpers of egress find their descriptors. */
#define EGRESS_SUPERVISOR_FD 3          /* courier, gate: the channel to the supervisor */
#define EGRESS_MUX_FD 4                 /* courier, gate: the channel between them */
#define COURIER_INSPECT_FD 5            /* courier: the channel to cloister-inspect */
#define COURIER_KEEPER_FD 7             /* courier: the channel to who renews secrets, if there is one
                                         * (keeper_channel.h) */
#define INSPECT_COURIER_FD 3            /* cloister-inspect: its only descriptor */
#define GATE_TCP_FD 5                   /* gate: takes captured connections */
#define GATE_TCP6_FD 6                  /* not open where the host has no IPv6 */
#define GATE_UDP_FD 7                   /* DNS */
#define GATE_UDP6_FD 8                  /* likewise */
#define GATE_NAMES_FD 9                 /* memory file: names and their addresses; it outlives
                                         * the gate, so that addresses keep their meaning */
#define GATE_SSH_FD 10                  /* takes clients of an SSH agent; not open where the cell
                                         * has no key for one */

/* In an event's note: of an address that no rule can open. */
#define COURIER_NO_RULE_HELPS "no rule changes that"
/* Likewise: of a body that is too large to be unpacked. */
#define COURIER_IS_PACKED "the body is packed, and"
/* The same: of one that a rule denies, whose place follows. */
#define COURIER_DENIES_ADDRESS "which a rule denies:"

/* When the supervisor shuts the channel down (the courier reads its end), the cell has
 * ended: the courier sends what events it still has and exits, at once.  The others
 * exit when theirs ends. */
enum courier_message {
	/* supervisor -> courier, once, first: u64 flags (COURIER_LEARN), u32 how many COURIER_STEER
	 * follow that are in force before the first request is decided on, str id, str cell's name, strv environment ("NAME=value": HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY in
	 * either case, SSL_CERT_FILE and SSL_CERT_DIR, which stand for the system's store, and
	 * CLOISTER_CA_FILES, paths with ":" between them, which are added to it), then the
	 * policy (policy_put), or nothing more if it is in a descriptor that rides along: a
	 * memory file, read from its start.  A second descriptor is a file of CA certificates
	 * (PEM), for files that the courier itself could not read; they are added too. */
	COURIER_START = 1,
	/* courier -> supervisor: u32 n (1 to COURIER_EVENTS_MAX), u64 the number of the last of them
	 * that a request waits for (counted from 1; 0: none), then n times: u32 refused (1 if the
	 * request was, else 0), str what ("POST api.github.com" or only a name, for the summary at
	 * the end of `run`; at most COURIER_WHAT_MAX bytes; "" if not refused), str event: the
	 * members of a record's event, as members_check() wants them, of one of the types that are
	 * the courier's (COURIER_TYPES). */
	COURIER_EVENTS,
	/* supervisor -> courier: u64 number (0: nobody waits for an answer), u32 enum courier_steer,
	 * then what that kind has.  Answered with COURIER_STEERED. */
	COURIER_STEER,
	/* courier -> supervisor, with COURIER_ALARMS: a secret was on its way to where it may not
	 * go.  The event that tells has been sent before. */
	COURIER_ALARM,
	/* supervisor -> courier, with COURIER_STRICT: u64 up to which of those numbers the records
	 * are on the disk, so that the requests may leave. */
	COURIER_RECORDED,
	/* supervisor -> courier: str why nothing may leave any more, for people; "": it may again. */
	COURIER_HALT,
	/* courier -> supervisor: u64 number, u32 errno (0: it is in force), str why it is not, for
	 * people, at most COURIER_STEERED_MAX bytes.  What was decided before comes before it. */
	COURIER_STEERED,
	/* courier -> supervisor: u32 n, and n times u64: how many requests each of the cell's secrets
	 * went with since it was started. */
	COURIER_USED,
	/* courier -> supervisor: u32 enum policy_then (freeze or kill), str what, at most
	 * COURIER_REACHED_MAX bytes: a budget was reached for which the policy says so.  The event
	 * that tells has been sent before. */
	COURIER_REACHED,
	/* courier -> supervisor: a request waits for people (courier_ask.h).  u64 its number, from 1
	 * on; u64 ms that it waits; u32 approvals; u32 1 if the cell is to stand still; 32 bytes that
	 * name the rule; str protocol ("http", "tcp", "tls"), str method, str scheme, str host, u32
	 * port, str path, str query's shape; str rule, str its place, str its reason; str content
	 * type, u64 size of the body (UINT64_MAX: not known), str its shape; u32 n, n times str: the
	 * secrets that go with it; u32 n, n times str: who may answer; str its headers' shape.  Texts
	 * are at most as long as the constants below say, and may be an attacker's. */
	COURIER_ASK,
	/* courier -> supervisor: u64 number: the answer does not matter any more. */
	COURIER_WITHDRAW,
	/* courier -> supervisor: what a rule that matched leads to is in force (courier_fire.h), and
	 * the request has not left yet.  u64 its key, u32 flags, str the rule's place, str its text,
	 * str what was asked for, str why a secret is revoked, for the agent, each at most
	 * COURIER_FIRED_TEXT bytes; u32 n, n times str: secrets that are revoked; u32 len, and so
	 * many bytes that a courier is to know that is started again (STEER_FIRED). */
	COURIER_FIRED,
	/* courier -> supervisor: u32 enum policy_trip, str which tripwire, str what happened. */
	COURIER_TRIPPED,
};
enum courier_fired { COURIER_FIRED_FREEZE = 1, COURIER_FIRED_NOTIFY = 2, COURIER_FIRED_AGAIN = 4,
                     COURIER_FIRED_FLAGS = 7 };
#define COURIER_FIRED_TEXT 600
#define COURIER_FIRED_REVOKES 16
#define COURIER_FIRED_MAX 64            /* different ones */
#define COURIER_FIRED_BYTES (48 * 1024) /* to be known again, of one */
#define COURIER_ASK_PATH 1024
#define COURIER_ASK_TEXT 1024           /* the rule, its place, its reason */
#define COURIER_ASK_TYPE 128
#define COURIER_ASK_SHAPE 2048          /* INSPECT_SHAPE_MAX */
#define COURIER_ASK_RULE 32             /* bytes that name a rule */
#define COURIER_ASK_SECRETS 16
#define COURIER_ASK_APPROVERS 32
#define COURIER_ASK_APPROVER 128        /* bytes of each */
#define COURIER_ASK_APPROVALS 8
#define COURIER_ASK_MS (24ULL * 60 * 60 * 1000)
#define COURIER_ASK_BY 160
#define COURIER_ASK_ID 32

/* What an operator changes while the cell runs.  A new kind:
 *   - a number in its block here, with the fields of its message;
 *   - courier: a row in courier_steer.c, and what takes it in a file of its own, which says 0,
 *     what is wrong with it (then nothing has changed), or COURIER_STEER_LATER and calls
 *     courier_steered() itself once it is in force;
 *   - supervisor: a file of its own that answers the control request with steer_begin() and
 *     steer_send() (supervisor_steer.h), keeps in its `done` what a courier has to know that is
 *     started again, and hands that over in a function in the table courier_is_told there. */
enum courier_steer {
	/* u32 1 if it is from now on also for what is under way: what it refuses is cut off; u32
	 * front, u32 back, as in CONTROL_SET_POLICY; fds: the policy, and the counts of its rules. */
	STEER_POLICY = 1,
	/* At the start: fd: the counts of the rules of the policy that it was started with. */
	STEER_COUNTS,
	/* str name of a secret, str why, for the agent; "": nobody said; u32 1 if the agent is to take
	 * it for the service's doing. */
	STEER_REVOKE = 24,
	/* fd: a secret's new value, as in CONTROL_ROTATE. */
	STEER_ROTATE,
	/* At the start: u64 key, u32 len, and so many bytes: COURIER_FIRED. */
	STEER_FIRED,
	/* At the start: fds: the cell's ledger (ledger.h), and that of its principal if it has one. */
	STEER_LEDGER = 16,
	/* u64 number of COURIER_ASK, u32 1 if it may go, str id, str by whom, str why not, for the
	 * agent. */
	STEER_ANSWER = 8,
	/* 32 bytes that name a rule, u64 ms: nobody is asked for it so long; 0: any more. */
	STEER_OPEN,
	/* 8 to 15: requests that are held for an answer; 16 to 23: budgets and limits; 24 to 31:
	 * secrets taken back, consequences. */
};
#define COURIER_STEERED_MAX 500
#define COURIER_STEERS_FIRST 4096       /* COURIER_STEER behind COURIER_START, at most */

enum courier_flags {
	COURIER_LEARN = 1,
	COURIER_SECRETS = 2,            /* the last descriptor has the cell's secrets: bound.h */
	COURIER_KEEPER = 4,             /* behind that is the channel to who renews them */
	COURIER_ALARMS = 8,             /* the cell is stopped at an exfiltration */
	COURIER_STRICT = 16,            /* no request leaves before its record is on the disk */
};
/* What a courier may tell of; everything else is the supervisor's own. */
#define COURIER_TYPES "budget", "dns", "http", "intent", "many", "secret", "ssh", "tcp", "tls", \
	"usage", "webhook"
#define COURIER_EVENTS_MAX 256          /* in a message, which is at most IPC_MESSAGE_MAX */
#define COURIER_WHAT_MAX 300
#define COURIER_HALT_MAX 200            /* bytes of the reason */
#define COURIER_REACHED_MAX 300

enum gate_message {
	/* supervisor -> gate, once, first: str CA certificate and str its key (PEM); both ""
	 * where TLS is not ended: then all of it is refused. */
	GATE_START = 1,
};
#endif
