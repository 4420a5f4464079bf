/* workspace_walk.h - walks through changes and workspace side by side.  Private to src/workspace. */
#ifndef CLOISTER_WORKSPACE_WALK_H
#define CLOISTER_WORKSPACE_WALK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "workspace/workspace.h"
#include "workspace/workspace_tree.h"

/* One path that the operator named. */
struct walk_choice {
	char *path;                     /* "": everything */
	bool seen;
};

/* One name in the changes, or removed with its folder. */
struct walk_node {
	const char *path, *name;
	int changes, real;              /* the folders around it; -1: none */
	struct stat new, old;           /* st_mode 0: does not exist; NEW may be a whiteout */
	struct workspace_change change; /* set if DIFFERS; .held already considers the paths that were
	                                 * named */
	bool differs;
	bool chosen;                    /* named, or beneath a named path; any other folder is only on
	                                 * the way to one */
	bool blocks;                    /* a held folder: nothing beneath it can be applied either */
	mode_t mode;                    /* new permission bits; not for links */
};

struct walk_hooks {
	/* Whether a name that differs, or a folder, is left alone: an enum workspace_left, or negative.
	 * Such a name counts as held.  Nothing beneath a folder is applied then, unless it exists and
	 * only its mode is left.  May be NULL. */
	int (*judge)(void *arg, const struct walk_node *node, struct err *err);
	/* Called for every chosen name, and every folder on the way; for a folder before its
	 * contents.  REAL is examined again after this, so it may create the folder.  NULL: only
	 * folders matter, nothing is compared. */
	int (*visit)(void *arg, const struct walk_node *node, struct err *err);
	/* Called around the contents of a folder.  DIR_CHANGES -1: it was removed, and a choice is
	 * beneath it.  DIR_REAL -1: it does not exist, or we have no access. */
	int (*enter)(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
	             bool opaque, struct err *err);
	int (*leave)(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
	             struct err *err);
};

struct walk {
	const struct workspace *ws;
	const struct walk_hooks *hooks;
	void *arg;
	struct walk_choice *choices;    /* NULL: everything */
	size_t n_choices;
	bool strict;                    /* a mount on a folder of the workspace is an error */
	bool only_replaced;             /* folders that the workspace does not have are not entered */
	struct wtree_path path;
	uint64_t entries;
};

/* The top folder itself is not visited. */
int walk_run(struct walk *walk, struct err *err);

/* Changes with copies of their paths.  Unless the list is empty, an entry with a NULL path follows
 * the last. */
struct walk_list {
	struct workspace_change *change;        /* workspace_changes_free() */
	size_t n, cap, bytes;
};
int walk_list_add(struct walk_list *list, const struct workspace_change *change, struct err *err);
#endif
