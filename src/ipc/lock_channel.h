/* lock_channel.h - messages between the two halves of cloister-lock: datagrams, see ipc.h.
 *
 * The worker parses what servers, and the cells in which they run, wrote.  It can open, connect or start nothing.  The
 * keeper starts cells and writes files, and parses nothing of theirs: it gets texts that it only stores or prints. */
#ifndef CLOISTER_LOCK_CHANNEL_H
#define CLOISTER_LOCK_CHANNEL_H

#define LOCK_CHANNEL_FD 3               /* the worker's */
#define LOCK_CHUNK_MAX (96 * 1024)      /* bytes of a text in one message */

/* From the keeper.  Each is answered by any number of LOCK_CHUNK, and one LOCK_DONE or LOCK_FAILED. */
enum lock_message {
	/* str name of the lock's file; fd: its text, or an empty file. */
	LOCK_BEGIN = 1,
	/* str server, str program, str its SHA-256, str package, u64 ms, then str name and str SHA-256 of each file that
	 * its command names; fds: the server's output, its input, its standard error.  The worker lists its tools.  The chunks: lines for people, what changed since the lock. */
	LOCK_LIST,
	/* Empty.  The chunks: the new lock. */
	LOCK_TEXT,
	/* Empty.  The chunks: findings of what was listed, and of all calls since; see check_put(). */
	LOCK_FINDINGS,
	/* str server, str tool, u32 number of its example, str arguments as JSON ("": of the example, or made from the
	 * schema), str folder, str home, u64 ms; fds as of LIST.  One call.  DONE has 1 if it got an error; the chunks: the
	 * error, safe to print. */
	LOCK_CALL,
	/* u32: 1 if the call's acts are judged; fds: the record of the cell that the last call was in, and the changes of its
	 * files.  The worker reads both to their ends. */
	LOCK_OBSERVE,
	/* str server, str tool, str arguments as JSON.  The chunks: a scope for the calls that were observed, on one line of
	 * YAML.  It becomes that of the tool in the lock that TEXT gives; the arguments are its example, if it has none. */
	LOCK_PROPOSE,
	/* fd: lines, each {"tool": NAME, "arguments": {...}}.  The chunks: for each line, str tool, str arguments. */
	LOCK_SCRIPT,

	/* To the process that logs in, once: u32 1 for a new login, str the server's URL, str the client's id ("": register), str
	 * the address that the browser comes back to; or u32 0 to renew, str the login, str "", str "".  fd: the certificates of
	 * authorities, as PEM. */
	LOCK_LOGIN = 50,
	/* From it: str the address that a person opens. */
	LOCK_VISIT,

	/* From the worker, and from the process that logs in, whose one chunk is the login as JSON. */
	LOCK_CHUNK = 100,               /* str, which may have any bytes but NUL, or bytes up to the end */
	LOCK_DONE,                      /* u64: a number that the question is about */
	LOCK_FAILED,                    /* str reason, safe to print */
};
#endif
