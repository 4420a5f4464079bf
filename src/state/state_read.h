/* state_read.h - reads commits of a state: for commands.  Paths and texts in them are an agent's: print them safely. */
#ifndef CLOISTER_STATE_READ_H
#define CLOISTER_STATE_READ_H
#include "state/state.h"
#include "state/state_parts.h"

struct state_file {
	const char *path;
	uint32_t mode;
	uint64_t size;
};
/* Calls NOTE for each file of COMMIT. */
int state_files(struct state *state, const char *commit, int (*note)(void *arg, const struct state_file *file), void *arg,
                struct err *err);
/* The bytes of the file PATH. */
int state_cat(struct state *state, const char *commit, const char *path, int (*take)(void *arg, const void *data, size_t len),
              void *arg, struct err *err);

struct state_diff {
	const char *path;
	char kind;                      /* 'A', 'M' or 'D' */
	uint32_t old_mode, new_mode;
	uint64_t old_size, new_size;
};
/* Calls NOTE for each file that differs; OLD "": everything was added.  NOTE must not ask the state anything. */
int state_diff(struct state *state, const char *old, const char *new, int (*note)(void *arg, const struct state_diff *file),
               void *arg, struct err *err);
/* The hunks of one file; TAKE may be NULL. */
int state_diff_file(struct state *state, const char *old, const char *new, const char *path,
                    int (*take)(void *arg, const void *data, size_t len), void *arg, bool *ret_binary, uint64_t *ret_added,
                    uint64_t *ret_removed, struct err *err);

/* How far a commit is from another: the files that differ.  BYTES: the sizes of these files, of removed ones before. */
#define STATE_KNOWN_GOOD "known-good"   /* the tag that drift is measured from, unless another is named */
struct state_drift {
	uint64_t files, bytes, added, changed, removed;
};
int state_drift(struct state *state, const char *from, const char *to, struct state_drift *ret_drift, struct err *err);
struct state_drift_point {
	char commit[STATE_ID + 1];
	int64_t time;                   /* seconds since 1970 */
	struct state_drift drift;
};
/* The same for TO and the commits before it, at most LIMIT, the newest first.  RET_POINTS has room for as many. */
int state_drift_history(struct state *state, const char *from, const char *to, size_t limit, struct state_drift_point *ret_points,
                        size_t *ret_n, struct err *err);

/* Checks COMMIT: its id, its signature, and the SHA-256 of its files' listing.  -EBADMSG: ERR explains what is wrong. */
int state_check_commit(struct state *state, const char *commit, const unsigned char key[AUDIT_KEY], const char *known_tree,
                       struct state_text *ret, struct err *err);
/* The operator's public key. */
int state_public_key(unsigned char ret_key[AUDIT_KEY], struct err *err);
/* Names of all states, sorted; the caller owns *ret_names (strv_free). */
int state_list(char ***ret_names, struct err *err);
#endif
