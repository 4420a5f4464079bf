/* layer.h - the parts of cloister-layer: a layer of an image as a tar archive, the same bytes for the same files. */
#ifndef CLOISTER_PROC_LAYER_H
#define CLOISTER_PROC_LAYER_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/layer_limits.h"
#include "image/layered.h"
#include "image/tar_write.h"

struct err;

#define LAYER_DEPTH_MAX 512             /* of folders */
#define LAYER_REQUEST_MAX (4u << 20)    /* bytes */

/* The archive that is written. */
struct layer {
	struct tar_write tar;
	int out;
	int64_t epoch;                  /* no file is newer than that */
	uint64_t entries;               /* so far */
	uint64_t bytes, stored;         /* of files so far: with holes, and without */
};

int64_t layer_time(const struct layer *l, const struct stat *st);
/* The attributes user.* of FD that are the file's own. */
int layer_xattrs(int fd, struct buf *ret_xattrs, struct err *err);
/* Writes the entry of a regular file, whose size is filled in, and its bytes. */
int layer_put_file(struct layer *l, struct tar_entry *e, int fd, struct err *err);
int layer_put(struct layer *l, const struct tar_entry *e, struct err *err);

/* layer_changes.c: the changes in the upper folder of an overlay.  Removed names become ".wh.NAME", and folders that
 * replace others have ".wh..wh..opq" in them, as the OCI image specification says. */
int layer_write_changes(struct layer *l, int upper, struct err *err);

/* layer_copy.c: see main.c for the request.  Locks this process down once the folders are open. */
int layer_copy(struct layer *l, const json_t *request, struct err *err);

/* layer_ids.c: "USER[:GROUP]", names as TREE's own /etc knows them.  A missing group is the number of the user. */
int layer_find_owner(const struct layered *tree, const char *text, uint32_t *ret_uid, uint32_t *ret_gid,
                     struct err *err);

/* main.c: gives up everything but reading what is beneath FOLDERS, which end with NULL. */
int layer_lock_down(const char *const *folders, struct err *err);
#endif
