/* could_allow.c - see could_allow.h. */
#include "tools/could_allow.h"

#include <string.h>

#include "http/http_head.h"
#include "policy/policy.h"
#include "policy/policy_rule.h"
#include "policy/policy_tools.h"

static bool
is_named(const struct policy_call *call, const char *name)
{
	for (size_t i = 0; i < call->n; i++)
		if (call->at[i].kind == POLICY_CALL_TOOL && policy_glob(call->at[i].glob, name, strlen(name), '.'))
			return true;
	return false;
}

/* What is unknown speaks for the call: a rule that allows fits, and one that refuses does not. */
static bool
may_fit(const struct policy_rule *rule, const char *name)
{
	bool allows = rule->verb == POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ASK;

	if (!rule->call.present)
		return allows;
	return is_named(&rule->call, name) &&
	       (allows || rule->call.n_args == 0);
}

bool
could_allow(const struct policy *p, const char *name)
{
	static const char method[] = "POST", path[] = POLICY_TOOLS_PATH, host[] = POLICY_TOOLS_HOST;
	unsigned char fits[POLICY_FITS_MAX] = {0};
	const struct http_head head = { .method = { method, sizeof(method) - 1 }, .host = { host, sizeof(host) - 1 },
		.path = { path, sizeof(path) - 1 }, .port = POLICY_TOOLS_PORT, .scheme = HTTP_PLAIN, .length = 1 };
	const struct policy_request request = { .protocol = POLICY_HTTP, .head = &head, .host = host,
		.port = POLICY_TOOLS_PORT, .body_fits = fits, .n_body_fits = sizeof(fits) };
	struct policy_decision d = {0};
	size_t n = policy_n_rules(p);

	for (size_t i = 0; i < n; i++)
		if (may_fit(policy_rule_at(p, i), name))
			fits[i / 8] |= (unsigned char)(1u << i % 8);
	policy_decide(p, &request, &d, NULL);
	return d.verdict != POLICY_DENY;
}
