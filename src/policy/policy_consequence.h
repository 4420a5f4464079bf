/* policy_consequence.h - consequences of a match (`then`) and `tripwires` on all that a cell does.
 *
 * Pure, and immutable as the policy is.  Both can only restrict the cell.  A narrowing adds one
 * layer, and the tripwires of all layers apply. */
#ifndef CLOISTER_POLICY_CONSEQUENCE_H
#define CLOISTER_POLICY_CONSEQUENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;

#define POLICY_CONSEQUENCES_MAX 64      /* rules with a consequence, in one layer */
#define POLICY_NARROWS_MAX 4            /* of these, rules that narrow */
#define POLICY_NARROW_MAX (48 * 1024)   /* bytes of one narrowing, encoded */
#define POLICY_REVOKES_MAX 16           /* secrets that one rule revokes */

struct policy_consequence;              /* defined in policy_rule.h */

/* The consequence of RULE, numbered through all layers; NULL: none. */
const struct policy_consequence *policy_consequence(const struct policy *p, int rule);
/* Identifies the consequence across versions of the policy; never 0. */
uint64_t policy_consequence_key(const struct policy_consequence *c);
/* The layer that it adds around the policy, as policy_put() encodes it.  *ret_len is 0 if there is
 * none. */
const void *policy_consequence_narrow(const struct policy_consequence *c, size_t *ret_len);
/* The name of the Ith secret that it revokes, or NULL. */
const char *policy_consequence_revokes(const struct policy_consequence *c, size_t i);
bool policy_consequence_freezes(const struct policy_consequence *c);
bool policy_consequence_notifies(const struct policy_consequence *c);

/* Whether any rule of any layer has a consequence; whether any layer has tripwires. */
bool policy_leads_on(const struct policy *p);
bool policy_has_tripwires(const struct policy *p);

/* The effect of a tripwire, mildest first.  All of them notify. */
enum policy_trip { POLICY_TRIP_UNSAID, POLICY_TRIP_NOTIFY, POLICY_TRIP_REFUSE, POLICY_TRIP_FREEZE,
                   POLICY_TRIP_KILL, POLICY_TRIP_ROLLBACK, POLICY_TRIPS };
const char *policy_trip_name(enum policy_trip trip);

/* If no policy configures transfers, one is reported when it is this many times the usual size and
 * at least this large. */
#define POLICY_TRANSFER_TIMES 10
#define POLICY_TRANSFER_LEAST (5 * 1024 * 1024)

struct policy_tripwires {
	enum policy_trip credential;    /* a body that looks like a credential; refused in any case */
	/* A request that sends more than TIMES the mean of earlier ones, and at least LEAST.
	 * UNSAID: see the defaults above. */
	struct { enum policy_trip then; uint64_t times, least; } transfer;
	/* COUNT refusals within WITHIN_MS. */
	struct { enum policy_trip then; uint64_t count, within_ms; } refusals;
};
#define POLICY_REFUSALS_MAX 1000        /* the highest COUNT */
/* The tripwires of P's first layer only; NULL: it has none. */
const struct policy_tripwires *policy_tripwires(const struct policy *p);
#endif
