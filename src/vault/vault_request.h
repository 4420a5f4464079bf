/* vault_request.h - requests of `cloister secret` and `cloister run` to cloister-vault: one
 * message, in the memory file that is its descriptor 3.
 *
 * A separate process opens the vault and reads values.  Only this process links the code that
 * unseals them, and it links no YAML reader. */
#ifndef CLOISTER_VAULT_REQUEST_H
#define CLOISTER_VAULT_REQUEST_H
#include <stdbool.h>

#include "vault/lend.h"
#include "vault/secret.h"

#define VAULT_REQUEST_FD 3
#define VAULT_BOUND_FD 4                /* BIND: a memory file for the courier; see bound.h */
#define VAULT_VARIABLES_FD 5            /* BIND: a memory file for the cell's environment, of NUL-terminated
                                         * lines: "NAME=placeholder"; for incoming requests, "=NAME FIRST
                                         * LAST", ports of the cell; for each secret, in order, "*NAME
                                         * SCHEME HOST..."; for each file that a value comes from, "<PATH" */
#define VAULT_FILES_FD 6                /* BIND: a memory file for files in its home: str relative path, str
                                         * text, ... */
#define VAULT_FILES_MAX (128 * 1024)
#define VAULT_KEEPER_FD 7               /* BIND: a socket, for the process that stays to renew values; see
                                         * keeper_channel.h */
#define VAULT_HOSTS_FD 8                /* BIND: a memory file for the cell's known_hosts */
#define VAULT_BIND_MAX 64
#define VAULT_REQUEST_MAX (4 * SECRET_ENCODED_MAX)

enum vault_verb { VAULT_INIT, VAULT_ADD, VAULT_LIST, VAULT_SHOW, VAULT_ROTATE, VAULT_REMOVE,
                  VAULT_BIND,
                  /* as BIND, for one secret, without renewal: for a cell that already runs */
                  VAULT_VALUE,
                  /* those of the secrets in BIND that the vault has, with their values, sealed to the key TO for
                   * CLAIM, into VAULT_BOUND_FD.  Only the names of BIND are used. */
                  VAULT_LEND, VAULT_VERBS };

/* The same secret, in an outer policy of the cell's own. */
struct vault_layer {
	struct secret *secret;          /* as in struct vault_binding */
	bool unless_known;
};

/* A secret for a cell. */
struct vault_binding {
	const char *name;
	const char *variable;           /* for its placeholder; "": as in its definition */
	const char *files;              /* formats to write in addition to those in its definition,
	                                 * separated by commas, or "" */
	struct secret *secret;          /* its definition, in place of the vault's, or NULL; owned */
	bool unless_known;              /* use SECRET only if the vault has no definition */
	struct vault_layer within[POLICY_GIVEN_MAX - 1];
	size_t n_within;
};

struct vault_request {
	enum vault_verb verb;
	bool json;
	const char *name;               /* "" if none is needed */
	const char *key;                /* INIT: see vault_init() */
	struct secret *secret;          /* ADD; owned */
	struct vault_binding bind[VAULT_BIND_MAX];
	size_t n_bind;
	bool lent;                      /* BIND, VALUE: a service lends them for CLAIM, and this machine's vault is not opened */
	struct lend_claim claim;        /* LEND, or LENT */
	unsigned char to[LEND_KEY];     /* LEND */
};
void vault_request_free(struct vault_request *r);       /* for OWN() too */

void vault_request_put(struct buf *b, const struct vault_request *r);
/* Points into B's data; the caller frees it. */
int vault_request_get(struct buf *b, struct vault_request *ret_request, struct err *err);
#endif
