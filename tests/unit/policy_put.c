/* policy_put.c - tests of policy/policy_put. */
#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy_lab.h"
#include "test.h"

/* Something of everything. */
static const char rules[] =
	"- {log: '*', principal: '', reason: 'a note'}\n"
	"- {allow: [a.x, '*.b.x:8443', '**.c.x'], ports: [443, 8000-8100], scheme: https,\n"
	"   methods: [GET, POST], paths: [/a/**, '/b c'], headers: {x-a: [1, 2], x-b: absent},\n"
	"   query: {a: b*, c: absent}, content_type: [application/json], websocket: true,\n"
	"   body: {max: 5M, regex: ['a+', 'b'], json: {/m: [x*, 1.5, true, null, absent], '': y}},\n"
	"   secrets: allow, private: true, reason: why}\n"
	"- {deny: [10.0.0.0/8, 'fd00::/8'], query: ['', 'a=**']}\n"
	"- {ask: g.x, git: {fetch: true, push: [refs/heads/*], force: true, delete: true, options: true,\n"
	"   repos: [o/*]}}\n"
	"- {allow: g.x, grpc: {service: p.S, methods: [Get*]}}\n"
	"- {allow: q.x, body: {graphql: {operations: [query, subscription], names: ['', x*]}}}\n"
	"- {allow: r.x, body: {jsonrpc: {methods: [a, b*]}}}\n"
	"- {allow: w.x, upgrade: websocket}\n"
	"- {allow: t.x:1, protocol: tcp}\n"
	"- {allow: s.x, protocol: tls}\n"
	"- {allow: u.x, principal: [ann@*, bob], chain: [lead, 'w*']}\n"
	"- {ask: v.x, approvers: [ann, 'token:ops', 'uid:7'], approvals: 2, timeout: 90s, freeze: true}\n"
	"- {allow: m.x, placeholders: pass}\n"
	"- {allow: n.x, placeholders: pass, secrets: allow}\n"
	"- {allow: o.x, uses: []}\n"
	"- {allow: p.x, uses: [A, B]}\n";

static void
put(struct buf *b, const struct policy *p)
{
	buf_init(b, POLICY_ENCODED_MAX);
	policy_put(b, p);
	CHECK(!buf_failed(b));
}

TEST(policy_put_and_get)
{
	OWN(policy_freep) struct policy *p = lab_rules(rules), *again = NULL;
	OWN(buf_free) struct buf b, c;
	struct err err = {0};

	put(&b, p);
	CHECK_OK(policy_get(&b, &again, &err));
	CHECK_U64(buf_left(&b), 0);
	put(&c, again);
	CHECK(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
	CHECK_U64(policy_n_rules(again), policy_n_rules(p));
	for (int i = 0; i < (int)policy_n_rules(p); i++) {
		CHECK_STR(policy_rule_place(again, i), policy_rule_place(p, i));
		CHECK_STR(policy_rule_text(again, i), policy_rule_text(p, i));
		/* The text is made of everything: what was lost would be missing from it. */
		CHECK_STR(policy_text_of(again, &again->rules[i]), policy_rule_text(p, i));
	}
	CHECK_STR(lab_decide(again, "POST https://a.x/a/b?a=bc\nx-a: 1\ncontent-type: "
	                     "application/json\nlength: 7"), "allow? 1");
	CHECK_STR(lab_decide(again, "- tcp://t.x:1"), "allow 8");
	CHECK_STR(again->rules[1].reason, "why");
	CHECK(again->rules[1].body.json[0].values[1].number == 1.5);
	CHECK(again->rules[1].body.json[0].values[2].truth);
}

TEST(policy_put_empty)
{
	OWN(policy_freep) struct policy *p = policy_new_empty(), *again = NULL;
	OWN(buf_free) struct buf b;

	put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	CHECK_STR(lab_decide(again, "GET https://a.x"), "deny -1");
}

/* Cut anywhere, or with any byte changed: an error or a policy, and nothing worse. */
TEST(policy_get_distrusts)
{
	OWN(policy_freep) struct policy *p = lab_rules(rules);
	OWN(buf_free) struct buf b;
	size_t taken = 0;

	put(&b, p);
	for (size_t len = 0; len < b.len; len++) {
		OWN(policy_freep) struct policy *again = NULL;
		struct buf part;

		buf_init_borrowed(&part, b.data, len);
		CHECK_ERR(policy_get(&part, &again, NULL), EBADMSG);
		CHECK(again == NULL);
	}
	for (size_t i = 0; i < b.len; i++) {
		OWN(policy_freep) struct policy *again = NULL;
		struct buf part;

		b.data[i] ^= 0x81;
		buf_init_borrowed(&part, b.data, b.len);
		taken += policy_get(&part, &again, NULL) == 0;
		b.data[i] ^= 0x81;
	}
	/* Letters of names may change, numbers and counts may not. */
	CHECK(taken > 0 && taken < b.len / 2);
}

TEST(policy_get_refuses)
{
	OWN(policy_freep) struct policy *p = lab_rules(rules);
	struct policy_rule *rule = &p->rules[1], saved = *rule;
	struct policy_host host = rule->hosts[0];
	struct policy_ports ports = { 9, 3 };
	struct policy_ask *ask;

#define REFUSED(change)                                                     \
	do {                                                                    \
		OWN(buf_free) struct buf b;                                         \
		OWN(policy_freep) struct policy *again = NULL;                      \
		change;                                                             \
		put(&b, p);                                                         \
		CHECK_ERR(policy_get(&b, &again, NULL), EBADMSG);                   \
		*rule = saved;                                                      \
	} while (0)

	REFUSED(rule->verb = POLICY_VERBS);
	REFUSED(rule->protocols = 0);
	REFUSED(rule->protocols = 8);
	REFUSED(rule->schemes = 0);
	REFUSED(rule->n_hosts = 0);
	REFUSED((rule->ports = &ports, rule->n_ports = 1));
	REFUSED((host.name = "A.x", rule->hosts = &host, rule->n_hosts = 1));
	REFUSED((host.name = "", rule->hosts = &host, rule->n_hosts = 1));
	REFUSED((host.kind = POLICY_HOST_ANY, host.name = "x", rule->hosts = &host,
	         rule->n_hosts = 1));
	REFUSED((host.kind = POLICY_HOST_KINDS, rule->hosts = &host, rule->n_hosts = 1));
	REFUSED(rule->upgrade = POLICY_UPGRADES);
	REFUSED(rule->has_query = true);
	REFUSED(rule->body.graphql = true);
	REFUSED(rule->body.jsonrpc = true);
	REFUSED(rule->git.fetch = true);
	REFUSED(rule->off = POLICY_OFF_PRINCIPAL);
	REFUSED(rule->off = POLICY_OFF_CHAIN);
	REFUSED(rule->off = POLICY_OFFS);
	/* Of a rule that asks. */
	rule = &p->rules[11];
	ask = &rule->ask;
	saved = *rule;
	REFUSED(ask->approvals = 0);
	REFUSED(ask->approvals = 4);
	REFUSED((ask->approvals = POLICY_APPROVALS_MAX + 1, ask->approvers.n = 0));
	REFUSED(ask->timeout_ms = POLICY_TIMEOUT_LEAST_MS - 1);
	REFUSED(ask->timeout_ms = POLICY_TIMEOUT_MOST_MS + 1);
}
