/* policy_usage.c - recognises responses that report tokens, by the providers' hosts and paths. */
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "policy/policy_parts.h"

#define PATH_SEEN 1024
#define PATHS_MAX 10                    /* of one host */

#define ANTHROPIC POLICY_USAGE_ANTHROPIC
#define OPENAI POLICY_USAGE_OPENAI
#define GEMINI POLICY_USAGE_GEMINI

/* Providers with OpenAI's response format, mostly for models of others. */
#define LIKE_OPENAI(host, prefix) { host, NULL, { { prefix "/chat/completions", OPENAI }, \
	{ prefix "/completions", OPENAI }, { prefix "/responses", OPENAI }, \
	{ prefix "/embeddings", OPENAI }, { prefix "/messages", ANTHROPIC } } }

/* Paths without their query; "*" is any run of characters but "/".  MODEL: the path names the model
 * behind this text, up to the next "/" or the last ":". */
static const struct {
	const char *host, *model;
	struct {
		const char *path;
		enum policy_usage usage;
	} paths[PATHS_MAX];
} metered[] = {
	{ "api.anthropic.com", NULL, { { "/v1/messages", ANTHROPIC }, { "/v1/complete", ANTHROPIC } } },
	LIKE_OPENAI("api.openai.com", "/v1"),
	LIKE_OPENAI("*.api.openai.com", "/v1"),
	LIKE_OPENAI("*.openai.azure.com", "/openai/**"),
	LIKE_OPENAI("*.cognitiveservices.azure.com", "/openai/**"),
	{ "*.services.ai.azure.com", NULL, { { "/**/chat/completions", OPENAI },
	  { "/openai/**/completions", OPENAI }, { "/openai/**/responses", OPENAI },
	  { "/**/embeddings", OPENAI }, { "/anthropic/v1/messages", ANTHROPIC } } },
	{ "bedrock-runtime*.amazonaws.com", "/model/", { { "/model/*/invoke*", ANTHROPIC },
	  { "/model/*/converse*", ANTHROPIC }, { "/openai/v1/chat/completions", OPENAI },
	  { "/openai/v1/responses", OPENAI } } },
	LIKE_OPENAI("bedrock-mantle.*.api.aws", "/**"),
	{ "bedrock.*.amazonaws.com", NULL, { { NULL, ANTHROPIC } } },
	/* Google's paths also exist over gRPC, with arrays instead of names. */
	{ "generativelanguage.googleapis.com", "/models/", { { "/*/models/*:generateContent", GEMINI },
	  { "/*/models/*:streamGenerateContent", GEMINI }, { "/google.*/*GenerateContent", GEMINI },
	  { "/$rpc/google.*/*GenerateContent", GEMINI }, { "/*/models/*:embedContent", GEMINI },
	  { "/*/models/*:batchEmbedContents", GEMINI }, { "/*/openai/chat/completions", OPENAI },
	  { "/*/openai/embeddings", OPENAI } } },
	/* The region is in front of it, or behind it. */
	{ "*aiplatform.*googleapis.com", "/models/", { { "/**:generateContent", GEMINI },
	  { "/**:streamGenerateContent", GEMINI }, { "/google.*PredictionService/*", GEMINI },
	  { "/$rpc/google.*PredictionService/*", GEMINI }, { "/**:rawPredict", ANTHROPIC },
	  { "/**:streamRawPredict", ANTHROPIC }, { "/**/chat/completions", OPENAI } } },
	LIKE_OPENAI("openrouter.ai", "/api/v1"),
	LIKE_OPENAI("api.mistral.ai", "/v1"),
	LIKE_OPENAI("api.groq.com", "/openai/v1"),
	LIKE_OPENAI("api.deepseek.com", "/**"),
	LIKE_OPENAI("api.x.ai", "/v1"),
	LIKE_OPENAI("*.api.x.ai", "/v1"),
	LIKE_OPENAI("api.together.xyz", "/v1"),
	LIKE_OPENAI("api.fireworks.ai", "/inference/v1"),
	LIKE_OPENAI("api.perplexity.ai", "/**"),
	LIKE_OPENAI("api.cerebras.ai", "/v1"),
	LIKE_OPENAI("router.huggingface.co", "/v1"),
	LIKE_OPENAI("ai-gateway.vercel.sh", "/v1"),
	LIKE_OPENAI("models.github.ai", "/**"),
};

/* Endings of paths that order work which costs money only later.  Requests below these paths only
 * manage jobs. */
static const char *const later[] = {
	"/batches", "/batch/jobs", "/batchPredictionJobs", ":batchGenerateContent", "/fine_tuning/jobs",
	"/model-invocation-job", "/async-invoke", ":predictLongRunning",
	/* Over gRPC: */
	"/BatchGenerateContent", "/CreateBatchPredictionJob", "/PredictLongRunning",
};

/* Free requests to these hosts: counting tokens, storing, managing or ending jobs, and agents'
 * telemetry.  Any other request may cost money. */
static const struct {
	const char *host, *path;
} free_of_charge[] = {
	{ "api.anthropic.com", "/v1/messages/count_tokens" },
	{ "api.anthropic.com", "/v1/messages/batches/*/cancel" },
	{ "api.anthropic.com", "/v1/files" },
	{ "api.anthropic.com", "/v1/oauth/**" },
	{ "api.anthropic.com", "/api/**" },
	{ "**api.openai.com", "/v1/files" },
	{ "**api.openai.com", "/v1/uploads/**" },
	{ "**api.openai.com", "/v1/moderations" },
	{ "**api.openai.com", "/v1/conversations/**" },
	{ "**api.openai.com", "/v1/chat/completions/*" },
	{ "**api.openai.com", "/v1/responses/input_tokens" },
	{ "**", "/**/responses/*/cancel" },
	{ "**", "/**/batches/*/cancel" },
	{ "**", "/**/fine_tuning/jobs/*/cancel" },
	{ "bedrock-runtime*.amazonaws.com", "/model/*/count-tokens" },
	{ "generativelanguage.googleapis.com", "/upload/**" },
	{ "**googleapis.com", "/**:countTokens" },
	{ "**googleapis.com", "/**:computeTokens" },
	{ "**googleapis.com", "/**:cancel" },
	{ "**googleapis.com", "/**:fetchPredictOperation" },
	{ "**googleapis.com", "/google.*/CountTokens" },
	{ "openrouter.ai", "/api/v1/auth/keys" },
};

