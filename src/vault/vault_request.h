/* vault_request.h - what `cloister secret` asks of cloister-vault: one message, in the memory
 * file that is its descriptor 3.
 *
 * The vault is opened, and values are read, by a process of its own: it alone links what
 * unseals them, and nothing that reads YAML. */
#ifndef CLOISTER_VAULT_REQUEST_H
#define CLOISTER_VAULT_REQUEST_H
#include <stdbool.h>

#include "vault/secret.h"

#define VAULT_REQUEST_FD 3
#define VAULT_REQUEST_MAX (SECRET_ENCODED_MAX + 8192)

enum vault_verb { VAULT_INIT, VAULT_ADD, VAULT_LIST, VAULT_SHOW, VAULT_ROTATE, VAULT_REMOVE,
                  VAULT_VERBS };

struct vault_request {
	enum vault_verb verb;
	bool json;
	const char *name;               /* "" where none is wanted */
	const char *key;                /* INIT: see vault_init() */
	struct secret *secret;          /* ADD; owned */
};

void vault_request_put(struct buf *b, const struct vault_request *r);
/* Points into B's data; the caller frees what is in `secret`. */
int vault_request_get(struct buf *b, struct vault_request *ret_request, struct err *err);
#endif
