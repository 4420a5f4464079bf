/* price.c - computes the highest cost of a request before it leaves.
 *
 * The body of a request to a model names the model and limits its output.  So while a budget of
 * money is in force, such a body is held until it is complete, up to COURIER_LOOK_HELD.  A body
 * that cannot be read (compressed, larger, or not JSON) counts as the longest response of an
 * expensive model. */
#include <string.h>

#include "base/own.h"
#include "egress/courier.h"
#include "inspect/usage.h"
#include "inspect/usage_asked.h"

#define UNREAD_TOKENS 1000000           /* for a body of unknown length */

/* Why the cost cannot be measured, or NULL. */
static const char *
cannot_meter(const struct exchange *ex)
{
	bool priced = policy_price_of_request(ex->policy->policy, &ex->decision.way) > 0;

	if (ex->t.is_upgrade)
		return "what a model says over a WebSocket cannot be metered, and there is a budget of money";
	if (!priced && !http_text_is(ex->t.method, "GET") && policy_costs_later(ex->request.path.at, ex->request.path.len))
		return "what a batch costs is known only later, and there is a budget of money: its rule needs "
		       "a price";
	if (!priced && !ex->budget.sure && policy_costs_untold(ex->host, ex->t.method.at, ex->t.method.len,
	                                                       ex->request.path.at, ex->request.path.len))
		return "what this costs is in no answer of the provider's, and there is a budget of money: its "
		       "rule needs a price";
	return NULL;
}

static void
look(struct exchange *ex)
{
	struct exchange_budget *b = &ex->budget;
	bool sure;

	b->usage = POLICY_USAGE_NONE;
	b->sure = false;
	if (ex->kind != EXCHANGE_HTTP || !ex->policy->budgets.money || http_text_is(ex->t.method, "HEAD"))
		return;
	b->usage = policy_usage_of(ex->policy->policy, &ex->decision.way, ex->host, ex->request.path.at,
	                           ex->request.path.len, &sure, ex->budget.model);
	/* A GET may fetch the result of an earlier request, or anything else. */
	b->sure = b->usage != POLICY_USAGE_NONE && sure && !http_text_is(ex->t.method, "GET");
}

bool
exchange_wants_price(struct exchange *ex)
{
	if (!ex->policy->budgets.money || !ex->t.has_body || ex->request.is_grpc || ex->t.is_upgrade)
		return false;
	look(ex);
	return ex->budget.sure;
}

/* Whether the whole body is here, not empty, and none of it is sent. */
static bool
is_whole(const struct exchange *ex)
{
	return ex->t.has_body && ex->t.came_all && ex->t.sent == 0 && ex->t.body.pos == 0 && ex->t.body.len > 0;
}

/* The content of a compressed body is unknown here. */
static bool
is_packed(struct exchange *ex)
{
	return ex->t.has_body && http_head_is_packed(exchange_head(ex));
}

static uint64_t
input_of(struct exchange *ex, const struct usage_asked *asked)
{
	uint64_t context = ex->courier->budgets.context, tokens = 0;

	if (is_packed(ex))
		tokens = UNREAD_TOKENS;
	else if (is_whole(ex))
		tokens = ex->t.body.len / USAGE_BYTES_AT_LEAST;
	else if (ex->t.has_body)
		tokens = ex->request.length != HTTP_LENGTH_UNKNOWN ? ex->request.length / USAGE_BYTES_AT_LEAST
		                                           : UNREAD_TOKENS;
	if (asked->kept)
		tokens += context > 0 ? context : USAGE_KEPT_TOKENS;
	return tokens;
}

static enum usage_style
style_of(const struct exchange *ex)
{
	/* The agent writes the query, and may name a deployment: only the end of the path
	 * identifies the call. */
	static const struct {
		enum policy_usage usage;
		const char *end;
		enum usage_style style;
	} ends[] = {
		{ POLICY_USAGE_OPENAI, "/responses", USAGE_RESPONSES },
		{ POLICY_USAGE_OPENAI, "", USAGE_CHAT },
		{ POLICY_USAGE_ANTHROPIC, "/converse", USAGE_CONVERSE },
		{ POLICY_USAGE_ANTHROPIC, "/converse-stream", USAGE_CONVERSE },
		/* Bedrock has models of many makers, and rejects field names that a model does not
		 * know. */
		{ POLICY_USAGE_ANTHROPIC, "/invoke", USAGE_OTHER },
		{ POLICY_USAGE_ANTHROPIC, "/invoke-with-response-stream", USAGE_OTHER },
		{ POLICY_USAGE_ANTHROPIC, "", USAGE_MESSAGES },
		{ POLICY_USAGE_GEMINI, "", USAGE_GEMINI },
	};

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ex->budget.usage == ends[i].usage &&
		    policy_path_ends(ex->request.path.at, ex->request.path.len, ends[i].end))
			return ends[i].style;
	return USAGE_OTHER;
}

static uint64_t
most_of(struct exchange *ex)
{
	struct usage_asked asked = { .copies = 1 };
	struct policy_tokens plain = {0}, cached = {0};
	uint64_t input, output, a, b;

	/* Anthropic gives one response per request; others give as many as the body asks for. */
	if (is_packed(ex))
		asked.copies = ex->budget.usage == POLICY_USAGE_ANTHROPIC ? 1 : USAGE_COPIES_MAX;
	else if (is_whole(ex))
		(void)usage_read_asked((const char *)ex->t.body.data, ex->t.body.len, style_of(ex), &asked);
	/* The path takes precedence over the body, as it does at providers with both. */
	if (ex->budget.model[0] == '\0')
		memcpy(ex->budget.model, asked.model, sizeof(ex->budget.model));
	input = input_of(ex, &asked);
	output = asked.max_output > 0 ? asked.max_output : policy_max_output(ex->budget.model);
	plain.input = cached.cache_write = input;
	plain.output = cached.output = output * asked.copies;
	a = courier_price_of(ex->policy, ex->budget.model, &plain);
	b = courier_price_of(ex->policy, ex->budget.model, &cached);
	return a > b ? a : b;
}

bool
exchange_price(struct exchange *ex)
{
	look(ex);
	ex->budget.most = 0;
	if (ex->budget.usage == POLICY_USAGE_NONE)
		return true;
	if (cannot_meter(ex) != NULL) {
		exchange_refuse(ex, "budget", cannot_meter(ex));
		return false;
	}
	if (ex->budget.sure)
		ex->budget.most = most_of(ex);
	return true;
}
