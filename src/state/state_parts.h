/* state_parts.h - shared by the files of src/state, and by cloister-state. */
#ifndef CLOISTER_STATE_PARTS_H
#define CLOISTER_STATE_PARTS_H
#include "audit/key.h"
#include "base/buf.h"
#include "ipc/ipc.h"
#include "ipc/state_channel.h"
#include "state/state.h"

#define STATE_LOCK "lock"
#define STATE_WRITER "writer."          /* and the branch */
#define STATE_CONFIG "config.json"
#define STATE_PENDING "pending"
#define STATE_GIT "git"
#define STATE_TREES "tree"
#define STATE_ASIDE "aside"
#define STATE_REVIEW "review"
#define STATE_REVIEW_REFS "refs/review/"
#define STATE_LOCK_MS 30000             /* how long to wait for another change of the state */
#define STATE_PENDING_MAX 65536
#define STATE_CONFIG_MAX 4096

/* Whether a link at PATH (of the state) with TARGET could lead out of the state, whatever else is in it. */
bool state_link_leads_out(const char *path, const char *target, size_t len);

/* ---- state_config.c ---- */

int state_check_limits(const struct state_limits *limits, struct err *err);
int state_read_limits(int dir, struct state_limits *ret_limits, struct err *err);
int state_write_limits(int dir, const struct state_limits *limits, struct err *err);

/* ---- state_room.c ---- */

#define STATE_TREES_KEPT 4              /* cached commits that nobody uses, */
#define STATE_TREES_MAX 10000           /* and all of them */
/* Bytes on the disk; TREES: with cached files. */
uint64_t state_room_used(const struct state *state, bool trees);
/* -ENOSPC: it has no more room. */
int state_room_check(const struct state *state, bool trees, struct err *err);
/* Remove the oldest cached files that nobody uses, but not those of commit BUT, until MOST are left.  With the lock. */
void state_room_prune(const struct state *state, const char *but, size_t most);
/* Keep the files of COMMIT from being removed, until STATE is closed.  -ENOENT: they are not there. */
int state_room_hold(struct state *state, const char *commit, struct err *err);

/* ---- state_ref.c: refs, each a file of its own ---- */

/* REF is "refs/heads/NAME" or "refs/tags/NAME".  -ENOENT. */
int state_ref_read(int dir, const char *ref, char ret_id[STATE_ID + 1], struct err *err);
/* In one step, and on the disk.  ID: "" removes it. */
int state_ref_write(int dir, const char *ref, const char *id, struct err *err);
struct state_ref {
	char ref[STATE_REF_MAX], id[STATE_ID + 1];
};
/* All of them, sorted by name; the caller frees *ret_refs. */
int state_ref_list(int dir, struct state_ref **ret_refs, size_t *ret_n, struct err *err);
/* "refs/heads/BRANCH"; BRANCH may be NULL. */
int state_ref_of(const char *branch, char ret_ref[STATE_REF_MAX], struct err *err);
/* TEXT replaces the file NAME in DIR in one step, on the disk. */
int state_replace(int dir, const char *name, const char *text, size_t len, struct err *err);

/* ---- state_worker.c ---- */

/* Start cloister-state's worker, if it does not run.  SOURCE and TARGET: descriptors, or -1; with one, a new worker is
 * started. */
int state_worker_start(struct state *state, int source, int target, struct err *err);
void state_worker_stop(struct state *state);
/* For the answers before the last: 0, or negative to end it.  M's read position is behind its type. */
typedef int state_heard(void *arg, struct ipc_message *m, struct err *err);
/* Ask QUESTION; HEARD may be NULL.  *ret_done: the caller's (ipc_message_free). */
int state_ask(struct state *state, const struct buf *question, state_heard *heard, void *arg,
              struct ipc_message *ret_done, struct err *err);

/* ---- state_sign.c ---- */

#define STATE_SIGNATURE_MAX 512
#define STATE_SIGNER "operator@cloister.invalid"
/* The signature of TEXT by KEY, as `ssh-keygen -Y sign -n git` makes it, with newlines. */
void state_sign(const struct audit_key *key, const void *text, size_t len, struct buf *out);
bool state_verify_signature(const unsigned char key[AUDIT_KEY], const void *text, size_t len, const char *armor, size_t armor_len);
/* The line for git's gpg.ssh.allowedSignersFile, without a newline. */
void state_signer_line(const unsigned char key[AUDIT_KEY], struct buf *out);

