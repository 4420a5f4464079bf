/* worker_channel.h - what a service and a worker say to each other: talks over one stream (link/link_line.h).
 *
 * A talk is opened with a frame WORKER_OPEN, u32 kind and its fields, and ended with WORKER_CLOSE, by either side.  Its
 * messages follow in both directions: u32 length, u32 type, fields. */
#ifndef CLOISTER_WORKER_CHANNEL_H
#define CLOISTER_WORKER_CHANNEL_H
#include "ipc/mux.h"

enum worker_frame { WORKER_OPEN = MUX_TYPES, WORKER_CLOSE };

enum worker_talk {
	/* Opened by the worker: str dispatch, u64 claim.  The secrets of one claimed dispatch, for one cell:
	 * LEND_* messages. */
	WORKER_SECRETS = 1,
};

/* Messages of WORKER_SECRETS.  The worker sees placeholders and sealed boxes alone. */
enum worker_lend {
	/* service -> worker: u32 enum lend_file, u32 length, bytes: one of the files that cloister-vault makes for a cell,
	 * the values left out */
	LEND_FILE = 1,
	/* service -> worker: all files were sent */
	LEND_GIVEN,
	/* service -> worker: str why; the talk is over */
	LEND_REFUSED,
	/* either: u32 length and that many bytes: a message of keeper_channel.h */
	LEND_KEEPER,
};
enum lend_file { LEND_BOUND = 1, LEND_VARIABLES, LEND_FILES, LEND_HOSTS };

/* Bytes of one message of a talk, at most. */
#define WORKER_MESSAGE_MAX (9 * 1024 * 1024)
#endif
