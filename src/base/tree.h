/* tree.h - opens and empties folders that a stranger filled, and opens folders that only we may
 * fill. */
#ifndef CLOISTER_TREE_H
#define CLOISTER_TREE_H
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>

struct err;

bool tree_is_dots(const char *name);            /* "." or ".." */
/* Whether PATH is FOLDER or beneath it, comparing only the texts: both absolute and without dots. */
bool tree_is_beneath(const char *path, const char *folder);

/* Resolve PATH link by link.  STEP gets every place on the way: absolute, without dots, no link
 * above it.  FOUND is 1 for a link, 0 for anything else, or -errno; after an errno, resolving
 * continues as if a plain folder were there.  A negative value from STEP ends it and is returned.
 * STEP's last place is the target of PATH, unless PATH ends in dots.  RET_END always is. */
int tree_follow(const char *path, int (*step)(void *arg, const char *at, int found), void *arg,
                char ret_end[PATH_MAX]);

/* Open the folder NAME beneath DIR, with no link on the way and no mount crossed: a
 * descriptor or -errno; -EXDEV behind a mount. */
int tree_open_dir(int dir, const char *name);
/* Open the folder at PATH, which was absolute and without links when it was resolved: -ELOOP if
 * somebody has put a link on the way since. */
int tree_open_resolved(const char *path);
/* As tree_open_dir; changes the folder's own mode bits if they are in the way. */
int tree_open_dir_anyway(int dir, const char *name);

/* The entries of the folder DIR, from the first; the caller owns the list.  NULL with errno. */
DIR *tree_list(int dir);
/* 1: there is something in the folder DIR; 0: there is nothing; or -errno. */
int tree_has_entries(int dir);

/* Remove everything beneath the folder DIR, but not the folder itself.  No link is followed, no
 * mount is crossed.  Depth and modes set by a stranger do not stop it. */
int tree_empty(int dir, struct err *err);

/* Open the folder at PATH.  If it is missing and MAKE is set, create it and its parents.  Refused
 * if somebody else can write there; OTHERWISE is advice for the error. */
int tree_open_made(const char *path, bool make, const char *otherwise, struct err *err);
#endif
