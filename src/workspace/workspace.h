/* workspace.h - the changes that a cell made to an overlay workspace.
 *
 * Changes are kept as overlayfs keeps them: a tree of the new files, a character
 * device 0:0 where something was removed, the extended attribute
 * user.overlay.opaque = "y" on a folder that replaces another wholly.  The agent
 * made this tree: names, links, modes and types in it are hostile.  Everything is
 * walked by folder descriptor, no link is ever followed, no mount is crossed.
 *
 * Names of the form ".cloister-*.tmp" are ours: never collected, listed or
 * applied.  Paths in messages are made safe to print; those in a
 * struct workspace_change are as they are. */
#ifndef CLOISTER_WORKSPACE_H
#define CLOISTER_WORKSPACE_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define WORKSPACE_DEPTH_MAX 256         /* folders below one another */
#define WORKSPACE_ENTRIES_MAX 4000000
#define WORKSPACE_NAMES_MAX (256u << 20) /* bytes of names of one folder, of paths of a list */
#define WORKSPACE_CONFLICTS_TOLD 4      /* named in the message; the rest are counted */

/* Copy the overlay's upper folder FROM into the empty folder TO, which is on a
 * file system with user extended attributes.  Files, folders, links, whiteouts,
 * opaque marks, hard links, modes without setuid, setgid and files' sticky bits,
 * and mtimes are kept; holes stay holes.  Devices, sockets, FIFOs, and files too
 * large for the file system of TO are left out and counted in *ret_skipped.
 * A mode that would keep the owner out of TO is kept beside it, see
 * workspace_tree.h.  FROM was mounted without redirect_dir and metacopy, as the
 * option userxattr enforces. */
int workspace_collect(int from, int to, uint64_t *ret_skipped, struct err *err);

/* Paths of a workspace that would run, or rule over cells, because a file of the host's own
 * names them: held, with all that is beneath them. */
#define WORKSPACE_NAMED_MAX 4096
struct workspace_named {
	struct workspace_name {
		char *path;             /* relative to the workspace; "": all of it */
		bool file;              /* it counts only while it is no folder */
	} *list;
	size_t n;
	struct err why;                 /* if there may be more of them: why */
};
/* PATH is absolute; it, and each link on the way to it, counts if it is in the workspace REAL. */
int workspace_named_add(struct workspace_named *named, int real, const char *path, struct err *err);
void workspace_named_free(struct workspace_named *named);      /* for OWN() too */

/* Where changes are and where they go to. */
struct workspace {
	int changes;                    /* a folder that workspace_collect() filled */
	int real;                       /* the workspace */
	bool git_dir;                   /* REAL is itself a git directory, such as the one
	                                 * that linked worktrees share */
	struct workspace_named *named;  /* grows by what the configuration names of the git
	                                 * repositories that are met on the way; NULL: it is
	                                 * not looked at */
};

enum workspace_kind { WORKSPACE_ADDED, WORKSPACE_MODIFIED, WORKSPACE_DELETED };

struct workspace_change {
	const char *path;               /* relative to the workspace, no "./" */
	enum workspace_kind kind;
	mode_t type;                    /* S_IFREG, S_IFDIR, S_IFLNK: the new one, or the one removed */
	mode_t mode, old_mode;          /* types and modes after and before; 0: nothing there */
	uint64_t size;                  /* of a new regular file */
	bool held;                      /* would run on the host later: applied only if named */
	bool mode_only;                 /* same contents, other mode */
	bool in_git;                    /* it is in a git directory, */
	size_t git_base;                /* and here the names beneath that begin in PATH */
	size_t summed;                  /* 0, or the number of the sum that stands for it */
};

/* What the changes do to the workspace: real differences only (a file copied up
 * but equal is none).  A folder that is removed, or replaced by something else,
 * is one change.  Sorted: names of a folder by their bytes, a folder right before
 * what is in it.  *ret_list ends with a NULL path; workspace_changes_free(). */
int workspace_list(const struct workspace *ws, struct workspace_change **ret_list,
                   size_t *ret_n, struct err *err);
/* All that is in the folder PATH of the real one, by paths relative to that folder, as if it were added. */
int workspace_list_folder(int real, const char *path, struct workspace_change **ret_list, size_t *ret_n,
                          struct err *err);
