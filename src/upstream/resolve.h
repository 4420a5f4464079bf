/* resolve.h - resolves names with c-ares, from /etc/hosts and name servers; never blocks,
 * and caches results. */
#ifndef CLOISTER_UPSTREAM_RESOLVE_H
#define CLOISTER_UPSTREAM_RESOLVE_H
#include <stdbool.h>
#include <stddef.h>

#include "loop/loop.h"
#include "upstream/address.h"

struct buf;
struct err;
struct resolver;                        /* opaque */

#define RESOLVE_NAMES_MAX 128           /* cached or being resolved at once */
#define RESOLVE_ADDRESSES_MAX 16        /* of one name; the others are left out */
#define RESOLVE_MS 10000                /* a lookup ends within this time */

/* A pending request; embedded in its owner. */
struct resolve_wait {
	/* N is 0 if there are no addresses; then PROBLEM is the reason.  Both are borrowed. */
	void (*done)(void *arg, const struct address *addresses, size_t n, const char *problem);
	void *arg;
	struct resolve_wait *next, **at;        /* private; AT is NULL while not waiting */
};

/* Reads the machine's configuration.  Leaves no descriptor open. */
int resolver_new(struct resolver **ret_resolver, struct err *err);
void resolver_start(struct resolver *r, struct loop *loop);
void resolver_free(struct resolver *r);         /* NULL is fine; nothing may be waiting */

/* DONE is called once, possibly before this returns. */
void resolver_ask(struct resolver *r, const char *name, struct resolve_wait *wait);
void resolver_cancel(struct resolve_wait *wait);
/* Append "HOST:PORT:ADDRESS,...", with its NUL, to LINE, as CURLOPT_RESOLVE takes it; runs LOOP until then.  *RET_ANY: one
 * of the addresses is such. */
int resolver_line(struct resolver *r, struct loop *loop, const char *host, unsigned port, struct buf *line,
                  bool (*is_such)(const struct address *a), bool *ret_any, struct err *err);
/* Whether name servers did not answer, and the machine has changed them since resolver_new(). */
bool resolver_is_stale(const struct resolver *r);
#endif
