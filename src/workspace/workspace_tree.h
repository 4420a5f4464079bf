/* workspace_tree.h - looking into, copying and removing trees that others made.
 * Private to src/workspace. */
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
/* A collected file is readable and writable by its owner, a collected folder
 * searchable too; if the agent's mode says otherwise, it is here, in octal. */
#define WTREE_MODE "user.cloister.mode"
#define WTREE_MODE_TEXT 8

#define WTREE_SHOWN_MAX 168

/* PATH made safe to print and short enough for a message.  Returns SHOWN. */
char *wtree_show(char shown[WTREE_SHOWN_MAX], const char *path);

/* A path that grows and shrinks with the walk, without ever moving.  Room for two
 * walks of WORKSPACE_DEPTH_MAX, one going on from the other. */
#define WTREE_PATH_MAX (2 * (WORKSPACE_DEPTH_MAX + 1) * 256)
struct wtree_path {
	char *text;
	size_t len;
};
int wtree_path_push(struct wtree_path *path, const char *name, struct err *err);
void wtree_path_pop(struct wtree_path *path, size_t len);
void wtree_path_free(struct wtree_path *path);          /* for OWN() too */

/* The names in a folder, sorted by their bytes, without ours. */
struct wtree_names {
	char **name;
	size_t n;
	char *bytes;
};
int wtree_names_load(int dir, struct wtree_names *ret_names, struct err *err);
void wtree_names_free(struct wtree_names *names);       /* for OWN() too */
bool wtree_names_has(const struct wtree_names *names, const char *name);

bool wtree_is_ours(const char *name);                   /* ".cloister-*.tmp" */
bool wtree_is_whiteout(const struct stat *st);
bool wtree_is_opaque(int dir);
/* What is there; st_mode 0 if nothing is, or if DIR is -1. */
int wtree_stat(int dir, const char *name, struct stat *ret_st);

/* Open NAME, which is beneath DIR with no link on the way and no mount crossed, and a
 * regular file: a descriptor or -errno, -EINVAL for what is no regular file. */
int wtree_open_file(int dir, const char *name);
/* Likewise, a folder, by a path. */
int wtree_open_folder(int dir, const char *path);

/* The permission bits to apply, from a collected file or folder. */
mode_t wtree_mode(int fd, const struct stat *st);
/* Give a collected file or folder its bits, in the way that wtree_mode() reads. */
int wtree_set_mode(int fd, mode_t mode);

/* SIZE bytes, holes kept; TO is empty. */
int wtree_copy_data(int from, int to, uint64_t size);
/* 1 if the first SIZE bytes are the same, 0 if not, -errno if A cannot be read.
 * What cannot be read in B is not the same. */
int wtree_same_data(int a, int b, uint64_t size);

/* Remove NAME, whatever it is, with all that is beneath it; nothing there is fine.  A folder that is
 * not ONLY (NULL: any is) is left alone: -EBUSY. */
int wtree_remove(int dir, const char *name, const struct stat *only, struct err *err);
#endif
