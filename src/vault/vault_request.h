/* vault_request.h - what `cloister secret` and `cloister run` ask of cloister-vault: one
 * message, in the memory file that is its descriptor 3.
 *
 * The vault is opened, and values are read, by a process of its own: it alone links what
 * unseals them, and nothing that reads YAML. */
#ifndef CLOISTER_VAULT_REQUEST_H
#define CLOISTER_VAULT_REQUEST_H
#include <stdbool.h>

#include "vault/secret.h"

#define VAULT_REQUEST_FD 3
#define VAULT_BOUND_FD 4                /* BIND: a memory file for the courier; see bound.h */
#define VAULT_VARIABLES_FD 5            /* BIND: one for the cell's environment, each of them
                                         * "NAME=placeholder" and a NUL; also of what comes in,
                                         * "=NAME FIRST LAST": ports of the cell; of each
                                         * secret, in their order, "*NAME SCHEME HOST..."; and of
                                         * each file that a value comes from, "<PATH" */
#define VAULT_FILES_FD 6                /* BIND: one for the files in its home: str path from
                                         * there on, str text, ... */
#define VAULT_FILES_MAX (128 * 1024)
#define VAULT_KEEPER_FD 7               /* BIND: a socket, for who stays to renew what ends; see
                                         * keeper_channel.h */
#define VAULT_HOSTS_FD 8                /* BIND: one for the cell's known_hosts, its text */
#define VAULT_BIND_MAX 64
#define VAULT_REQUEST_MAX (4 * SECRET_ENCODED_MAX)

enum vault_verb { VAULT_INIT, VAULT_ADD, VAULT_LIST, VAULT_SHOW, VAULT_ROTATE, VAULT_REMOVE,
                  VAULT_BIND,
                  /* as BIND, of one, and nobody stays to renew it: what a cell that runs gets */
                  VAULT_VALUE, VAULT_VERBS };

/* The same secret, in a policy that the cell's own lies within. */
struct vault_layer {
	struct secret *secret;          /* as in struct vault_binding */
	bool unless_known;
};

/* A secret that a cell gets. */
struct vault_binding {
	const char *name;
	const char *variable;           /* where its placeholder is to be; "": as it says itself */
	const char *files;              /* formats that it is to be in besides those that it says
	                                 * itself, with commas between them, or "" */
	struct secret *secret;          /* what it is, in place of what the vault says, or NULL;
	                                 * owned */
	bool unless_known;              /* SECRET is for a vault that says nothing of it */
	struct vault_layer within[POLICY_GIVEN_MAX - 1];
	size_t n_within;
};

struct vault_request {
	enum vault_verb verb;
	bool json;
	const char *name;               /* "" where none is wanted */
	const char *key;                /* INIT: see vault_init() */
	struct secret *secret;          /* ADD; owned */
	struct vault_binding bind[VAULT_BIND_MAX];
	size_t n_bind;
};
void vault_request_free(struct vault_request *r);       /* for OWN() too */

void vault_request_put(struct buf *b, const struct vault_request *r);
/* Points into B's data; the caller frees it. */
int vault_request_get(struct buf *b, struct vault_request *ret_request, struct err *err);
#endif
