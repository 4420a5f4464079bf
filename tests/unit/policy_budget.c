/* policy_budget.c - tests of budgets, prices and rates in policies. */
#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy_lab.h"
#include "test.h"

static const char whole[] =
	"version: 1\n"
	"limits: {rate: 10/s, bandwidth: 1M}\n"
	"budgets:\n"
	"- {per: cell, requests: 100, bytes_in: 5M, money: 5 USD, then: freeze, warn: [50%, 80%]}\n"
	"- {secret: ANTHROPIC_API_KEY, money: $2.5}\n"
	"- {per: principal, hosts: 3, time: 1h30m, cpu: 90s, then: kill, warn: []}\n"
	"prices:\n"
	"  'my-*': {input: 3, output: 15.5, cache_read: 0.3, cache_write: 3.75}\n"
	"  other: {input: 1, output: 2}\n"
	"egress:\n"
	"- {allow: a.x, budget: {requests: 3, bytes_out: 1K, then: ask}, price: 0.002}\n"
	"- {allow: b.x, usage: openai}\n";

static struct policy *
load(const char *text)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (policy_load_text("t.yaml", text, strlen(text), &p, NULL, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return p;
}

static void
check_whole(const struct policy *p)
{
	const struct policy_budget *b;
	int rule;

	CHECK_U64(policy_n_budgets(p), 4);
	b = policy_budget_at(p, 0, &rule);
	CHECK(b->per == POLICY_PER_CELL && rule == -1 && b->then == POLICY_THEN_FREEZE);
	CHECK_STR(b->name, "cell");
	CHECK_STR(b->place, "t.yaml:4:3");
	CHECK_U64(b->limits[POLICY_REQUESTS], 100);
	CHECK_U64(b->limits[POLICY_BYTES_IN], 5 << 20);
	CHECK_U64(b->limits[POLICY_MONEY], 5000000000);
	CHECK_U64(b->limits[POLICY_BYTES_OUT], 0);
	CHECK(b->n_warns == 2 && b->warns[0] == 50 && b->warns[1] == 80);
	b = policy_budget_at(p, 1, NULL);
	CHECK_STR(b->name, "secret:ANTHROPIC_API_KEY");
	CHECK_U64(b->limits[POLICY_MONEY], 2500000000);
	CHECK(b->n_warns == 1 && b->warns[0] == 80 && b->then == POLICY_THEN_REFUSE);
	b = policy_budget_at(p, 2, NULL);
	CHECK(b->per == POLICY_PER_PRINCIPAL && b->n_warns == 0);
	CHECK_U64(b->limits[POLICY_TIME], 5400000);
	CHECK_U64(b->limits[POLICY_CPU], 90000);
	b = policy_budget_at(p, 3, &rule);
	CHECK(b->per == POLICY_PER_RULE && rule == 0 && b->then == POLICY_THEN_ASK);
	CHECK_STR(b->name, "rule:t.yaml:11:3");
	CHECK(b->key == policy_budget_key(POLICY_PER_RULE, policy_rule_text(p, 0)));
	CHECK(policy_budget_at(p, 4, NULL) == NULL);
	CHECK_U64(policy_rate(p).n, 10);
	CHECK_U64(policy_rate(p).ms, 1000);
	CHECK_U64(policy_bandwidth(p), 1 << 20);
	CHECK_U64(policy_price_of_request(p, BY(0)), 2000000);
	CHECK_U64(policy_price_of_request(p, BY(1)), 0);
}

TEST(policy_budget_loads)
{
	OWN(policy_freep) struct policy *p = load(whole);

	check_whole(p);
}

TEST(policy_budget_put_and_get)
{
	OWN(policy_freep) struct policy *p = load(whole), *again = NULL;
	OWN(buf_free) struct buf b, c;
	struct err err = {0};

	buf_init(&b, POLICY_ENCODED_MAX);
	buf_init(&c, POLICY_ENCODED_MAX);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, &err));
	CHECK_U64(buf_left(&b), 0);
	check_whole(again);
	policy_put(&c, again);
	CHECK(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
}

