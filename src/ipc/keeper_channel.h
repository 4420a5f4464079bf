/* keeper_channel.h - what a cell's courier and cloister-vault, which keeps its secrets fresh,
 * say to each other: datagrams of a SOCK_SEQPACKET socket, see ipc.h.
 *
 * The supervisor passes the courier's end on unread, to each courier that it starts: one that
 * is new asks, and what was meant for the last may come first.  When nobody has that end any
 * more the cell is over, and so is the keeper. */
#ifndef CLOISTER_KEEPER_CHANNEL_H
#define CLOISTER_KEEPER_CHANNEL_H

#define KEEPER_MESSAGE_MAX (112 * 1024) /* three fields of 32 KiB, and more */

enum keeper_message {
	/* courier -> keeper: u32 number.  Answered with KEEPER_VALUES or KEEPER_FAILED for each
	 * secret that has an end, and KEEPER_CURRENT.  Before the first of these the keeper
	 * fetches nothing: a cell that stays silent costs nothing. */
	KEEPER_ASK = 1,
	/* keeper -> courier: str name, u64 when it ends (seconds since 1970), str id, str secret,
	 * str token */
	KEEPER_VALUES,
	/* keeper -> courier: str name, str why it could not be fetched */
	KEEPER_FAILED,
	/* keeper -> courier: u32 the number that was asked with.  Also the keeper's first word, to
	 * who started it, with 0: it keeps watch. */
	KEEPER_CURRENT,
};
#endif
