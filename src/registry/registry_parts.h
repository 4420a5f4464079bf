/* registry_parts.h - between the files of the registry; for them only. */
#ifndef CLOISTER_REGISTRY_PARTS_H
#define CLOISTER_REGISTRY_PARTS_H
#include "registry/db.h"
#include "registry/registry.h"

struct registry {
	int folder, blobs, trees, tmp;  /* descriptors of folders */
	char *path;                     /* FOLDER's */
	struct db *db;
};

extern const char *const registry_migrations[];         /* ends with NULL */

/* ---- registry_file.c ---- */

/* A name in tmp/ that nobody else has. */
#define REGISTRY_TMP_MAX 48
int registry_tmp_name(char ret_name[REGISTRY_TMP_MAX], struct err *err);
/* Remove what was left in tmp/ by who did not come to an end. */
void registry_clear_tmp(struct registry *r);
#endif