static const struct {
	const char *text, *why;
} refused[] = {
	{ "budgets: {a: 1}", "2:10: `budgets` is a list" },
	{ "budgets: [1]", "2:11: a budget is a map" },
	{ "budgets: [{per: cell}]", "2:11: a budget says how much of something" },
	{ "budgets: [{per: day, requests: 1}]", "2:17: a budget is `per: cell`" },
	{ "budgets: [{per: cell, secret: A, requests: 1}]", "2:31: a budget has `per` or `secret`" },
	{ "budgets: [{secret: A, time: 1h}]", "2:11: a secret takes no time" },
	{ "budgets: [{requests: 0}]", "2:22: a budget of nothing" },
	{ "budgets: [{requests: -1}]", "2:22: '-1' is not a number" },
	{ "budgets: [{request: 5}]", "2:12: there is no key 'request' in a budget: did you mean 'requests'?" },
	{ "budgets: [{money: 5 EUR}]", "2:19: '5 EUR' is not an amount" },
	{ "budgets: [{money: -5}]", "2:19: '-5' is not an amount" },
	{ "budgets: [{requests: 5, then: explode}]", "2:31: reaching a budget does one of" },
	{ "budgets: [{requests: 5, warn: [80%, 50%]}]", "2:37: warnings are in rising order" },
	{ "budgets: [{requests: 5, warn: 100%}]", "2:31: a warning is at a part" },
	{ "prices: [a]", "2:9: `prices` is a map" },
	{ "prices: {a: {input: 1}}", "2:13: a price says what `input`" },
	{ "prices: {a: {input: x, output: 1}}", "2:21: 'input' is what a million tokens cost" },
	{ "prices: {a: {inputs: 1, output: 1}}", "2:14: there is no key 'inputs'" },
	{ "limits: {rate: 10}", "2:16: '10' is not a rate" },
	{ "limits: {rate: 0/s}", "2:16: '0/s' is not a rate" },
	{ "egress: [{deny: a.x, budget: {requests: 1}}]", "2:22: 'budget' permits something" },
	{ "egress: [{allow: a.x, budget: {per: cell, requests: 1}}]", "2:37: the budget of a rule" },
	{ "egress: [{allow: a.x, budget: {time: 1h}}]", "2:38: a rule takes no time" },
	{ "egress: [{allow: a.x, usage: llama}]", "2:30: answers tell what they cost" },
	{ "egress: [{allow: a.x, price: free}]", "2:30: a price is what one request costs" },
	{ "egress: [{allow: 'a.x:1', protocol: tcp, usage: openai}]", "2:42: 'usage' needs HTTP" },
};

TEST(policy_budget_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char text[256];
		const char *got;

		snprintf(text, sizeof(text), "version: 1\n%s\n", refused[i].text);
		got = lab_refuses_file(text);
		if (strncmp(got, refused[i].why, strlen(refused[i].why)) != 0)
			test_fail(__FILE__, __LINE__, "%s: \"%s\", not \"%s\"", refused[i].text, got,
			          refused[i].why);
	}
}

/* None can loosen what another says. */
TEST(policy_budget_layers)
{
	OWN(policy_freep) struct policy *p = load(
		"version: 1\nlimits: {rate: 100/s, bandwidth: 10M}\n"
		"budgets: [{requests: 1000}]\nprices: {m: {input: 0, output: 0}}\n"
		"egress: [{allow: a.x, price: 0.001}]\n");
	struct policy *outer = load(whole);
	const struct policy_way way = {{ 0, 0 }};
	const struct policy_tokens million = { .input = 1000000 };
	struct err err = {0};
	char model[POLICY_MODEL_MAX + 1];
	bool sure;
	int rule;

	CHECK_OK(policy_within(p, &outer, &err));
	CHECK_U64(policy_n_budgets(p), 5);
	CHECK_U64(policy_budget_at(p, 0, NULL)->limits[POLICY_REQUESTS], 1000);
	CHECK_U64(policy_budget_at(p, 1, NULL)->limits[POLICY_REQUESTS], 100);
	CHECK(policy_budget_at(p, 0, NULL)->key == policy_budget_at(p, 1, NULL)->key);
	CHECK_STR(policy_budget_at(p, 4, &rule)->name, "rule:t.yaml:11:3");
	CHECK(rule == 1);
	CHECK_U64(policy_rate(p).n, 10);
	CHECK_U64(policy_bandwidth(p), 1 << 20);
	CHECK_U64(policy_price_of_request(p, &way), 2000000);
	/* "m" is free in the inner one and unknown in the outer. */
	CHECK_U64(policy_price_of_tokens(p, "m", &million), 30000000000);
	CHECK(policy_usage_of(p, &(struct policy_way){{ 0, 1 }}, "b.x", "/", 1, &sure, model) ==
	      POLICY_USAGE_OPENAI && sure);
}

