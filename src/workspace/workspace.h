/* workspace.h - lists and applies the changes that a cell made to an overlay workspace.
 *
 * Changes have the form of overlayfs: a tree of the new files, a character device 0:0 for something
 * removed, and the extended attribute user.overlay.opaque = "y" on a folder that wholly replaces
 * another.  The agent made this tree: its names, links, modes and types are hostile.  Everything is
 * walked by folder descriptor; no link is followed, no mount is crossed.  Names of the form
 * ".cloister-*.tmp" are ours: they are never collected, listed or applied.  Paths in messages are
 * safe to print; those in a struct workspace_change are raw. */
#ifndef CLOISTER_WORKSPACE_H
#define CLOISTER_WORKSPACE_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define WORKSPACE_DEPTH_MAX 256         /* nested folders */
#define WORKSPACE_ENTRIES_MAX 4000000
#define WORKSPACE_NAMES_MAX (256u << 20) /* bytes of the names in one folder, or of the paths in a list */

/* Copy the overlay's upper folder FROM into the empty folder TO, whose file system has user
 * extended attributes.
 *   - Kept: files, folders, links, whiteouts, opaque marks, hard links, mtimes, holes, and modes
 *     without setuid, setgid and files' sticky bits.
 *   - Left out, and counted in *ret_skipped: devices, sockets, FIFOs, and files too large for the
 *     file system of TO.
 * A mode that would keep the owner out of TO is stored in an attribute, see workspace_tree.h.  FROM
 * was mounted without redirect_dir and metacopy, as the option userxattr enforces. */
int workspace_collect(int from, int to, uint64_t *ret_skipped, struct err *err);
/* The same while the cell runs: entries that come and go meanwhile are no error.  *ret_changed: something was changed
 * meanwhile, so the copy may never have been the state of FROM.  Writes through a mapping of a file are not seen. */
int workspace_collect_live(int from, int to, uint64_t *ret_skipped, bool *ret_changed, struct err *err);

/* Paths of a workspace that would run, or govern cells, because a host file names them.  They are
 * held, with everything beneath them. */
#define WORKSPACE_NAMED_MAX 4096
struct workspace_named {
	struct workspace_name {
		char *path;             /* relative to the workspace; "": the whole workspace */
		bool file;              /* counts only while it is not a folder */
	} *list;
	size_t n;
	struct err why;                 /* set if there may be more of them: the reason */
};
/* Add the absolute PATH and each link on the way to it, if they are in the workspace REAL. */
int workspace_named_add(struct workspace_named *named, int real, const char *path, struct err *err);
void workspace_named_free(struct workspace_named *named);      /* for OWN() too */

/* The changes and their destination. */
struct workspace {
	int changes;                    /* a folder that workspace_collect() filled */
	int real;                       /* the workspace */
	bool git_dir;                   /* REAL is itself a git directory, such as the common one of
	                                 * linked worktrees */
	int64_t since_ns;               /* when the cell started, CLOCK_REALTIME, in ns */
	int base;                       /* a folder that workspace_keep_base() filled; -1 or 0: none */
	struct workspace_named *named;  /* grows by the paths that configurations of git repositories on
	                                 * the way name; NULL: configurations are not read */
};

/* Whether a file of the workspace changed after the cell started: its ctime is later. */
bool workspace_is_newer(const struct workspace *ws, const struct stat *st);

/* Copy each file that the cell changed, as it was before, from the workspace into the empty folder
 * TO: the base of a merge.  Left out are files that somebody changed since the cell started, whose
 * earlier contents nobody knows; files of git directories; and everything beyond the limits.
 * *ret_kept counts the copies. */
#define WORKSPACE_BASE_FILE_MAX (16u << 20)     /* bytes of a file */
#define WORKSPACE_BASE_MAX (256u << 20)         /* bytes of all of them */
#define WORKSPACE_BASE_FILES_MAX 20000
int workspace_keep_base(const struct workspace *ws, int to, uint64_t *ret_kept, struct err *err);

enum workspace_kind { WORKSPACE_ADDED, WORKSPACE_MODIFIED, WORKSPACE_DELETED };

