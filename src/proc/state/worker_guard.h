/* worker_guard.h - decides which of a cell's changes are committed: see policy/policy_guards.h. */
#ifndef CLOISTER_WORKER_GUARD_H
#define CLOISTER_WORKER_GUARD_H
#include "inspect/injection.h"
#include "inspect/inspect.h"
#include "policy/policy_guards.h"
#include "proc/state/state_proc.h"

/* ---- worker_look.c: looks at files while they are written ---- */

/* A file in which something was found. */
struct look_found {
	git_oid id;
	uint32_t injection;             /* as struct injection has it */
	const char *secret;             /* the kind, or NULL */
	bool binary;
};
struct looks {
	struct look_found *found;       /* owned */
	size_t n;
	bool sorted;
};
/* One file; at first all zero. */
struct look {
	struct secrets_scan secrets;
	struct injection injection;
	struct look_found found;
	bool begun;
};
void worker_look(struct look *look, const void *data, size_t len);
int worker_look_end(struct looks *looks, const struct look *look, const git_oid *id, struct err *err);
/* NULL: nothing was found in it. */
const struct look_found *worker_looked(struct looks *looks, const git_oid *id);
void worker_looks_free(struct looks *looks);            /* for OWN() too */

/* ---- worker_split.c: takes some of the changes between two trees, and leaves the others ---- */

struct split_file {
	const char *path;
	const git_oid *old, *new;       /* NULL: it is not there */
	git_filemode_t old_mode, new_mode;
	bool blocked;                   /* it cannot be taken, because a change that is left needs its place */
};
/* Whether the change of one file is taken: 1, 0 or negative. */
typedef int worker_takes(void *arg, const struct split_file *file, struct err *err);
/* *RET_TAKEN is OLD with the changes that are taken, *RET_LEFT is OLD with the others. */
int worker_split(struct worker *w, const git_oid *old, const git_oid *new, worker_takes *takes, void *arg, git_oid *ret_taken,
                 git_oid *ret_left, struct err *err);

/* ---- worker_guard.c ---- */

struct guarded {
	git_oid left;                   /* the tree of PARENT with what is not committed; only if WITHHELD > 0 */
	char sum[STATE_SUM + 1];        /* of what is not committed */
	uint64_t pending, withheld;     /* withheld: pending ones and those that are refused */
};
/* Take out of MADE's tree whatever GUARDS (their text) keep from being committed over the tree PARENT.  BASE: the tree that
 * the session began with. */
int worker_guard(struct worker *w, struct looks *looks, const char *guards, const git_oid *base, const git_oid *parent,
                 struct tree_made *made, struct guarded *ret, struct err *err);

/* ---- worker_merge.c ---- */

/* The three-way merge of trees into MADE's tree; its refused are conflicts, which are reported. */
int worker_merge(struct worker *w, const git_oid *base, const git_oid *ours, const git_oid *theirs, struct tree_made *made,
                 struct err *err);

/* ---- worker_review.c ---- */

int worker_answer_accept(struct worker *w, struct ipc_message *m, struct err *err);
#endif