static const struct {
	const char *model;
	struct policy_tokens tokens;
	uint64_t want;
} priced[] = {
	/* Over 200,000 it costs more. */
	{ "claude-sonnet-4-5-20250929", { 50000, 50000, 50000, 100000 }, 1290000000 },
	{ "claude-sonnet-4-5-20250929", { 50001, 50000, 50000, 100000 },
	  2205006000 },
	{ "claude-sonnet-4-6", { 1000000, 1000000, 1000000, 1000000 }, 22050000000 },
	{ "anthropic.claude-opus-4-20250514-v1:0", { .input = 1 }, 15000 },
	{ "anthropic/claude-opus-4.6", { .input = 1 }, 5000 },
	{ "claude-opus-5", { .input = 1 }, 5000 },
	{ "claude-opus-5-5", { .input = 1 }, 4000 },
	{ "claude-new", { .input = 1 }, 15000 },
	{ "gpt-5", { .output = 1 }, 10000 },
	{ "gpt-5-codex", { .output = 1 }, 10000 },
	{ "gpt-5.2-pro-2025-12-11", { .output = 1 }, 168000 },
	{ "gpt-5.5", { .output = 1 }, 30000 },
	{ "gpt-6-sol", { .output = 1 }, 10000 },
	{ "gpt-6-astra", { .output = 1 }, 50000 },
	{ "gpt-9-pro", { .output = 1 }, 180000 },
	{ "gpt-4.5-preview", { .output = 1 }, 150000 },
	{ "gemini-3.1-pro-preview", { .input = 200001 }, 800004000 },
	{ "gemini-9", { .output = 1 }, 12000 },
	{ "claude-opus-4-1-20250805", { .output = 1000 }, 75000000 },
	{ "anthropic/claude-haiku-4.5", { .input = 1 }, 1000 },
	{ "gpt-5-mini-2025-08-07", { .input = 3 }, 750 },
	{ "gpt-5-nano", { .cache_read = 1 }, 5 },
	{ "gemini-2.5-flash", { .output = 2 }, 5000 },
	{ "gemini-2.0-flash-lite", { .input = 1 }, 75 },
	{ "my-own", { .output = 2 }, 31000 },
	{ "other", { .cache_read = 1000, .cache_write = 1000 }, 2000000 },
	{ "who-knows", { .input = 1000 }, 30000000 },
	{ "", { .input = 1000 }, 30000000 },
	{ "gpt-4o", { .input = UINT64_MAX, .output = UINT64_MAX }, POLICY_MONEY_MAX },
};

TEST(policy_prices)
{
	OWN(policy_freep) struct policy *p = load(whole);

	for (size_t i = 0; i < ARRAY_LEN(priced); i++) {
		uint64_t got = policy_price_of_tokens(p, priced[i].model, &priced[i].tokens);

		if (got != priced[i].want)
			test_fail(__FILE__, __LINE__, "%s: %llu, not %llu", priced[i].model,
			          (unsigned long long)got, (unsigned long long)priced[i].want);
	}
}

