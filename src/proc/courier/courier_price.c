/* courier_price.c - what a request may cost at most, before it leaves.
 *
 * A request to a model says in its body which model, and how much that may write.  So while a
 * budget of money is in force such a body is held until it is there, up to COURIER_LOOK_HELD.
 * One that cannot be read (it is packed, larger, or no JSON) may cost as much as a dear model's
 * longest answer does. */
#include <string.h>

#include "inspect/usage.h"
#include "inspect/usage_asked.h"
#include "proc/courier/courier.h"

#define UNREAD_TOKENS 1000000           /* of a body that nobody knows the length of */

/* Why nobody could tell what it costs, or NULL. */
static const char *
cannot_meter(const struct exchange *ex)
{
	bool priced = policy_price_of_request(ex->policy->policy, &ex->decision.way) > 0;

	if (ex->is_upgrade)
		return "what a model says over a WebSocket cannot be metered, and there is a budget of money";
	if (!priced && !http_text_is(ex->method, "GET") && policy_costs_later(ex->path.at, ex->path.len))
		return "what a batch costs is known only later, and there is a budget of money: its rule needs "
		       "a price";
	if (!priced && !ex->budget.sure && policy_costs_untold(ex->host, ex->method.at, ex->method.len,
	                                                       ex->path.at, ex->path.len))
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
	if (ex->kind != EXCHANGE_HTTP || !ex->policy->budgets.money || http_text_is(ex->method, "HEAD"))
		return;
	b->usage = policy_usage_of(ex->policy->policy, &ex->decision.way, ex->host, ex->path.at,
	                           ex->path.len, &sure, ex->model);
	/* What is fetched may be the answer to what was asked before, or anything else. */
	b->sure = b->usage != POLICY_USAGE_NONE && sure && !http_text_is(ex->method, "GET");
}

bool
exchange_wants_price(struct exchange *ex)
{
	if (!ex->policy->budgets.money || !ex->has_body || ex->is_grpc || ex->is_upgrade)
		return false;
	look(ex);
	return ex->budget.sure;
}

/* All of its body is here, or there is none. */
static bool
is_whole(const struct exchange *ex)
{
	return ex->has_body && ex->came_all && ex->sent == 0 && ex->body.pos == 0 && ex->body.len > 0;
}

/* What is in a packed body is not known here. */
static bool
is_packed(struct exchange *ex)
{
	return ex->has_body && !swap_is_plain(exchange_head(ex));
}

static uint64_t
input_of(struct exchange *ex, const struct usage_asked *asked)
{
	uint64_t context = ex->courier->budgets.context, tokens = 0;

	if (is_packed(ex))
		tokens = UNREAD_TOKENS;
	else if (is_whole(ex))
		tokens = ex->body.len / USAGE_BYTES_PER_TOKEN;
	else if (ex->has_body)
		tokens = ex->length != HTTP_LENGTH_UNKNOWN ? ex->length / USAGE_BYTES_PER_TOKEN
		                                           : UNREAD_TOKENS;
	if (asked->kept)
		tokens += context > 0 ? context : USAGE_KEPT_TOKENS;
	return tokens;
}

static enum usage_style
style_of(const struct exchange *ex)
{
	static const char responses[] = "/responses";

	if (ex->budget.usage != POLICY_USAGE_OPENAI)
		return USAGE_OTHER;
	return memmem(ex->path.at, ex->path.len, responses, sizeof(responses) - 1) != NULL ? USAGE_RESPONSES :
	                                                                                     USAGE_CHAT;
}

static uint64_t
most_of(struct exchange *ex)
{
	struct usage_asked asked = { .copies = 1 };
	struct policy_tokens plain = {0}, cached = {0};
	uint64_t input, output, a, b;

	/* Anthropic gives one answer to a request; others as many as the body asks for. */
	if (is_packed(ex))
		asked.copies = ex->budget.usage == POLICY_USAGE_ANTHROPIC ? 1 : USAGE_COPIES_MAX;
	else if (is_whole(ex))
		(void)usage_read_asked((const char *)ex->body.data, ex->body.len, style_of(ex), &asked);
	/* The path goes before the body, as it does with who has both. */
	if (ex->model[0] == '\0')
		memcpy(ex->model, asked.model, sizeof(ex->model));
	input = input_of(ex, &asked);
	output = asked.max_output > 0 ? asked.max_output : policy_max_output(ex->model);
	plain.input = cached.cache_write = input;
	plain.output = cached.output = output * asked.copies;
	a = courier_price_of(ex->policy, ex->model, &plain);
	b = courier_price_of(ex->policy, ex->model, &cached);
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
