/* policy_read_budget.c - reads the budgets of policies and rules, and prices. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_load.h"

#define WARN_DEFAULT 80                 /* percent */

/* A budget that is being read, and the scopes permitted for it. */
struct reading {
	struct policy *p;
	struct policy_budget budget;
	bool of_rule, said_per, said_warn;
	struct err *err;
};

/* ---- one budget ---- */

static int
read_amount(struct reading *r, enum policy_kind kind, const struct node *node)
{
	struct err why = {0};
	uint64_t amount = 0;

	if (node->kind != NODE_SCALAR || node_is_null(node))
		return node_err(r->err, node, "a budget of %s is a number, such as %s",
		                policy_kind_name(kind), kind == POLICY_MONEY ? "5 USD" :
		                kind == POLICY_TIME || kind == POLICY_CPU ? "1h" :
		                kind == POLICY_REQUESTS || kind == POLICY_DISTINCT_HOSTS ? "100" : "10M");
	if (policy_amount_parse(kind, node->text, &amount, &why) < 0)
		return node_err(r->err, node, "%s", why.text);
	if (amount == 0)
		return node_err(r->err, node, "a budget of nothing stops everything: leave the rule out, "
		                "or deny it");
	if (r->of_rule && (kind == POLICY_TIME || kind == POLICY_CPU))
		return node_err(r->err, node, "a rule takes no %s: only a cell and its principal do",
		                policy_kind_name(kind));
	r->budget.limits[kind] = amount;
	return 0;
}

static int
read_per(struct reading *r, const struct node *node)
{
	if (r->of_rule)
		return node_err(r->err, node, "the budget of a rule is per rule: leave this out");
	if (r->said_per)
		return node_err(r->err, node, "a budget has `per` or `secret`, not both");
	r->said_per = true;
	if (node->kind == NODE_SCALAR && strcmp(node->text, "cell") == 0)
		r->budget.per = POLICY_PER_CELL;
	else if (node->kind == NODE_SCALAR && strcmp(node->text, "principal") == 0)
		r->budget.per = POLICY_PER_PRINCIPAL;
	else
		return node_err(r->err, node, "a budget is `per: cell` or `per: principal`; of a secret it is "
		                "`secret: NAME`, and of a rule it stands in the rule");
	return 0;
}

static int
read_secret(struct reading *r, const struct node *node)
{
	if (r->of_rule)
		return node_err(r->err, node, "the budget of a rule is per rule: leave this out");
	if (r->said_per)
		return node_err(r->err, node, "a budget has `per` or `secret`, not both");
	if (node->kind != NODE_SCALAR || node_is_null(node) || node->text[0] == '\0' ||
	    strlen(node->text) > POLICY_TEXT_MAX)
		return node_err(r->err, node, "here stands the name of a secret");
	r->said_per = true;
	r->budget.per = POLICY_PER_SECRET;
	r->budget.of = policy_copy(r->p, node->text, strlen(node->text));
	return r->budget.of != NULL ? 0 : err_set(r->err, ENOMEM, "the policy is too large");
}

static int
read_then(struct reading *r, const struct node *node)
{
	for (unsigned i = 0; i < POLICY_THENS; i++)
		if (node->kind == NODE_SCALAR && strcmp(node->text, policy_then_name(i)) == 0) {
			r->budget.then = i;
			return 0;
		}
	return node_err(r->err, node, "reaching a budget does one of `refuse`, `ask`, `freeze` or `kill`");
}

static int
read_warn(struct reading *r, const struct node *node)
{
	struct policy_budget *b = &r->budget;
	bool is_list = node->kind == NODE_LIST;
	size_t n = is_list ? node->n : 1;

	r->said_warn = true;
	if (n > POLICY_WARNS_MAX)
		return node_err(r->err, node, "a budget takes at most %d warnings", POLICY_WARNS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct node *item = is_list ? node->items[i] : node;
		char digits[4];
		uint64_t percent;
		size_t len = item->kind == NODE_SCALAR ? strlen(item->text) : 0;

		if (len < 2 || len > 3 || item->text[len - 1] != '%')
			return node_err(r->err, item, "a warning is at a part of the budget, such as 80%%");
		snprintf(digits, sizeof(digits), "%.*s", (int)len - 1, item->text);
		if (num_parse_count(digits, 1, 99, &percent, NULL) < 0)
			return node_err(r->err, item, "a warning is at a part of the budget, such as 80%%");
		if (i > 0 && percent <= b->warns[i - 1])
			return node_err(r->err, item, "warnings are in rising order");
		b->warns[i] = (uint8_t)percent;
	}
	b->n_warns = n;
	return 0;
}