void workspace_changes_free(struct workspace_change *list);     /* NULL is fine */
void workspace_changes_freep(struct workspace_change **list);

/* What changes to a git directory come to, for people: its objects cannot be read, and its refs can.
 * Only changes that git itself makes count, in folders called .git, the common one of worktrees, and
 * what is in these for submodules and worktrees; never what is held. */
#define WORKSPACE_GIT_DIRS_MAX 64       /* changes to more of them are not summed */
#define WORKSPACE_GIT_STEPS_MAX 64      /* refs of a directory whose logs are looked at */
struct workspace_git_ref {
	char *name;                     /* as git-check-ref-format(1) allows it: any bytes above 0x7f */
	char *old, *new;                /* an id in hex, or another ref's name; NULL: there is none */
	size_t steps;                   /* from OLD to NEW by the log, which the agent wrote; 0: not known */
};
struct workspace_git {
	char *path;                     /* of the directory, with a slash; "": the workspace itself */
	struct workspace_git_ref *refs; /* those that move, by their names */
	size_t n_refs;
	size_t objects[3], packs[3];    /* by enum workspace_kind */
	size_t others;                  /* more of git's own files: index, logs and the like */
	bool index;                     /* what the next commit is made of */
};
/* Number the changes in LIST that a sum stands for (1 is the first).  The caller owns *ret_sums
 * (workspace_git_free), *ret_n of them. */
int workspace_git_sum(const struct workspace *ws, struct workspace_change *list, size_t n,
                      struct workspace_git **ret_sums, size_t *ret_n, struct err *err);
void workspace_git_free(struct workspace_git *sums, size_t n);

struct workspace_apply {
	const char *cell;               /* names the temporary file: ".cloister-CELL.tmp" */
	char *const *paths;             /* only these (and what is beneath); NULL: all */
	bool force;                     /* overwrite what changed here since SINCE */
	bool dry_run;
	uint64_t linked_max;            /* bytes that files with several names may come to, which
	                                 * are written once for each: more is -EFBIG; 0: any */
	int64_t since_ns;               /* when the cell started, CLOCK_REALTIME, in ns */
	void (*told)(void *arg, const struct workspace_change *change, bool applied);
	/* Before anything is written: what it comes to for one git directory.  May be NULL. */
	void (*told_git)(void *arg, const struct workspace_git *sum);
	void *arg;
	const volatile sig_atomic_t *stop; /* set by a signal handler: end between two
	                                 * files with -EINTR; may be NULL */
};
/* Write changes to the workspace.  All conflicts (-EBUSY) are found before
 * anything is written: what is to be replaced or removed has a ctime after SINCE,
 * and is not yet as it would become.  Each file appears whole or not at all
 * (temporary file, fsync, rename).  Once all is written, what the workspace now
 * has is removed from the changes.  Run again after an interruption it completes.
 *
 * As root, what is new belongs to the owner of its folder; what is replaced keeps
 * its owner.  A held change is applied only if one of PATHS is its very path, or
 * lies above it and would run itself: ".git/hooks" releases what is in it, ".git"
 * and "." do not.  A path at which nothing was changed is -ENOENT.  *ret_held
 * counts what was held back. */
int workspace_apply_changes(const struct workspace *ws, const struct workspace_apply *how,
                            size_t *ret_applied, size_t *ret_held, struct err *err);

/* Remove what an interrupted workspace_apply_changes() left in the workspace: for
 * when the changes are to be discarded instead. */
int workspace_apply_undo_temporary(const struct workspace *ws, const char *cell,
                                   struct err *err);

/* Whether PATH (relative, as in a struct workspace_change) is of the kind that a
 * host would run later by itself: git hooks and config, .envrc, editors' tasks;
 * see workspace_held.c.  GIT_DIR: as in struct workspace. */
bool workspace_would_run(const char *path, bool git_dir);

/* Open a regular file of either tree for reading, as PATH of a change gives it;
 * a descriptor, or negative: -ELOOP where a link is on the way, -EINVAL for what
 * is no regular file. */
int workspace_open(int root, const char *path, struct err *err);

#endif
