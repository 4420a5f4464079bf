/* policy_price.c - what requests cost: prices of models, and whose answers tell of tokens.
 *
 * The built-in table is what the providers publish for everybody, without discounts for
 * batches or volume, and of prices that rise with the length of a prompt the lower one.  It is as
 * of POLICY_PRICES_AS_OF; a policy's `prices` go before it. */
#include <string.h>

#include "base/own.h"
#include "policy/policy_parts.h"

#define USD(amount) ((uint64_t)((amount) * 1e9 + 0.5))
#define ROW(model, input, output, cache_read, cache_write) \
	{ model, { USD(input), USD(output), USD(cache_read), USD(cache_write) } }

/* The first that fits. */
const struct policy_model_price policy_builtin_prices[] = {
	ROW("*claude-opus-4-5*", 5, 25, 0.5, 6.25),
	ROW("*claude-opus-4.5*", 5, 25, 0.5, 6.25),
	ROW("*claude*opus*", 15, 75, 1.5, 18.75),
	ROW("*claude*sonnet*", 3, 15, 0.3, 3.75),
	ROW("*claude-haiku-4*", 1, 5, 0.1, 1.25),
	ROW("*claude-3-5-haiku*", 0.8, 4, 0.08, 1),
	ROW("*claude-3-haiku*", 0.25, 1.25, 0.03, 0.3),
	ROW("*claude*haiku*", 1, 5, 0.1, 1.25),

	ROW("*gpt-5*-pro*", 15, 120, 15, 15),
	ROW("*gpt-5*-nano*", 0.05, 0.4, 0.005, 0.05),
	ROW("*gpt-5*-mini*", 0.25, 2, 0.025, 0.25),
	ROW("*gpt-5*", 1.25, 10, 0.125, 1.25),
	ROW("*codex-mini*", 1.5, 6, 0.375, 1.5),
	ROW("*gpt-4.1-nano*", 0.1, 0.4, 0.025, 0.1),
	ROW("*gpt-4.1-mini*", 0.4, 1.6, 0.1, 0.4),
	ROW("*gpt-4.1*", 2, 8, 0.5, 2),
	ROW("*gpt-4o-mini*", 0.15, 0.6, 0.075, 0.15),
	ROW("*gpt-4o*", 2.5, 10, 1.25, 2.5),
	ROW("*gpt-4-turbo*", 10, 30, 10, 10),
	ROW("*gpt-4*", 30, 60, 30, 30),
	ROW("*gpt-3.5*", 0.5, 1.5, 0.5, 0.5),
	ROW("*o4-mini*", 1.1, 4.4, 0.275, 1.1),
	ROW("*o3-mini*", 1.1, 4.4, 0.55, 1.1),
	ROW("*o3-pro*", 20, 80, 20, 20),
	ROW("*o3*", 2, 8, 0.5, 2),
	ROW("*o1-mini*", 1.1, 4.4, 0.55, 1.1),
	ROW("*o1-pro*", 150, 600, 150, 150),
	ROW("*o1*", 15, 60, 7.5, 15),
	ROW("*text-embedding-3-small*", 0.02, 0, 0.02, 0.02),
	ROW("*text-embedding-3-large*", 0.13, 0, 0.13, 0.13),
	ROW("*text-embedding-ada*", 0.1, 0, 0.1, 0.1),

	ROW("*gemini-3*-pro*", 2, 12, 0.2, 2),
	ROW("*gemini-2.5-pro*", 1.25, 10, 0.125, 1.25),
	ROW("*gemini-2.5-flash-lite*", 0.1, 0.4, 0.01, 0.1),
	ROW("*gemini-2.5-flash*", 0.3, 2.5, 0.03, 0.3),
	ROW("*gemini-2.0-flash-lite*", 0.075, 0.3, 0.075, 0.075),
	ROW("*gemini-2.0-flash*", 0.1, 0.4, 0.025, 0.1),
	ROW("*gemini-embedding*", 0.15, 0, 0.15, 0.15),

	/* What nobody knows must not be cheap. */
	ROW("*", 15, 75, 15, 18.75),
};

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

