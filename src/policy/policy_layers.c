/* policy_layers.c - nests policies, and selects rules by principal and chain. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"

static size_t
count_layers(const struct policy *p)
{
	size_t n = 0;

	for (; p != NULL; p = p->within)
		n++;
	return n;
}

int
policy_within(struct policy *p, struct policy **outer, struct err *err)
{
	if (count_layers(p) + count_layers(*outer) > POLICY_LAYERS_MAX)
		return err_set(err, E2BIG, "policies lie within each other at most %d deep",
		               POLICY_LAYERS_MAX);
	while (p->within != NULL)
		p = p->within;
	p->within = TAKE(*outer);
	return 0;
}

const struct policy *
policy_outer(const struct policy *p)
{
	return p->within;
}

struct policy *
policy_take_outer(struct policy *p)
{
	return TAKE(p->within);
}

size_t
policy_n_own(const struct policy *p)
{
	return p->n_rules;
}

/* ---- principals and chains ---- */

static bool
one_fits(const struct policy_list *globs, const char *text, size_t len)
{
	for (size_t i = 0; i < globs->n; i++)
		if (policy_glob_text(globs->at[i], text, len))
			return true;
	return false;
}

static bool
agent_fits(const struct policy_list *globs, const char *chain)
{
	while (*chain != '\0') {
		size_t n = strcspn(chain, "/");

		if (one_fits(globs, chain, n))
			return true;
		chain += n + (chain[n] == '/');
	}
	return false;
}

enum policy_off
policy_off_for(const struct policy_rule *rule, const char *principal, const char *chain)
{
	if (rule->principals.n > 0 && !one_fits(&rule->principals, principal, strlen(principal)))
		return POLICY_OFF_PRINCIPAL;
	return rule->chains.n > 0 && !agent_fits(&rule->chains, chain) ? POLICY_OFF_CHAIN : POLICY_ON;
}

int
policy_bind(struct policy *p, const char *principal, const char *chain, struct err *err)
{
	bool changed = false;

	if (strlen(principal) > POLICY_PRINCIPAL_MAX || strlen(chain) > POLICY_CHAIN_MAX)
		return err_set(err, E2BIG, "a principal is at most %d bytes long, a chain of agents %d",
		               POLICY_PRINCIPAL_MAX, POLICY_CHAIN_MAX);
	for (size_t i = 0; i < p->n_rules; i++) {
		enum policy_off off = policy_off_for(&p->rules[i], principal, chain);

		changed |= off != p->rules[i].off;
		p->rules[i].off = off;
	}
	return changed ? policy_seal(p, err) : 0;
}

void
policy_chain_before(const char *chain, size_t n, char ret_chain[POLICY_CHAIN_MAX + 1])
{
	size_t len = strnlen(chain, POLICY_CHAIN_MAX);

	for (; n > 0 && len > 0; n--)
		while (len > 0 && chain[--len] != '/')
			;
	memmove(ret_chain, chain, len);
	ret_chain[len] = '\0';
}
