/* policy_ask.c - finds the rules that ask for approval and their approvers, and encodes them. */
#include <string.h>

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

/* ---- approval settings of a rule ---- */

void
policy_ask_default(struct policy_rule *rule)
{
	if (rule->verb != POLICY_VERB_ASK)
		return;
	if (rule->ask.approvals == 0)
		rule->ask.approvals = 1;
	if (rule->ask.timeout_ms == 0)
		rule->ask.timeout_ms = POLICY_TIMEOUT_MS;
}

bool
policy_ask_is_default(const struct policy_rule *rule)
{
	const struct policy_ask *ask = &rule->ask;

	return rule->verb != POLICY_VERB_ASK || (ask->approvers.n == 0 && ask->approvals == 1 &&
	       ask->timeout_ms == POLICY_TIMEOUT_MS && !ask->freeze);
}

void
policy_put_ask(struct buf *b, const struct policy_rule *rule)
{
	if (rule->verb != POLICY_VERB_ASK)
		return;
	policy_put_list(b, &rule->ask.approvers);
	buf_put_u32(b, rule->ask.approvals);
	buf_put_u32(b, (uint32_t)rule->ask.timeout_ms);
	buf_put_u32(b, rule->ask.freeze);
}

void
policy_get_ask(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_ask *ask = &rule->ask;

	if (rule->verb != POLICY_VERB_ASK)
		return;
	ask->approvers = policy_get_list(g, POLICY_APPROVERS_MAX);
	ask->approvals = policy_get_upto(g, POLICY_APPROVALS_MAX);
	ask->timeout_ms = policy_get_upto(g, POLICY_TIMEOUT_MOST_MS);
	ask->freeze = policy_get_upto(g, 1) != 0;
	g->bad |= ask->approvals == 0 || ask->timeout_ms < POLICY_TIMEOUT_LEAST_MS ||
	          (ask->approvers.n > 0 && ask->approvals > ask->approvers.n);
	for (size_t i = 0; !g->bad && i < ask->approvers.n; i++)
		g->bad |= ask->approvers.at[i][0] == '\0' ||
		          strlen(ask->approvers.at[i]) > POLICY_APPROVER_MAX;
}
