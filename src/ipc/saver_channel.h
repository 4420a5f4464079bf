/* saver_channel.h - messages between `cloister run`, then the cell's supervisor, and the cell's cloister-saver, which has
 * its states: datagrams of a SOCK_SEQPACKET socket, see ipc.h.
 *
 * `cloister run` opens the states, and gives its end to the supervisor.  When that end is closed, the saver commits what the
 * cell has left, if it knows the cell, and exits. */
#ifndef CLOISTER_SAVER_CHANNEL_H
#define CLOISTER_SAVER_CHANNEL_H

#define SAVER_CHANNEL_FD 3              /* of cloister-saver */
#define SAVER_TEXT_MAX 512              /* bytes of a sentence */

/* Why it commits. */
#define SAVER_END "end"
#define SAVER_CHECKPOINT "checkpoint"
#define SAVER_EVERY "every"
#define SAVER_QUIET "quiet"
#define SAVER_CRASH "crash"             /* the supervisor is gone */
#define SAVER_TRIPWIRE "tripwire"       /* it goes back */
#define SAVER_RECOVERED "recovered"     /* so is the saver that had the cell */

enum saver_message {
	/* run -> saver: str cell, u32 n, and for each state: str name, str commit ("": the newest), u32 on_busy (enum
	 * policy_state_busy), str guards.  Once.  Answered with SAVER_OPENED or SAVER_FAILED. */
	SAVER_OPEN = 1,
	/* saver -> run: for each state: str commit, str path of its files, str branch, u32 read_only, str the cell that has
	 * it, or "". */
	SAVER_OPENED,
	/* saver -> run, saver -> supervisor: u32 errno, str sentence. */
	SAVER_FAILED,
	/* supervisor -> saver, once the cell has walls.  fds: the cell's state folder; the cell's user namespace, if there is
	 * one.  u32 owner of the folder's changes; u32 has_range; str cell, str cell's name, str who, str behalf, str dispatch,
	 * str grant; u32 n, and for each state that is written: u32 its number in SAVER_OPEN.  Its upper folder follows in
	 * a SAVER_UPPER each. */
	SAVER_CELL,
	/* fds: the upper folder.  u32 the state's number. */
	SAVER_UPPER,
	/* supervisor -> saver: u32 live, u32 last, str reason, u64 number and str hash of the timeline's last record.  After
	 * the LAST, the states are anyone's again.  Answered with SAVER_COMMITTED. */
	SAVER_COMMIT,
	/* saver -> supervisor: u32 n, and for each state that is written: u32 number, u32 errno, str sentence ("" or why it
	 * was not committed), u32 same, str commit, str tree, u64 files, u64 bytes, u64 added, u64 changed, u64 removed,
	 * u64 refused, u64 withheld, u64 pending, str aside, str review, str flags, u32 1 if it has gone back; u32 changed: the cell changed something meanwhile. */
	SAVER_COMMITTED,
	/* supervisor -> saver: str cause.  A tripwire demands that the states go back, once the cell has ended and its changes are
	 * committed. */
	SAVER_GO_BACK,
};
#endif
