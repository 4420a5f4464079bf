/* workspace_lab.h - trees to try the workspace's code on. */
#ifndef CLOISTER_WORKSPACE_LAB_H
#define CLOISTER_WORKSPACE_LAB_H
#include <stdbool.h>
#include <stdint.h>

#include "workspace/workspace.h"

/* A new folder beneath the test's own; a descriptor that lives as long as the test. */
int lab_dir(const char *name);
int lab_open(const char *name);         /* one that is there */
/* New ones, for the case of number N of a test. */
void lab_case(struct workspace *ws, size_t n);

/* Make a tree, one thing a line, in order; what is in the way goes first:
 *   f PATH MODE TEXT    a file          d PATH MODE     a folder
 *   l PATH TARGET       a link          w PATH          a whiteout
 *   o PATH              mark a folder opaque
 *   x PATH              remove, with all beneath it
 * Folders on the way are made, with mode 755. */
void lab_make(int dir, const char *script);
/* The same, as workspace_collect() would leave it. */
void lab_make_kept(int dir, const char *script);

/* The tree as text, a line each, sorted: "PATH MODE TEXT", "PATH MODE/", "PATH -> TARGET",
 * "PATH whiteout"; "opaque" behind an opaque folder.  The caller frees it. */
char *lab_show(int dir);
#define LAB_CHECK_TREE(dir, want)                                           \
	do {                                                                    \
		OWN(freep) char *shown_ = lab_show(dir);                            \
		CHECK_STR(shown_, want);                                            \
	} while (0)

/* The changes as text: "A PATH", "M", "D", "m" for a mode; then "held". */
char *lab_list(const struct workspace *ws);
#define LAB_CHECK_LIST(ws, want)                                            \
	do {                                                                    \
		OWN(freep) char *list_ = lab_list(ws);                              \
		CHECK_STR(list_, want);                                             \
	} while (0)

/* Words as a list of paths, good until the next call; NULL is NULL. */
char *const *lab_paths(const char *words);
/* Apply with nothing special but what HOW says; its cell and since are filled in. */
int lab_apply(const struct workspace *ws, struct workspace_apply how, size_t *ret_applied,
              size_t *ret_held, struct err *err);

/* Run FN in a child that is root of a user and mount namespace of its own; false
 * if this machine allows no such thing.  A failed check there fails the test. */
bool lab_in_userns(void (*fn)(void *), void *arg);
/* Run FN in a child that is an ordinary user, whose lab_dir()s are his own. */
void lab_as_user(void (*fn)(void *), void *arg);
void lab_must_succeed(int pid);

int64_t lab_now_ns(void);
/* Until the clock of the file system shows a later time. */
void lab_tick(void);
/* Remove all: the runner cannot remove what is locked against its owner. */
void lab_clean(void);
#endif
