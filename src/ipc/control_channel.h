/* control_channel.h - what operators' tools ask of a cell's supervisor.
 *
 * A SOCK_SEQPACKET socket in the cell's runtime entry.  The peer must be the
 * supervisor's own user or root (SO_PEERCRED).  One connection, one request. */
#ifndef CLOISTER_CONTROL_CHANNEL_H
#define CLOISTER_CONTROL_CHANNEL_H

enum control_message {
	/* -> answered with CONTROL_IS */
	CONTROL_INFO = 1,
	/* u32 enum control_state, spec, u64 started (ns, realtime), u32 supervisor, u32 init,
	 * u32 agent (pids as the host sees them; 0 if not known), u64 memory, u64 pids */
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
};
/* DEAD: nothing of it runs any more, and the supervisor tidies up. */
enum control_state { CONTROL_STATE_RUNS, CONTROL_STATE_FROZEN, CONTROL_STATE_DEAD };
#endif
