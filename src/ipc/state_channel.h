/* state_channel.h - messages between the operator's side of a state and cloister-state's worker, over ipc.h.
 *
 * The worker reads what agents wrote, and git objects.  It can write the state's objects, cached files and refused changes, and
 * nothing else: no ref, no configuration.  It has no key.  It answers one question before the next is asked: any number of
 * STATE_CHUNK, STATE_REFUSED, STATE_WITHHELD or STATE_FLAG, STATE_STEP now and then, and then STATE_DONE or STATE_FAILED.
 *
 * Ids are hexadecimal texts of 40 digits, sums of 64. */
#ifndef CLOISTER_STATE_CHANNEL_H
#define CLOISTER_STATE_CHANNEL_H

#define STATE_CHANNEL_FD 3              /* the worker: the channel, */
#define STATE_DIR_FD 4                  /* the state's folder, */
#define STATE_SOURCE_FD 5               /* the folder of changes or of an import, or /dev/null, */
#define STATE_SOURCE_PATH "/proc/self/fd/5" /* where it is for the worker, */
#define STATE_TARGET_FD 6               /* and the file of an export, or /dev/null */

enum state_message {
	/* five u64: the limits bytes, file_bytes, files, depth, path.  Then it locks itself down.  DONE: nothing */
	STATE_ASK_BEGIN = 1,
	/* str id of the base commit, or "" for none; str name of a folder in aside/ for what is refused; an enum state_changes about
	 * STATE_SOURCE_FD; str id of the branch's commit, or "": nothing is guarded; str guards (policy/policy_guards.h).  REFUSED,
	 * WITHHELD and FLAG for what is not committed or is to be seen.  DONE: str id of a tree with what is withheld, or "";
	 * str sum of its listing, str sum of what is withheld, u64 withheld, u64 of these pending; str id of the tree, str its sum, u64 files, u64 bytes, u64 added, u64 changed, u64 removed,
	 * u64 refused */
	STATE_ASK_TREE,
	/* bytes: the text of a commit object, whose tree and parents exist.  DONE: str id.  It and all objects that were made
	 * for earlier questions are on the disk then; before, nobody else sees them */
	STATE_ASK_PUT_COMMIT,
	/* str id.  CHUNKs with the text of the commit object.  DONE: nothing */
	STATE_ASK_GET_COMMIT,
	/* str id of a commit.  Makes tree/ID; a worker with a STATE_SOURCE_FD cannot.  DONE: nothing */
	STATE_ASK_CHECKOUT,
	/* str id of a commit.  CHUNKs: u32 mode, u64 size, str path, of every file.  DONE: nothing */
	STATE_ASK_FILES,
	/* str id of a commit, str path.  CHUNKs with the file's bytes.  DONE: u32 mode */
	STATE_ASK_CAT,
	/* two str ids of commits; the first may be "".  CHUNKs: u32 a letter of "AMD", u32 old mode, u32 new mode, u64 old size,
	 * u64 new size, str path.  DONE: nothing */
	STATE_ASK_DIFF,
	/* the same, and str path.  CHUNKs with hunks.  DONE: u32 1 if a side is binary, u64 added, u64 removed */
	STATE_ASK_DIFF_FILE,
	/* str beginning of an id, at least 4 digits.  DONE: str id of the one commit that begins so */
	STATE_ASK_FIND,
	/* two str ids of commits: ours, theirs.  REFUSED for each conflict.  DONE: as for STATE_ASK_TREE, refused: conflicts */
	STATE_ASK_MERGE,
	/* str ids of commits: base, ours, and one that was withheld from a branch; u32 number, and as many str paths.  Merges its
	 * changes of these paths over the base.  REFUSED for each conflict.  DONE: as for STATE_ASK_MERGE */
	STATE_ASK_ACCEPT,
	/* str id of a commit.  DONE: str sum of its files, u64 files, u64 bytes */
	STATE_ASK_SUM,
	/* u32 number, and as many pairs of str ref and str id; u32 0: a bundle is written to STATE_TARGET_FD; 1: a pack and its
	 * index are made in STATE_EXPORT.  DONE: nothing */
	STATE_ASK_EXPORT,
	/* str name of a ref, or "" for HEAD, of the repository STATE_SOURCE_FD.  REFUSED for each file that is
	 * not copied.  DONE: str id of the commit there, and as for STATE_ASK_TREE */
	STATE_ASK_IMPORT,

	STATE_CHUNK = 100,
	STATE_REFUSED,                  /* str path, str why */
	STATE_WITHHELD,                 /* u32 1: pending, str path, str why */
	STATE_FLAG,                     /* str path, str what */
	STATE_STEP,                     /* u64 done, u64 total: of files */
	STATE_DONE,
	STATE_FAILED,                   /* u32 errno, str sentence */
};

enum state_changes { STATE_CHANGES_NONE, STATE_CHANGES, STATE_CHANGES_LEAVE };  /* LEAVE: nothing is put aside */
#define STATE_EXPORT "aside/.export"    /* in the state's folder */
#define STATE_CHUNK_MAX 65536           /* bytes in one */
#define STATE_OBJECT_MAX (64 * 1024)    /* the text of a commit */
#endif
