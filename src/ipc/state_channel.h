/* state_channel.h - messages between the operator's side of a state and cloister-state's worker, over ipc.h.
 *
 * The worker reads what agents wrote, and git objects.  It can write the state's objects, cached files and refused changes, and
 * nothing else: no ref, no configuration.  It has no key.  It answers one question before the next is asked: any number of
 * STATE_CHUNK or STATE_REFUSED, STATE_STEP now and then, and then STATE_DONE or STATE_FAILED.
 *
 * Ids are hexadecimal texts of 40 digits, sums of 64. */
#ifndef CLOISTER_STATE_CHANNEL_H
#define CLOISTER_STATE_CHANNEL_H

#define STATE_CHANNEL_FD 3              /* the worker: the channel, */
#define STATE_DIR_FD 4                  /* the state's folder, */
#define STATE_SOURCE_FD 5               /* the folder of changes or of an import, or /dev/null, */
#define STATE_TARGET_FD 6               /* and the folder of an export, or /dev/null */

enum state_message {
	/* five u64: the limits bytes, file_bytes, files, depth, path.  Then it locks itself down.  DONE: nothing */
	STATE_ASK_BEGIN = 1,
	/* str id of the base commit, or "" for none; str name of a folder in aside/ for what is refused; u32 1: the changes are
	 * STATE_SOURCE_FD, 0: there are none.  DONE: str id of the tree, str its sum, u64 files, u64 bytes, u64 added, u64 changed, u64 removed,
	 * u64 refused */
	STATE_ASK_TREE,
	/* bytes: the text of a commit object, whose tree and parents exist.  DONE: str id */
	STATE_ASK_PUT_COMMIT,
	/* str id.  CHUNKs with the text of the commit object.  DONE: nothing */
	STATE_ASK_GET_COMMIT,
	/* str id of a commit.  Makes tree/ID.  DONE: nothing */
	STATE_ASK_CHECKOUT,
	/* str id of a commit.  CHUNKs: u32 mode, u64 size, str path, of every file.  DONE: str sum */
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
	/* three str ids of commits: base, ours, theirs.  REFUSED for each conflict.  DONE: as for STATE_ASK_TREE, refused: conflicts */
	STATE_ASK_MERGE,
	/* str id of the first commit, "" or str id where to stop.  Checks every object from there.  DONE: u64 commits, u64 files */
	STATE_ASK_CHECK,
	/* u32 number, and as many pairs of str ref and str id.  Writes them to STATE_TARGET_FD: u32 0 a bundle (a descriptor of the
	 * file), 1 a pack in objects/pack.  DONE: nothing */
	STATE_ASK_EXPORT,
	/* str name of a ref or "" for HEAD, str name of a folder in aside/.  Copies the tree of a commit of the repository
	 * STATE_SOURCE_FD.  DONE: str id of that commit, and as for STATE_ASK_TREE */
	STATE_ASK_IMPORT,

	STATE_CHUNK = 100,
	STATE_REFUSED,                  /* str path, str why */
	STATE_STEP,                     /* u64 done, u64 total: of files */
	STATE_DONE,
	STATE_FAILED,                   /* u32 errno, str sentence */
};

#define STATE_CHUNK_MAX 65536           /* bytes in one */
#define STATE_OBJECT_MAX (64 * 1024)    /* the text of a commit */
#endif
