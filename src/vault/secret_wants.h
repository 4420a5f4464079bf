/* secret_wants.h - which secrets a policy gives to a cell: what stands under `secrets` in it.
 *
 *   secrets: [GITHUB_TOKEN, backups=AWS]       names, as `run -s` takes them
 *   secrets: {search: {hosts: api.example.com}}     or definitions, as in a file of secrets
 *
 * A policy is a file that people pass on, so it never names a program to run: `from: cmd:`
 * is for `cloister secret add`, which is said by the operator alone. */
#ifndef CLOISTER_SECRET_WANTS_H
#define CLOISTER_SECRET_WANTS_H
#include "vault/secret.h"

struct err;
struct node;

struct secret_want {
	struct secret_short said;       /* without hosts: they are in SECRET */
	struct secret *secret;          /* its definition, or NULL: as the vault has it */
	bool unless_known;              /* what the vault says of it goes first */
};

struct secret_wants {
	struct secret_want at[SECRET_LIST_MAX];
	size_t n;
};

/* A policy_reader's: what was said of a name first counts. */
int secret_wants_read(void *wants, const struct node *node, struct err *err);
void secret_wants_free(struct secret_wants *w);         /* for OWN() too */
/* NULL if NAME is not among them. */
struct secret_want *secret_wants_find(struct secret_wants *w, const char *name);
#endif
