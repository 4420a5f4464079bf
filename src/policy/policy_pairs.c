/* policy_pairs.c - finds the rules of two policies that can match the same request. */
#include "policy/policy_pairs.h"

#include <string.h>

#include "policy/policy_load.h"

/* ---- whether two rules can overlap: if that is not certain, they can ---- */

static bool
ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n >= m && strcmp(name + n - m, suffix) == 0 && (n == m || name[n - m - 1] == '.');
}

static bool
hosts_meet(const struct policy_host *a, const struct policy_host *b)
{
	if (a->kind == POLICY_HOST_NET || b->kind == POLICY_HOST_NET)
		return a->kind == b->kind && (a->bits <= b->bits ? policy_net_has(a, b->address)
		                                                 : policy_net_has(b, a->address));
	if (b->kind == POLICY_HOST_NAME)
		return policy_host_fits(a, b->name);
	if (a->kind == POLICY_HOST_NAME)
		return policy_host_fits(b, a->name);
	if (a->kind == POLICY_HOST_ANY || b->kind == POLICY_HOST_ANY)
		return true;
	if (a->kind == POLICY_HOST_LABEL && b->kind == POLICY_HOST_LABEL)
		return strcmp(a->name, b->name) == 0;
	/* A name under both patterns ends with the longer one. */
	return (a->kind == POLICY_HOST_UNDER && ends_with(b->name, a->name)) ||
	       (b->kind == POLICY_HOST_UNDER && ends_with(a->name, b->name));
}

static bool
ports_meet(const struct policy_rule *a, const struct policy_host *on_a,
           const struct policy_rule *b, const struct policy_host *on_b)
{
	if (on_a->port != 0)
		return policy_port_fits(b, on_b, on_a->port);
	if (on_b->port != 0)
		return policy_port_fits(a, on_a, on_b->port);
	for (size_t i = 0; i < a->n_ports; i++)
		for (size_t k = 0; k < b->n_ports; k++)
			if (a->ports[i].first <= b->ports[k].last && b->ports[k].first <= a->ports[i].last)
				return true;
	return a->n_ports == 0 || b->n_ports == 0;
}

static bool
places_meet(const struct policy_rule *a, const struct policy_rule *b)
{
	for (size_t i = 0; i < a->n_hosts; i++)
		for (size_t k = 0; k < b->n_hosts; k++)
			if (hosts_meet(&a->hosts[i], &b->hosts[k]) &&
			    ports_meet(a, &a->hosts[i], b, &b->hosts[k]))
				return true;
	return false;
}

static bool
methods_meet(const struct policy_list *a, const struct policy_list *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (strcmp(a->at[i], b->at[k]) == 0)
				return true;
	return a->n == 0 || b->n == 0;
}

static bool
globs_meet(const char *a, const char *b)
{
	size_t n = strcspn(a, "*"), m = strcspn(b, "*");

	if (a[n] == '\0')
		return policy_glob_path(b, a, n);
	if (b[m] == '\0')
		return policy_glob_path(a, b, m);
	return strncmp(a, b, n < m ? n : m) == 0;
}

static bool
paths_meet(const struct policy_list *a, const struct policy_list *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (globs_meet(a->at[i], b->at[k]))
				return true;
	return a->n == 0 || b->n == 0;
}

static bool
rules_meet(const struct policy_rule *a, const struct policy_rule *b)
{
	unsigned spoken = a->protocols & b->protocols;

	if (spoken == 0 || !places_meet(a, b))
		return false;
	if (spoken != 1u << POLICY_HTTP)
		return true;
	return (a->schemes & b->schemes) != 0 && methods_meet(&a->methods, &b->methods) &&
	       paths_meet(&a->paths, &b->paths);
}

/* ---- pairs ---- */

static bool
decides(const struct policy_rule *rule)
{
	return rule->verb != POLICY_VERB_LOG && rule->off == POLICY_ON;
}

static enum policy_verdict
verdict_of(const struct policy_rule *a, const struct policy_rule *b)
{
	if (a->verb == POLICY_VERB_DENY || b->verb == POLICY_VERB_DENY)
		return POLICY_DENY;
	return a->verb == POLICY_VERB_ASK || b->verb == POLICY_VERB_ASK ? POLICY_ASK : POLICY_ALLOW;
}

/* An `allow` rule limits the size even where an `ask` rule does not. */
static bool
has_all_of(const struct policy_rule *outer, const struct policy_rule *rule)
{
	return (outer->protocols & rule->protocols) == rule->protocols &&
	       (outer->verb != POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ALLOW) &&
	       policy_rule_covers(outer, rule);
}

void
policy_each_pair(const struct policy *p,
                 void (*visit)(void *arg, const struct policy_pair *pair), void *arg)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];
		struct policy_pair pair = { .rule = (int)i, .outer = -1, .verdict = POLICY_DENY };
		int base = (int)p->n_rules;

		if (!decides(rule))
			continue;
		if (rule->verb == POLICY_VERB_DENY) {
			visit(arg, &pair);
			continue;
		}
		for (const struct policy *q = p->within; q != NULL; base += (int)q->n_rules, q = q->within) {
			bool all = false;

			pair.layer++;
			for (size_t k = 0; !all && k < q->n_rules; k++) {
				if (!decides(&q->rules[k]) || !rules_meet(rule, &q->rules[k]))
					continue;
				pair.outer = base + (int)k;
				pair.verdict = verdict_of(rule, &q->rules[k]);
				visit(arg, &pair);
				all = has_all_of(&q->rules[k], rule);
			}
			pair.outer = -1;
			pair.verdict = POLICY_DENY;
			if (!all)
				visit(arg, &pair);
		}
	}
}