static int
read_member(struct reading *r, const struct node *key, const struct node *value)
{
	static const char *const names[] = { "per", "secret", "requests", "bytes_in", "bytes_out",
		"hosts", "time", "cpu", "money", "then", "warn", NULL };
	int kind = policy_kind_find(key->text);

	if (kind >= 0)
		return read_amount(r, (enum policy_kind)kind, value);
	if (strcmp(key->text, "per") == 0)
		return read_per(r, value);
	if (strcmp(key->text, "secret") == 0)
		return read_secret(r, value);
	if (strcmp(key->text, "then") == 0)
		return read_then(r, value);
	if (strcmp(key->text, "warn") == 0)
		return read_warn(r, value);
	return policy_read_unknown(key, names, "in a budget", r->err);
}

static int
read_budget(struct reading *r, const struct node *node)
{
	struct policy_budget *b = &r->budget;
	bool any = false;
	int ret = 0;

	if (node->kind != NODE_MAP)
		return node_err(r->err, node, "a budget is a map: {requests: 100, then: refuse}");
	b->of = "";
	for (size_t i = 0; ret == 0 && i < node->n; i++)
		ret = read_member(r, node->items[i], node->values[i]);
	if (ret < 0)
		return ret;
	for (size_t k = 0; k < POLICY_KINDS; k++)
		any |= b->limits[k] != 0;
	if (!any)
		return node_err(r->err, node, "a budget says how much of something: requests, bytes_in, "
		                "bytes_out, hosts, time, cpu or money");
	if (b->per == POLICY_PER_SECRET && (b->limits[POLICY_TIME] != 0 || b->limits[POLICY_CPU] != 0))
		return node_err(r->err, node, "a secret takes no time: only a cell and its principal do");
	if (!r->said_warn) {
		b->warns[0] = WARN_DEFAULT;
		b->n_warns = 1;
	}
	return 0;
}

/* ---- a rule's budget ---- */

int
policy_read_budget(struct policy_draft *d, const struct node *node)
{
	struct reading r = { .p = d->p, .of_rule = true, .err = d->err };
	struct policy_budget *copy;
	int ret = read_budget(&r, node);

	if (ret < 0)
		return ret;
	if (d->p->n_budgets + d->p->n_rule_budgets >= POLICY_BUDGETS_MAX)
		return node_err(d->err, node, "a policy has at most %d budgets", POLICY_BUDGETS_MAX);
	copy = policy_alloc(d->p, 1, sizeof(*copy));
	if (copy == NULL)
		return policy_read_oom(d);
	*copy = r.budget;
	copy->per = POLICY_PER_RULE;
	d->rule.budget = copy;
	d->p->n_rule_budgets++;
	return 0;
}

/* Hashes the text, which stays the same when the rule moves in a newer version of the file. */
int
policy_name_budget(struct policy_draft *d)
{
	struct policy_budget *b = (struct policy_budget *)(uintptr_t)d->rule.budget;
	char name[POLICY_BUDGET_NAME_MAX];

	if (b == NULL)
		return 0;
	snprintf(name, sizeof(name), "rule:%s", d->rule.place);
	b->name = policy_copy(d->p, name, strlen(name));
	b->place = d->rule.place;
	b->key = policy_budget_key(POLICY_PER_RULE, d->rule.text);
	return b->name != NULL ? 0 : -ENOMEM;
}

int
policy_read_price(struct policy_draft *d, const struct node *node)
{
	struct err why = {0};

	if (node->kind != NODE_SCALAR ||
	    policy_amount_parse(POLICY_MONEY, node->text, &d->rule.price, &why) < 0)
		return node_err(d->err, node, "a price is what one request costs in USD, such as 0.002");
	return 0;
}

