/* registry_tree.h - a capability's folder: DATA/registry/trees/HEX. */
#ifndef CLOISTER_REGISTRY_TREE_H
#define CLOISTER_REGISTRY_TREE_H
#include <jansson.h>
#include <stdint.h>

struct err;

/* This folder cannot be moved once it is read-only; the one around it can. */
#define REGISTRY_TREE_FILES "files"
#define REGISTRY_TREE_CONTENT "content.json"    /* canonical: its SHA-256 is HEX */

/* Checks that the folder NAME of TREES has exactly the files of CONTENT, with their bytes and
 * modes.  NULL: of the content beside them, which must have the hash NAME.  -EUCLEAN: it differs. */
int registry_check_tree(int trees, const char *name, json_t *content, struct err *err);
/* The path of the files of the capability HASH ("sha256:..."), which match it.  The caller owns *ret_path. */
int registry_find_tree(const char *hash, char **ret_path, struct err *err);
/* The time of the last change to its files, as the kernel keeps it and only root could forge.
 * -EUCLEAN: unknown. */
int registry_newest_change(int trees, const char *name, uint64_t *ret_ns);
#endif
