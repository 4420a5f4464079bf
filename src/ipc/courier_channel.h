/* courier_channel.h - messages between supervisor and courier: datagrams, see ipc.h. */
#ifndef CLOISTER_COURIER_CHANNEL_H
#define CLOISTER_COURIER_CHANNEL_H

/* The descriptors of the egress helpers. */
#define EGRESS_SUPERVISOR_FD 3          /* courier, gate: the channel to the supervisor */
#define EGRESS_MUX_FD 4                 /* courier, gate: the channel between them */
#define COURIER_INSPECT_FD 5            /* courier: the channel to cloister-inspect */
#define COURIER_KEEPER_FD 7             /* courier: the channel to the keeper, which renews secrets, if
                                         * there is one (keeper_channel.h) */
#define COURIER_HOOK_FD 8               /* courier: the channel to cloister-hook (hook_channel.h); not open
                                         * if the cell has no hooks */
#define COURIER_TOOLS_FD 9              /* courier: the channel to cloister-tools (tools_channel.h); not open if
                                         * the cell has no tools */
#define INSPECT_COURIER_FD 3            /* cloister-inspect: its only descriptor */
#define GATE_TCP_FD 5                   /* gate: accepts captured connections */
#define GATE_TCP6_FD 6                  /* not open if the host has no IPv6 */
#define GATE_UDP_FD 7                   /* DNS */
#define GATE_UDP6_FD 8                  /* likewise */
#define GATE_NAMES_FD 9                 /* memory file: names and their addresses.  It outlives the
                                         * gate, so that addresses keep their meaning */
#define GATE_SSH_FD 10                  /* accepts clients of an SSH agent, or receives them as messages:
                                         * GATE_CLIENT; not open if the cell has no SSH key */
#define GATE_CLIENT 1                   /* supervisor -> gate; fd: a connection of a client.  From the porter of a cell
                                         * without a network of its own, to GATE_TCP_FD: u32 4 or 6, four u32
                                         * address, u32 port: its destination; u32 port: its own */

/* In an event's note: the address is one that no rule can allow. */
#define COURIER_NO_RULE_HELPS "no rule changes that"
/* In an event's note: the body is too large to decompress. */
#define COURIER_IS_PACKED "the body is packed, and"
/* In an event's note: a placeholder goes to a right host, in a part of the request where it may not be; either its
 * places follow, or why it has none. */
/* Why a secret may not go where it would go otherwise. */
#define COURIER_NOT_USED "the rule that allows the request does not name it in `uses`"
#define COURIER_WRONG_PLACE ", where it may not be: "
#define COURIER_ITS_PLACES "its places are "
/* In an event's note: a rule denies the address; the rule's place follows. */
#define COURIER_DENIES_ADDRESS "which a rule denies:"

/* When the supervisor shuts the channel down (the courier reads its end), the cell has ended.  The
 * courier sends its remaining events and exits at once.  The other helpers exit when their channels
 * end. */
enum courier_message {
	/* supervisor -> courier, once, first: u64 flags (COURIER_LEARN); u32 number of
	 * COURIER_STEER that follow and are in force before the first request is decided; str id;
	 * str cell's name; str the agents that it was delegated through, or ""; str principal, or
	 * ""; strv environment ("NAME=value"); the policy (policy_put).
	 *
	 * The environment has HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in either case;
	 * SSL_CERT_FILE and SSL_CERT_DIR, which replace the system's store; and CLOISTER_CA_FILES,
	 * paths separated by ":", which are added to it.  If the policy is missing, the first
	 * descriptor holds it: a memory file, read from its start.  A second descriptor is a file
	 * of CA certificates (PEM), from files that the courier itself could not read; they are
	 * added too. */
	COURIER_START = 1,
	/* courier -> supervisor: u32 n (1 to COURIER_EVENTS_MAX), u64 the number of the last event
	 * that a request waits for (counted from 1; 0: none), then n times:
	 *   u32 refused  1 if the request was refused, else 0;
	 *   str what     "POST api.github.com" or only a name, for the summary at the end of `run`; at
	 *                most COURIER_WHAT_MAX bytes; "" if not refused;
	 *   str event    the members of a record's event, valid for members_check(), of a type in
	 *                COURIER_TYPES. */
	COURIER_EVENTS,
	/* supervisor -> courier: u64 number (0: nobody waits for an answer), u32 enum
	 * courier_steer, then the fields of that kind.  Answered with COURIER_STEERED. */
	COURIER_STEER,
	/* courier -> supervisor, with COURIER_ALARMS: a request carried a secret to a forbidden
	 * place.  The event for it has been sent before. */
	COURIER_ALARM,
	/* supervisor -> courier, with COURIER_STRICT: u64 number up to which events are on the
	 * disk.  Requests that waited for them may leave. */
	COURIER_RECORDED,
	/* supervisor -> courier: str reason why no request may leave, for people; "": they may
	 * again. */
	COURIER_HALT,
	/* courier -> supervisor: u64 number, u32 errno (0: in force), str reason if not, for
	 * people, at most COURIER_STEERED_MAX bytes.  Events of earlier decisions come before it. */
	COURIER_STEERED,
	/* courier -> supervisor: u32 n, and n times u64: the number of requests that used each of
	 * the cell's secrets since the courier's start. */
	COURIER_USED,
	/* courier -> supervisor: u32 enum policy_then (freeze or kill), str what, at most
	 * COURIER_REACHED_MAX bytes: a budget with that effect was reached.  The event for it has
	 * been sent before. */
	COURIER_REACHED,
	/* courier -> supervisor: a request waits for approval (courier_ask.h).
	 *   u64 its number, from 1 on; u64 ms that it waits; u32 approvals; u32 1 to freeze the cell;
	 *   32 bytes that identify the rule;
	 *   str protocol ("http", "tcp", "tls"), str method, str scheme, str host, u32 port, str path,
	 *   str shape of the query; str rule, str its place, str its reason;
	 *   str content type, u64 size of the body (UINT64_MAX: not known), str its shape;
	 *   u32 n, n times str: the secrets that it uses; u32 n, n times str: who may approve;
	 *   str shape of its headers.
	 * The constants below limit the texts.  An attacker may control the texts. */
	COURIER_ASK,
	/* courier -> supervisor: u64 number: the answer is no longer needed. */
	COURIER_WITHDRAW,
	/* courier -> supervisor: a rule's consequences are in force (courier_fire.h), and the
	 * request has not left yet.
	 *   u64 its key; u32 flags;
	 *   str the rule's place, str its text, str the request, str the reason for revoking a secret, for
	 *   the agent, each at most COURIER_FIRED_TEXT bytes;
	 *   u32 n, n times str: revoked secrets;
	 *   u32 len and that many bytes, which a restarted courier needs (STEER_FIRED). */
	COURIER_FIRED,
	/* courier -> supervisor: u32 enum policy_trip, str which tripwire, str what happened. */
	COURIER_TRIPPED,
};
enum courier_fired { COURIER_FIRED_FREEZE = 1, COURIER_FIRED_NOTIFY = 2, COURIER_FIRED_AGAIN = 4,
                     COURIER_FIRED_FLAGS = 7 };
