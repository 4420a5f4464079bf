/* policy_put_budget.c - encodes the budgets of a policy. */
#include <string.h>

#include "policy/policy_parts.h"

bool
policy_has_budgets(const struct policy *p)
{
	if (p->n_budgets > 0 || p->n_rule_budgets > 0 || p->n_prices > 0 || p->rate.n != 0 ||
	    p->bandwidth != 0)
		return true;
	for (size_t i = 0; i < p->n_rules; i++)
		if (p->rules[i].price != 0 || p->rules[i].usage != POLICY_USAGE_NONE)
			return true;
	return false;
}

/* ---- writing ---- */

static void
put_budget(struct buf *b, const struct policy_budget *budget)
{
	buf_put_u32(b, budget->per);
	buf_put_str(b, budget->of);
	for (size_t i = 0; i < POLICY_KINDS; i++)
		buf_put_u64(b, budget->limits[i]);
	buf_put_u32(b, budget->then);
	buf_put_u32(b, (uint32_t)budget->n_warns);
	for (size_t i = 0; i < budget->n_warns; i++)
		buf_put_u32(b, budget->warns[i]);
	buf_put_str(b, budget->place);
	buf_put_str(b, budget->name);
	buf_put_u64(b, budget->key);
}

/* Only the rules that have a budget, by number. */
static void
put_rules(struct buf *b, const struct policy *p)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->n_rules; i++)
		n += p->rules[i].budget != NULL || p->rules[i].price != 0 || p->rules[i].usage != 0;
	buf_put_u32(b, n);
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (rule->budget == NULL && rule->price == 0 && rule->usage == 0)
			continue;
		buf_put_u32(b, (uint32_t)i);
		buf_put_u64(b, rule->price);
		buf_put_u32(b, rule->usage);
		buf_put_u32(b, rule->budget != NULL);
		if (rule->budget != NULL)
			put_budget(b, rule->budget);
	}
}

void
policy_put_budgets(struct buf *b, const struct policy *p)
{
	buf_put_u32(b, (uint32_t)p->n_budgets);
	for (size_t i = 0; i < p->n_budgets; i++)
		put_budget(b, &p->budgets[i]);
	put_rules(b, p);
	buf_put_u32(b, (uint32_t)p->n_prices);
	for (size_t i = 0; i < p->n_prices; i++) {
		buf_put_str(b, p->prices[i].model);
		buf_put_u64(b, p->prices[i].price.input);
		buf_put_u64(b, p->prices[i].price.output);
		buf_put_u64(b, p->prices[i].price.cache_read);
		buf_put_u64(b, p->prices[i].price.cache_write);
	}
	buf_put_u64(b, p->rate.n);
	buf_put_u64(b, p->rate.ms);
	buf_put_u64(b, p->bandwidth);
}

/* ---- reading ---- */

static void
get_budget(struct policy_getting *g, struct policy_budget *budget)
{
	budget->per = policy_get_upto(g, POLICY_PERS - 1);
	budget->of = policy_get_text(g, POLICY_TEXT_MAX);
	for (size_t i = 0; i < POLICY_KINDS; i++)
		budget->limits[i] = policy_get_u64(g);
	budget->then = policy_get_upto(g, POLICY_THENS - 1);
	budget->n_warns = policy_get_upto(g, POLICY_WARNS_MAX);
	for (size_t i = 0; i < budget->n_warns; i++) {
		budget->warns[i] = (uint8_t)policy_get_upto(g, 99);
		g->bad |= budget->warns[i] == 0 || (i > 0 && budget->warns[i] <= budget->warns[i - 1]);
	}
	budget->place = policy_get_text(g, POLICY_PLACE_MAX);
	budget->name = policy_get_text(g, POLICY_BUDGET_NAME_MAX);
	budget->key = policy_get_u64(g);
	g->bad |= budget->key == 0 || *budget->name == '\0' ||
	          (budget->per == POLICY_PER_SECRET) != (*budget->of != '\0');
}

static void
get_rules(struct policy_getting *g)
{
	uint32_t n = policy_get_upto(g, (uint32_t)g->p->n_rules), next = 0;

	for (uint32_t i = 0; !g->bad && i < n; i++) {
		uint32_t at = policy_get_upto(g, POLICY_RULES_MAX - 1);
		struct policy_budget *budget = NULL;
		struct policy_rule *rule;

		if (g->bad || at < next || at >= g->p->n_rules) {
			g->bad = true;
			return;
		}
		next = at + 1;
		rule = &g->p->rules[at];
		rule->price = policy_get_u64(g);
		rule->usage = policy_get_upto(g, POLICY_USAGES - 1);
		if (policy_get_upto(g, 1) == 1) {
			budget = policy_alloc(g->p, 1, sizeof(*budget));
			g->bad |= budget == NULL;
		}
		if (!g->bad && budget != NULL) {
			get_budget(g, budget);
			g->bad |= budget->per != POLICY_PER_RULE;
			g->p->n_rule_budgets++;
		}
		rule->budget = budget;
		g->bad |= rule->price > POLICY_MONEY_MAX ||
		          (budget == NULL && rule->price == 0 && rule->usage == 0);
	}
}

static void
get_prices(struct policy_getting *g)
{
	uint32_t n = policy_get_upto(g, POLICY_PRICES_MAX);

	if (n == 0)
		return;
	g->p->prices = policy_alloc(g->p, n, sizeof(*g->p->prices));
	g->bad |= g->p->prices == NULL;
	for (uint32_t i = 0; !g->bad && i < n; i++) {
		struct policy_model_price *at = &g->p->prices[i];

		at->model = policy_get_text(g, POLICY_MODEL_MAX);
		at->price.input = policy_get_u64(g);
		at->price.output = policy_get_u64(g);
		at->price.cache_read = policy_get_u64(g);
		at->price.cache_write = policy_get_u64(g);
		g->bad |= *at->model == '\0' || at->price.input > POLICY_MONEY_MAX ||
		          at->price.output > POLICY_MONEY_MAX || at->price.cache_read > POLICY_MONEY_MAX ||
		          at->price.cache_write > POLICY_MONEY_MAX;
	}
	g->p->n_prices = g->bad ? 0 : n;
}

void
policy_get_budgets(struct policy_getting *g)
{
	struct policy *p = g->p;
	uint32_t n = policy_get_upto(g, POLICY_BUDGETS_MAX);

	p->budgets = n > 0 ? policy_alloc(p, n, sizeof(*p->budgets)) : NULL;
	g->bad |= n > 0 && p->budgets == NULL;
	for (uint32_t i = 0; !g->bad && i < n; i++) {
		get_budget(g, &p->budgets[i]);
		g->bad |= p->budgets[i].per == POLICY_PER_RULE;
	}
	p->n_budgets = g->bad ? 0 : n;
	get_rules(g);
	get_prices(g);
	p->rate.n = policy_get_u64(g);
	p->rate.ms = policy_get_u64(g);
	p->bandwidth = policy_get_u64(g);
	g->bad |= p->n_budgets + p->n_rule_budgets > POLICY_BUDGETS_MAX ||
	          (p->rate.n == 0) != (p->rate.ms == 0) || p->rate.n > 1000000 || p->rate.ms > 3600000;
}
