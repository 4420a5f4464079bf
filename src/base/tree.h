/* tree.h - folders that a stranger filled: opening them, and removing what is in them; and
 * folders that only we may fill. */
#ifndef CLOISTER_TREE_H
#define CLOISTER_TREE_H
#include <limits.h>
#include <stdbool.h>

struct err;

bool tree_is_dots(const char *name);            /* "." or ".." */
/* Whether PATH is FOLDER or beneath it, by their words: both absolute and without dots. */
bool tree_is_beneath(const char *path, const char *folder);

/* Go where PATH leads, link by link.  STEP gets every place on the way: absolute, without dots, no
 * link above it; FOUND is 1 for a link, 0 for what is none, else -errno, and then it goes on as if
 * a plain folder were there.  A negative value from STEP ends it and is returned.  STEP's last
 * place is where PATH leads to, unless it ends in dots: END is. */
int tree_follow(const char *path, int (*step)(void *arg, const char *at, int found), void *arg,
                char ret_end[PATH_MAX]);

/* Open the folder NAME beneath DIR, with no link on the way and no mount crossed: a
 * descriptor or -errno; -EXDEV behind a mount. */
int tree_open_dir(int dir, const char *name);
/* Open the folder at PATH, absolute and without links when it was resolved: -ELOOP if somebody has
 * put one on the way since. */
int tree_open_resolved(const char *path);
/* As tree_open_dir; the owner's own mode bits do not stop him. */
int tree_open_dir_anyway(int dir, const char *name);

/* Remove everything beneath the folder DIR, not the folder itself.  No link is
 * followed, no mount crossed; depth and modes set by a stranger do not stop it. */
int tree_empty(int dir, struct err *err);

/* Open the folder at PATH, made with those above it if it is missing and MAKE is set.
 * Refused if somebody else could write there; OTHERWISE is what else can be done. */
int tree_open_made(const char *path, bool make, const char *otherwise, struct err *err);
#endif
