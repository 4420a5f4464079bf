/* policy_consequence.h - what a match leads to besides its verdict (`then`), and what is looked out
 * for in all that a cell does (`tripwires`).
 *
 * Pure, and immutable as the policy is.  Either can only take something away: a narrowing is one
 * layer more, and of tripwires those of all layers count. */
#ifndef CLOISTER_POLICY_CONSEQUENCE_H
#define CLOISTER_POLICY_CONSEQUENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct policy;

#define POLICY_CONSEQUENCES_MAX 64      /* rules of one layer that have one */
#define POLICY_NARROWS_MAX 4            /* of them, those that narrow */
#define POLICY_NARROW_MAX (48 * 1024)   /* bytes of what one narrows to, encoded */
#define POLICY_REVOKES_MAX 16           /* secrets that one revokes */

struct policy_consequence;              /* what is in it: policy_rule.h */

/* That of rule RULE, which is counted through all layers; NULL: it has none. */
const struct policy_consequence *policy_consequence(const struct policy *p, int rule);
/* What tells it from others, also in another version of the policy; never 0. */
uint64_t policy_consequence_key(const struct policy_consequence *c);
/* The layer that the policy lies within from then on, as policy_put() has it; *ret_len is 0 if
 * there is none. */
const void *policy_consequence_narrow(const struct policy_consequence *c, size_t *ret_len);
/* The secret I that it revokes, or NULL. */
const char *policy_consequence_revokes(const struct policy_consequence *c, size_t i);
bool policy_consequence_freezes(const struct policy_consequence *c);
bool policy_consequence_notifies(const struct policy_consequence *c);

/* Whether any rule of any layer has one; whether any layer has tripwires. */
bool policy_leads_on(const struct policy *p);
bool policy_has_tripwires(const struct policy *p);

/* What a tripwire does, from the least to the most: somebody is told, whatever it is. */
enum policy_trip { POLICY_TRIP_UNSAID, POLICY_TRIP_NOTIFY, POLICY_TRIP_REFUSE, POLICY_TRIP_FREEZE,
                   POLICY_TRIP_KILL, POLICY_TRIPS };
const char *policy_trip_name(enum policy_trip trip);

/* A transfer that is so many times the usual, and at least so large, is told of where no policy says
 * anything about transfers. */
#define POLICY_TRANSFER_TIMES 10
#define POLICY_TRANSFER_LEAST (5 * 1024 * 1024)

struct policy_tripwires {
	enum policy_trip credential;    /* a body that looks like one; it is refused anyhow */
	/* A request that sends more than TIMES the mean of those before it, and at least LEAST. */
	struct { enum policy_trip then; uint64_t times, least; } transfer;     /* UNSAID: see below */
	/* So many refusals in that time. */
	struct { enum policy_trip then; uint64_t count, within_ms; } refusals;
};
#define POLICY_REFUSALS_MAX 1000        /* that COUNT may be */
/* Those of P's first layer alone; NULL: it says nothing of any. */
const struct policy_tripwires *policy_tripwires(const struct policy *p);
#endif
