/* compare_channel.h - what `cloister diff` and cloister-compare say to each other, over ipc.h.
 *
 * cloister-compare reads files that an agent wrote, and tells by which lines they differ.  It has
 * what it is sent and nothing else.  One question is answered before the next is asked. */
#ifndef CLOISTER_COMPARE_CHANNEL_H
#define CLOISTER_COMPARE_CHANNEL_H

#define COMPARE_FD 3                    /* where cloister-compare has the channel */

enum compare_message {
	/* u32 of enum compare_wanted; a descriptor for each file that there is, the old one first. */
	COMPARE_ASK = 1,
	/* Bytes of the hunks, as they come. */
	COMPARE_TEXT,
	/* u32 errno or 0, u32 1 if one of them is binary, u64 lines added, u64 removed, and the last
	 * bytes of the hunks. */
	COMPARE_DONE,
};
enum compare_wanted { COMPARE_OLD = 1, COMPARE_NEW = 2, COMPARE_HUNKS = 4 };

#define COMPARE_TEXT_MAX 65536          /* bytes of hunks in one message */
#endif
