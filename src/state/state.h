/* state.h - versioned state: folders that outlive cells, as git repositories that no agent reaches.
 *
 *   DATA/states/NAME/            (see base/data.h)
 *     git/                         a bare repository.  refs/heads/main is the state
 *     tree/COMMIT/                 a commit's files, made when they are first wanted: a cache
 *     aside/STAMP/                 changes that git must not have, with their paths
 *     review/ID                    changes that were kept from a branch, and why.  refs/review/ID has their files
 *     config.json                  its limits
 *     lock                         held for a moment, while a ref changes
 *     writer.BRANCH                held by a cell for as long as it may write the branch; has the cell's id
 *     pending                      a change of a ref that is not recorded yet: repaired at the next use
 *
 * A commit is the tree of its base and a cell's changes; there is no index and no work tree.  So git's hooks, filters,
 * attributes and submodules never come into play.  cloister-state, a locked-down child, reads and writes trees and
 * files (ipc/state_channel.h).  This process writes the commit's text, signs it with the operator's key, moves the ref,
 * and records that in the operator's timeline.
 *
 * Order of a change: objects on the disk, `pending`, the ref, the record, `pending` removed.  Whoever opens the state
 * after a crash completes it.
 *
 * These functions need the operator's rights: the data folder, the key, and to start a program.  Docs: docs/state.md. */
#ifndef CLOISTER_STATE_H
#define CLOISTER_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define STATE_FOLDER "states"           /* in the data folder */
#define STATE_NAME_MAX 64               /* with a NUL; of branches and tags, too */
#define STATE_ID 40                     /* digits of a commit, without a NUL */
#define STATE_SUM 64                    /* digits of a listing's SHA-256 */
#define STATE_GOOD "known-good"         /* the tag that tripwires go back to */
#define STATE_MAIN "main"               /* the branch that a cell gets unless it has another */
#define STATE_REF_MAX (STATE_NAME_MAX + 16)
#define STATE_STATES_MAX 10000
#define STATE_REFS_MAX 1000             /* branches and tags of one state */
#define STATE_TEXT_MAX 256              /* of each text in a commit's message */
#define STATE_PATH_MAX 4096             /* bytes of any path in it */

/* ---- names ---- */

/* A state, a branch or a tag: letters, digits, '.', '_' and '-', beginning with a letter or digit, not ending in ".lock" or
 * '.', without "..".  Letters may be of either case. */
bool state_is_name(const char *name);
/* The same with a sentence; WHAT: "state", "branch", "tag". */
int state_check_name(const char *what, const char *name, struct err *err);
bool state_is_id(const char *text);             /* exactly STATE_ID lower-case digits */

/* Why a name of a file or folder is never stored; NULL: it may be.  It is about git's own folder in every spelling that some
 * file system takes for it, and names that git cannot carry. */
const char *state_refuses_name(const char *name, size_t len);

/* ---- limits ---- */

struct state_limits {
	uint64_t bytes;                 /* of all files of a commit */
	uint64_t file_bytes;            /* of one file */
	uint64_t files;                 /* files and links */
	uint64_t depth;                 /* folders in folders */
	uint64_t path;                  /* bytes of a path */
	uint64_t disk;                  /* of the whole state on the disk, with its history and what is aside; 0: the default */
};
#define STATE_BYTES ((uint64_t)1 << 30)         /* what a state has unless it is configured */
#define STATE_FILE_BYTES ((uint64_t)64 << 20)
#define STATE_FILES 100000
#define STATE_DEPTH 64
#define STATE_PATH 1024
#define STATE_DISK ((uint64_t)16 << 30)
#define STATE_DISK_MOST ((uint64_t)1 << 50)
#define STATE_BYTES_MOST ((uint64_t)64 << 30)   /* what it can be configured to have */
#define STATE_FILE_BYTES_MOST ((uint64_t)1 << 30)
#define STATE_FILES_MOST 1000000
#define STATE_DEPTH_MOST 128
#define STATE_ASIDE_BYTES ((uint64_t)4 << 30)   /* of all that is aside, as it lies on the disk */
#define STATE_ASIDE_FILES 100000        /* and as many files and folders */
#define STATE_REFUSED_MAX 1000                  /* that are listed; all are counted */
extern const struct state_limits state_limits_default;

/* ---- opening ---- */

