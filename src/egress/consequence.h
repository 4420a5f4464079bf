/* consequence.h - applies a rule's consequences (a narrower policy, revoked secrets, a paused
 * cell) and the tripwires, which watch all requests together.
 *
 * The courier informs the supervisor before the request that causes a consequence leaves.  The
 * supervisor keeps what a restarted courier has to know. */
#ifndef CLOISTER_EGRESS_CONSEQUENCE_H
#define CLOISTER_EGRESS_CONSEQUENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/policy_consequence.h"

struct courier;
struct err;
struct exchange;
struct policy;

#define FIRED_MAX 64                    /* different consequences, ever */

struct exchange_consequence {
	bool fired, tripped;            /* consequences and tripwires were applied */
};

struct fires {
	struct {
		uint64_t key;           /* policy_consequence_key() */
		struct buf narrow;      /* the layer that it added; empty: none */
	} at[FIRED_MAX];
	size_t n;
	/* When requests were refused: the last POLICY_REFUSALS_MAX of N_REFUSED since the last
	 * check. */
	uint64_t refused_ms[POLICY_REFUSALS_MAX];
	uint64_t n_refused;
};

/* Apply the consequences of the rules that EX matched.  EX is about to leave, or a rule refuses it.
 * False: a consequence failed, and EX was refused for it. */
bool exchange_apply_consequences(struct exchange *ex);
/* Add the layers of all consequences so far to POLICY, which replaces the current policy. */
int courier_narrow_again(struct courier *c, struct policy *policy, struct err *err);
void courier_fires_free(struct courier *c);

/* ---- tripwire.c ---- */

/* EX sends SIZE bytes, as far as known.  False: that trips a wire, and EX was refused. */
bool exchange_may_send(struct exchange *ex, uint64_t size);
/* Count TIMES refusals for the reason WHY (may be NULL). */
void courier_note_refusal(struct courier *c, const char *why, uint64_t times);

/* ---- policy_in_force.c ---- */

/* Narrow the current policy by LAYER too, as policy_put() writes it. */
int courier_narrow(struct courier *c, const void *layer, size_t len, struct err *err);
/* Decide again, by the current policy, on each exchange that the cell may still send bytes of.
 * SPARED is left alone. */
void courier_decide_what_sends(struct courier *c, const struct exchange *spared);
#endif