/* Why applying leaves a change alone, if it is not held. */
enum workspace_left {
	WORKSPACE_LEFT_NOT,
	WORKSPACE_LEFT_CONFLICT,        /* both sides changed the same lines */
	WORKSPACE_LEFT_NO_BASE,         /* changed here while the cell ran, or too large: nothing to merge with */
	WORKSPACE_LEFT_KIND,            /* both sides changed it, and it is not text */
	WORKSPACE_LEFT_REMOVED,         /* one side removed it, the other changed it */
	WORKSPACE_LEFT_MODE,            /* a folder whose mode changed here; its contents are applied */
	WORKSPACE_LEFT_UNCHOSEN,        /* struct workspace_apply's choose() */
	WORKSPACE_LEFT_STALE,           /* it is not as it was when it was chosen */
};
/* The reason for people, as part of a sentence. */
const char *workspace_left_text(enum workspace_left left);

struct workspace_change {
	const char *path;               /* relative to the workspace, no "./" */
	enum workspace_kind kind;
	mode_t type;                    /* S_IFREG, S_IFDIR, S_IFLNK: the new type, or that of the
	                                 * removed file */
	mode_t mode, old_mode;          /* types and modes after and before; 0: nothing there */
	uint64_t size;                  /* of a new regular file */
	bool held;                      /* would run on the host later: applied only if named */
	bool mode_only;                 /* same contents, other mode */
	bool newer;                     /* the workspace's file changed, or was removed, since the cell
	                                 * started */
	bool merged, part;              /* when applied: it has the changes of both sides; only a part of
	                                 * the cell's */
	bool marked;                    /* and it has conflict markers */
	enum workspace_left left;       /* when applied: it is not */
	const char *from;               /* for showing it: the path that an added file had before; NULL */
	unsigned like;                  /* and how many per cent of it are the same */
	bool in_git;                    /* PATH is in a git directory, */
	size_t git_base;                /* and this is the offset in PATH of the names beneath it */
	size_t summed;                  /* 0, or the number of the sum that covers it */
};

/* List the real differences between changes and workspace; files that were copied up but are equal
 * are left out.  A folder that is removed, or replaced by something else, is one change.  Sorted:
 * the names in a folder by their bytes, a folder right before its contents.  *ret_list ends with a
 * NULL path; free it with workspace_changes_free(). */
int workspace_list(const struct workspace *ws, struct workspace_change **ret_list,
                   size_t *ret_n, struct err *err);
/* List the contents of the folder PATH of REAL as if they were added, with paths relative to that
 * folder. */
int workspace_list_folder(int real, const char *path, struct workspace_change **ret_list, size_t *ret_n,
                          struct err *err);
void workspace_changes_free(struct workspace_change *list);     /* NULL is fine */
OWN_BY(workspace_changes_freep, struct workspace_change *, workspace_changes_free)

/* Summaries of changes to git directories, for people, who can read refs but not objects.  Only
 * changes that git itself makes count: in folders called .git, in the common directory of
 * worktrees, and in those of submodules and worktrees inside them.  Held changes are never
 * included. */
#define WORKSPACE_GIT_DIRS_MAX 64       /* changes to further directories are not summed */
#define WORKSPACE_GIT_STEPS_MAX 64      /* refs per directory whose logs are read */
struct workspace_git_ref {
	char *name;                     /* valid by git-check-ref-format(1): may have any bytes above
	                                 * 0x7f */
	char *old, *new;                /* an id in hex, or another ref's name; NULL: none */
	size_t steps;                   /* from OLD to NEW in the log, which the agent wrote; 0: not
	                                 * known */
};
struct workspace_git {
	char *path;                     /* of the directory, with a final slash; "": the workspace
	                                 * itself */
	struct workspace_git_ref *refs; /* those that change, sorted by name */
	size_t n_refs;
	size_t objects[3], packs[3];    /* by enum workspace_kind */
	size_t others;                  /* other files of git's own: index, logs and the like */
	bool index;                     /* the index changes, from which the next commit is made */
};
/* Set the sum's number (from 1) in each change of LIST that a sum covers.  The caller owns the
 * *ret_n sums in *ret_sums (workspace_git_free). */
