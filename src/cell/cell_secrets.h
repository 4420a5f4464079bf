/* cell_secrets.h - lists, revokes and replaces secrets of running cells, and sends requests to
 * every cell at once.
 *
 * All functions block; see cell_steer.h.  No value ever passes through here: cloister-vault writes
 * a new one to a memory file. */
#ifndef CLOISTER_CELL_SECRETS_H
#define CLOISTER_CELL_SECRETS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cell/cell_dirs.h"
#include "cell/cell_steer.h"

struct cell_secret {
	char *name, *scheme;
	char **hosts;                   /* where it may be sent, as policies write them */
	bool revoked;
	uint64_t used;                  /* requests that used it */
};
void cell_secrets_free(struct cell_secret *secrets, size_t n);

/* The secrets of the cell at SOCKET (cell_connect()).  Here and below, SOCKET is good for one
 * request. */
int cell_list_secrets(int socket, struct cell_secret **ret_secrets, size_t *ret_n, struct err *err);
/* In force when it returns.  QUIET: the agent gets the service's own response to an invalid key.
 * -ENOENT: the cell has no secret NAME. */
int cell_revoke(int socket, const struct cell_steer_who *who, const char *name, bool quiet,
                struct err *err);
/* VALUE is sealed and holds one secret (bound.h). */
int cell_rotate(int socket, const struct cell_steer_who *who, const char *name, int value,
                struct err *err);
/* The cell lives for MS from now on; 0: no limit. */
int cell_set_ttl(int socket, const struct cell_steer_who *who, uint64_t ms, struct err *err);

/* ---- every running cell of this user ----
 *
 * All are asked before the first answer is awaited.  The caller adds one record to the operator's
 * timeline. */

struct cell_every {
	size_t n;                       /* cells that did it */
	size_t without;                 /* cells without such a secret */
	size_t failed;                  /* cells that failed */
	struct err first;               /* the error of the first that failed */
};
int cell_revoke_every(int runtime, const struct cell_steer_who *who, const char *name, bool quiet,
                      struct cell_every *ret_every, struct err *err);
int cell_rotate_every(int runtime, const struct cell_steer_who *who, const char *name, int value,
                      struct cell_every *ret_every, struct err *err);
/* VERB_FREEZE or VERB_THAW; to kill every cell, see boundary/halt.h. */
int cell_do_every(int runtime, enum steer_verb verb, const struct cell_steer_who *who,
                  struct cell_every *ret_every, struct err *err);
#endif
