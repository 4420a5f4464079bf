/* policy_price.c - prices of models and requests.
 *
 * The built-in table has the providers' public list prices as of POLICY_PRICES_AS_OF.  It ignores
 * batch and volume discounts and temporary offers.  A policy's `prices` come first.  An unknown
 * model of a known family is priced as the family's most expensive one.  A model of no known family
 * is priced as an expensive one. */
#include <string.h>

#include "base/own.h"
#include "policy/policy_parts.h"

#define USD(amount) ((uint64_t)((amount) * 1e9 + 0.5))
#define LONG(over, model, input, output, cache_read, cache_write) \
	{ model, { USD(input), USD(output), USD(cache_read), USD(cache_write), over } }
#define ROW(...) LONG(0, __VA_ARGS__)
/* Anthropic writes versions with "-", resellers of its models with ".". */
#define VERSION(name, a, b, ...) ROW(name a "-" b "*", __VA_ARGS__), ROW(name a "." b "*", __VA_ARGS__)

/* The first match counts. */
const struct policy_model_price policy_builtin_prices[] = {
	ROW("*claude*fable*", 10, 50, 1, 12.5),
	ROW("*claude*mythos*", 10, 50, 1, 12.5),
	VERSION("*claude-opus-", "5", "5", 4, 20, 0.4, 5),
	ROW("*claude-opus-5*", 5, 25, 0.5, 6.25),
	VERSION("*claude-opus-", "4", "5", 5, 25, 0.5, 6.25),
	VERSION("*claude-opus-", "4", "6", 5, 25, 0.5, 6.25),
	VERSION("*claude-opus-", "4", "7", 5, 25, 0.5, 6.25),
	VERSION("*claude-opus-", "4", "8", 5, 25, 0.5, 6.25),
	ROW("*claude*opus*", 15, 75, 1.5, 18.75),
	ROW("*claude-sonnet-5*", 2, 10, 0.2, 2.5),
	VERSION("*claude-sonnet-", "4", "6", 3, 15, 0.3, 3.75),
	LONG(200000, "*claude*sonnet*", 3, 15, 0.3, 3.75),
	VERSION("*claude-haiku-", "5", "5", 0.5, 2.5, 0.05, 0.625),
	ROW("*claude-3-5-haiku*", 0.8, 4, 0.08, 1),
	ROW("*claude-3.5-haiku*", 0.8, 4, 0.08, 1),
	ROW("*claude-3-haiku*", 0.25, 1.25, 0.03, 0.3),
	ROW("*claude*haiku*", 1, 5, 0.1, 1.25),
	ROW("*claude*", 15, 75, 1.5, 18.75),

	LONG(272000, "*gpt-6*luna*", 0.1, 0.5, 0.01, 0.125),
	LONG(272000, "*gpt-6.1*terra*", 1, 5, 0.05, 1.25),
	LONG(272000, "*gpt-6*sol*", 2, 10, 0.2, 2.5),
	LONG(272000, "*gpt-5.6*luna*", 0.2, 1.2, 0.02, 0.25),
	LONG(272000, "*gpt-5.6*terra*", 2, 12, 0.2, 2.5),
	LONG(272000, "*gpt-5.6*", 4, 20, 0.4, 5),
	LONG(272000, "*gpt-5.5-pro*", 30, 180, 30, 37.5),
	LONG(272000, "*gpt-5.5*", 5, 30, 0.5, 5),
	LONG(272000, "*gpt-5.4-pro*", 30, 180, 30, 30),
	ROW("*gpt-5.4-nano*", 0.2, 1.25, 0.02, 0.2),
	ROW("*gpt-5.4-mini*", 0.75, 4.5, 0.075, 0.75),
	LONG(272000, "*gpt-5.4*", 2.5, 15, 0.25, 2.5),
	ROW("*gpt-5.2-pro*", 21, 168, 21, 21),
	ROW("*gpt-5.2*", 1.75, 14, 0.175, 1.75),
	ROW("*gpt-5.3*", 1.75, 14, 0.175, 1.75),
	ROW("*gpt-5-pro*", 15, 120, 15, 15),
	ROW("*gpt-5-nano*", 0.05, 0.4, 0.005, 0.05),
	ROW("*gpt-5-mini*", 0.25, 2, 0.025, 0.25),
	ROW("*gpt-5.1-codex-mini*", 0.25, 2, 0.025, 0.25),
	ROW("*gpt-5.1*", 1.25, 10, 0.125, 1.25),
	ROW("*gpt-5-*", 1.25, 10, 0.125, 1.25),
	ROW("*gpt-5", 1.25, 10, 0.125, 1.25),
	ROW("*codex-mini*", 1.5, 6, 0.375, 1.5),
	ROW("*gpt-4.5*", 75, 150, 37.5, 75),
	ROW("*gpt-4.1-nano*", 0.1, 0.4, 0.025, 0.1),
	ROW("*gpt-4.1-mini*", 0.4, 1.6, 0.1, 0.4),
	ROW("*gpt-4.1*", 2, 8, 0.5, 2),
	ROW("*chatgpt-4o*", 5, 15, 5, 5),
	ROW("*gpt-4o-2024-05-13*", 5, 15, 5, 5),
	ROW("*gpt-4o-mini-*realtime*", 0.6, 2.4, 0.3, 0.6),
	ROW("*gpt-4o-mini*", 0.15, 0.6, 0.075, 0.15),
	ROW("*gpt-4o*realtime*", 5, 20, 2.5, 5),
	ROW("*gpt-4o*", 2.5, 10, 1.25, 2.5),
	ROW("*gpt-4-turbo*", 10, 30, 10, 10),
	ROW("*gpt-4-32k*", 60, 120, 60, 60),
	ROW("*gpt-4*", 30, 60, 30, 30),
	ROW("*gpt-3.5*", 0.5, 1.5, 0.5, 0.5),
	ROW("*gpt*-pro*", 30, 180, 30, 37.5),
	LONG(272000, "*gpt*", 10, 50, 1, 12.5),
	ROW("*o4-mini-deep-research*", 2, 8, 0.5, 2),
	ROW("*o4-mini*", 1.1, 4.4, 0.275, 1.1),
	ROW("*o3-mini*", 1.1, 4.4, 0.55, 1.1),
	ROW("*o3-pro*", 20, 80, 20, 20),
	ROW("*o3-deep-research*", 10, 40, 2.5, 10),
	ROW("*o3*", 2, 8, 0.5, 2),
	ROW("*o1-mini*", 1.1, 4.4, 0.55, 1.1),
	ROW("*o1-pro*", 150, 600, 150, 150),
	ROW("*o1*", 15, 60, 7.5, 15),
	ROW("*text-embedding-3-small*", 0.02, 0, 0.02, 0.02),
	ROW("*text-embedding-3-large*", 0.13, 0, 0.13, 0.13),
	ROW("*text-embedding-ada*", 0.1, 0, 0.1, 0.1),

	ROW("*gemini-embedding*", 0.15, 0, 0.15, 0.15),
	ROW("*gemini-2.0-flash-lite*", 0.075, 0.3, 0.075, 0.075),
	ROW("*gemini-2.0-flash*", 0.1, 0.4, 0.025, 0.1),
	ROW("*gemini-2.5-flash-lite*", 0.1, 0.4, 0.01, 0.1),
	ROW("*gemini-2.5-flash-image*", 0.3, 30, 0.03, 0.3),
	ROW("*gemini-2.5-flash*", 0.3, 2.5, 0.03, 0.3),
	LONG(200000, "*gemini-2.5-pro*", 1.25, 10, 0.125, 1.25),
	ROW("*gemini-3.1-flash-lite*", 0.25, 1.5, 0.025, 0.25),
	ROW("*gemini-3*image*", 2, 120, 2, 2),
	ROW("*gemini-3*flash-lite*", 0.3, 2.5, 0.03, 0.3),
	ROW("*gemini-3-flash*", 0.5, 3, 0.05, 0.5),
	ROW("*gemini-3*flash*", 1.5, 9, 0.15, 1.5),
	LONG(200000, "*gemini-3*pro*", 2, 12, 0.2, 2),
	LONG(200000, "*gemini*", 2, 12, 2, 2),

	ROW("*", 30, 180, 30, 37.5),
};

