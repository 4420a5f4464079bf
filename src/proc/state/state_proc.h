/* state_proc.h - shared by the files of cloister-state.
 *
 * It is the locked-down side of a state (ipc/state_channel.h).  It uses libgit2, writes objects, cached files and
 * refused changes, and has no key.  Everything else is done by src/state, in a process with the operator's rights. */
#ifndef CLOISTER_STATE_PROC_H
#define CLOISTER_STATE_PROC_H
#include <git2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/hash.h"
#include "state/state_parts.h"

/* ---- the worker ---- */

#define WORKER_OBJECTS STATE_GIT "/objects"     /* relative to the state's folder, where the worker is */
#define WORKER_WHOLE_MAX (1u << 20)     /* bytes of a file that is in memory as a whole */
#define WORKER_LEVEL 1                  /* of zlib: agents' files are small, and people wait */

struct pack;
struct worker {
	struct state_limits limits;
	struct pack *pack;              /* new objects, which nobody else sees yet */
	git_odb *odb;                   /* the state's objects */
	git_repository *repo;           /* has these and nothing else: no refs, no configuration */
	uint64_t stepped_ms;            /* when the other side heard of it last */
};
int worker_main(void);

/* "WHAT: ..." with libgit2's reason. */
int worker_git_error(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int worker_send(struct buf *b, struct err *err);
/* Now and then. */
int worker_step(struct worker *w, uint64_t done, uint64_t total, struct err *err);
/* Up to STATE_CHUNK_MAX bytes at a time. */
int worker_send_bytes(const void *data, size_t len, struct err *err);
int worker_send_refused(const char *path, const char *why, struct err *err);
int worker_get_id(struct buf *b, git_oid *ret_id, struct err *err);
/* The tree of a commit. */
int worker_tree_of(git_repository *repo, const git_oid *commit, git_tree **ret_tree, struct err *err);
OWN_BY(git_tree_freep, git_tree *, git_tree_free)
OWN_BY(git_commit_freep, git_commit *, git_commit_free)
OWN_BY(git_blob_freep, git_blob *, git_blob_free)
OWN_BY(git_treebuilder_freep, git_treebuilder *, git_treebuilder_free)
OWN_BY(git_odb_freep, git_odb *, git_odb_free)
OWN_BY(git_repository_freep, git_repository *, git_repository_free)
OWN_BY(git_odb_object_freep, git_odb_object *, git_odb_object_free)
OWN_BY(git_tree_entry_freep, git_tree_entry *, git_tree_entry_free)

/* ---- worker_pack.c, worker_pack_end.c: new objects ---- */

/* A backend of libgit2, too: the caller adds it to an object database, which frees it. */
struct pack *worker_pack_new(struct err *err);
/* Add an object.  Nobody else sees it before worker_pack_keep(). */
int worker_write(struct worker *w, const void *data, size_t len, git_object_t type, git_oid *ret_id, struct err *err);
/* Where large files are written as streams; NULL: an error. */
git_odb *worker_pack_large(struct worker *w, struct err *err);
/* The SHA-256 of a file that was added. */
bool worker_pack_sum(const struct worker *w, const git_oid *id, unsigned char ret_sum[HASH_LEN]);
/* Put all of them on the disk, as a part of the state; or forget them. */
int worker_pack_keep(struct worker *w, struct err *err);
void worker_pack_drop(struct worker *w);
/* worker_pack_join.c: joins packs if there are many.  Nothing is lost if that fails. */
void worker_pack_join(struct worker *w);

/* ---- worker_tree.c: a tree of a base and changes ---- */

struct tree_made {
	git_oid tree;
	uint64_t files, bytes, added, changed, removed, refused;
};
/* BASE NULL: an empty one.  LOOKS (worker_guard.h) gets what is found in the files; or NULL. */
struct looks;
int worker_make_tree(struct worker *w, const git_oid *base, enum state_changes changes, const char *aside, struct looks *looks,
                     struct tree_made *ret, struct err *err);

int worker_check_limits(const struct worker *w, uint64_t files, uint64_t bytes, struct err *err);
/* Appends the fields of STATE_ASK_TREE's answer to DONE, and sends it.  BASE NULL: everything was added. */
int worker_send_tree(struct worker *w, const git_oid *base, struct tree_made *t, struct buf *done, struct err *err);

/* ---- worker_aside.c ---- */

struct worker_aside {
	const char *name;               /* of the folder in aside/ */
	bool leaves;                    /* nothing is put there */
	int dir;                        /* made when it is first needed; 0: not yet */
	uint64_t used, names;           /* of all that is aside: bytes on the disk, files and folders */
};
/* Copy NAME in DIR, whose path in the state is PATH. */
int worker_keep_aside(struct worker_aside *a, int dir, const char *name, const char *path, struct err *err);
void worker_close_aside(struct worker_aside *a);
/* After a failure: the caller keeps the changes, and would put them aside again. */
void worker_drop_aside(const char *name);

/* ---- worker_diff.c ---- */

struct differs {
	const char *path;
	const git_oid *old, *new;       /* NULL: it is not there */
	git_filemode_t old_mode, new_mode;
};
typedef int worker_differs(void *arg, const struct differs *file, struct err *err);
/* Calls NOTE for each file and link that differs between two trees; NULL: an empty one. */
int worker_diff(struct worker *w, const git_oid *old, const git_oid *new, worker_differs *note, void *arg, struct err *err);
/* Sets added, changed, removed. */
int worker_count_changes(struct worker *w, const git_oid *old, const git_oid *new, struct tree_made *t, struct err *err);

/* ---- worker_list.c: walks trees ---- */

struct listed {
	const char *path;
	git_filemode_t mode;
	const git_oid *id;
	uint64_t size;
};
/* Calls NOTE for each file, in the order of their paths' bytes; counts files and bytes. */
int worker_walk(struct worker *w, git_repository *repo, const git_oid *tree, int (*note)(void *arg, const struct listed *file, struct err *err),
                void *arg, uint64_t *ret_files, uint64_t *ret_bytes, struct err *err);
/* The SHA-256 of the listing: for each file "MODE SHA256 PATH" and a NUL, in the order of worker_walk(). */
int worker_sum(struct worker *w, const git_oid *tree, char ret_sum[STATE_SUM + 1], uint64_t *ret_files, uint64_t *ret_bytes,
               struct err *err);


/* ---- the answers ---- */

int worker_answer_tree(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_files(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_sum(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_cat(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_diff(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_diff_file(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_find(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_merge(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_export(struct worker *w, struct ipc_message *m, struct err *err);
int worker_answer_import(struct worker *w, struct ipc_message *m, struct err *err);
/* Whether git would call it binary; NULL is not. */
bool worker_is_binary(git_odb_object *object);
int worker_answer_checkout(struct worker *w, struct ipc_message *m, struct err *err);
#endif
