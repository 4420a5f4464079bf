/* plan_files.h - trees of files as a listing and as files named by their SHA-256.
 *
 * A listing has for each file, in the order of their paths' bytes: the mode in six octal digits, a blank, the SHA-256 of its
 * bytes (of a link: of its target), a blank, the path and a NUL.  The listing of a state's commit is that of its
 * Tree-SHA256; the listing of a volume has its folders, too, with the SHA-256 of nothing.
 *
 * Names in a tree are an agent's, and a listing may be a stranger's.  Trees are walked by descriptor, no link is followed, and
 * contents are only copied. */
#ifndef CLOISTER_PLAN_FILES_H
#define CLOISTER_PLAN_FILES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "canon/hash.h"

struct err;

#define PLAN_LISTING_MAX ((size_t)256 << 20)
#define PLAN_ENTRIES_MAX 1000000
#define PLAN_PATH_MAX 4096              /* bytes, with a NUL */
#define PLAN_NAME_MAX 255               /* bytes of one name in it */
#define PLAN_FILE_MAX ((uint64_t)64 << 30)
#define PLAN_TREE_MAX ((uint64_t)256 << 30)     /* of all files; holes count, because they are hashed */

struct plan_entry {
	mode_t mode;                    /* S_IFREG, S_IFLNK or S_IFDIR, and permissions */
	char hash[HASH_HEX + 1];
	const char *path;               /* in the listing */
};
struct plan_listing {
	const char *at, *end;
	const char *last;               /* the path before; NULL: none */
	size_t n;
};
/* Begin with *L = { TEXT, TEXT + LEN }.  1: *ret_entry is the next; 0: that was all; -EBADMSG. */
int plan_next_entry(struct plan_listing *l, struct plan_entry *ret_entry, struct err *err);

/* Hash the tree ROOT.  DATA: a folder that gets the listing and the files; -1: nothing is kept.  FOLDERS: list them.
 * -EACCES: its owner may not read all of it; -E2BIG, -EFBIG, -ENAMETOOLONG: it is beyond the limits. */
int plan_keep_tree(int root, bool folders, int data, char ret_hash[HASH_HEX + 1], struct err *err);
/* Copy FD into DATA; *ret_hash is its name there. */
int plan_keep_file(int data, int fd, char ret_hash[HASH_HEX + 1], struct err *err);
/* Open the file HASH of DATA.  -ENOENT: it is not there. */
int plan_open_file(int data, const char *hash, struct err *err);
/* Compare the file HASH of DATA with its name.  -ENOENT: it is not there; -EBADMSG: it was changed. */
int plan_check_file(int data, const char *hash, struct err *err);
/* The same for a listing and all files in it. */
int plan_check_tree(int data, const char *hash, struct err *err);
/* Make the tree of the listing HASH in the empty folder TO, and compare every byte. */
int plan_make_tree(int data, const char *hash, int to, struct err *err);
#endif