#define COURIER_FIRED_TEXT 600
#define COURIER_FIRED_REVOKES 16
#define COURIER_FIRED_MAX 64            /* different consequences */
#define COURIER_FIRED_BYTES (48 * 1024) /* of one, for a restarted courier */
#define COURIER_ASK_PATH 1024
#define COURIER_ASK_TEXT 1024           /* the rule, its place, its reason */
#define COURIER_ASK_TYPE 128
#define COURIER_ASK_SHAPE 2048          /* INSPECT_SHAPE_MAX */
#define COURIER_ASK_RULE 32             /* bytes that identify a rule */
#define COURIER_ASK_SECRETS 16
#define COURIER_ASK_APPROVERS 32
#define COURIER_ASK_APPROVER 128        /* bytes of each */
#define COURIER_ASK_APPROVALS 8
#define COURIER_ASK_MS (24ULL * 60 * 60 * 1000)
#define COURIER_ASK_BY 160
#define COURIER_ASK_ID 32

/* Changes by an operator while the cell runs.  To add a kind:
 * - Add a number in its block here, with the fields of its message.
 * - Courier: add a row in courier_steer.c, and a handler in a file of its own.  The handler returns
 *   0, an error (then nothing has changed), or COURIER_STEER_LATER; then it calls courier_steered()
 *   itself once the change is in force.
 * - Supervisor: add a file that answers the control request with steer_begin() and steer_send()
 *   (supervisor_steer.h).  Its `done` keeps what a restarted courier needs; a function in the table
 *   courier_is_told there sends that. */
enum courier_steer {
	/* u32 1 to apply it to requests in flight too, and cut off those that it refuses; u32
	 * front, u32 back, as in CONTROL_SET_POLICY; fds: the policy, and the counts of its rules. */
	STEER_POLICY = 1,
	/* At the start: fd: the rule counts of the policy that the courier is started with. */
	STEER_COUNTS,
	/* str name of a secret, str reason for the agent ("": none given); u32 1 if it should look
	 * to the agent as if the service revoked it. */
	STEER_REVOKE = 24,
	/* fd: a secret's new value, as in CONTROL_ROTATE. */
	STEER_ROTATE,
	/* u64 key, u32 len, and that many bytes.  At the start: from COURIER_FIRED.  Later: a rule of `watch`
	 * has fired, and the bytes are the layer that it adds. */
	STEER_FIRED,
	/* At the start: fds: the cell's ledger (ledger.h), and its principal's ledger, if any. */
	STEER_LEDGER = 16,
	/* u64 number of COURIER_ASK, u32 1 if it may leave, str id, str by whom, str reason if not,
	 * for the agent. */
	STEER_ANSWER = 8,
	/* 32 bytes that identify a rule, u64 ms for which it needs no approval; 0: for good. */
	STEER_OPEN,
	/* Numbers 8 to 15: held requests; 16 to 23: budgets and limits; 24 to 31: revoked secrets,
	 * consequences. */
};
#define COURIER_STEERED_MAX 500
#define COURIER_STEERS_FIRST 4096       /* COURIER_STEER behind COURIER_START, at most */

enum courier_flags {
	COURIER_LEARN = 1,
	COURIER_SECRETS = 2,            /* the last descriptor has the cell's secrets (bound.h) */
	COURIER_KEEPER = 4,             /* the next descriptor is the keeper's channel */
	COURIER_ALARMS = 8,             /* an exfiltration stops the cell */
	COURIER_STRICT = 16,            /* no request leaves before its record is on the disk */
};
/* The event types that a courier may send.  All others are the supervisor's own. */
#define COURIER_TYPES "budget", "dns", "http", "intent", "many", "secret", "ssh", "tcp", "tls", \
	"usage", "webhook"
#define COURIER_EVENTS_MAX 256          /* in a message, which is at most IPC_MESSAGE_MAX */
#define COURIER_WHAT_MAX 300
#define COURIER_HALT_MAX 200            /* bytes of the reason */
#define COURIER_REACHED_MAX 300

enum gate_message {
	/* supervisor -> gate, once, first: str CA certificate and str its key (PEM).  Both are ""
	 * if the gate does not terminate TLS: then it refuses all TLS. */
	GATE_START = 1,
};
#endif
