/* changes.h - a cell's overlays, for `diff`, `apply` and `discard`. */
#ifndef CLOISTER_CLI_CHANGES_H
#define CLOISTER_CLI_CHANGES_H
#include <stdio.h>

#include "base/buf.h"
#include "cell/cell_dirs.h"
#include "workspace/workspace.h"

struct err;

/* One overlay of the cell, both of its folders open. */
struct changes_part {
	struct workspace ws;
	const struct cell_grant *grant; /* points into the record */
	bool main;                      /* the workspace: its paths are shown relative to it */
	bool volume;                    /* given with -v: applied only if it is named */
	struct workspace_named named;   /* for WS */
};

struct changes {
	struct cell_entry entry;
	struct cell_record record;
	int state_dir;
	char now[32];                   /* the folder in STATE_DIR with a copy of a running cell's changes; "": none */
	uint64_t now_ns;                /* when it was made, since 1970 */
	enum { CHANGES_FROZEN, CHANGES_UNTOUCHED, CHANGES_MOVING } how; /* how the cell behaved meanwhile */
	struct changes_part parts[CELL_GRANTS_MAX];
	size_t n_parts;
};

/* A cell that had an overlay and changed nothing has no parts, and may have no state_dir.
 * -ENOENT also if it had no overlay.  The struct must not be moved: the parts point into it. */
int changes_open(const char *word, struct changes *ret_changes, struct err *err);
/* changes_now.c: the same for a cell that runs: a copy, which changes_free() removes.  It cannot be applied. */
int changes_open_now(const char *word, struct changes *ret_changes, struct err *err);
void changes_remove_now(const struct changes *changes);
/* Prints that it is a copy: of when, and how it was made. */
void changes_tell_now(FILE *out, const struct changes *changes);
/* Opens the overlays that have changes, and moves CHANGES to *ret_changes. */
int changes_open_parts(struct changes *changes, struct changes *ret_changes, struct err *err);
void changes_free(struct changes *changes);     /* for OWN() too */

/* The PATHS (as the operator wrote them: relative to the workspace, or absolute) that are in PART,
 * relative to it.  The caller owns *ret_paths (strv_free).  NULL if PATHS is empty, which means
 * everything; an empty list means none. */
int changes_paths_in(const struct changes *changes, const struct changes_part *part,
                     char *const *paths, char ***ret_paths, struct err *err);
/* Checks that every path is in some part. */
int changes_check_paths(const struct changes *changes, char *const *paths, struct err *err);

/* For people, after all changes were shown or applied.  Reports files that never came out of the
 * cell, which `run -q` reports nowhere else; or that there are no changes. */
void changes_tell_rest(const struct changes *changes, bool is_none);
/* Reports on standard error what could not be examined for changes to hold back. */
void changes_warn(const struct changes *changes);

/* Prints the modes and the links' targets of a change, as far as it has any.  The number of targets that it could
 * not read. */
size_t changes_print_inode(const struct changes_part *part, const struct workspace_change *change);
/* Prints a path of PART: relative to the workspace, or absolute. */
void changes_print_path(FILE *out, const struct changes_part *part, const char *path);
/* The same for LEN bytes of PATH, as one word for a shell.  It is meant to be copied, and the agent
 * chose the name. */
void changes_print_word(FILE *out, const struct changes_part *part, const char *path, size_t len);

/* diff_reader.c: one cloister-compare reads the files.  It is started with the first of them, and can
 * only read. */
struct diff_reader {
	pid_t pid;                      /* 0: not running */
	int channel;
	bool answered;                  /* it has answered, so it was able to lock itself down */
};
void diff_reader_close(struct diff_reader *reader);     /* for OWN() too */
struct diff_question {
	const struct buf *body;         /* see ipc/compare_channel.h */
	int fds[3];                     /* borrowed; read from their start */
	size_t n_fds;
	int (*take)(void *arg, const char *data, size_t len);   /* the answer's text; may be NULL */
	void *arg;
};
struct diff_answer {
	uint64_t one, two;
	bool binary;
};
/* -E2BIG if the files are too large or cannot be compared; likewise of all the others. */
int diff_ask(struct diff_reader *reader, const struct diff_question *q, struct diff_answer *ret_answer,
             struct err *err);
