/* keeper_channel.h - messages between a cell's courier and its keeper, a cloister-vault that renews
 * its secrets: datagrams of a SOCK_SEQPACKET socket, see ipc.h.
 *
 * The supervisor passes the courier's end, unread, to each courier that it starts.  A new courier
 * asks first; messages meant for the last courier may arrive before the answer.  When no process
 * holds that end any more, the cell is over, and the keeper exits. */
#ifndef CLOISTER_KEEPER_CHANNEL_H
#define CLOISTER_KEEPER_CHANNEL_H

#define KEEPER_MESSAGE_MAX (112 * 1024) /* three fields of 32 KiB, and more */

enum keeper_message {
	/* courier -> keeper: u32 number.  Answered with KEEPER_VALUES or KEEPER_FAILED for each
	 * secret that expires, and KEEPER_CURRENT.  The keeper fetches nothing before the first
	 * question: a silent cell costs nothing. */
	KEEPER_ASK = 1,
	/* keeper -> courier: str name, u64 expiry (seconds since 1970), str id, str secret, str
	 * token */
	KEEPER_VALUES,
	/* keeper -> courier: str name, str why it could not be fetched */
	KEEPER_FAILED,
	/* keeper -> courier: u32 number of the question.  Also the keeper's first message to its
	 * parent, with 0: it is running. */
	KEEPER_CURRENT,
};
#endif