/* The character of the escape at AT, if servers may treat both alike.  Never a slash, which would
 * change the segments.  -1: leave it as it is. */
static int
escaped(const char *at, size_t len)
{
	int c = codec_percent_byte(at, len);

	return c > ' ' && c <= '~' && c != '/' && c != '%' ? c : -1;
}

/* PATH without its query and redundant slashes, and with ":" for "%3A".  It may be cut: no path
 * above is that long. */
static size_t
plain_path(const char *path, size_t path_len, char ret_plain[PATH_SEEN])
{
	size_t n = 0;

	for (size_t i = 0; i < path_len && path[i] != '?' && n < PATH_SEEN; i++) {
		int c = escaped(path + i, path_len - i);

		if (c >= 0) {
			ret_plain[n++] = (char)c;
			i += 2;
		} else if (path[i] != '/' || n == 0 || ret_plain[n - 1] != '/') {
			ret_plain[n++] = path[i];
		}
	}
	while (n > 1 && ret_plain[n - 1] == '/')
		n--;
	return n;
}

bool
policy_path_ends(const char *path, size_t path_len, const char *end)
{
	char plain[PATH_SEEN];
	size_t len = plain_path(path, path_len, plain), n = strlen(end);

	return n <= len && memcmp(plain + len - n, end, n) == 0;
}

bool
policy_costs_later(const char *path, size_t path_len)
{
	for (size_t i = 0; i < ARRAY_LEN(later); i++)
		if (policy_path_ends(path, path_len, later[i]))
			return true;
	return false;
}

static bool
is_metered_host(const char *host)
{
	for (size_t i = 0; i < ARRAY_LEN(metered); i++)
		if (policy_glob_text(metered[i].host, host, strlen(host)))
			return true;
	return false;
}

/* Such a method costs nothing new: its result was paid for when it was ordered. */
static bool
only_looks(const char *method, size_t len)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "DELETE" };

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strlen(methods[i]) == len && memcmp(methods[i], method, len) == 0)
			return true;
	return false;
}

bool
policy_costs_untold(const char *host, const char *method, size_t method_len, const char *path,
                    size_t path_len)
{
	char plain[PATH_SEEN];
	size_t len;

	if (only_looks(method, method_len) || !is_metered_host(host))
		return false;
	len = plain_path(path, path_len, plain);
	for (size_t i = 0; i < ARRAY_LEN(free_of_charge); i++)
		if (policy_glob_text(free_of_charge[i].host, host, strlen(host)) &&
		    policy_glob_path(free_of_charge[i].path, plain, len))
			return false;
	return true;
}

/* The end of the last WORD in TEXT, or NULL. */
static const char *
find_last(const char *text, size_t len, const char *word)
{
	const char *found = NULL, *at = text, *end = text + len;

	for (; (at = memmem(at, (size_t)(end - at), word, strlen(word))) != NULL; at++)
		found = at + strlen(word);
	return found;
}

/* The model's name behind WORD in the path. */
static void
get_model(const char *plain, size_t len, const char *word, char ret_model[POLICY_MODEL_MAX + 1])
{
	const char *at = word != NULL ? find_last(plain, len, word) : NULL, *stop;
	size_t n;

	if (at == NULL)
		return;
	n = (size_t)(plain + len - at);
	stop = memchr(at, '/', n);
	if (stop == NULL)
		stop = memrchr(at, ':', n);
	n = stop != NULL ? (size_t)(stop - at) : n;
	if (n > POLICY_MODEL_MAX)
		return;
	for (size_t i = 0; i < n; i++)
		if (at[i] <= ' ' || at[i] > '~' || at[i] == '\\')
			return;
	memcpy(ret_model, at, n);
	ret_model[n] = '\0';
}

enum policy_usage
policy_usage_of(const struct policy *p, const struct policy_way *way, const char *host,
                const char *path, size_t path_len, bool *ret_sure,
                char ret_model[POLICY_MODEL_MAX + 1])
{
	char plain[PATH_SEEN];
	enum policy_usage usage = POLICY_USAGE_NONE;
	size_t len;

	*ret_sure = true;
	ret_model[0] = '\0';
	for (size_t i = 0; p != NULL; p = p->within, i++) {
		const struct policy_rule *rule = policy_rule_of(p, way, i);

		if (rule != NULL && rule->usage != POLICY_USAGE_NONE)
			return rule->usage;
	}
	for (size_t i = 0; i < ARRAY_LEN(metered); i++) {
		if (!policy_glob_text(metered[i].host, host, strlen(host)))
			continue;
		len = plain_path(path, path_len, plain);
		get_model(plain, len, metered[i].model, ret_model);
		usage = metered[i].paths[0].usage;
		for (size_t k = 0; k < PATHS_MAX && metered[i].paths[k].path != NULL; k++)
			if (policy_glob_path(metered[i].paths[k].path, plain, len))
				return metered[i].paths[k].usage;
		break;
	}
	*ret_sure = false;
	return usage;
}
