/* compare_channel.h - messages between `cloister diff` and cloister-compare, over ipc.h.
 *
 * cloister-compare reads files that an agent wrote, and reports the lines in which they differ.  It
 * has access only to the files that it is sent.  It answers one question before the next is asked. */
#ifndef CLOISTER_COMPARE_CHANNEL_H
#define CLOISTER_COMPARE_CHANNEL_H

#define COMPARE_FD 3                    /* cloister-compare: the channel */

enum compare_message {
	/* u32 bits of enum compare_wanted; a descriptor for each file that exists, the old one
	 * first. */
	COMPARE_ASK = 1,
	/* Bytes of the hunks, as they come. */
	COMPARE_TEXT,
	/* u32 errno or 0, u32 1 if a file is binary, u64 lines added, u64 lines removed, and the
	 * last bytes of the hunks. */
	COMPARE_DONE,
};
enum compare_wanted { COMPARE_OLD = 1, COMPARE_NEW = 2, COMPARE_HUNKS = 4 };

#define COMPARE_TEXT_MAX 65536          /* bytes of hunks in one message */
#endif
