/* warm_channel.h - messages between `cloister run` and a supervisor that waits with a virtual machine for a
 * cell: datagrams of a SOCK_SEQPACKET socket, see ipc.h.
 *
 * The supervisor listens at a socket in the folder WARM_FOLDER of the runtime folder.  Its name is the shape of
 * the machine, the beginning of its template's name, and the supervisor's pid, with dots between.  It takes
 * one client, once.  Both are the same operator's. */
#ifndef CLOISTER_WARM_CHANNEL_H
#define CLOISTER_WARM_CHANNEL_H

#define WARM_FOLDER "warm"

/* What such a supervisor writes to its standard input, if that is a socket: it waits; it has a cell. */
#define WARM_READY '+'
#define WARM_GONE '-'

enum warm_message {
	/* run -> supervisor: a u32 for each descriptor: its number in the supervisor, see CELL_SPEC_FD. */
	WARM_FILES = 1,
	/* run -> supervisor: all were sent. */
	WARM_START,
	/* supervisor -> run: it starts the cell.  From then on it is that cell's, and nobody else starts it. */
	WARM_TAKEN,
	/* supervisor -> run: u32 status.  The cell did not start. */
	WARM_ENDED,
};
#endif