/* Rounded up; what would not fit a number is as much as one can say. */
static uint64_t
cost(const struct policy_price *price, const struct policy_tokens *tokens)
{
	wide all = 0;

	all += (wide)tokens->input * price->input;
	all += (wide)tokens->output * price->output;
	all += (wide)tokens->cache_read * price->cache_read;
	all += (wide)tokens->cache_write * price->cache_write;
	all = (all + 999999) / 1000000;
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

/* The rule of each layer that let it through. */
static const struct policy_rule *
rule_of(const struct policy *layer, const struct policy_way *way, size_t i)
{
	int rule = way->rule[i];

	return rule >= 0 && (size_t)rule < layer->n_rules ? &layer->rules[rule] : NULL;
}

uint64_t
policy_price_of_request(const struct policy *p, const struct policy_way *way)
{
	uint64_t dearest = 0;

	for (size_t i = 0; p != NULL; p = p->within, i++) {
		const struct policy_rule *rule = rule_of(p, way, i);

		if (rule != NULL && rule->price > dearest)
			dearest = rule->price;
	}
	return dearest;
}

/* ---- whose answers tell of tokens ---- */

/* Paths without their query; "*" is any run of characters but "/". */
static const struct {
	const char *host, *path;
	enum policy_usage usage;
} metered[] = {
	{ "api.anthropic.com", "/v1/messages", POLICY_USAGE_ANTHROPIC },
	{ "api.anthropic.com", "/v1/complete", POLICY_USAGE_ANTHROPIC },
	{ "api.openai.com", "/v1/chat/completions", POLICY_USAGE_OPENAI },
	{ "api.openai.com", "/v1/responses", POLICY_USAGE_OPENAI },
	{ "api.openai.com", "/v1/completions", POLICY_USAGE_OPENAI },
	{ "api.openai.com", "/v1/embeddings", POLICY_USAGE_OPENAI },
	{ "*.openai.azure.com", "/openai/**", POLICY_USAGE_OPENAI },
	{ "openrouter.ai", "/api/v1/chat/completions", POLICY_USAGE_OPENAI },
	{ "api.mistral.ai", "/v1/chat/completions", POLICY_USAGE_OPENAI },
	{ "api.groq.com", "/openai/v1/**", POLICY_USAGE_OPENAI },
	{ "api.deepseek.com", "/**/chat/completions", POLICY_USAGE_OPENAI },
	{ "api.x.ai", "/v1/**", POLICY_USAGE_OPENAI },
	{ "generativelanguage.googleapis.com", "/*/models/*:generateContent", POLICY_USAGE_GEMINI },
	{ "generativelanguage.googleapis.com", "/*/models/*:streamGenerateContent",
	  POLICY_USAGE_GEMINI },
	{ "generativelanguage.googleapis.com", "/*/openai/**", POLICY_USAGE_OPENAI },
	{ "*aiplatform.googleapis.com", "/**:generateContent", POLICY_USAGE_GEMINI },
	{ "*aiplatform.googleapis.com", "/**:streamGenerateContent", POLICY_USAGE_GEMINI },
	{ "*aiplatform.googleapis.com", "/**:rawPredict", POLICY_USAGE_ANTHROPIC },
	{ "*aiplatform.googleapis.com", "/**:streamRawPredict", POLICY_USAGE_ANTHROPIC },
};

/* What is answered long before it costs something.  Below these, jobs are only looked after. */
static const char *const later[] = {
	"/**/batches", "/**/batch/jobs", "/**/batchPredictionJobs", "/**:batchGenerateContent",
	"/**/fine_tuning/jobs",
};

bool
policy_costs_later(const char *path, size_t path_len)
{
	const char *query = memchr(path, '?', path_len);
	size_t len = query != NULL ? (size_t)(query - path) : path_len;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (size_t i = 0; i < ARRAY_LEN(later); i++)
		if (policy_glob_path(later[i], path, len))
			return true;
	return false;
}

enum policy_usage
policy_usage_of(const struct policy *p, const struct policy_way *way, const char *host,
                const char *path, size_t path_len, bool *ret_sure)
{
	const char *query = memchr(path, '?', path_len);
	size_t len = query != NULL ? (size_t)(query - path) : path_len;
	enum policy_usage usage = POLICY_USAGE_NONE;

	*ret_sure = true;
	for (size_t i = 0; p != NULL; p = p->within, i++) {
		const struct policy_rule *rule = rule_of(p, way, i);

		if (rule != NULL && rule->usage != POLICY_USAGE_NONE)
			return rule->usage;
	}
	for (size_t i = 0; i < ARRAY_LEN(metered); i++) {
		if (!policy_glob_text(metered[i].host, host, strlen(host)))
			continue;
		usage = metered[i].usage;
		if (policy_glob_path(metered[i].path, path, len))
			return usage;
	}
	*ret_sure = false;
	return usage;
}
