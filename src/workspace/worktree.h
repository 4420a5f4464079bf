/* worktree.h - finds the real git folder of a linked git worktree. */
#ifndef CLOISTER_WORKTREE_H
#define CLOISTER_WORKTREE_H

struct err;

/* If WORKSPACE (canonical) is a linked worktree, set *ret_common to the main repository's git
 * folder, which the caller owns; otherwise to NULL.  An agent may have written the .git file.  So
 * it is believed only if the folder that it names has a worktree's form (COMMON/worktrees/NAME) and
 * names this workspace in return. */
int worktree_find_common(const char *workspace, char **ret_common, struct err *err);

/* The path in a .git file ("gitdir: PATH\n"), pointing into TEXT; NULL if TEXT has another form.
 * Cuts TEXT at the line's end. */
char *worktree_parse_link(char *text);
#endif
