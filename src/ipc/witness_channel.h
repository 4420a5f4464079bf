/* witness_channel.h - messages between supervisor and cloister-witness.
 *
 * The witness reads what the agent's processes do, so it may be compromised: the supervisor checks
 * each event as it checks a courier's, and does nothing else that it asks for. */
#ifndef CLOISTER_WITNESS_CHANNEL_H
#define CLOISTER_WITNESS_CHANNEL_H
#include "ipc/ipc.h"

enum witness_message {
	/* supervisor -> witness, once, first, before the agent starts: u32 enum witness_level, u64 the
	 * inode of the cell's pid namespace, u32 the host's pid of its first process, u64 bytes that all its
	 * events may have, the calls that its policy takes away (call_set_put), u32 whether it lists programs,
	 * u32 n, and n times str: the grants' paths in the cell. */
	WITNESS_START = 1,
	/* supervisor -> witness, once, as soon as the cell has it; fd: its root folder. */
	WITNESS_ROOT,
	/* supervisor -> witness, once, if it sees by the agent's filter: u32 enum filter_profile of the agent; fd: the
	 * filter's listener.  The agent's first call waits until the witness has it. */
	WITNESS_LISTENER,
	/* witness -> supervisor, once, first: str name of the source that works here, str why it is not the one that the
	 * witness was started for ("": it is). */
	WITNESS_SOURCE,
	/* witness -> supervisor, once: it has locked itself down and misses nothing from now on.
	 * str name of its source ("none": nothing can be seen, and it ends), u32 n (up to
	 * WITNESS_UNSEEN_MAX), n times str: what it cannot see. */
	WITNESS_READY,
	/* witness -> supervisor: u32 n (1 to WITNESS_EVENTS_MAX), then n times str event: the members of
	 * a record's event, valid for members_check(), of a type in WITNESS_TYPES. */
	WITNESS_EVENTS,
	/* witness -> supervisor: u32 pid, u32 local port: the process that has connected from there. */
	WITNESS_CONNECTED,
	/* supervisor -> witness: the cell has ended.  Answered with the last events and WITNESS_DONE. */
	WITNESS_FINISH,
	WITNESS_DONE,
	/* supervisor -> witness, before WITNESS_START and whenever the cell's policy changes: str the home
	 * folder of the cell, then the conditions of `watch` (policy_put_matchers), which replace the former. */
	WITNESS_RULES,
	/* witness -> supervisor, after the event of that act: a rule fits it.  u64 the rule's key, u32 pid,
	 * u32 how often it fitted since without a message, str the act, at most WITNESS_WHAT_MAX bytes. */
	WITNESS_FIRED,
};

#define WITNESS_TYPES "calls", "danger", "exec", "exit", "file", "lost", "net", "refused"
#define WITNESS_EVENTS_MAX 256
#define WITNESS_WHAT_MAX 512
#define WITNESS_UNSEEN_MAX 16
#define WITNESS_TEXT_MAX 512            /* bytes of such a text */
#define WITNESS_SUPERVISOR_FD 3         /* in the witness */
#endif
