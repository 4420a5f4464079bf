/* upstream_parts.h - what the files upstream*.c share; for nobody else. */
#ifndef CLOISTER_UPSTREAM_PARTS_H
#define CLOISTER_UPSTREAM_PARTS_H
#include <stddef.h>
#include <stdint.h>

#include "upstream/upstream.h"

/* The setting by which the operator lets the proxy resolve names. */
#define PROXY_RESOLVES "CLOISTER_PROXY_RESOLVES=1"

void upstream_set_step(struct upstream *up, enum upstream_step step, uint64_t seconds);
void upstream_fail_as(struct upstream *up, uint16_t status, const char *why, const char *error,
                      const char *note);

/* The connection to the server exists. */
void upstream_reached(struct upstream *up);

/* Ask the operator's proxy for a connection to the server, and read its response. */
void upstream_begin_proxy(struct upstream *up);
void upstream_read_proxy(struct upstream *up);

/* Find the place of a rule of RULES that denies ADDRESS, or an address that it leads to.  The
 * address itself is not checked if it was NAMED and judged already.  NULL: no rule does. */
const char *upstream_denied_by(const struct pool *pool, const void *rules, const struct address *address,
                               uint16_t port, bool named);

/* Move the usable ADDRESSES to the front, and return their number.  If one of them is of a
 * forbidden kind, none is usable.  If none is usable, TEXT explains why. */
size_t upstream_vet(const struct upstream *up, struct address *addresses, size_t n, char *text,
                    size_t size);
#endif
