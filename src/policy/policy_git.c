/* policy_git.c - finds the hosts that git reaches over HTTPS, and not over SSH. */
#include <string.h>

#include "policy/policy_parts.h"

#define HTTPS_PORT 443
#define SSH_PORT 22

static bool
rule_lets_git(const struct policy_rule *rule)
{
	return (rule->verb == POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ASK) && rule->off == POLICY_ON &&
	       rule->git.present && (rule->schemes & POLICY_SCHEME_TLS) != 0;
}

static bool
is_forge(const struct policy *p, const struct policy_rule *rule, const struct policy_host *host)
{
	return host->kind == POLICY_HOST_NAME && policy_port_fits(rule, host, HTTPS_PORT) &&
	       policy_route(p, host->name, SSH_PORT) != POLICY_ROUTE_TCP;
}

static bool
has(const char *const *hosts, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(hosts[i], name) == 0)
			return true;
	return false;
}

size_t
policy_git_hosts(const struct policy *p, const char *ret_hosts[POLICY_GIT_HOSTS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		for (size_t h = 0; h < rule->n_hosts && rule_lets_git(rule) && n < POLICY_GIT_HOSTS_MAX; h++)
			if (is_forge(p, rule, &rule->hosts[h]) && !has(ret_hosts, n, rule->hosts[h].name))
				ret_hosts[n++] = rule->hosts[h].name;
	}
	return n;
}

bool
policy_has_git_host(const struct policy *p, const char *name)
{
	const char *hosts[POLICY_GIT_HOSTS_MAX];

	return has(hosts, policy_git_hosts(p, hosts), name);
}
