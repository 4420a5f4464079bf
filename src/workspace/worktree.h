/* worktree.h - linked git worktrees: where their git folder really is. */
#ifndef CLOISTER_WORKTREE_H
#define CLOISTER_WORKTREE_H

struct err;

/* If WORKSPACE (canonical) is a linked worktree, *ret_common is the main
 * repository's git folder, which the caller owns; otherwise it is NULL.
 *
 * The .git file may have been written by an agent, so it is believed only if the
 * folder that it names has the form of a worktree's (COMMON/worktrees/NAME) and
 * names this workspace in return. */
int worktree_find_common(const char *workspace, char **ret_common, struct err *err);

/* The path in a .git file ("gitdir: PATH\n"), pointing into TEXT; NULL if it is
 * none.  Cuts TEXT at the line's end. */
char *worktree_parse_link(char *text);
#endif
