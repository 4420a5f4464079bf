/* changes.h - what `diff`, `apply` and `discard` share: an ended cell's overlays. */
#ifndef CLOISTER_CLI_CHANGES_H
#define CLOISTER_CLI_CHANGES_H
#include <stdio.h>

#include "cell/cell_dirs.h"
#include "workspace/workspace.h"

struct err;

/* One overlay of the cell, both of its folders open. */
struct changes_part {
	struct workspace ws;
	const struct cell_grant *grant; /* in the record */
	bool main;                      /* the workspace: its paths are shown as they are */
	bool volume;                    /* given with -v: applied only where it is named */
	struct workspace_named named;   /* for WS */
};

struct changes {
	struct cell_entry entry;
	struct cell_record record;
	int state_dir;
	struct changes_part parts[CELL_GRANTS_MAX];
	size_t n_parts;
};

/* Of a cell that had an overlay and changed nothing there are no parts, and perhaps no state_dir (-1).
 * -ENOENT also if it had none.  It must not be moved: the parts point into it. */
int changes_open(const char *word, struct changes *ret_changes, struct err *err);
void changes_free(struct changes *changes);     /* for OWN() too */

/* Which of PATHS (as the operator wrote them: relative to the workspace, or
 * absolute) are in PART, relative to it.  *ret_paths is the caller's (strv_free);
 * NULL if PATHS is empty, which means everything; an empty list means none. */
int changes_paths_in(const struct changes *changes, const struct changes_part *part,
                     char *const *paths, char ***ret_paths, struct err *err);
/* Every path must be in some part. */
int changes_check_paths(const struct changes *changes, char *const *paths, struct err *err);

/* For people, of what is there when all was shown or applied: that there is none, if it is so; and what
 * never came out of the cell, which is said nowhere else with `run -q`. */
void changes_tell_rest(const struct changes *changes, bool is_none);
/* Tell on standard error of what could not be looked at to know what is to be held back. */
void changes_warn(const struct changes *changes);

/* A path of PART as it is shown: relative to the workspace, or absolute. */
void changes_print_path(FILE *out, const struct changes_part *part, const char *path);
/* The same, of LEN bytes of PATH, as one word that a shell takes: it is there to be copied, and the
 * agent named it. */
void changes_print_word(FILE *out, const struct changes_part *part, const char *path, size_t len);

/* diff_text.c: files are read by one cloister-compare, which is started with the first of them and
 * can read and nothing else. */
struct diff_reader {
	pid_t pid;                      /* 0: none is running */
	int channel;
	bool answered;                  /* it could be started safely */
};
void diff_reader_close(struct diff_reader *reader);     /* for OWN() too */
#define DIFF_LINE_MAX ((size_t)1 << 30)

/* A unified diff of two open files (-1: none).  LABELs are what the files are called.  -E2BIG if
 * they are too large for that, or something else is wrong with them. */
int diff_print_text(struct diff_reader *reader, int old, int new, const char *old_label,
                    const char *new_label, bool colour, struct err *err);
/* Likewise, how many lines of them differ. */
struct diff_count {
	uint64_t added, removed;
	bool binary;                    /* it has no lines */
};
int diff_count_text(struct diff_reader *reader, int old, int new, struct diff_count *ret_count,
                    struct err *err);

/* diff_git.c: what changes to a git directory come to, in a few lines.  CELL: as the operator named it.
 * *TOLD_UNSEEN: it was said that commits are not shown, which is enough once. */
void diff_print_git(const struct changes_part *part, const struct workspace_git *sum, const char *cell,
                    bool colour, bool *told_unseen);

/* diff_stat.c: a line for each file that changed, printed together and with their sum. */
struct diff_stat {
	struct diff_stat_row *rows;
	size_t n, cap;
	size_t hidden;                  /* of them, those that could not be compared */
};
/* MORE: what is beneath a folder comes too. */
int diff_stat_add(struct diff_stat *stat, struct diff_reader *reader, const struct changes_part *part,
                  const struct workspace_change *change, bool more, struct err *err);
void diff_stat_print(const struct diff_stat *stat, bool colour);
void diff_stat_free(struct diff_stat *stat);    /* for OWN() too */

/* The files of a change, old and new, open for reading; -1 where it is no regular file.  0, or why one
 * could not be opened. */
int changes_open_files(const struct changes_part *part, const struct workspace_change *change,
                       int *ret_old, int *ret_new);
#endif
