/* workspace_walk.h - goes through changes and workspace side by side.
 * Private to src/workspace. */
#ifndef CLOISTER_WORKSPACE_WALK_H
#define CLOISTER_WORKSPACE_WALK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "workspace/workspace.h"
#include "workspace/workspace_tree.h"

/* One path an operator named. */
struct walk_choice {
	char *path;                     /* "": everything */
	bool seen;
};

/* One name, in the changes, or removed with its folder. */
struct walk_node {
	const char *path, *name;
	int changes, real;              /* the folders it is in; -1: there is none */
	struct stat new, old;           /* st_mode 0: nothing there; NEW may be a whiteout */
	struct workspace_change change; /* set if DIFFERS; .held already allows for the
	                                 * paths that were named */
	bool differs;
	bool chosen;                    /* named, or beneath what was named; a folder that is
	                                 * not is only on the way to what is */
	bool blocks;                    /* a held folder: nothing beneath it can come either */
	mode_t mode;                    /* permission bits to become; not for links */
};

struct walk_hooks {
	/* Every name that is chosen, and every folder on the way; folders before what
	 * is in them.  REAL is looked at again after this, so it may make the folder.
	 * NULL: only folders matter, nothing is compared. */
	int (*visit)(void *arg, const struct walk_node *node, struct err *err);
	/* Around what is in a folder.  DIR_CHANGES -1: it was removed, and a choice is
	 * beneath it.  DIR_REAL -1: there is none, or it is denied to us. */
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
	bool strict;                    /* a folder of the workspace that is mounted is an error */
	struct wtree_path path;
	uint64_t entries;
};

/* The top folder itself is no node. */
int walk_run(struct walk *walk, struct err *err);

/* Changes, their paths copied; if there is any, one with a NULL path behind the last. */
struct walk_list {
	struct workspace_change *change;        /* workspace_changes_free() */
	size_t n, cap, bytes;
};
int walk_list_add(struct walk_list *list, const struct workspace_change *change, struct err *err);
#endif
