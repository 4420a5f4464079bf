/* layered.h - one tree of files seen through several folders, as overlayfs shows it.
 *
 * A file of a higher layer hides those of lower ones; a character device 0:0 removes a name; a folder with the
 * attribute user.overlay.opaque hides lower folders of the same name.  Links are followed within the tree only,
 * whatever they say, and no mount is crossed.  Strangers wrote all of it. */
#ifndef CLOISTER_LAYERED_H
#define CLOISTER_LAYERED_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/own.h"

struct err;

#define LAYERED_MAX 128                 /* layers */
#define LAYERED_LINKS_MAX 40            /* on one path */
#define LAYERED_ENTRIES_MAX 1000000     /* of one folder */

struct layered {
	int folders[LAYERED_MAX];       /* the lowest first; the caller's */
	size_t n;
	bool plain;                     /* a folder of the operator's: devices and attributes mean nothing */
};

/* A file of the tree. */
struct layered_file {
	struct stat st;
	int *dirs;                      /* of a folder: its parts, the topmost first */
	size_t n_dirs;
	int parent;                     /* of another file: the folder that has it */
	char *name;                     /* and its name there */
};
#define LAYERED_FILE ((struct layered_file){ .parent = -1 })
void layered_close(struct layered_file *f);     /* for OWN() too */

/* The top of the tree. */
int layered_top(const struct layered *t, struct layered_file *ret_file, struct err *err);
/* The entry NAME of the folder DIR; -ENOENT.  A link is not followed. */
int layered_child(const struct layered *t, const struct layered_file *dir, const char *name,
                  struct layered_file *ret_file);
/* Resolve PATH, whose links are followed, also its last if FOLLOW.  RET_PATH gets the path without links and dots:
 * relative, "" for the top; if the file does not exist (-ENOENT), of where it would be.  RET_FILE may be NULL.
 * -ENOTDIR, -ELOOP, -ENAMETOOLONG. */
int layered_find(const struct layered *t, const char *path, bool follow, char ret_path[PATH_MAX],
                 struct layered_file *ret_file);
/* The names in the folder DIR, sorted by their bytes; hidden ones may be among them.  The caller frees the list and
 * its strings (layered_free_names). */
int layered_list(const struct layered_file *dir, char ***ret_names, size_t *ret_n, struct err *err);
void layered_free_names(char **names, size_t n);

/* Open a regular file for reading: a descriptor, or -errno. */
int layered_read(const struct layered_file *f);
/* The target of a link; the caller owns it.  NULL with errno. */
char *layered_link(const struct layered_file *f);
#endif