/* The most tokens in one response of a model, including its thinking. */
static const struct {
	const char *model;
	uint64_t tokens;
} outputs[] = {
	{ "*claude-3-haiku*", 4096 }, { "*claude-3-opus*", 4096 }, { "*claude-3-sonnet*", 4096 },
	{ "*claude-3*5*", 8192 },
	{ "*claude-opus-4-1*", 32000 }, { "*claude-opus-4-0*", 32000 }, { "*claude-opus-4-2025*", 32000 },
	{ "*claude*sonnet-4-5*", 64000 }, { "*claude*haiku-4-5*", 64000 }, { "*claude*opus-4-5*", 64000 },
	{ "*gpt-3.5*", 4096 }, { "*gpt-4-*", 8192 }, { "*gpt-4", 8192 }, { "*gpt-4.1*", 32768 },
	{ "*gpt-4o*", 16384 }, { "*o1*", 100000 }, { "*o3*", 100000 }, { "*o4-mini*", 100000 },
	{ "*embedding*", 0 },
	{ "*gemini-2.0*", 8192 }, { "*gemini*", 65536 },
};

uint64_t
policy_max_output(const char *model)
{
	for (size_t i = 0; i < ARRAY_LEN(outputs); i++)
		if (policy_glob_text(outputs[i].model, model, strlen(model)))
			return outputs[i].tokens;
	return POLICY_OUTPUT_MAX;
}

