/* disk_proc.h - the parts of cloister-disk: what a folder looks like, and the program that makes a disk of it. */
#ifndef CLOISTER_DISK_PROC_H
#define CLOISTER_DISK_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "canon/hash.h"

struct err;

#define DISK_DEPTH_MAX 128              /* folders within each other */
#define DISK_LEFT_OUT_MAX 1024
#define DISK_SIZE_MAX (32ULL << 30)     /* of all its files */

/* ---- disk_tree.c ---- */

struct disk_tree {
	unsigned char hash[HASH_LEN];   /* of names, types, sizes, modes, owners, times and inodes */
	uint64_t size;                  /* of all files */
	time_t newest;                  /* of the files' times */
	/* Paths beneath the folder that no disk gets: entries that no cell is shown, files that this process
	 * cannot read, and whatever is mounted there. */
	char **left_out;
	size_t n_left_out;
};
/* Looks at everything beneath the working folder, and reads no file.  WHOLE: cells are shown all of its entries.
 * The caller frees *ret_tree. */
int disk_look(bool whole, struct disk_tree *ret_tree, struct err *err);
void disk_tree_free(struct disk_tree *t);       /* for OWN() too */

/* ---- disk_make.c ---- */

/* Writes a disk of the working folder, which looks like TREE, to the file PART, by a program without rights.
 * OWNER: of all files there; -1: their own. */
int disk_make(const struct disk_tree *tree, long owner, const char *part, struct err *err);
#endif
