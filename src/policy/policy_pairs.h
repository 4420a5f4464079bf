/* policy_pairs.h - what the layers around a policy make of each of its rules, for people.
 *
 * Pairs of a rule and one of an outer layer, in the order of both, with the stricter verdict of
 * the two: read as a list of which the first that matches counts, they are what is left of the
 * policy within that layer.  Nothing is decided by them: policy_decide() asks each layer. */
#ifndef CLOISTER_POLICY_PAIRS_H
#define CLOISTER_POLICY_PAIRS_H
#include "policy/policy.h"

struct policy_pair {
	int rule;                       /* of the first layer */
	/* Of LAYER; -1: what no rule of it matches, or with layer 0 what RULE itself denies. */
	int outer;
	unsigned layer;
	enum policy_verdict verdict;
};

/* Calls VISIT for the pairs whose hosts, ports, methods and paths can meet; behind the rule that
 * has all of RULE there are none.  Rules that only log, and those for others than the cell, are
 * left out. */
void policy_each_pair(const struct policy *p,
                      void (*visit)(void *arg, const struct policy_pair *pair), void *arg);
#endif
