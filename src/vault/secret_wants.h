/* secret_wants.h - reads which secrets a policy gives to a cell: its `secrets` member.
 *
 *   secrets: [GITHUB_TOKEN, backups=AWS]       names, as `run -s` takes them
 *   secrets: {search: {hosts: api.example.com}}     or definitions, as in a file of secrets
 *
 * People share policies, so a policy never names a program to run: `from: cmd:` is only for
 * `cloister secret add`, which the operator runs. */
#ifndef CLOISTER_SECRET_WANTS_H
#define CLOISTER_SECRET_WANTS_H
#include "vault/secret.h"

struct err;
struct node;

struct secret_want {
	struct secret_short said;       /* without hosts: they are in SECRET */
	struct secret *secret;          /* its definition, or NULL: as in the vault */
	bool unless_known;              /* the vault's definition takes precedence */
};

struct secret_wants {
	struct secret_want at[SECRET_LIST_MAX];
	size_t n;
};

/* A policy_reader.  If a name is given twice, the first counts. */
int secret_wants_read(void *wants, const struct node *node, struct err *err);
void secret_wants_free(struct secret_wants *w);         /* for OWN() too */
/* NULL: NAME is not among them. */
struct secret_want *secret_wants_find(struct secret_wants *w, const char *name);
#endif
