/* inspect_channel.h - messages between courier and cloister-inspect, over a mux.
 *
 * cloister-inspect decodes request bodies, scans them for secrets, and evaluates rules about
 * bodies.  It holds nothing of value, so exploiting a decoder or a regular expression gains
 * nothing. */
#ifndef CLOISTER_INSPECT_CHANNEL_H
#define CLOISTER_INSPECT_CHANNEL_H
#include "ipc/mux.h"

enum inspect_frame {
	/* courier -> inspect, on stream 0: the policy (policy_put), first and whenever it changes.
	 * It may come in pieces: u32 1 if more follow, bytes. */
	INSPECT_POLICY = MUX_TYPES,
	/* courier -> inspect: opens a stream.  str method, str path, str content type, str
	 * content coding, u32 wanted (enum inspect_wanted).  MUX_DATA follows. */
	INSPECT_BODY,
	/* courier -> inspect: the body is complete. */
	INSPECT_END,
	/* inspect -> courier: the result, which may come before the end of the body and ends the
	 * stream.
	 *   u32 enum inspect_result;
	 *   str what    the secret's kind, or why the body cannot be inspected;
	 *   str pushed  "" or a push: "-" and letters (r: wants a report, s: in a side band, o: has
	 *               options), then each ref behind a space, with "+" in front if it is forced, ":" if
	 *               it is deleted; "..." at the end stands for more refs;
	 *   str call    "", or if any rule is about calls of tools, the call that the body is: "tool
	 *               SERVER.NAME", "prompt SERVER.NAME", "resource SERVER/URI", or "method NAME" of a
	 *               message that calls nothing ("method " of a response); cut, in ASCII without spaces;
	 *   str shape   with INSPECT_SHAPE: lines of text, see body_shape.h; else "";
	 *   u32 n, n bytes: bit R is set if the body fits rule R. */
	INSPECT_RESULT,
	/* courier -> inspect: the result is no longer needed; ends the stream. */
	INSPECT_DROP,

	/* courier -> inspect: opens a stream for a model's response.  str content coding.  MUX_DATA
	 * follows. */
	INSPECT_USAGE,
	/* courier -> inspect: the end of the response, u32: 1, or 0 if it was cut off.
	 * INSPECT_USED answers it and ends the stream. */
	INSPECT_USAGE_END,
	/* inspect -> courier: u32 enum inspect_used; str model ("": not reported; at most
	 * INSPECT_MODEL_MAX plain characters); u64 each: input tokens, output tokens, tokens read
	 * from a cache, tokens written to it; u64 bytes of text. */
	INSPECT_USED,

	/* courier -> inspect: opens a stream for a body to change (policy_rewrite.h).  str content
	 * type, str content coding, u32 1 + the rule whose `rewrite` is made (0: none), str a hook's
	 * answer whose rewrite is made first ("": none).  MUX_DATA and INSPECT_END follow. */
	INSPECT_REWRITE,
	/* inspect -> courier: str why the body could not be changed ("": it was); u64 the bits of
	 * the edits that changed something, of the hook's rewrite and of the rule's, or of the only
	 * one.  The changed body came before as MUX_DATA.  Ends the stream. */
	INSPECT_REWRITTEN,
};
#define INSPECT_MODEL_MAX 128
#define INSPECT_PUSHED_MAX 1024
#define INSPECT_CALL_MAX 320
#define INSPECT_SHAPE_MAX 2048
enum inspect_wanted { INSPECT_SECRETS = 1, INSPECT_RULES = 2, INSPECT_SHAPE = 4 };
/* FOUND: the response reports tokens.  KEPT: it continues from state that the provider keeps.
 * LATER: it is not written yet.  WHOLE: it arrived completely. */
enum inspect_used { INSPECT_FOUND = 1, INSPECT_KEPT = 2, INSPECT_LATER = 4, INSPECT_WHOLE = 8 };
enum inspect_result { INSPECT_CLEAN, INSPECT_SECRET, INSPECT_UNREADABLE };
#endif
