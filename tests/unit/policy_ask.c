/* policy_ask.c - tests of policy/policy_read_ask and policy/policy_ask: who is asked. */
#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy_lab.h"
#include "test.h"

static const struct { const char *rule, *error; } refused[] = {
	{ "- {ask: a.x, approvers: []}", "1:25: an empty list matches nothing: leave the key out" },
	{ "- {ask: a.x, approvers: [ann, 'user:ann']}", "1:31: 'ann' is here twice" },
	{ "- {ask: a.x, approvers: 'group:x'}", "1:25: 'group:x' is nobody who could approve: write a "
	  "user's name, uid:NUMBER or token:NAME" },
	{ "- {ask: a.x, approvers: 'uid:x'}", "1:25: 'uid:x' is nobody who could approve: write a "
	  "user's name, uid:NUMBER or token:NAME" },
	{ "- {ask: a.x, approvers: 'token:'}", "1:25: 'token:' is nobody who could approve: write a "
	  "user's name, uid:NUMBER or token:NAME" },
	{ "- {ask: a.x, approvals: 0}", "1:25: 'approvals' is how many different people have to "
	  "approve, from 1 to 8" },
	{ "- {ask: a.x, approvals: 9}", "1:25: 'approvals' is how many different people have to "
	  "approve, from 1 to 8" },
	{ "- {ask: a.x, approvers: [ann, bob], approvals: 3}", "1:37: 3 approvals cannot come from 2 "
	  "approvers" },
	{ "- {ask: a.x, timeout: 25h}", "1:23: 'timeout' is how long an answer is waited for, from 1s "
	  "to 24h: `timeout: 10m`" },
	{ "- {ask: a.x, timeout: 500ms}", "1:23: 'timeout' is how long an answer is waited for, from "
	  "1s to 24h: `timeout: 10m`" },
	{ "- {ask: a.x, freeze: yes please}", "1:22: 'freeze' is true or false" },
	{ "- {allow: a.x, approvers: ann}", "1:16: 'approvers' is about asking: it belongs to ask" },
	{ "- {deny: a.x, freeze: true}", "1:15: 'freeze' is about asking: it belongs to ask" },
};

TEST(policy_ask_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const char *error = lab_refuses(refused[i].rule);

		/* Lines are those of the file that the lab makes. */
		CHECK_STR(strchr(error, ':') != NULL ? strchr(error, ':') : error,
		          strchr(refused[i].error, ':'));
	}
}

TEST(policy_ask_question)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {ask: a.x, approvers: [ann, 'user:bob', 'token:ops'], approvals: 2, timeout: 1h,\n"
		"   freeze: true, reason: why}\n"
		"- ask: b.x\n"
		"- allow: c.x\n");
	struct policy_question q;

	CHECK(policy_question(p, 0, &q));
	CHECK_U64(q.n_approvers, 3);
	CHECK_STR(q.approvers[1], "bob");
	CHECK_STR(q.approvers[2], "token:ops");
	CHECK(q.approvals == 2 && q.timeout_ms == 3600 * 1000 && q.freeze);
	CHECK_STR(q.reason, "why");
	CHECK(policy_question(p, 1, &q));
	CHECK(q.n_approvers == 0 && q.approvals == 1 && q.timeout_ms == 600 * 1000 && !q.freeze);
	CHECK(!policy_question(p, 2, &q) && !policy_question(p, -1, &q));
	CHECK_STR(policy_rule_text(p, 0), "ask a.x approvers [ann, bob, token:ops] approvals 2 "
	          "timeout 1h freeze");
	CHECK_STR(policy_rule_text(p, 1), "ask b.x");
}

/* A body that is too large is not left to a rule behind it that does not ask. */
TEST(policy_ask_sizes)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {ask: a.x, paths: [/], body: {max: 1K}}\n"
		"- {allow: a.x, body: {max: 1M}}\n");
	struct lab_request lab;
	struct policy_decision d;

	CHECK_STR(lab_decide(p, "POST https://a.x/\nlength: 1024"), "ask 0");
	CHECK_STR(lab_decide(p, "POST https://a.x/\nlength: 1025"), "deny! 0");
	lab_request(&lab, "POST https://a.x/\nlength: 1025");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.too_large && d.upload_max == 1024);
	lab_request(&lab, "POST https://a.x/\nlength: 7");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.must_look && !d.too_large);
}

/* Each layer that asks has its own approvers. */
TEST(policy_ask_layers)
{
	OWN(policy_freep) struct policy *p = lab_rules("- allow: b.x\n- ask: a.x\n");
	struct policy *outer = lab_rules("- log: '*'\n- {ask: a.x, approvers: ann}\n- allow: b.x\n");
	struct policy_decision d;
	struct policy_question q;
	struct lab_request lab;

	CHECK_OK(policy_within(p, &outer, NULL));
	lab_request(&lab, "GET https://a.x/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.verdict == POLICY_ASK && d.rule == 1);
	CHECK(policy_way_rule(p, &d.way, 0) == 1 && policy_way_rule(p, &d.way, 1) == 3);
	CHECK(policy_way_rule(p, &d.way, 2) == -1 && policy_way_rule(p, &d.way, 99) == -1);
	CHECK(policy_question(p, 3, &q) && q.n_approvers == 1);
	lab_request(&lab, "GET https://b.x/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.verdict == POLICY_ALLOW && policy_way_rule(p, &d.way, 1) == 4);
	CHECK(!policy_question(p, 4, &q));
}

static void
meaning(struct buf *b, const char *rules, int rule)
{
	OWN(policy_freep) struct policy *p = lab_rules(rules);

	buf_init(b, POLICY_ENCODED_MAX);
	policy_put_meaning(b, p, rule);
}

TEST(policy_ask_meaning)
{
	OWN(buf_free) struct buf a, b, c;

	/* Their texts are the same, and so are those of the first two to the letter. */
	meaning(&a, "- {ask: a.x, body: {json: {/n: 1}}}\n", 0);
	meaning(&b, "- deny: b.x\n- {ask: a.x, body: {json: {/n: 1}}}\n", 1);
	meaning(&c, "- {ask: a.x, body: {json: {/n: 2}}}\n", 0);
	CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
	CHECK(a.len == c.len && memcmp(a.data, c.data, a.len) != 0);
}
