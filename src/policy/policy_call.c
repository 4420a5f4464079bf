/* policy_call.c - completes a policy's rules for calls: the lock's tools, and what calls nothing. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_tools.h"

#define BUILT_IN "built-in"

bool
policy_is_tools_host(const char *host)
{
	return strcmp(host, POLICY_TOOLS_HOST) == 0;
}

/* ---- annotations ---- */

static bool
has_pattern(const struct policy_call *call, const char *name)
{
	for (size_t i = 0; i < call->n; i++)
		if (policy_glob(call->at[i].glob, name, strlen(name), '.'))
			return true;
	return false;
}

static int
settle(struct policy *p, struct policy_rule *rule, struct err *err)
{
	const struct policy_tools *tools = p->tools;
	struct policy_call *call = &rule->call;
	struct policy_pattern *at;
	size_t n = 0;

	if (tools == NULL || !tools->has_lock)
		return err_set(err, EINVAL, "%s: `annotations` are those of the lock: add `lock: tools.lock.yaml` to `tools`",
		               rule->place);
	at = policy_alloc(p, tools->n_locked, sizeof(*at));
	if (at == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	for (size_t i = 0; i < tools->n_locked; i++) {
		const struct policy_tool *tool = &tools->locked[i];

		if ((tool->hints & call->hints) == call->hints && (tool->hints & call->no_hints) == 0 &&
		    has_pattern(call, tool->name))
			at[n++] = (struct policy_pattern){ POLICY_CALL_TOOL, tool->name };
	}
	call->at = at;
	call->n = n;
	call->hints = call->no_hints = 0;
	return 0;
}

int
policy_settle_annotations(struct policy *p, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n_rules; i++)
		if ((p->rules[i].call.hints | p->rules[i].call.no_hints) != 0)
			r = settle(p, &p->rules[i], err);
	return r;
}

/* ---- messages that call nothing ---- */

/* GET is the stream of messages from the servers, DELETE ends a session; POST is looked into. */
static int
make_uncalled(struct policy *p, struct policy_rule *rule, bool posts)
{
	static const char *const post[] = { "POST" }, *const others[] = { "GET", "DELETE" };
	static const char *const paths[] = { POLICY_TOOLS_PATH };
	struct policy_host *host = policy_alloc(p, 1, sizeof(*host));

	if (host == NULL)
		return -ENOMEM;
	*host = (struct policy_host){ .kind = POLICY_HOST_NAME, .name = POLICY_TOOLS_HOST, .port = POLICY_TOOLS_PORT };
	*rule = (struct policy_rule){
		.verb = POLICY_VERB_ALLOW, .protocols = 1u << POLICY_HTTP, .schemes = POLICY_SCHEME_PLAIN, .hosts = host, .n_hosts = 1,
		.methods = posts ? (struct policy_list){ post, 1 } : (struct policy_list){ others, 2 }, .paths = { paths, 1 },
		.call = { .present = true, .others = posts ? POLICY_OTHERS_MESSAGES : POLICY_OTHERS_BODILESS }, .upload_max = POLICY_CALL_MAX, .place = BUILT_IN,
	};
	policy_ask_default(rule);
	rule->text = policy_text_of(p, rule);
	return rule->text != NULL ? 0 : -ENOMEM;
}

int
policy_add_uncalled(struct policy *p, struct err *err)
{
	struct policy_rule both[2];
	size_t at = p->n_rules;

	for (size_t i = p->n_rules; i-- > 0;) {
		if (p->rules[i].call.others != POLICY_OTHERS_NONE)
			return 0;
		at = p->rules[i].call.present ? i : at;
	}
	if (p->tools == NULL && at == p->n_rules)
		return 0;
	if (make_uncalled(p, &both[0], true) < 0 || make_uncalled(p, &both[1], false) < 0)
		return err_set(err, ENOMEM, "the policy is too large");
	for (size_t i = 0; i < ARRAY_LEN(both); i++)
		if (policy_add_rule(p) == NULL)
			return err_set(err, E2BIG, "a policy has at most %d rules, with those for tools", POLICY_RULES_MAX);
	memmove(&p->rules[at + 2], &p->rules[at], (p->n_rules - 2 - at) * sizeof(*p->rules));
	memcpy(&p->rules[at], both, sizeof(both));
	return 0;
}
