/* worker_channel.h - what a service and a worker say to each other: talks over one stream (link/link_line.h).
 *
 * A talk is opened with a frame WORKER_OPEN, u32 kind and its fields, and ended with WORKER_CLOSE, by either side.  Its
 * messages follow in both directions: u32 length, u32 type, fields. */
#ifndef CLOISTER_WORKER_CHANNEL_H
#define CLOISTER_WORKER_CHANNEL_H
#include "ipc/mux.h"

enum worker_frame { WORKER_OPEN = MUX_TYPES, WORKER_CLOSE };

enum worker_talk {
	/* Opened by the worker: str dispatch, u64 claim, LEND_KEY bytes.  The secrets of one claimed dispatch, sealed to that
	 * key (vault/lend.h).  The service sends one message, and closes it. */
	WORKER_SECRETS = 1,
};

enum worker_secrets {
	/* service -> worker: the box */
	WORKER_BOX = 1,
	/* service -> worker: str why, at most LEND_WHY_MAX bytes */
	WORKER_REFUSES,
};

/* Bytes of one message of a talk, at most. */
#define WORKER_MESSAGE_MAX (9 * 1024 * 1024)
#endif
