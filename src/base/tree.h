/* tree.h - removes folders that a stranger filled. */
#ifndef CLOISTER_TREE_H
#define CLOISTER_TREE_H

struct err;

/* Remove everything beneath the folder DIR, not the folder itself.  No link is
 * followed, no mount crossed; depth and modes set by a stranger do not stop it. */
int tree_empty(int dir, struct err *err);
#endif
