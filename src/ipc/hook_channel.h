/* hook_channel.h - messages to cloister-hook, which asks the operator's hooks (policy_hook.h).
 *
 * The courier names a hook, and cloister-hook calls it only if the cell was started with it.  So a
 * compromised courier can run nothing else. */
#ifndef CLOISTER_HOOK_CHANNEL_H
#define CLOISTER_HOOK_CHANNEL_H
#include "ipc/mux.h"

/* ---- courier and cloister-hook, over a mux: courier end is COURIER_HOOK_FD ---- */

enum hook_frame {
	/* courier -> hook: opens a stream.  u64 ms until the answer must be there, from 1 to
	 * HOOK_TIMEOUT_MAX_MS; then what to call (policy_hook_put_call), up to the frame's end.
	 * MUX_DATA follows: the question, one line with its newline, at most
	 * POLICY_HOOK_QUESTION_MAX bytes. */
	HOOK_ASK = MUX_TYPES,
	/* courier -> hook: the question is complete. */
	HOOK_END,
	/* hook -> courier: the answer, which may come before the end of the question and ends the
	 * stream.
	 *   u32 enum hook_result;
	 *   str text  the hook's line without its newline, or a sentence that explains why there is
	 *             none.  The operator's program wrote the line; nothing in it was checked. */
	HOOK_ANSWER,
	/* courier -> hook: the answer is no longer needed; ends the stream. */
	HOOK_DROP,
};
enum hook_result { HOOK_ANSWERED, HOOK_FAILED };
#define HOOK_TIMEOUT_MAX_MS (60 * 1000)

/* ---- its control channel: datagrams, see ipc.h ---- */

#define HOOK_CONTROL_FD 3               /* cloister-hook: ends with the cell */
#define HOOK_POLICY_FD 4                /* cloister-hook: a memory file with the policy (policy_put) */

enum hook_message {
	/* hook -> supervisor, once, first: it has read the policy and can be asked. */
	HOOK_READY = 1,
	/* starter -> hook: fd: the mux of a courier that is being started. */
	HOOK_SERVE,
};
#endif
