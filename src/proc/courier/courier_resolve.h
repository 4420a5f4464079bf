/* courier_resolve.h - names to addresses, through c-ares: /etc/hosts and name servers,
 * never blocking; what was found is kept for a while. */
#ifndef CLOISTER_COURIER_RESOLVE_H
#define CLOISTER_COURIER_RESOLVE_H
#include <stdbool.h>
#include <stddef.h>

#include "loop/loop.h"
#include "proc/courier/courier_address.h"

struct err;
struct resolver;                        /* opaque */

#define RESOLVE_NAMES_MAX 128           /* kept, or asked for, at once */
#define RESOLVE_ADDRESSES_MAX 16        /* of a name; the others are left out */
#define RESOLVE_MS 10000                /* within which there is an answer */

/* Somebody who waits; lives in its owner. */
struct resolve_wait {
	/* N is 0 if there are none, and then PROBLEM says why.  Both are borrowed. */
	void (*done)(void *arg, const struct address *addresses, size_t n, const char *problem);
	void *arg;
	struct resolve_wait *next, **at;        /* private; AT is NULL while not waiting */
};

/* Reads the machine's configuration; no descriptor is open afterwards. */
int resolver_new(struct resolver **ret_resolver, struct err *err);
void resolver_start(struct resolver *r, struct loop *loop);
void resolver_free(struct resolver *r);         /* NULL is fine; nobody may wait */

/* DONE is called once, maybe at once. */
void resolver_ask(struct resolver *r, const char *name, struct resolve_wait *wait);
void resolver_cancel(struct resolve_wait *wait);
/* Name servers did not answer, and the machine has changed them since resolver_new(). */
bool resolver_is_stale(const struct resolver *r);
#endif