struct state {
	char name[STATE_NAME_MAX];
	int dir;                        /* DATA/states/NAME */
	int tree;                       /* the lock of the files that were laid out last; 0: none */
	struct state_limits limits;
	int channel;                    /* to cloister-state; 0: not started */
	bool reads;                     /* it was started with a folder of changes or an import */
	pid_t worker;
	bool progress;                  /* set by commands: show what takes long */
	const char *guards;             /* set by who commits for a cell: policy/policy_guards.h; NULL: the defaults.  Borrowed */
};

/* Make NAME, with an empty first commit.  LIMITS: NULL for the default.  -EEXIST. */
int state_create(const char *name, const struct state_limits *limits, struct err *err);
/* Open it, and complete what a crash left.  -ENOENT: there is none.  The caller closes it. */
int state_open(const char *name, struct state *ret_state, struct err *err);
void state_close(struct state *state);          /* for OWN() too; {0} is fine */

/* The commit of BRANCH (NULL: STATE_MAIN).  -ENOENT: there is no such branch. */
int state_head(const struct state *state, const char *branch, char ret_commit[STATE_ID + 1], struct err *err);
/* The commit that WORD names: a tag, a branch, or at least four digits of a commit's id; "~N" behind it is its Nth ancestor. */
int state_resolve(struct state *state, const char *word, char ret_commit[STATE_ID + 1], struct err *err);

/* The absolute path of a folder with the files of COMMIT, which is made if it is not there.  Nobody may change it: it is for
 * read-only mounts and lower layers.  Files have the modes 0644 and 0755, folders 0755.  The caller owns *ret_path.  The
 * folder stays until STATE is closed, or another commit is laid out. */
int state_checkout(struct state *state, const char *commit, char **ret_path, struct err *err);

/* ---- writers ---- */

/* Become the writer of BRANCH for CELL, until the descriptor that is returned is closed or the process ends.  -EBUSY: the cell
 * *RET_CELL (may be NULL) has it.  It is a lock of the process: a child that is forked does not have it. */
#define STATE_CELL_MAX 64
int state_lock_writer(const struct state *state, const char *branch, const char *cell, char ret_cell[STATE_CELL_MAX],
                      struct err *err);

/* ---- commits ---- */

/* Who makes a commit, and why.  Texts may be NULL; they are cut and made printable. */
struct state_author {
	const char *subject;            /* the first line of the message */
	const char *reason;             /* "end", "checkpoint", "quiet", "rollback", "import" ... */
	const char *who;                /* the agent or person */
	const char *cell, *cell_name;
	const char *behalf;             /* on whose behalf */
	const char *dispatch;
	const char *grant;              /* "sha256:..." of the cell's grants */
	const char *timeline;           /* "cell/ID" */
	uint64_t timeline_n;            /* its last record, */
	const char *timeline_head;      /* and that record's hash */
	const char *flags;              /* of struct state_committed */
	const char *review;             /* the id of the changes that a person has accepted */
};

/* What became of a change that was not committed. */
enum state_kept {
	STATE_KEPT_ASIDE,               /* git must not have it: it is in aside/ */
	STATE_KEPT_REFUSED,             /* it is kept for review; only a person who names it has it committed */
	STATE_KEPT_PENDING,             /* it waits for a person */
	STATE_KEPT_ACCEPTED,            /* it was committed since */
};
struct state_refused {
	char *path;                     /* raw: print it with text_print_safe() */
	char *why;
	enum state_kept kept;
};
struct state_committed {
	char commit[STATE_ID + 1];      /* the new commit, or the head if nothing changed */
	char tree[STATE_SUM + 1];       /* SHA-256 of its listing */
	bool same;                      /* nothing changed: no commit was made */
	uint64_t files, bytes;          /* in the commit */
	uint64_t added, changed, removed;
	uint64_t n_refused;             /* that were put aside; of a merge: conflicts */
	uint64_t n_withheld, n_pending; /* that are kept for review, and how many of these wait for a person */
	struct state_refused *refused;  /* the first STATE_REFUSED_MAX of each kind */
	size_t n_listed;
	char aside[STATE_NAME_MAX];     /* where they are, in the state's folder aside/; "" if there are none */
	char review[STATE_NAME_MAX];    /* the id under which withheld changes are kept; "" if there are none */
	char flags[STATE_TEXT_MAX];     /* what people should see, printable: "PATH: WHAT, ... and N more"; "" if there is nothing */
	uint64_t n_flags, n_flagged;    /* all, and those that FLAGS has */
};
void state_committed_free(struct state_committed *c);   /* for OWN() too */