/* Writes three texts, merged, to OUT (-1: nowhere).  If there are conflicts, nothing is written, or, if
 * LABEL is the cell's name for conflict markers, a text with these. */
int diff_merge_text(struct diff_reader *reader, const struct workspace_merge *files, const char *label, int out,
                    uint64_t *ret_conflicts, struct err *err);
/* Writes OLD with the hunks that are not 0 in WANTED changed to NEW. */
int diff_pick_text(struct diff_reader *reader, int old, int new, const unsigned char *wanted, size_t n, int out,
                   struct err *err);
/* How much of the larger file is in the other one. */
int diff_likeness(struct diff_reader *reader, int old, int new, unsigned *ret_percent, struct err *err);

/* diff_text.c */
#define DIFF_LINE_MAX ((size_t)1 << 30)
/* Prints a unified diff of two open files (-1: none), called by their LABELs.  -E2BIG if they are
 * too large or cannot be compared. */
int diff_print_text(struct diff_reader *reader, int old, int new, const char *old_label,
                    const char *new_label, bool colour, struct err *err);
/* Prints complete lines of hunks. */
void diff_print_lines(const char *data, size_t len, bool colour);
/* Likewise, the number of lines that differ. */
struct diff_count {
	uint64_t added, removed;
	bool binary;                    /* the file has no lines */
};
int diff_count_text(struct diff_reader *reader, int old, int new, struct diff_count *ret_count,
                    struct err *err);

/* diff_here.c: what becomes of a file that changed in the workspace since the cell started. */
enum diff_here { DIFF_HERE_NOT, DIFF_HERE_CHANGED, DIFF_HERE_MERGES, DIFF_HERE_CONFLICT, DIFF_HERE_ALONE };
const char *diff_here_text(enum diff_here here);        /* to be printed behind its name */
struct diff_files {
	int old, new;                   /* -1: no regular file */
	enum diff_here here;
	int why;                        /* the errno if they cannot be opened */
};
/* Opens the files of a change to be compared.  If both sides changed, NEW is the merged text, or with
 * a conflict OLD is the base.  The caller closes them (diff_files_close). */
int diff_open(struct diff_reader *reader, const struct changes_part *part, const struct workspace_change *change,
              struct diff_files *ret_files, struct err *err);
void diff_files_close(struct diff_files *files);        /* for OWN() too */

/* diff_renames.c: sets `from`, `old_mode` and `like` of added files in LIST that had another name
 * before.  They point into R. */
struct diff_renames {
	struct diff_gone *gone;
	size_t n, renamed;
};
int diff_renames_find(struct diff_renames *r, struct diff_reader *reader, const struct changes_part *part,
                      struct workspace_change *list, size_t n, struct err *err);
/* Whether the file that had this path has another now. */
bool diff_is_renamed(const struct diff_renames *r, const char *path);
void diff_renames_free(struct diff_renames *r); /* for OWN() too */

/* diff_git.c: summarises changes to a git directory in a few lines.  CELL: as the operator named
 * it.  *TOLD_UNSEEN: the note that commits are not shown was printed, which is enough once. */
void diff_print_git(const struct changes_part *part, const struct workspace_git *sum, const char *cell,
                    bool colour, bool *told_unseen);

/* diff_stat.c: a line for each changed file, printed together with their sum. */
struct diff_stat {
	struct diff_stat_row *rows;
	size_t n, cap;
	size_t hidden;                  /* those that could not be compared */
};
/* MORE: the contents of the folder are added separately. */
int diff_stat_add(struct diff_stat *stat, struct diff_reader *reader, const struct changes_part *part,
                  const struct workspace_change *change, bool more, struct err *err);
void diff_stat_print(const struct diff_stat *stat, bool colour);
void diff_stat_free(struct diff_stat *stat);    /* for OWN() too */

/* Opens the files of a change, old and new, for reading; -1 if it is no regular file.  Returns 0,
 * or why one could not be opened. */
int changes_open_files(const struct changes_part *part, const struct workspace_change *change,
                       int *ret_old, int *ret_new);
#endif
