/* courier_fire.h - what matches lead to besides their verdict: a narrower policy, revoked secrets,
 * a cell that stands still; and tripwires, which look out for what all requests together do.
 *
 * The supervisor is told before the request leaves that led to it, and keeps what a courier has to
 * know that is started again. */
#ifndef CLOISTER_COURIER_FIRE_H
#define CLOISTER_COURIER_FIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/policy_consequence.h"

struct courier;
struct courier_policy;
struct err;
struct exchange;
struct policy;

#define FIRED_MAX 64                    /* different ones, ever */

struct fires {
	struct {
		uint64_t key;           /* policy_consequence_key() */
		struct buf narrow;      /* the layer that it added; empty: none */
	} at[FIRED_MAX];
	size_t n;
	/* When requests were refused, the last POLICY_REFUSALS_MAX of N since it was looked at. */
	uint64_t refused_ms[POLICY_REFUSALS_MAX];
	uint64_t n_refused;
};

/* EX is about to leave, or is refused by a rule: what the rules that it met lead to.  False: that
 * could not be, and it was refused for it. */
bool exchange_fire(struct exchange *ex);
/* The layers that were added so far, for a POLICY that comes instead. */
int courier_narrow_again(struct courier *c, struct policy *policy, struct err *err);
void courier_fires_free(struct courier *c);

/* ---- courier_tripwire.c ---- */

/* EX sends SIZE bytes, as far as that is known.  False: that is too much, and it was refused. */
bool exchange_may_send(struct exchange *ex, uint64_t size);
/* Something was refused, for the reason WHY (may be NULL), so many times. */
void courier_note_refusal(struct courier *c, const char *why, uint64_t times);

/* ---- courier_policy.c ---- */

/* From now on the policy lies within LAYER, as policy_put() has it, too. */
int courier_narrow(struct courier *c, const void *layer, size_t len, struct err *err);
/* What is under way, and of which more may come from the cell, goes by the policy that there is
 * now; but for SPARED. */
void courier_decide_what_sends(struct courier *c, const struct exchange *spared);
#endif
