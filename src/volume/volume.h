/* volume.h - keeps volumes in DATA/volumes: folders by name that cells mount, and snapshots of them.
 *
 *     names/NAME/volume       the volume's description: canonical JSON, replaced whole
 *     names/NAME/new/         of the cell that writes to it: `files` gets the cell's changes, `done` appears once they
 *                             are whole, and `ended` when the cell has ended
 *     trees/ID/files/         an immutable tree
 *     trees/ID/size           "BYTES ENTRIES" of it
 *     locks                   one byte of it is locked for each volume and tree in use
 *     lock                    held while a description changes
 *
 * A tree never changes once it has its name, so volumes, snapshots and clones are only names of trees.  A cell that
 * writes has the tree below an overlay, and its changes become the next tree: volume_settle() makes that of links to
 * the files of the old tree, and gives it to the volume with one rename.  A process that is killed at any time leaves
 * the old description or the new one, and folders that volume_sweep() removes. */
#ifndef CLOISTER_VOLUME_H
#define CLOISTER_VOLUME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct err;

#define VOLUME_FOLDER "volumes"         /* in the data folder */
#define VOLUME_NAME_MAX 48
#define VOLUME_ID 16                    /* hexadecimal digits */
#define VOLUME_SNAPSHOTS_MAX 64
#define VOLUMES_MAX 1000
#define VOLUME_SIZE_DEFAULT (UINT64_C(1) << 30)
#define VOLUME_SIZE_LEAST (UINT64_C(64) << 10)
#define VOLUME_SIZE_MAX (UINT64_C(1) << 44)
#define VOLUME_NEW "new"                /* the folder of a cell that writes, and its entries: */
#define VOLUME_NEW_FILES "files"
#define VOLUME_NEW_DONE "done"
#define VOLUME_NEW_ENDED "ended"

struct volume_snapshot {
	char label[VOLUME_NAME_MAX + 1], tree[VOLUME_ID + 1];
	uint64_t made_ms;
};

struct volume {
	char name[VOLUME_NAME_MAX + 1];
	char id[VOLUME_ID + 1], tree[VOLUME_ID + 1];
	uint64_t size;                  /* the most bytes that its tree may have */
	uint64_t ttl_ms;                /* since its last use; 0: none */
	uint64_t made_ms, used_ms;      /* since 1970 */
	struct volume_snapshot snapshots[VOLUME_SNAPSHOTS_MAX];
	size_t n_snapshots;
};

struct volumes {
	int top, names, trees;
	int locks;                      /* one open file: its locks last until the last copy of the descriptor is closed */
	char *path;
};

/* Open the folder.  Without MAKE, -ENOENT if there is none yet. */
int volumes_open(bool make, struct volumes *ret_volumes, struct err *err);
void volumes_close(struct volumes *v);  /* for OWN() too */
/* For names of volumes and labels of snapshots: letters, digits, '-', '_' and '.', beginning with a letter or digit. */
bool volume_name_ok(const char *name);
/* Cuts TEXT, "NAME" or "NAME@LABEL"; *ret_label is "" without one. */
int volume_parse(const char *text, char ret_name[VOLUME_NAME_MAX + 1], char ret_label[VOLUME_NAME_MAX + 1],
                 struct err *err);

/* -ENOENT if there is none of that name. */
int volume_load(const struct volumes *v, const char *name, struct volume *ret_volume, struct err *err);
/* The names of all, sorted; the caller frees the list (strv_free). */
int volume_list(const struct volumes *v, char ***ret_names, struct err *err);
/* NULL: there is none. */
const struct volume_snapshot *volume_find_snapshot(const struct volume *volume, const char *label);
/* How large the tree ID is. */
int volume_measure(const struct volumes *v, const char *id, uint64_t *ret_bytes, uint64_t *ret_entries, struct err *err);
/* The most entries that one cell may change in a volume of SIZE bytes.  The volume may have twice as many. */
uint64_t volume_entries_max(uint64_t size);
bool volume_is_written(const struct volumes *v, const struct volume *volume);   /* by a cell */
bool volume_is_used(const struct volumes *v, const struct volume *volume);
/* Whether its time to live is over and no cell uses it. */
bool volume_is_over(const struct volumes *v, const struct volume *volume, uint64_t now_ms);
/* Whether the changes of a cell that has ended are not in its tree yet. */
bool volume_is_unsettled(const struct volumes *v, const struct volume *volume);

/* ---- changes of descriptions: all or nothing, one at a time ---- */

/* TREE: what is in it; NULL: nothing. */
int volume_create(struct volumes *v, const char *name, uint64_t size, uint64_t ttl_ms, const char *tree, struct err *err);
/* A volume NEW with the files, the size and the time to live of NAME, or of its snapshot LABEL. */
int volume_clone(struct volumes *v, const char *name, const char *label, const char *new, struct err *err);
/* LABEL "" makes one of the time; *ret_label is the label. */
int volume_snapshot(struct volumes *v, const char *name, const char *label, char ret_label[VOLUME_NAME_MAX + 1],
                    struct err *err);
/* -EBUSY: a cell writes to it. */
int volume_restore(struct volumes *v, const char *name, const char *label, struct err *err);
int volume_remove_snapshot(struct volumes *v, const char *name, const char *label, struct err *err);
/* -EBUSY: a cell uses it.  With OVER, only if its time to live is over: -EAGAIN otherwise. */
int volume_remove(struct volumes *v, const char *name, bool over, struct err *err);

/* ---- whole trees, for plans (src/plan) ---- */

/* A descriptor of the files of a volume, or of its snapshot LABEL ("": none).  V->locks keeps them. */
int volume_open_files(struct volumes *v, const char *name, const char *label, struct err *err);
/* Give NAME the files in the folder FILES in place of its own.  That folder is of this file system, and its files become the
 * volume's.  -EBUSY: a cell writes to it; -EDQUOT, -EFBIG: they are too many or too large for it. */
int volume_fill(struct volumes *v, const char *name, int files, struct err *err);

/* ---- cells ---- */

struct volume_use {
	char *tree;                     /* the path of its files */
	char *out;                      /* the path of its folder VOLUME_NEW; NULL for reading */
	uint64_t size, entries;         /* that may be added */
};
/* Use NAME, or its snapshot LABEL, which is read-only.  V->locks holds it.  The caller frees *ret_use.  -EBUSY: another
 * cell writes to it; -EAGAIN: it is unsettled. */
int volume_take(struct volumes *v, const char *name, const char *label, bool writes, struct volume_use *ret_use,
                struct err *err);
void volume_use_free(struct volume_use *use);   /* for OWN() too */

enum volume_settled { VOLUME_SAME, VOLUME_CHANGED, VOLUME_REFUSED };
/* Makes the changes of a cell that has ended the volume's next tree.  If it would have too many entries, or folders that
 * are nested too deep, they are dropped: VOLUME_REFUSED. */
int volume_settle(struct volumes *v, const char *name, enum volume_settled *ret_settled, struct err *err);

struct volume_swept {
	uint64_t trees, bytes;
};
/* Removes trees that nothing names, and what killed processes left. */
int volume_sweep(struct volumes *v, struct volume_swept *ret_swept, struct err *err);
#endif
