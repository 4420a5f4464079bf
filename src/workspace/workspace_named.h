/* workspace_named.h - finds workspace paths that the host's own files name.  Private to
 * src/workspace. */
#ifndef CLOISTER_WORKSPACE_NAMED_H
#define CLOISTER_WORKSPACE_NAMED_H
#include "workspace/workspace.h"
#include "workspace/workspace_held.h"

/* Add the paths that a repository's configuration names.  DIR, a folder of the workspace REAL, is
 * its top or, if IT_IS_GIT_DIR, its git directory.  With ABOVE, include every repository around
 * DIR.  Having no repository is fine.  A configuration that cannot be read is noted in NAMED. */
int named_look(struct workspace_named *named, int real, int dir, bool it_is_git_dir, bool above,
               struct err *err);

/* BEST, or a higher value if PATH is named.  NAMED may be NULL. */
enum held named_match(const struct workspace_named *named, const char *path, enum held best);
#endif