/* Commit CHANGES, a folder that workspace_collect() filled, over BASE, and move BRANCH (NULL: STATE_MAIN) there.
 *   - What must not be stored (state_refuses_name(), files over a limit, links out, sockets) is put aside; the rest is
 *     committed.
 *   - What the guards (STATE->guards) keep from being committed is kept for review, the rest is committed.
 *   - If the whole is over a limit, or cannot be put aside: an error, and nothing was changed.  CHANGES are the caller's to keep.
 *   - BRANCH must be at BASE: -ESTALE.  If it has moved to exactly this commit, because of a crash, that is success.
 * The caller holds the writer's lock, unless no cell can write the branch. */
int state_commit(struct state *state, const char *branch, const char *base, int changes,
                 const struct state_author *author, struct state_committed *ret, struct err *err);
/* The same for a cell that has committed before: BRANCH is at PARENT, and the changes are still those over BASE. */
int state_commit_over(struct state *state, const char *branch, const char *parent, const char *base, int changes,
                      const struct state_author *author, struct state_committed *ret, struct err *err);
/* A new BRANCH at COMMIT.  -EEXIST. */
int state_make_branch(struct state *state, const char *branch, const char *commit, const struct state_author *author,
                      struct err *err);
/* A new commit on BRANCH with the tree of COMMIT.  -EBUSY while a cell may write BRANCH. */
int state_rollback(struct state *state, const char *branch, const char *commit, const struct state_author *author,
                   struct state_committed *ret, struct err *err);
/* The same to the tag STATE_GOOD, or to COMMIT if there is none, for the branch's writer. */
int state_go_back(struct state *state, const char *branch, const char *commit, const struct state_author *author,
                  struct state_committed *ret, struct err *err);
/* Merge COMMIT into BRANCH: a commit with two parents.  If there are conflicts, they are RET's refused, and nothing was changed.
 * -EBUSY while a cell may write BRANCH. */
int state_merge(struct state *state, const char *branch, const char *commit, const struct state_author *author,
                struct state_committed *ret, struct err *err);
/* Make the branch or tag NAME at COMMIT; "" removes it. */
int state_point(struct state *state, bool tag, const char *name, const char *commit, const struct state_author *author,
                struct err *err);

/* ---- changes that were kept from a branch ---- */

#define STATE_REVIEWS_MAX 200           /* of one state; then nothing is committed that would be kept, too */
struct state_review {
	char id[STATE_NAME_MAX];
	char *branch, *cell;
	char base[STATE_ID + 1];        /* the changes are over this commit, */
	char commit[STATE_ID + 1];      /* and this one has them; both "" if they are aside */
	char aside[STATE_NAME_MAX];     /* or "" */
	int64_t time;                   /* seconds since 1970 */
	uint64_t more;                  /* changes that are not listed */
	struct state_refused *items;
	size_t n;
};
void state_review_free(struct state_review *r);         /* for OWN() too */
/* Their ids, the oldest first; the caller owns *ret_ids (strv_free). */
int state_review_list(const struct state *state, char ***ret_ids, struct err *err);
/* -ENOENT. */
int state_review_read(const struct state *state, const char *id, struct state_review *ret, struct err *err);
/* Commit the changes of PATHS (files or folders; N 0: all that are pending) to BRANCH (NULL: the one that they were kept from).
 * If there are conflicts, they are RET's refused, and nothing was changed.  -EBUSY while a cell may write the branch. */
int state_review_accept(struct state *state, const char *id, const char *branch, char *const *paths, size_t n,
                        const struct state_author *author, struct state_committed *ret, struct err *err);
/* Pending changes of PATHS (N 0: all) are refused.  They are kept. */
int state_review_refuse(struct state *state, const char *id, char *const *paths, size_t n, const struct state_author *author,
                        uint64_t *ret_n, struct err *err);
/* They are lost. */
int state_review_remove(struct state *state, const char *id, const struct state_author *author, struct err *err);

/* ---- whole states ---- */

/* Make NAME of the files in the folder PATH; if that is a git repository, of those in its commit REF (NULL: HEAD).  What must not
 * be stored is RET's refused, and stays where it is. */
int state_import(const char *name, const struct state_limits *limits, const char *path, const char *ref, bool progress,
                 struct state_committed *ret, struct err *err);
/* Make PATH: a git bundle, or a bare repository.  It must not be there. */
int state_export(struct state *state, const char *path, bool bundle, struct err *err);
/* Change the limits that are not 0. */
int state_set_limits(struct state *state, const struct state_limits *limits, struct err *err);
/* -EBUSY while a cell may write a branch of it. */
int state_remove(const char *name, struct err *err);
/* The line for git's gpg.ssh.allowedSignersFile.  The caller owns *ret_line. */
int state_signers(char **ret_line, struct err *err);
#endif
