/* registry_parts.h - shared only by the files of the registry. */
#ifndef CLOISTER_REGISTRY_PARTS_H
#define CLOISTER_REGISTRY_PARTS_H
#include "store/db.h"
#include "registry/registry.h"

#define REGISTRY_TMP_MAX 48

struct registry {
	int folder, blobs, trees, tmp;  /* descriptors of folders */
	char *path;                     /* FOLDER's */
	struct db *db;
	/* Blobs in tmp/ that do not have their names yet, and folders of blobs that may not be on
	 * the disk as a whole. */
	struct registry_staged {
		char tmp[REGISTRY_TMP_MAX];
		unsigned char hash[HASH_LEN];
	} *staged;
	size_t n_staged;
	bool unsynced[256];
};

extern const struct db_migrations registry_migrations;

/* ---- registry_note.c ---- */

/* Within a transaction: stores NOTE (NULL: none) with the change. */
int registry_note(struct registry *r, const char *note, struct err *err);

/* ---- registry_open.c ---- */

/* A unique name in tmp/. */
int registry_tmp_name(char ret_name[REGISTRY_TMP_MAX], struct err *err);

/* ---- registry_blob.c ---- */

/* Marks the blob as recently used, because something is about to refer to it.  -ENOENT. */
int registry_touch_blob(struct registry *r, const unsigned char hash[HASH_LEN],
                        uint64_t *ret_size);
#endif
