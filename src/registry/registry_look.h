/* registry_look.h - what a registry in Postgres lacks for the role that uses it, for `cloister doctor`.
 *
 * Nothing there is made or changed. */
#ifndef CLOISTER_REGISTRY_LOOK_H
#define CLOISTER_REGISTRY_LOOK_H
#include "registry/registry.h"

/* One line of the answer each. */
#define REGISTRY_LOOK_STORE "store"
#define REGISTRY_LOOK_TABLES "store's tables"
#define REGISTRY_LOOK_RIGHTS "store's rights"
#define REGISTRY_LOOK_NAMES REGISTRY_LOOK_STORE, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_RIGHTS
#define REGISTRY_LOOK_MAX 3

enum registry_look_state { REGISTRY_LOOK_OK, REGISTRY_LOOK_LIMITED, REGISTRY_LOOK_MISSING };

struct registry_look {
	const char *name;               /* of REGISTRY_LOOK_NAMES */
	enum registry_look_state state;
	char found[512], todo[512];     /* a sentence each; TODO may be empty */
};

/* Looks at the Postgres of STORE.  Negative: it cannot be asked. */
int registry_look(const char *store, struct registry_look ret_at[REGISTRY_LOOK_MAX], size_t *ret_n, struct err *err);
#endif
