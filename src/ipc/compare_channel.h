/* compare_channel.h - messages between `cloister diff` or `apply` and cloister-compare, over ipc.h.
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
	/* Bytes of the answer, as they come: hunks, or a text. */
	COMPARE_TEXT,
	/* u32 errno or 0, u32 1 if a file is binary, two u64 numbers, and the last bytes of the answer.
	 * The numbers are the lines added and removed; for COMPARE_MERGE, the conflicts and 0; for
	 * COMPARE_LIKENESS, the bytes that both files have and the size of the larger one. */
	COMPARE_DONE,
	/* Merge three texts.  str label of ours, str label of theirs, both "" for no conflict markers;
	 * descriptors of the base, ours and theirs.  If there are conflicts and no markers, the answer
	 * has no text. */
	COMPARE_MERGE,
	/* Take some hunks.  Bytes, one for each hunk, 1 if it is wanted; descriptors of the old and the
	 * new file. */
	COMPARE_PICK,
	/* How much of a file is in another.  Two descriptors. */
	COMPARE_LIKENESS,
};
enum compare_wanted { COMPARE_OLD = 1, COMPARE_NEW = 2, COMPARE_HUNKS = 4 };

#define COMPARE_TEXT_MAX 65536          /* bytes of an answer in one message */
#define COMPARE_MERGE_MAX ((size_t)32 << 20)    /* bytes of each file to be merged or picked from */
#define COMPARE_HUNKS_MAX 4096          /* to pick from */
#define COMPARE_LABEL_MAX 256           /* bytes of a label, with its NUL */
#define COMPARE_FILES_MAX 3             /* descriptors in one message */
#endif
