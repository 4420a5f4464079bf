/* policy_explain.c - evaluates every rule as policy_decide() would, and keeps the results.
 *
 * It deliberately does not use the index: the tests compare both. */
#include "policy/policy_explain.h"

#include <string.h>

#include "base/own.h"
#include "policy/policy_load.h"

static enum policy_step_kind
explain_place(const struct policy_rule *rule, const struct policy_request *req)
{
	bool host = false, port = false;

	for (size_t i = 0; i < rule->n_hosts; i++) {
		if (!policy_host_fits(&rule->hosts[i], req->host))
			continue;
		host = true;
		port |= policy_port_fits(rule, &rule->hosts[i], req->port);
	}
	return !host ? POLICY_STEP_HOST : !port ? POLICY_STEP_PORT : POLICY_STEP_DECIDES;
}

static enum policy_step_kind
explain_body(const struct policy_rule *rule, const struct policy_request *req,
             const struct policy_facts *facts, size_t index)
{
	if (!policy_rule_wants_body(rule) || (rule->git.present && facts->git != POLICY_GIT_PUSH))
		return POLICY_STEP_DECIDES;
	if (req->body_fits != NULL)
		return index / 8 < req->n_body_fits && (req->body_fits[index / 8] >> index % 8 & 1) ?
		       POLICY_STEP_DECIDES : POLICY_STEP_BODY;
	return req->head->length == 0 && !rule->body.graphql ? POLICY_STEP_BODY : POLICY_STEP_OPEN;
}

static struct policy_step
explain_rule(const struct policy_rule *rule, const struct policy_request *req,
             const struct policy_facts *facts, size_t index)
{
	struct policy_step step = { explain_place(rule, req), NULL };

	if (step.kind != POLICY_STEP_HOST && rule->off != POLICY_ON)
		return (struct policy_step){ POLICY_STEP_KEY, rule->off == POLICY_OFF_PRINCIPAL ?
		                             "principal" : "chain" };
	if (step.kind != POLICY_STEP_DECIDES)
		return step;
	if ((rule->protocols >> req->protocol & 1) == 0 ||
	    (req->protocol != POLICY_HTTP && facts->for_tools && rule->verb != POLICY_VERB_DENY))
		return (struct policy_step){ POLICY_STEP_PROTOCOL, NULL };
	if (req->protocol == POLICY_HTTP) {
		step.key = policy_head_differs(rule, facts);
		if (step.key != NULL)
			return (struct policy_step){ POLICY_STEP_KEY, step.key };
		if (rule->verb == POLICY_VERB_ALLOW && req->head->length != HTTP_LENGTH_UNKNOWN &&
		    req->head->length > rule->upload_max)
			return (struct policy_step){ POLICY_STEP_SIZE, NULL };
		step.kind = explain_body(rule, req, facts, index);
	}
	if (step.kind == POLICY_STEP_DECIDES && rule->verb == POLICY_VERB_LOG)
		step.kind = POLICY_STEP_LOGS;
	return step;
}

void
policy_explain(const struct policy *p, const struct policy_request *req,
               struct policy_step *ret_steps)
{
	struct policy_decoded decoded;
	struct policy_facts facts;
	size_t at = 0;

	if (req->protocol == POLICY_HTTP)
		policy_facts_init(&facts, req->head, &decoded);
	facts.for_tools = policy_is_tools_host(req->host);
	for (; p != NULL; p = p->within) {
		bool decided = false;

		for (size_t i = 0; i < p->n_rules; i++, at++) {
			ret_steps[at] = (struct policy_step){ POLICY_STEP_BEHIND, NULL };
			if (!decided)
				ret_steps[at] = explain_rule(&p->rules[i], req, &facts, at);
			decided |= ret_steps[at].kind == POLICY_STEP_DECIDES;
		}
	}
}

bool
policy_key_is_recorded(const char *name)
{
	static const struct { const char *name; unsigned flags; } keys[] = {
#define CONDITION(id, name, flags, ...) { name, flags },
#define SETTING(...)
#include "policy/policy_table.h"
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return (keys[i].flags & POLICY_KEY_UNRECORDED) == 0;
	return true;
}
