/* workspace_worktree.h - recognises worktrees that an agent added within its workspace.  Private to
 * src/workspace. */
#ifndef CLOISTER_WORKSPACE_WORKTREE_H
#define CLOISTER_WORKSPACE_WORKTREE_H
#include <stdbool.h>

#include "workspace/workspace_walk.h"

/* Whether NODE is a new file by which git ties a worktree to the workspace's own repository:
 * FOLDER/.git, or .git/worktrees/NAME/commondir.  By its name, such a file could lead to config and
 * hooks elsewhere.  This one does not: git finds those of the workspace's own .git, which are held
 * themselves.  IN_GIT: NODE is beneath a git directory. */
bool workspace_adds_worktree(const struct workspace *ws, const struct walk_node *node, bool in_git);
#endif