/* ---- state_message.c: the text of a commit object ---- */

#define STATE_PARENTS_MAX 2
struct state_text {
	char tree[STATE_ID + 1];        /* git's id of it */
	char parents[STATE_PARENTS_MAX][STATE_ID + 1];
	size_t n_parents;
	char sum[STATE_SUM + 1];
	int64_t time;                   /* seconds since 1970 */
	char *author;                   /* "NAME <ADDRESS>" */
	char *message;                  /* owned, as AUTHOR is */
	char *signature;                /* the armor; NULL: none */
	size_t signature_at, signature_end;     /* where its header is in the text */
};
void state_text_free(struct state_text *t);     /* for OWN() too */
/* Append the signed text. */
int state_text_put(struct buf *b, const struct state_text *t, const struct state_author *author, const struct audit_key *key,
                   struct err *err);
/* Read one that state_text_put() wrote; -EBADMSG for any other. */
int state_text_read(const char *text, size_t len, struct state_text *ret, struct err *err);
/* Whether its signature is KEY's. */
bool state_text_is_signed(const struct state_text *t, const char *text, size_t len, const unsigned char key[AUDIT_KEY]);
/* The value of the line "KEY: VALUE" at the end of its message, or NULL; *ret_len is its length. */
const char *state_text_field(const struct state_text *t, const char *key, size_t *ret_len);
/* The id that git gives a commit with this text. */
void state_text_id(const char *text, size_t len, char ret_id[STATE_ID + 1]);

/* ---- state_commit.c ---- */

/* A state_heard for a struct state_committed: what is refused. */
int state_take_refused(void *arg, struct ipc_message *m, struct err *err);
/* The DONE of STATE_ASK_TREE. */
int state_take_tree(struct buf *b, char ret_tree[STATE_ID + 1], struct state_committed *c, struct err *err);
/* Its fields before these. */
struct state_withheld {
	char tree[STATE_ID + 1], listing[STATE_SUM + 1];        /* a tree with what is withheld, and the SHA-256 of its listing */
	char sum[STATE_SUM + 1];        /* of what is withheld alone */
};
int state_take_withheld(struct buf *b, struct state_withheld *ret, struct state_committed *c, struct err *err);
/* A new name in aside/. */
void state_name_aside(const struct state_author *author, char ret_name[STATE_NAME_MAX]);

/* ---- state_review.c ---- */

/* Keep what C lists and does not commit to the ref REF over PARENT.  Called with the lock. */
int state_review_keep(struct state *state, const char *ref, const char *parent, const struct state_withheld *w,
                      const struct state_author *author, struct state_committed *c, struct err *err);

/* ---- state_change.c: moves a ref, and records that ---- */

struct state_change {
	const char *type;               /* of the record: "state.committed" */
	char ref[STATE_REF_MAX];
	char from[STATE_ID + 1], to[STATE_ID + 1];      /* "": does not exist */
	const char *sum;                /* of the commit TO; or NULL */
	const char *source;             /* what it is of: the commit of a rollback, a merge ...; or NULL */
	const struct state_author *author;              /* or NULL */
};
/* Called with the lock.  The objects are on the disk: STATE_ASK_PUT_COMMIT puts them there. */
int state_change(struct state *state, const struct state_change *change, struct err *err);
/* Complete what a crash left.  Called with the lock. */
int state_repair(struct state *state, struct err *err);
/* The lock: wait for it; close the descriptor to give it up. */
int state_lock(const struct state *state, struct err *err);
/* Write a commit of TREE with these parents, and return its id. */
int state_put_commit(struct state *state, const char *tree, const char *sum, const char *const *parents, size_t n_parents,
                     const struct state_author *author, char ret_commit[STATE_ID + 1], struct err *err);
/* The text of COMMIT, which is checked against its id.  The caller owns both. */
int state_get_commit(struct state *state, const char *commit, struct buf *ret_text, struct state_text *ret, struct err *err);
#endif