static const struct {
	const char *host, *path;
	enum policy_usage usage;
	bool sure;
} hosts[] = {
	{ "api.anthropic.com", "/v1/messages?beta=true", POLICY_USAGE_ANTHROPIC, true },
	{ "api.anthropic.com", "/v1/%6dessages", POLICY_USAGE_ANTHROPIC, true },
	{ "api.anthropic.com", "/v1%2Fmessages", POLICY_USAGE_ANTHROPIC, false },
	{ "api.openai.com", "/v1/responses", POLICY_USAGE_OPENAI, true },
	{ "generativelanguage.googleapis.com", "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
	  POLICY_USAGE_GEMINI, true },
	{ "generativelanguage.googleapis.com", "/v1beta/models/gemini-2.5-pro%3AgenerateContent",
	  POLICY_USAGE_GEMINI, true },
	{ "generativelanguage.googleapis.com",
	  "/google.ai.generativelanguage.v1beta.GenerativeService/StreamGenerateContent",
	  POLICY_USAGE_GEMINI, true },
	{ "generativelanguage.googleapis.com",
	  "/$rpc/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent",
	  POLICY_USAGE_GEMINI, true },
	{ "us-central1-aiplatform.googleapis.com",
	  "/google.cloud.aiplatform.v1.PredictionService/StreamRawPredict", POLICY_USAGE_GEMINI, true },
	{ "us-central1-aiplatform.googleapis.com", "/v1/projects/p/models/g:generateContent",
	  POLICY_USAGE_GEMINI, true },
	{ "aiplatform.eu.rep.googleapis.com", "/v1/projects/p/locations/eu/publishers/anthropic/models/c:rawPredict",
	  POLICY_USAGE_ANTHROPIC, true },
	{ "eu.api.openai.com", "/v1/chat/completions", POLICY_USAGE_OPENAI, true },
	{ "acme.openai.azure.com", "/openai/deployments/d/chat/completions", POLICY_USAGE_OPENAI, true },
	{ "acme.services.ai.azure.com", "/anthropic/v1/messages", POLICY_USAGE_ANTHROPIC, true },
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/model/anthropic.claude-x-v1%3A0/converse-stream",
	  POLICY_USAGE_ANTHROPIC, true },
	{ "bedrock-runtime-fips.us-east-1.amazonaws.com", "/model/m/invoke", POLICY_USAGE_ANTHROPIC, true },
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/model/m/invoke-with-bidirectional-stream",
	  POLICY_USAGE_ANTHROPIC, true },
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/guardrail/g/version/1/apply", POLICY_USAGE_ANTHROPIC,
	  false },
	{ "openrouter.ai", "/api/v1/messages", POLICY_USAGE_ANTHROPIC, true },
	{ "openrouter.ai", "/api/v1/models", POLICY_USAGE_OPENAI, false },
	{ "s3.us-east-1.amazonaws.com", "/model/m/invoke", POLICY_USAGE_NONE, false },
	{ "api.example.com", "/v1/messages", POLICY_USAGE_NONE, false },
};

static const struct {
	const char *host, *path, *model;
} named[] = {
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/model/anthropic.claude-x-v1:0/invoke?a", "anthropic.claude-x-v1:0" },
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/model/anthropic.claude-x-v1%3A0/invoke",
	  "anthropic.claude-x-v1:0" },
	{ "bedrock-runtime.us-east-1.amazonaws.com", "/openai/v1/chat/completions", "" },
	{ "generativelanguage.googleapis.com", "/v1beta//models/gemini-x:generateContent", "gemini-x" },
	{ "us-east5-aiplatform.googleapis.com", "/v1/projects/models/models/claude-x@1:streamRawPredict", "claude-x@1" },
	{ "generativelanguage.googleapis.com", "/v1beta/models/a\\b:generateContent", "" },
	{ "api.example.com", "/v1/models/m:generateContent", "" },
};

TEST(policy_models_in_paths)
{
	OWN(policy_freep) struct policy *p = load(whole);
	char model[POLICY_MODEL_MAX + 1];
	bool sure;

	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		(void)policy_usage_of(p, BY(-1), named[i].host, named[i].path, strlen(named[i].path), &sure, model);
		CHECK_STR(model, named[i].model);
	}
}

TEST(policy_usage_of_hosts)
{
	OWN(policy_freep) struct policy *p = load(whole);

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		char model[POLICY_MODEL_MAX + 1];
		bool sure;

		CHECK(policy_usage_of(p, BY(-1), hosts[i].host, hosts[i].path, strlen(hosts[i].path),
		                      &sure, model) == hosts[i].usage);
		CHECK(sure == hosts[i].sure);
	}
}

/* Slashes that a server does not mind make no other path. */
TEST(policy_usage_of_odd_paths)
{
	static const char *const odd[] = { "//v1/messages", "/v1//messages/", "/v1/messages///?a=/b" };
	static const struct {
		const char *path;
		bool later;
	} paths[] = {
		{ "/v1/messages/batches", true }, { "/v1//messages/batches//?x", true },
		{ "/v1beta/models/gemini-x:batchGenerateContent", true }, { "/v1/batches", true },
		{ "/v1beta/models/gemini-x%3AbatchGenerateContent", true },
		{ "/google.ai.generativelanguage.v1beta.BatchService/BatchGenerateContent", true },
		{ "/model-invocation-job", true }, { "/async-invoke", true }, { "/async-invoke/j", false },
		{ "/v1/messages/batches/b1/cancel", false }, { "/v1/messages?a=/batches", false },
		{ "/v1/messages", false }, { "/", false },
	};
	OWN(policy_freep) struct policy *p = load(whole);
	char model[POLICY_MODEL_MAX + 1];
	bool sure;

	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		CHECK(policy_usage_of(p, BY(-1), "api.anthropic.com", odd[i], strlen(odd[i]), &sure, model) ==
		      POLICY_USAGE_ANTHROPIC && sure);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		CHECK(policy_costs_later(paths[i].path, strlen(paths[i].path)) == paths[i].later);
}

