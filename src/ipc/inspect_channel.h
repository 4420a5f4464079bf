/* inspect_channel.h - what courier and cloister-inspect say to each other, over a mux.
 *
 * cloister-inspect looks into request bodies: it undoes their coding, looks for
 * secrets, and evaluates what rules say about bodies.  It has nothing that would be
 * worth having, so a memory bug in a decoder or a regular expression yields nothing. */
#ifndef CLOISTER_INSPECT_CHANNEL_H
#define CLOISTER_INSPECT_CHANNEL_H
#include "ipc/mux.h"

enum inspect_frame {
	/* courier -> inspect, on stream 0: the policy (policy_put), first and whenever it
	 * changes; may be in pieces: u32 more, bytes. */
	INSPECT_POLICY = MUX_TYPES,
	/* courier -> inspect: opens a stream.  str method, str path, str content type, str
	 * content coding, u32 wanted (enum inspect_wanted).  MUX_DATA follows. */
	INSPECT_BODY,
	/* courier -> inspect: that was all of the body. */
	INSPECT_END,
	/* inspect -> courier: done, also before the end if no more is needed (then the
	 * stream is over).  u32 enum inspect_result, str what (the secret's kind, or why it
	 * cannot be looked into), str pushed, str shape (with
	 * INSPECT_SHAPE: lines of text, see body_shape.h; else ""), u32 n, n bytes: bit R is set where the body fits
	 * rule R.  PUSHED is "" or about a push: "-" and letters (r: a report is wanted, s: in a
	 * side band, o: it has options), then each ref behind a space, "+" in front if it is
	 * moved by force, ":" if it is deleted; "..." at the end if there are more. */
	INSPECT_RESULT,
	/* courier -> inspect: nobody waits for this one any more; the stream is over. */
	INSPECT_DROP,

	/* courier -> inspect: opens a stream, of a model's answer.  str content coding.  MUX_DATA
	 * follows. */
	INSPECT_USAGE,
	/* courier -> inspect: that was all of it, u32: 1, or 0 if it was broken off.  Answered with
	 * INSPECT_USED, and the stream is over. */
	INSPECT_USAGE_END,
	/* inspect -> courier: u32 enum inspect_used, str model ("": it does not
	 * say; at most INSPECT_MODEL_MAX plain characters), u64 tokens of input, output, read from
	 * a cache, written to it; u64 bytes of text. */
	INSPECT_USED,
};
#define INSPECT_MODEL_MAX 128
#define INSPECT_PUSHED_MAX 1024
#define INSPECT_SHAPE_MAX 2048
enum inspect_wanted { INSPECT_SECRETS = 1, INSPECT_RULES = 2, INSPECT_SHAPE = 4 };
/* It says how many tokens there were; it goes on from what the provider keeps; it is not written
 * yet; it was there to its end. */
enum inspect_used { INSPECT_FOUND = 1, INSPECT_KEPT = 2, INSPECT_LATER = 4, INSPECT_WHOLE = 8 };
enum inspect_result { INSPECT_CLEAN, INSPECT_SECRET, INSPECT_UNREADABLE };
#endif
