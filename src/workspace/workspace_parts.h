/* workspace_parts.h - what applying shares between looking, writing and clearing up.
 * Private to src/workspace. */
#ifndef CLOISTER_WORKSPACE_PARTS_H
#define CLOISTER_WORKSPACE_PARTS_H
#include <limits.h>

#include "workspace/workspace_walk.h"

struct apply {
	const struct workspace_apply *how;
	char tmp[NAME_MAX + 1];         /* the name for what is not complete yet */
	size_t applied, held;
	struct walk_list git;           /* what of git directories will be applied, if that is told */
	int changes;
	bool again;                     /* an earlier run was interrupted; */
	ino_t removing;                 /* this folder was under the name TMP then, or 0 */
	uint64_t linked;                /* bytes on the disk of files with several names, for each */
	size_t conflicts;
	char conflict[WORKSPACE_CONFLICTS_TOLD][WTREE_SHOWN_MAX];
};

/* First: finds conflicts, writes nothing. */
extern const struct walk_hooks apply_look;
/* Second: writes to the workspace, touches no changes. */
extern const struct walk_hooks apply_write;
/* Third: removes from the changes what the workspace now has. */
extern const struct walk_hooks apply_clear;

int apply_stopped(const struct apply *a, struct err *err);
void apply_tell(struct apply *a, const struct walk_node *node);

/* Remove a temporary that this run made: a folder has nothing in it yet. */
void apply_drop_temporary(int real, const char *tmp);
/* Remove what an earlier run left in a folder of the workspace.  A folder with something in it is
 * left alone if it is not that which was to be removed then: the name can be known, and be given to
 * somebody's. */
int apply_sweep(const struct apply *a, int real, struct err *err);
/* Before a folder gets the name TMP to be removed under. */
int apply_note_removal(const struct apply *a, const struct walk_node *node, struct err *err);

/* Whether the folder becomes what the changes say. */
bool apply_settles(const struct walk_node *node);
/* An ordinary user's own folder, locked against himself, is opened while there is
 * something to do in it; apply_lock() makes it what it was before. */
int apply_unlock(const struct walk_node *node, struct err *err);
int apply_lock(const struct walk_node *node, int dir_real, struct err *err);
/* Permission bits of a folder of the workspace; setuid and setgid stay. */
int apply_set_dir_mode(const struct walk_node *node, int dir_real, mode_t mode,
                       struct err *err);
int apply_fail(const struct walk_node *node, struct err *err);  /* from errno */
#endif
