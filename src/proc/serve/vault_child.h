/* vault_child.h - runs cloister-vault, which alone opens the vault.  All of it blocks. */
#ifndef CLOISTER_VAULT_CHILD_H
#define CLOISTER_VAULT_CHILD_H
#include <jansson.h>

struct err;

#define VAULT_SAYS_MAX (4u << 20)

/* The output of `cloister secret list --json`: names, schemes and scopes, never values. */
int vault_child_list(json_t **ret_list, struct err *err);
/* A sealed memory file with the current value of the secret NAME, for a cell's courier. */
int vault_child_value(const char *name, struct err *err);
#endif