int workspace_git_sum(const struct workspace *ws, struct workspace_change *list, size_t n,
                      struct workspace_git **ret_sums, size_t *ret_n, struct err *err);
void workspace_git_free(struct workspace_git *sums, size_t n);

/* A file that both sides changed, or of which only a part is applied. */
struct workspace_merge {
	const char *path;
	int base, ours, theirs;         /* BASE -1: only the cell changed it.  OURS is the workspace's */
	int out;                        /* to be written; -1: only find out whether it can be done */
};
enum workspace_merged {
	WORKSPACE_MERGED,
	WORKSPACE_MERGED_MARKED,        /* with conflict markers */
	WORKSPACE_MERGE_CONFLICT,
	WORKSPACE_MERGE_KIND,
	WORKSPACE_MERGE_STALE,
};
enum workspace_choice { WORKSPACE_TAKE_ALL, WORKSPACE_TAKE_PART, WORKSPACE_TAKE_NONE, WORKSPACE_TAKE_STALE };

struct workspace_apply {
	const char *cell;               /* names the temporary file: ".cloister-CELL.tmp" */
	char *const *paths;             /* only these and everything beneath them; NULL: all */
	bool force;                     /* overwrite files that changed in the workspace since the cell
	                                 * started */
	bool dry_run;
	uint64_t linked_max;            /* limit on bytes of files with several names, which are written
	                                 * once for each name: -EFBIG beyond it; 0: no limit */
	/* Merges a file: an enum workspace_merged, or negative.  Called twice with the same result, if
	 * the files stay as they are.  NULL: files that changed on both sides are left alone. */
	int (*merge)(void *arg, const struct workspace_merge *files, struct err *err);
	/* What to take of a change that is not held: an enum workspace_choice.  A part of it stays
	 * among the changes.  NULL: all. */
	enum workspace_choice (*choose)(void *arg, const struct workspace_change *change);
	void (*told)(void *arg, const struct workspace_change *change, bool applied);
	/* Called for each git directory before anything is written.  May be NULL. */
	void (*told_git)(void *arg, const struct workspace_git *sum);
	void *arg;
	const volatile sig_atomic_t *stop; /* set by a signal handler: stop between two files with
	                                    * -EINTR; may be NULL */
};
/* Write changes to the workspace.  If a file to be replaced has a ctime after the cell's start, and
 * not its new state yet, it is merged with the base; if that is not possible, it is left alone.  So
 * is a folder to be removed in which something changed.  Each file appears whole or not at all
 * (temporary file, fsync, rename).  When everything is written, applied changes are removed from
 * CHANGES.  After an interruption, another run completes it.  As root, a new file belongs to the
 * owner of its folder; a replaced file keeps its owner.
 *
 * A held change is applied only if one of PATHS is its exact path, or lies above it and would
 * itself run: ".git/hooks" releases its contents, ".git" and "." do not.  A path without changes is
 * -ENOENT.  *ret_held counts the changes held back or left alone. */
int workspace_apply_changes(const struct workspace *ws, const struct workspace_apply *how,
                            size_t *ret_applied, size_t *ret_held, struct err *err);

/* Remove the temporary files of an interrupted workspace_apply_changes() from the workspace, if the
 * changes are to be discarded instead. */
int workspace_apply_undo_temporary(const struct workspace *ws, const char *cell,
                                   struct err *err);

/* Whether the host would later run PATH (relative, as in a struct workspace_change) by itself: git
 * hooks and config, .envrc, editors' tasks; see workspace_held.c.  GIT_DIR: as in struct workspace. */
bool workspace_would_run(const char *path, bool git_dir);

/* Open a regular file of either tree for reading, by the PATH of a change.  Returns a descriptor,
 * or negative: -ELOOP if a link is on the way, -EINVAL if it is not a regular file. */
int workspace_open(int root, const char *path, struct err *err);

#endif
