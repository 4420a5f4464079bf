/* registry_tree.h - a capability's folder: DATA/registry/trees/HEX. */
#ifndef CLOISTER_REGISTRY_TREE_H
#define CLOISTER_REGISTRY_TREE_H
#include <jansson.h>
#include <stdint.h>

struct err;

/* The folder itself cannot be moved once nobody may write to it; the one around it can. */
#define REGISTRY_TREE_FILES "files"
#define REGISTRY_TREE_CONTENT "content.json"    /* canonical: its SHA-256 is HEX */

/* Whether the folder NAME of TREES has exactly the files of CONTENT, with their bytes and modes; NULL:
 * of the content that lies beside them, which must have the hash NAME.  -EUCLEAN: not so. */
int registry_check_tree(int trees, const char *name, json_t *content, struct err *err);
/* When anything in its files was last changed, by the time that the kernel keeps and only root could
 * forge.  -EUCLEAN: it cannot be told. */
int registry_newest_change(int trees, const char *name, uint64_t *ret_ns);
#endif
