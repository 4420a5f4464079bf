/* unpack.h - turns the tar archive of one layer into a folder.
 *
 * The archive is a stranger's.  Every entry is made by name in a folder that was opened beneath the layer's
 * own, without following any link; nothing that exists is ever opened to be written.  All folders belong to
 * this process until the end, and only then get their modes and owners. */
#ifndef CLOISTER_UNPACK_H
#define CLOISTER_UNPACK_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "canon/hash.h"
#include "image/layer_limits.h"

struct archive_entry;
struct err;

#define UNPACK_DEPTH_MAX 256            /* folders above an entry */
#define UNPACK_PATHS_MAX (UINT64_C(256) << 20)  /* bytes of the paths of all folders */
#define UNPACK_XATTRS_MAX 64            /* of an entry, and their bytes */
#define UNPACK_XATTR_BYTES_MAX (64 * 1024)
#define UNPACK_ID_MAX 65535             /* other owners become root */

/* ---- paths ---- */

enum unpack_kind {
	UNPACK_ENTRY,
	UNPACK_TOP,                     /* the layer's own folder */
	UNPACK_WHITEOUT,                /* NAME of lower layers is gone */
	UNPACK_OPAQUE,                  /* everything of lower layers in the folder is gone */
	UNPACK_IGNORED,                 /* a note that aufs made for itself */
};

struct unpack_path {
	enum unpack_kind kind;
	char text[PATH_MAX];            /* without dots and double slashes; "" at the top */
	size_t parent;                  /* length of the part before the last slash; 0: none */
	const char *name;               /* the last part, in TEXT; without ".wh." for whiteouts */
};

/* Pure.  -EBADMSG: a path that leaves the folder, is too long or too deep, or has a whiteout's name in
 * the middle. */
int unpack_path_parse(const char *text, struct unpack_path *ret_path, struct err *err);

/* ---- the bytes of the archive ---- */

struct unpack_stream;                   /* opaque */

struct unpack_limits {
	uint64_t entries, size, file, ratio_from;
};
extern const struct unpack_limits unpack_limits_default;

/* Read the layer FD, which stays the caller's: gzip, zstd, or neither, by its first bytes.  The caller owns
 * *ret_stream. */
int unpack_stream_open(int fd, const struct unpack_limits *limits, struct unpack_stream **ret_stream,
                       struct err *err);
void unpack_stream_close(struct unpack_stream *s);
void unpack_stream_closep(struct unpack_stream **s);
/* The next bytes of the archive, at *ret_data until the next call: how many, 0 at its end, or negative. */
ssize_t unpack_stream_next(struct unpack_stream *s, const void **ret_data, struct err *err);
/* Compressed bytes that have been read. */
uint64_t unpack_stream_consumed(const struct unpack_stream *s);
/* The hash of all bytes that unpack_stream_next() returned.  Call it once. */
void unpack_stream_hash(struct unpack_stream *s, unsigned char ret_hash[HASH_LEN]);

/* ---- the tree ---- */

struct unpack_dir;                      /* what a folder is to look like at the end */

struct unpack_tree {
	int top;                        /* the layer's folder, borrowed */
	bool keeps_owners;
	struct unpack_limits limits;
	uint64_t entries, size, paths, left_out;
	struct unpack_dir *dirs;
	size_t n_dirs, cap_dirs;
	int parent;                     /* the last folder that an entry was made in, or -1 */
	char parent_path[PATH_MAX];
};

struct unpack_look {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

void unpack_tree_free(struct unpack_tree *t);   /* for OWN() too */
/* A descriptor of the folder that PATH is in, which stays the tree's; missing folders are made. */
int unpack_tree_parent(struct unpack_tree *t, const struct unpack_path *path, struct err *err);
/* Count one more entry. */
int unpack_tree_count(struct unpack_tree *t, struct err *err);
/* Make the folder NAME in DIR, unless there is one. */
int unpack_tree_mkdir(struct unpack_tree *t, int dir, const char *name, struct err *err);
/* Remove whatever is at NAME in DIR. */
int unpack_tree_clear(struct unpack_tree *t, int dir, const char *name, struct err *err);
/* NAME in DIR hides everything of its name in lower layers. */
int unpack_tree_hide(int dir, const char *name, struct err *err);
/* The folder PATH is to look like this at the end. */
int unpack_tree_note(struct unpack_tree *t, const char *path, size_t len, const struct unpack_look *look,
                     struct err *err);
/* Give all folders their looks. */
int unpack_tree_finish(struct unpack_tree *t, struct err *err);
struct timespec unpack_mtime(const struct archive_entry *entry);

/* ---- entries ---- */

struct archive;
/* Make ENTRY, whose data A has. */
int unpack_entry(struct unpack_tree *t, struct archive *a, struct archive_entry *entry, struct err *err);

struct unpack_result {
	uint64_t entries, size, left_out;
};
/* All of it: the layer FD into the tree beneath TOP.  DIFF_ID is what its bytes must hash to; NULL: anything.
 * PROGRESS gets the compressed bytes that have been read, now and then; it may be NULL. */
int unpack_layer(int fd, int top, const char *diff_id, bool keeps_owners, const struct unpack_limits *limits,
                 void (*progress)(uint64_t bytes), struct unpack_result *ret_result, struct err *err);
#endif
