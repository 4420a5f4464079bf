/* fleet_channel.h - messages between whoever has a target and cloister-fleet, which asks the target's engine: datagrams,
 * see ipc.h.
 *
 * cloister-fleet has the credentials of the engine and reads what it answers.  Its own answers are bounded, and texts
 * are printable.  One question is answered before the next. */
#ifndef CLOISTER_FLEET_CHANNEL_H
#define CLOISTER_FLEET_CHANNEL_H

#define FLEET_CHANNEL_FD 3              /* cloister-fleet's end */
#define FLEET_START_MAX 16              /* workers of one question */
#define FLEET_ANSWER_MS 60000           /* a question is answered within this time */

/* To cloister-fleet. */
enum fleet_message {
	/* str the content of a registered target, str its tag.  The first message, and once.  Answered after the lockdown. */
	FLEET_OPEN = 1,
	/* Empty. */
	FLEET_COUNT,
	/* u32 1: probes; u32 n, and n times str token ("": it joins no service). */
	FLEET_START,
	/* str id. */
	FLEET_LOOK,
	FLEET_STOP,
	/* Empty. */
	FLEET_CHECK,

	/* Its answers.  DONE has, of COUNT: u32 alive, u32 failed, str why.  Of START: u32 n that were started, n times str id, u32
	 * errno and str why no more were.  Of LOOK: u32 1 if it has ended, u32 exit status, str text.  Of CHECK: u32 n, and n times
	 * u32 level, str text. */
	FLEET_DONE = 100,
	FLEET_FAILED,                   /* u32 errno, str reason */
};
#endif
