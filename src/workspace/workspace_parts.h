/* workspace_parts.h - shared by the three passes of applying: look, write and clear.  Private to
 * src/workspace. */
#ifndef CLOISTER_WORKSPACE_PARTS_H
#define CLOISTER_WORKSPACE_PARTS_H
#include <limits.h>

#include "workspace/workspace_walk.h"

struct apply {
	const struct workspace_apply *how;
	char tmp[NAME_MAX + 1];         /* the name of incomplete files */
	size_t applied, held;
	struct walk_list git;           /* changes in git directories that will be applied, if they are
	                                 * reported */
	int changes;
	bool again;                     /* an earlier run was interrupted; */
	ino_t removing;                 /* inode of the folder that then had the name TMP, or 0 */
	uint64_t linked;                /* bytes on the disk of files with several names, counted per
	                                 * name */
	const struct workspace *ws;
	struct walk_list judged;        /* changes that are left alone or merged, sorted by path once all
	                                 * are found: */
	bool sorted;
};

/* The entry of A->judged for PATH, or NULL. */
const struct workspace_change *apply_find_judged(const struct apply *a, const char *path);
/* Open the files to be merged.  The caller closes them (apply_merge_close).  0, or why not. */
int apply_merge_open(const struct apply *a, const struct walk_node *node, struct workspace_merge *ret_files);
void apply_merge_close(struct workspace_merge *files);  /* for OWN() too */

/* First pass: finds changes to be left alone or merged, writes nothing. */
extern const struct walk_hooks apply_look;
/* Second pass: writes to the workspace, leaves the changes alone. */
extern const struct walk_hooks apply_write;
/* Third pass: removes applied changes. */
extern const struct walk_hooks apply_clear;

/* For the later passes: what the first one found. */
int apply_judge(void *arg, const struct walk_node *node, struct err *err);
int apply_stopped(const struct apply *a, struct err *err);
void apply_tell(struct apply *a, const struct walk_node *node);

/* Remove a temporary file of this run; a temporary folder is still empty. */
void apply_drop_temporary(int real, const char *tmp);
/* Remove the temporary file of an earlier run from a folder of the workspace.  A folder with
 * contents is removed only if it is the one that was being removed then: others can guess the name
 * and use it for a folder of their own. */
int apply_sweep(const struct apply *a, int real, struct err *err);
/* Record which folder is about to be renamed to TMP and removed. */
int apply_note_removal(const struct apply *a, const struct walk_node *node, struct err *err);

/* Whether the folder takes on the state in the changes. */
bool apply_settles(const struct walk_node *node);
/* Open up an ordinary user's own folder that its mode locks, while there is work to do in it.
 * apply_lock() restores the mode. */
int apply_unlock(const struct walk_node *node, struct err *err);
int apply_lock(const struct walk_node *node, int dir_real, struct err *err);
/* Set the permission bits of a folder of the workspace; setuid and setgid stay. */
int apply_set_dir_mode(const struct walk_node *node, int dir_real, mode_t mode,
                       struct err *err);
int apply_fail(const struct walk_node *node, struct err *err);  /* from errno */
#endif