int
policy_read_usage(struct policy_draft *d, const struct node *node)
{
	static const char *const names[] = { "anthropic", "openai", "gemini" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (node->kind == NODE_SCALAR && strcmp(node->text, names[i]) == 0) {
			d->rule.usage = POLICY_USAGE_ANTHROPIC + (unsigned)i;
			return 0;
		}
	return node_err(d->err, node, "answers tell what they cost as one of these does: anthropic, "
	                "openai or gemini");
}

/* ---- a policy's budgets ---- */

static int
add_budget(struct policy *p, const struct node *node, const char *shown, struct err *err)
{
	struct reading r = { .p = p, .err = err };
	char text[POLICY_PLACE_MAX];
	struct policy_budget *b = &r.budget;
	int ret = read_budget(&r, node), n;

	if (ret < 0)
		return ret;
	if (p->n_budgets + p->n_rule_budgets >= POLICY_BUDGETS_MAX)
		return node_err(err, node, "a policy has at most %d budgets", POLICY_BUDGETS_MAX);
	if (p->budgets == NULL)
		p->budgets = policy_alloc(p, POLICY_BUDGETS_MAX, sizeof(*p->budgets));
	n = snprintf(text, sizeof(text), "%s:%zu:%zu", shown, node->line, node->column);
	b->place = n > 0 && (size_t)n < sizeof(text) ? policy_copy(p, text, (size_t)n) : NULL;
	snprintf(text, POLICY_BUDGET_NAME_MAX, b->per == POLICY_PER_SECRET ? "%s:%s" : "%s",
	         policy_per_name(b->per), b->of);
	b->name = policy_copy(p, text, strlen(text));
	b->key = policy_budget_key(b->per, b->of);
	if (p->budgets == NULL || b->place == NULL || b->name == NULL)
		return err_set(err, ENOMEM, "%s: the policy is too large", node->file);
	p->budgets[p->n_budgets++] = *b;
	return 0;
}

int
policy_read_budgets(struct policy *p, const struct node *node, const char *shown, struct err *err)
{
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_LIST)
		return node_err(err, node, "`budgets` is a list: `- {per: cell, requests: 1000}`");
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = add_budget(p, node->items[i], shown, err);
	return r;
}

static int
read_tokens_price(const struct node *node, const char *what, uint64_t *ret_price, struct err *err)
{
	if (node->kind != NODE_SCALAR || policy_amount_parse(POLICY_MONEY, node->text, ret_price, NULL) < 0)
		return node_err(err, node, "'%s' is what a million tokens cost in USD, such as 3.00", what);
	return 0;
}

static int
read_model_price(const struct node *node, struct policy_price *ret_price, struct err *err)
{
	static const char *const names[] = { "input", "output", "cache_read", "cache_write", NULL };
	uint64_t *const at[] = { &ret_price->input, &ret_price->output, &ret_price->cache_read,
	                         &ret_price->cache_write };
	bool said[ARRAY_LEN(at)] = { false };
	size_t k;
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "a price is a map: {input: 3.00, output: 15.00}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		for (k = 0; names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0; k++)
			;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, "in a price", err);
		said[k] = true;
		r = read_tokens_price(node->values[i], names[k], at[k], err);
	}
	if (r == 0 && (!said[0] || !said[1]))
		return node_err(err, node, "a price says what `input` and what `output` costs");
	/* By default, cached tokens cost as much as others. */
	if (r == 0 && !said[2])
		ret_price->cache_read = ret_price->input;
	if (r == 0 && !said[3])
		ret_price->cache_write = ret_price->input;
	return r;
}

/* Prices of nearer files win. */
int
policy_read_prices(struct policy *p, const struct node *node, struct err *err)
{
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`prices` is a map of models: {my-model: {input: 3, output: 15}}");
	if (p->prices == NULL)
		p->prices = policy_alloc(p, POLICY_PRICES_MAX, sizeof(*p->prices));
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *model = node->items[i]->text;
		struct policy_model_price *at;

		if (model[0] == '\0' || strlen(model) > POLICY_MODEL_MAX)
			return node_err(err, node->items[i], "a model has a name of 1 to %d bytes", POLICY_MODEL_MAX);
		if (p->prices == NULL || p->n_prices == POLICY_PRICES_MAX)
			return node_err(err, node->items[i], "a policy has at most %d prices", POLICY_PRICES_MAX);
		at = &p->prices[p->n_prices];
		at->model = policy_copy(p, model, strlen(model));
		if (at->model == NULL)
			return err_set(err, ENOMEM, "%s: the policy is too large", node->file);
		r = read_model_price(node->values[i], &at->price, err);
		p->n_prices += r == 0;
	}
	return r;
}
