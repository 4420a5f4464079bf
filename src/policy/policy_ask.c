/* policy_ask.c - which rules of a decision ask, and whom. */
#include "policy/policy_parts.h"

bool
policy_asks(const struct policy *p)
{
	for (; p != NULL; p = p->within)
		for (size_t i = 0; i < p->n_rules; i++)
			if (p->rules[i].verb == POLICY_VERB_ASK && p->rules[i].off == POLICY_ON)
				return true;
	return false;
}

bool
policy_question(const struct policy *p, int rule, struct policy_question *ret_question)
{
	const struct policy_rule *at = rule < 0 ? NULL : policy_rule_at(p, (size_t)rule);

	if (at == NULL || at->verb != POLICY_VERB_ASK)
		return false;
	*ret_question = (struct policy_question){
		.approvers = at->ask.approvers.at, .n_approvers = at->ask.approvers.n,
		.approvals = at->ask.approvals, .timeout_ms = at->ask.timeout_ms,
		.freeze = at->ask.freeze, .reason = at->reason,
	};
	return true;
}

int
policy_way_rule(const struct policy *p, const struct policy_way *way, unsigned layer)
{
	int base = 0;

	for (unsigned i = 0; i < layer && p != NULL; i++, p = p->within)
		base += (int)p->n_rules;
	return p == NULL || layer >= POLICY_LAYERS_MAX || way->rule[layer] < 0 ? -1 :
	       base + way->rule[layer];
}
