/* workspace_named.h - what the host's own files name in the workspace.
 * Private to src/workspace. */
#ifndef CLOISTER_WORKSPACE_NAMED_H
#define CLOISTER_WORKSPACE_NAMED_H
#include "workspace/workspace.h"
#include "workspace/workspace_held.h"

/* What the configuration of the repository names whose top, or if IT_IS_GIT_DIR whose git
 * directory, is the folder DIR of the workspace REAL; and if ABOVE, that of every repository
 * which DIR lies in.  None is fine.  What cannot be read is noted in NAMED. */
int named_look(struct workspace_named *named, int real, int dir, bool it_is_git_dir, bool above,
               struct err *err);

/* BEST, or more if PATH is named.  NAMED may be NULL. */
enum held named_match(const struct workspace_named *named, const char *path, enum held best);
#endif
