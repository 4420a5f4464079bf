/* cell_secrets.h - the secrets of cells that run: looked at, taken back, replaced; and what is asked
 * of every cell at once.  All of it blocks; see cell_steer.h.
 *
 * No value is ever here: a new one is in a memory file that cloister-vault wrote. */
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
	char **hosts;                   /* where it may be sent, as policies have them */
	bool revoked;
	uint64_t used;                  /* requests that it went with */
};
void cell_secrets_free(struct cell_secret *secrets, size_t n);

/* Of the cell at SOCKET (cell_connect()), which is good for one request, as below. */
int cell_list_secrets(int socket, struct cell_secret **ret_secrets, size_t *ret_n, struct err *err);
/* In force when it returns.  QUIET: the agent gets what the service answers to a key that is no
 * longer good.  -ENOENT: the cell has no secret of that name. */
int cell_revoke(int socket, const struct cell_steer_who *who, const char *name, bool quiet,
                struct err *err);
/* VALUE is sealed and has one secret (bound.h). */
int cell_rotate(int socket, const struct cell_steer_who *who, const char *name, int value,
                struct err *err);
/* The cell lives for MS from now on; 0: as long as it likes. */
int cell_set_ttl(int socket, const struct cell_steer_who *who, uint64_t ms, struct err *err);

/* ---- every cell of this user that runs; they are asked before the first is waited for.  The
 * operator's timeline has one record of it, which is the caller's to add. ---- */

struct cell_every {
	size_t n;                       /* did it */
	size_t without;                 /* have no such secret */
	size_t failed;                  /* could not */
	struct err first;               /* why, of the first of those */
};
int cell_revoke_every(int runtime, const struct cell_steer_who *who, const char *name, bool quiet,
                      struct cell_every *ret_every, struct err *err);
int cell_rotate_every(int runtime, const struct cell_steer_who *who, const char *name, int value,
                      struct cell_every *ret_every, struct err *err);
/* CONTROL_FREEZE or CONTROL_THAW; to kill them there is boundary/halt.h. */
int cell_do_every(int runtime, uint32_t type, const struct cell_steer_who *who,
                  struct cell_every *ret_every, struct err *err);
#endif