static const struct policy_price *
find_price(const struct policy *p, const char *model)
{
	const struct policy_model_price *at = policy_builtin_prices;

	for (size_t i = 0; i < p->n_prices; i++)
		if (policy_glob_text(p->prices[i].model, model, strlen(model)))
			return &p->prices[i].price;
	while (!policy_glob_text(at->model, model, strlen(model)))
		at++;
	return &at->price;
}

__extension__ typedef unsigned __int128 wide;

/* Rounded up; saturates at the largest number. */
static uint64_t
cost(const struct policy_price *price, const struct policy_tokens *tokens)
{
	wide prompt = (wide)tokens->input + tokens->cache_read + tokens->cache_write;
	wide in = 0, out = (wide)tokens->output * price->output, all;

	in += (wide)tokens->input * price->input;
	in += (wide)tokens->cache_read * price->cache_read;
	in += (wide)tokens->cache_write * price->cache_write;
	/* The higher price applies to the whole prompt, not only to the excess, at all providers
	 * that have it. */
	if (price->long_over != 0 && prompt > price->long_over) {
		in *= 2;
		out += out / 2;
	}
	all = (in + out + 999999) / 1000000;
	return all > POLICY_MONEY_MAX ? POLICY_MONEY_MAX : (uint64_t)all;
}

size_t
policy_find_prices(const struct policy *p, const char *model, const struct policy_price **ret_prices,
                   size_t max)
{
	size_t n = 0;

	for (; p != NULL && n < max; p = p->within)
		ret_prices[n++] = find_price(p, model);
	return n;
}

uint64_t
policy_dearest(const struct policy_price *const *prices, size_t n, const struct policy_tokens *tokens)
{
	uint64_t dearest = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t price = cost(prices[i], tokens);

		dearest = price > dearest ? price : dearest;
	}
	return dearest;
}

uint64_t
policy_price_of_tokens(const struct policy *p, const char *model, const struct policy_tokens *tokens)
{
	const struct policy_price *prices[POLICY_LAYERS_MAX];

	return policy_dearest(prices, policy_find_prices(p, model, prices, POLICY_LAYERS_MAX), tokens);
}

const struct policy_rule *
policy_rule_of(const struct policy *layer, const struct policy_way *way, size_t i)
{
	int rule = way->rule[i];

	return rule >= 0 && (size_t)rule < layer->n_rules ? &layer->rules[rule] : NULL;
}

static bool
list_has(const struct policy_list *list, const char *text)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->at[i], text) == 0)
			return true;
	return false;
}

bool
policy_may_use(const struct policy *p, const struct policy_way *way, const char *secret)
{
	for (size_t i = 0; p != NULL; p = p->within, i++) {
		const struct policy_rule *rule = policy_rule_of(p, way, i);

		if (rule != NULL && rule->bounds_uses && !list_has(&rule->uses, secret))
			return false;
	}
	return true;
}

uint64_t
policy_price_of_request(const struct policy *p, const struct policy_way *way)
{
	uint64_t dearest = 0;

	for (size_t i = 0; p != NULL; p = p->within, i++) {
		const struct policy_rule *rule = policy_rule_of(p, way, i);

		if (rule != NULL && rule->price > dearest)
			dearest = rule->price;
	}
	return dearest;
}
