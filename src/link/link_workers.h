/* link_workers.h - whom a service knows: tokens that are still good, and workers that have joined.
 *
 * Files in DATA/serve/workers/, which `cloister worker` and the service's cloister-link share:
 *   ca.pem, ca-key.pem   the authority
 *   address              where the service listens
 *   tokens/HASH          a token that nobody has used: until when it is good, and for which pool
 *   joined/ID            a worker: the fingerprint of its certificate, and what it said of itself
 *   presence             who is connected, or was when: written by cloister-link while the service runs
 *   changed              written after a removal */
#ifndef CLOISTER_LINK_WORKERS_H
#define CLOISTER_LINK_WORKERS_H
#include <stdbool.h>
#include <stdint.h>

#include "link/link_hello.h"

struct err;

#define LINK_WORKERS "serve/workers"
#define LINK_TOKENS "tokens"
#define LINK_JOINED "joined"
#define LINK_CHANGED "changed"
#define LINK_ADDRESS "address"
#define LINK_PRESENCE "presence"
#define LINK_JOINED_MAX 4096
#define LINK_TOKENS_MAX 1024
#define LINK_AWAY_S 600

struct link_worker {
	char id[LINK_ID_LEN + 1], print[LINK_HEX + 1];
	char name[LINK_NAME_MAX + 1], home[LINK_HOME_MAX + 1], pool[LINK_POOL_MAX + 1]; /* POOL "": any */
	uint64_t since;                 /* seconds since 1970 */
	/* When it was last connected, if it will not come back for good once it has left: an engine made its machine for it alone.
	 * 0: it stays known. */
	uint64_t seen;
};

/* Keeps a new token for POOL (""; any), which is good until UNTIL; only its hash is written.  PASSES: whoever joins with it
 * has a `seen`. */
int link_workers_add_token(int dir, const char *pool, uint64_t until, bool passes, char ret_secret[LINK_HEX + 1], struct err *err);
/* Whether link_workers_use_token() will take it from a worker of POOL: -ENOENT as there, -EPERM: it is for another pool. */
int link_workers_check_token(int dir, const char *secret, uint64_t now, const char *pool, struct err *err);
/* Takes the token away, so that it is of no use any more.  -ENOENT: it never was, was used, or is too old. */
int link_workers_use_token(int dir, const char *secret, uint64_t now, char ret_pool[LINK_POOL_MAX + 1], bool *ret_passes,
                           struct err *err);
void link_workers_drop_tokens(int dir, uint64_t now);   /* those that are too old */

/* Also for one that is known, with another `seen`. */
int link_workers_add(int dir, const struct link_worker *worker, struct err *err);
/* Removes those with a `seen` that is LINK_AWAY_S ago, unless they are connected. */
void link_workers_forget(int dir, uint64_t now, bool (*is_connected)(void *arg, const char *id), void *arg);
/* -ENOENT: it is none, or was removed. */
int link_workers_get(int dir, const char *id, struct link_worker *ret_worker, struct err *err);
/* The caller frees *ret_workers. */
int link_workers_list(int dir, struct link_worker **ret_workers, size_t *ret_n, struct err *err);
/* Whether a worker is connected. */
struct link_presence {
	char id[LINK_ID_LEN + 1];
	uint64_t since;                 /* it is, since then: seconds since 1970; 0: it is not */
	uint64_t last;                  /* when it was last */
};
int link_presence_write(int dir, const struct link_presence *all, size_t n, struct err *err);
/* At most LINK_JOINED_MAX; none is an empty list.  The caller frees *ret_all. */
int link_presence_read(int dir, struct link_presence **ret_all, size_t *ret_n, struct err *err);
/* Its connection ends, and it cannot come back. */
int link_workers_remove(int dir, const char *id, struct err *err);
#endif
