/* policy_pairs.h - shows people the effect of outer layers on each rule of a policy.
 *
 * A pair is a rule and a rule of an outer layer, ordered by both, with the stricter verdict of the
 * two.  Read as a first-match list, the pairs are the policy that remains within that layer.  They
 * decide nothing: policy_decide() evaluates each layer. */
#ifndef CLOISTER_POLICY_PAIRS_H
#define CLOISTER_POLICY_PAIRS_H
#include "policy/policy.h"

struct policy_pair {
	int rule;                       /* in the first layer */
	/* In LAYER; -1: no rule of LAYER matches, or, with layer 0, RULE itself denies. */
	int outer;
	unsigned layer;
	enum policy_verdict verdict;
};

/* Call VISIT for each pair whose hosts, ports, methods and paths can overlap.  Pairs behind an
 * outer rule that covers RULE are skipped, as are `log` rules and rules for other cells. */
void policy_each_pair(const struct policy *p,
                      void (*visit)(void *arg, const struct policy_pair *pair), void *arg);
#endif
