/* policy_git.c - tests of policy/policy_git: the hosts that git reaches over HTTPS alone. */
#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

static const struct { const char *rules, *host; } cases[] = {
	{ "- {allow: a.x, git: fetch}", "a.x" },
	{ "- {ask: a.x, git: {push: ['refs/heads/*']}}", "a.x" },
	{ "- {allow: a.x, scheme: https, git: fetch}\n- {ask: a.x, git: {push: ['refs/heads/*']}}", "a.x" },
	{ "- allow: a.x", NULL },
	{ "- {deny: a.x, git: {push: ['refs/heads/*']}}", NULL },
	{ "- {allow: a.x, scheme: http, git: fetch}", NULL },
	{ "- {allow: 'a.x:8443', git: fetch}", NULL },
	{ "- {allow: '*.a.x', git: fetch}", NULL },
	{ "- {allow: a.x, git: fetch}\n- {allow: 'a.x:22', protocol: tcp}", NULL },
};

TEST(policy_git_hosts)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = lab_rules(cases[i].rules);
		const char *hosts[POLICY_GIT_HOSTS_MAX];

		CHECK_U64(policy_git_hosts(p, hosts), cases[i].host != NULL);
		CHECK(policy_has_git_host(p, "a.x") == (cases[i].host != NULL));
		CHECK(!policy_has_git_host(p, "b.x"));
	}
}
