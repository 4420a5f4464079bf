/* policy_put_call.c - encodes a rule's calls.  Reading: after the first error, BAD stays set. */
#include <math.h>
#include <string.h>

#include "policy/policy_parts.h"
#include "policy/policy_tools.h"

static void
put_number(struct buf *b, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	buf_put_u64(b, bits);
}

static double
get_number(struct policy_getting *g)
{
	uint64_t bits = policy_get_u64(g);
	double number;

	memcpy(&number, &bits, sizeof(number));
	g->bad |= !isfinite(number);
	return number;
}

static void
put_arg(struct buf *b, const struct policy_arg *arg)
{
	policy_put_json(b, &arg->json);
	buf_put_u32(b, arg->has_min);
	buf_put_u32(b, arg->has_max);
	put_number(b, arg->min);
	put_number(b, arg->max);
	buf_put_str(b, arg->pattern);
	buf_put_str(b, arg->schema);
}

static void
get_arg(struct policy_getting *g, struct policy_arg *arg)
{
	bool others;

	policy_get_json(g, &arg->json);
	arg->has_min = policy_get_bool(g);
	arg->has_max = policy_get_bool(g);
	arg->min = get_number(g);
	arg->max = get_number(g);
	arg->pattern = policy_get_text(g, POLICY_TEXT_MAX);
	arg->schema = policy_get_text(g, POLICY_SCHEMA_MAX);
	others = arg->has_min || arg->has_max;
	g->bad |= (arg->json.n_values > 0) + others + (*arg->pattern != '\0') + (*arg->schema != '\0') != 1;
}

void
policy_put_call(struct buf *b, const struct policy_rule *rule)
{
	const struct policy_call *call = &rule->call;

	buf_put_u32(b, call->others);
	buf_put_u32(b, (uint32_t)call->n);
	for (size_t i = 0; i < call->n; i++) {
		buf_put_u32(b, call->at[i].kind);
		buf_put_str(b, call->at[i].glob);
	}
	buf_put_u32(b, (uint32_t)call->n_args);
	for (size_t i = 0; i < call->n_args; i++)
		put_arg(b, &call->args[i]);
}

/* Only the gateway takes calls, so a rule for them names no other host. */
static bool
is_for_gateway(const struct policy_rule *rule)
{
	return rule->n_hosts == 1 && rule->hosts[0].kind == POLICY_HOST_NAME && policy_is_tools_host(rule->hosts[0].name) &&
	       rule->hosts[0].port == POLICY_TOOLS_PORT && rule->protocols == 1u << POLICY_HTTP;
}

void
policy_get_call(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_call *call = &rule->call;
	struct policy_pattern *at;
	struct policy_arg *args;

	call->present = true;
	call->others = policy_get_upto(g, POLICY_OTHERS - 1);
	call->n = policy_get_upto(g, POLICY_CALL_PATTERNS_MAX);
	call->at = at = policy_get_room(g, call->n, sizeof(*at));
	for (size_t i = 0; !g->bad && i < call->n; i++) {
		at[i].kind = policy_get_upto(g, POLICY_CALL_KINDS - 1);
		at[i].glob = policy_get_text(g, POLICY_TEXT_MAX);
	}
	call->n_args = policy_get_upto(g, POLICY_LIST_MAX);
	call->args = args = policy_get_room(g, call->n_args, sizeof(*args));
	for (size_t i = 0; !g->bad && i < call->n_args; i++)
		get_arg(g, &args[i]);
	g->bad |= (call->others != POLICY_OTHERS_NONE && (call->n > 0 || call->n_args > 0)) || !is_for_gateway(rule);
}
