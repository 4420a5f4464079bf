/* worker_channel.h - what a service and a worker say to each other: talks over one stream (link/link_line.h).
 *
 * A talk is opened with a frame WORKER_OPEN, u32 kind and its fields, and ended with WORKER_CLOSE, by either side.  Its
 * messages follow in both directions: u32 length, u32 type, fields. */
#ifndef CLOISTER_WORKER_CHANNEL_H
#define CLOISTER_WORKER_CHANNEL_H
#include "ipc/mux.h"

enum worker_frame { WORKER_OPEN = MUX_TYPES, WORKER_CLOSE };

enum worker_talk {
	/* Opened by the worker: str dispatch, u64 claim, LEND_KEY bytes, u32 n, n times str name.  These secrets of one claimed
	 * dispatch, sealed to that key (vault/lend.h).  The service sends one message, and closes it. */
	WORKER_SECRETS = 1,
	/* Opened by the worker, without fields, whenever it is connected: the cells that it has of this service's
	 * dispatches. */
	WORKER_CELLS,
	/* Opened by the service: str cell.  One connection to the control socket of such a cell (link/link_control.h). */
	WORKER_CONTROL,
	/* Opened by the service: str cell, u32 enum worker_record, u64 bytes that it has of it. */
	WORKER_FETCH,
};

enum worker_cells {
	/* worker -> service: str dispatch, str cell */
	WORKER_HAS = 1,
	/* worker -> service: str cell */
	WORKER_HAS_NOT,
	/* worker -> service: str dispatch, str cell: it has ended, and its timeline was not fetched to its end */
	WORKER_HAD,
};

/* What is kept of a cell: files of its entry (cell/cell_dirs.h). */
enum worker_record {
	WORKER_EVENTS, WORKER_STDOUT, WORKER_STDERR, WORKER_TIMES,
	WORKER_POLICY,          /* asked for when the timeline is complete, which names its hash */
	WORKER_RECORDS
};

enum worker_fetch {
	/* worker -> service: at most WORKER_PART_MAX bytes; of a file of lines, whole lines */
	WORKER_PART = 1,
	/* worker -> service: the cell has ended, and these were all */
	WORKER_COMPLETE,
	/* service -> worker: all of the timeline is on this machine's disk */
	WORKER_KEPT,
};
#define WORKER_PART_MAX (256 * 1024)

/* Messages of WORKER_CONTROL, in both directions.  A descriptor that comes with a message of control_channel.h is a file,
 * whose content comes along, or a lane, which carries bytes until both of its ends are closed. */
enum worker_control {
	/* u32 n, n times a descriptor (u32 enum worker_fd, u32 lane or seals; for a file u32 length and bytes), and the
	 * message: u32 type, fields */
	WORKER_MESSAGE = 1,
	/* u32 lane, bytes */
	WORKER_DATA,
	/* u32 lane: no more bytes come from this side */
	WORKER_END,
	/* u32 lane, u32 n: so many bytes have left this side; a side may send WORKER_LANE_WINDOW that have not */
	WORKER_CREDIT,
	/* the connection to the control socket is over; lanes go on */
	WORKER_HANGUP,
};
enum worker_fd {
	WORKER_FD_NULL = 1,             /* /dev/null */
	WORKER_FD_FILE,
	WORKER_FD_READ,                 /* the other side reads from its end */
	WORKER_FD_WRITE,                /* the other side writes to it */
	WORKER_FD_BOTH,
};
#define WORKER_LANES_MAX 8              /* of one connection */
#define WORKER_LANE_WINDOW (256 * 1024)
#define WORKER_FILE_MAX (4 * 1024 * 1024)

enum worker_secrets {
	/* service -> worker: the box */
	WORKER_BOX = 1,
	/* service -> worker: str why, at most LEND_WHY_MAX bytes */
	WORKER_REFUSES,
};

/* Bytes of one message of a talk, at most. */
#define WORKER_MESSAGE_MAX (9 * 1024 * 1024)
#endif