TEST(policy_path_ends)
{
	static const struct {
		const char *path;
		bool ends;
	} cases[] = {
		{ "/v1/responses", true }, { "/v1/responses/?api-version=1", true }, { "//v1//%72esponses", true },
		{ "/v1/chat/completions?a=/responses", false }, { "/v1/responses/resp_1", false },
		{ "/openai/deployments/responses/chat/completions", false }, { "/v1/responses%2F", false }, { "", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK(policy_path_ends(cases[i].path, strlen(cases[i].path), "/responses") == cases[i].ends);
}

TEST(policy_amounts)
{
	char text[POLICY_AMOUNT_TEXT];

	CHECK_STR(policy_amount_format(text, POLICY_MONEY, 5000000000), "5.00 USD");
	CHECK_STR(policy_amount_format(text, POLICY_MONEY, 37500000), "0.0375 USD");
	CHECK_STR(policy_amount_format(text, POLICY_MONEY, 1500), "0.000002 USD");
	CHECK_STR(policy_amount_format(text, POLICY_BYTES_IN, 5 << 20), "5M");
	CHECK_STR(policy_amount_format(text, POLICY_TIME, 5400000), "1h30m");
	CHECK_STR(policy_amount_format(text, POLICY_REQUESTS, 7), "7");
}

static const struct {
	const char *host, *method, *path;
	bool costs;
} untold[] = {
	{ "api.openai.com", "POST", "/v1/videos", true },
	{ "api.openai.com", "POST", "/v1/images/generations", true },
	{ "api.openai.com", "PUT", "/v1/evals?x=y", true },
	{ "eu.api.openai.com", "POST", "/v1/audio/speech", true },
	{ "acme.openai.azure.com", "POST", "/openai/v1/video/generations/jobs", true },
	{ "api.x.ai", "POST", "/v1/images/generations", true },
	{ "bedrock.eu-west-1.amazonaws.com", "POST", "/provisioned-model-throughput", true },
	{ "generativelanguage.googleapis.com", "POST", "/v1beta/models/imagen-4:predict", true },
	{ "api.openai.com", "GET", "/v1/videos/1", false },
	{ "api.openai.com", "DELETE", "/v1/videos/1", false },
	{ "api.openai.com", "POST", "/v1/moderations", false },
	{ "api.anthropic.com", "POST", "/v1/messages/count_tokens?beta=true", false },
	{ "api.anthropic.com", "POST", "/api/event_logging/batch", false },
	{ "europe-west1-aiplatform.googleapis.com", "POST", "/v1/p/models/gemini:countTokens", false },
	{ "www.example.com", "POST", "/v1/videos", false },
};

TEST(policy_costs_unknown)
{
	for (size_t i = 0; i < ARRAY_LEN(untold); i++)
		if (policy_costs_untold(untold[i].host, untold[i].method, strlen(untold[i].method),
		                        untold[i].path, strlen(untold[i].path)) != untold[i].costs)
			test_fail(__FILE__, __LINE__, "%s%s", untold[i].host, untold[i].path);
}

TEST(policy_max_output)
{
	CHECK_U64(policy_max_output("claude-3-haiku-20240307"), 4096);
	CHECK_U64(policy_max_output("us.anthropic.claude-3-5-sonnet-20241022-v2:0"), 8192);
	CHECK_U64(policy_max_output("claude-sonnet-4-5-20250929"), 64000);
	CHECK_U64(policy_max_output("gpt-4o-mini"), 16384);
	CHECK_U64(policy_max_output("text-embedding-3-small"), 0);
	CHECK_U64(policy_max_output("what-nobody-knows"), POLICY_OUTPUT_MAX);
	CHECK_U64(policy_max_output(""), POLICY_OUTPUT_MAX);
}
