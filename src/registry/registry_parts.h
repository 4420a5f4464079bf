/* registry_parts.h - between the files of the registry; for them only. */
#ifndef CLOISTER_REGISTRY_PARTS_H
#define CLOISTER_REGISTRY_PARTS_H
#include "registry/db.h"
#include "registry/registry.h"

#define REGISTRY_TMP_MAX 48

struct registry {
	int folder, blobs, trees, tmp;  /* descriptors of folders */
	char *path;                     /* FOLDER's */
	struct db *db;
	/* Blobs in tmp/ that have not got their names yet, and folders of blobs of which not
	 * all may be on the disk. */
	struct registry_staged {
		char tmp[REGISTRY_TMP_MAX];
		unsigned char hash[HASH_LEN];
	} *staged;
	size_t n_staged;
	bool unsynced[256];
};

extern const char *const registry_migrations[];         /* ends with NULL */

/* ---- registry_note.c ---- */

/* Within a change: NOTE (NULL: none) is to be told of it. */
int registry_note(struct registry *r, const char *note, struct err *err);

/* ---- registry_open.c ---- */

/* A name in tmp/ that nobody else has. */
int registry_tmp_name(char ret_name[REGISTRY_TMP_MAX], struct err *err);
/* Remove what was left in tmp/ by who did not come to an end. */
void registry_clear_tmp(struct registry *r);

/* ---- registry_blob.c ---- */

/* It is going to be referred to: from now on it is young.  -ENOENT. */
int registry_touch_blob(struct registry *r, const unsigned char hash[HASH_LEN],
                        uint64_t *ret_size);
#endif
