/* workspace_tree.h - examines, copies and removes trees that others made.  Private to
 * src/workspace. */
#ifndef CLOISTER_WORKSPACE_TREE_H
#define CLOISTER_WORKSPACE_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "workspace/workspace.h"

struct err;

/* Only on folders of an upper layer or of collected changes. */
#define WTREE_OPAQUE "user.overlay.opaque"
/* The owner can read and write a collected file, and search a collected folder.  If the agent set
 * another mode, this attribute stores it, in octal. */
#define WTREE_MODE "user.cloister.mode"
#define WTREE_MODE_TEXT 8

#define WTREE_SHOWN_MAX 168

/* Make PATH safe to print and short enough for a message.  Returns SHOWN. */
char *wtree_show(char shown[WTREE_SHOWN_MAX], const char *path);

/* A path that grows and shrinks with the walk, in memory that never moves.  It has room for two
 * walks of WORKSPACE_DEPTH_MAX, one continuing the other. */
#define WTREE_PATH_MAX (2 * (WORKSPACE_DEPTH_MAX + 1) * 256)
struct wtree_path {
	char *text;
	size_t len;
};
int wtree_path_push(struct wtree_path *path, const char *name, struct err *err);
void wtree_path_pop(struct wtree_path *path, size_t len);
void wtree_path_free(struct wtree_path *path);          /* for OWN() too */

/* The names in a folder, sorted by their bytes, without our temporary names. */
struct wtree_names {
	char **name;
	size_t n;
	char *bytes;
};
int wtree_names_load(int dir, struct wtree_names *ret_names, struct err *err);
void wtree_names_free(struct wtree_names *names);       /* for OWN() too */

bool wtree_is_ours(const char *name);                   /* ".cloister-*.tmp" */
bool wtree_is_whiteout(const struct stat *st);
bool wtree_is_opaque(int dir);
/* Stat NAME; st_mode is 0 if it does not exist, or if DIR is -1. */
int wtree_stat(int dir, const char *name, struct stat *ret_st);

/* Open the regular file NAME beneath DIR, with no link on the way and no mount crossed.  Returns a
 * descriptor or -errno; -EINVAL if it is not a regular file. */
int wtree_open_file(int dir, const char *name);
/* The same for a folder, by a path. */
int wtree_open_folder(int dir, const char *path);

/* The permission bits to apply for a collected file or folder. */
mode_t wtree_mode(int fd, const struct stat *st);
/* Set the bits of a collected file or folder, in the form that wtree_mode() reads. */
int wtree_set_mode(int fd, mode_t mode);

/* Copy SIZE bytes, keeping holes; TO is empty. */
int wtree_copy_data(int from, int to, uint64_t size);
/* Returns 1 if the first SIZE bytes are equal, 0 if not, -errno if A cannot be read.  Bytes of B
 * that cannot be read are not equal. */
int wtree_same_data(int a, int b, uint64_t size);

/* Remove NAME of any type, with everything beneath it; a missing NAME is fine.  A folder other than
 * ONLY (NULL: any) is left alone: -EBUSY. */
int wtree_remove(int dir, const char *name, const struct stat *only, struct err *err);
#endif
