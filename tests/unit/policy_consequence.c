/* policy_consequence.c - tests of what a match leads to, and of tripwires. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_consequence.h"
#include "policy/policy_flat.h"
#include "policy_lab.h"
#include "test.h"

/* As it is handed to who decides with it. */
static struct policy *
sent(struct policy *p)
{
	OWN(buf_free) struct buf b;
	struct policy *again = NULL;

	buf_init(&b, POLICY_ENCODED_MAX);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	CHECK_U64(buf_left(&b), 0);
	policy_free(p);
	return again;
}

static struct policy *
whole(const char *text)
{
	struct policy *p = NULL;

	CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &p, NULL, NULL));
	return sent(p);
}

/* P as it is after its rule RULE matched. */
static struct policy *
after(struct policy *p, int rule)
{
	size_t len;
	const void *narrow = policy_consequence_narrow(policy_consequence(p, rule), &len);
	OWN(policy_freep) struct policy *layer = NULL;
	struct buf b;

	CHECK(len > 0);
	buf_init_borrowed(&b, narrow, len);
	CHECK_OK(policy_get(&b, &layer, NULL));
	CHECK_OK(policy_within(p, &layer, NULL));
	return p;
}

#define RULES                                                                                 \
	"- {allow: '*.x', secrets: allow, placeholders: pass, private: true}\n"               \
	"- {allow: '*:5432', protocol: tcp}\n"                                                \
	"- {allow: payroll, then: {"

TEST(policy_then_in_front)
{
	OWN(policy_freep) struct policy *p = after(sent(lab_rules(RULES
		"narrow: [{allow: api.x, methods: [GET], paths: [/ok]}, {deny: api.x, reason: after payroll}, "
		"{deny: db.x}]}}\n")), 2);
	struct policy_decision d;
	struct lab_request lab;

	CHECK_STR(lab_decide(p, "GET https://api.x/ok"), "allow 0");
	CHECK_STR(lab_decide(p, "POST https://api.x/ok"), "deny 4");
	/* What it does not speak of is as it was, and no less. */
	CHECK_STR(lab_decide(p, "POST https://b.x/"), "allow 0");
	CHECK_STR(lab_decide(p, "GET https://nowhere/"), "deny -1");
	lab_request(&lab, "POST https://b.x/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.may_carry_secrets && d.may_use_private && d.may_pass_placeholders && !d.must_look);
	CHECK_U64(d.upload_max, POLICY_UPLOAD_MAX);
	lab_request(&lab, "GET https://api.x/ok");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.may_carry_secrets && d.may_use_private && d.may_pass_placeholders);
	/* Nor is there less to speak. */
	CHECK(policy_route(p, "some.host", 5432) == POLICY_ROUTE_TCP);
	CHECK(policy_mentions_host(p, "b.x"));
}

/* A host that is only denied is not found; one from which something follows is. */
TEST(policy_then_of_denied_requests)
{
	OWN(policy_freep) struct policy *p = lab_rules("- deny: a.x\n- {deny: b.x, then: {notify: true}}\n");

	CHECK(!policy_mentions_host(p, "a.x"));
	CHECK(policy_mentions_host(p, "b.x"));
}

TEST(policy_then_another_policy)
{
	OWN(policy_freep) struct policy *p = after(sent(lab_rules(RULES
		"narrow: {egress: [{allow: api.x, methods: [GET]}]}}}\n")), 2);

	CHECK_STR(lab_decide(p, "GET https://api.x/"), "allow 0");
	CHECK_STR(lab_decide(p, "POST https://api.x/"), "deny -1");
	CHECK_STR(lab_decide(p, "GET https://b.x/"), "deny -1");
}

TEST(policy_then_asks)
{
	OWN(policy_freep) struct policy *p = after(sent(lab_rules(RULES "ask: [api.x, db.x]}}\n")), 2);

	CHECK_STR(lab_decide(p, "GET https://api.x/"), "ask 3");
	CHECK_STR(lab_decide(p, "GET https://b.x/"), "allow 0");
	CHECK_STR(lab_decide(p, "GET https://db.x:80/"), "ask 3");
}

TEST(policy_then_is_sent)
{
	OWN(policy_freep) struct policy *p = sent(lab_rules(
		"- {deny: a.x, then: {revoke: [ONE, TWO], freeze: true}}\n"
		"- {log: b.x, then: {notify: true}}\n- allow: c.x\n"));
	const struct policy_consequence *c = policy_consequence(p, 0);
	size_t len;

	CHECK(c != NULL && policy_consequence_freezes(c) && !policy_consequence_notifies(c));
	CHECK_STR(policy_consequence_revokes(c, 1), "TWO");
	CHECK(policy_consequence_revokes(c, 2) == NULL);
	(void)policy_consequence_narrow(c, &len);
	CHECK_U64(len, 0);
	CHECK(policy_consequence_notifies(policy_consequence(p, 1)));
	CHECK(policy_consequence(p, 2) == NULL && policy_consequence(p, 3) == NULL &&
	      policy_consequence(p, -1) == NULL);
	CHECK_STR(policy_rule_text(p, 0), "deny a.x then revoke [ONE, TWO] freeze");
}

/* The same in another place of another file is the same. */
TEST(policy_then_is_known_again)
{
	OWN(policy_freep) struct policy *a = lab_rules("- {allow: a.x, then: {narrow: [{deny: b.x}]}}\n");
	OWN(policy_freep) struct policy *b = lab_rules("- allow: c.x\n"
		"- {log: a.x, then: {narrow: [{deny: b.x}]}}\n- {allow: a.x, then: {narrow: [{deny: b.x}]}}\n");
	uint64_t key = policy_consequence_key(policy_consequence(a, 0));

	CHECK_U64(policy_consequence_key(policy_consequence(b, 2)), key);
	CHECK(policy_consequence_key(policy_consequence(b, 1)) != key);
}

TEST(policy_tripwires)
{
	OWN(policy_freep) struct policy *p = whole("{version: 1, tripwires: {credential: freeze, "
		"transfer: {over: 20x, least: 5M, then: refuse}, refusals: {count: 7, within: 30s, then: kill}}}");
	OWN(policy_freep) struct policy *less = whole("{version: 1, tripwires: {transfer: {then: notify}}}");
	const struct policy_tripwires *t = policy_tripwires(p);

	CHECK(t != NULL && t->credential == POLICY_TRIP_FREEZE);
	CHECK(t->transfer.then == POLICY_TRIP_REFUSE && t->transfer.times == 20 &&
	      t->transfer.least == 5 << 20);
	CHECK(t->refusals.then == POLICY_TRIP_KILL && t->refusals.count == 7 &&
	      t->refusals.within_ms == 30000);
	t = policy_tripwires(less);
	CHECK(t->transfer.times == 10 && t->transfer.least == 1 << 20 &&
	      t->refusals.then == POLICY_TRIP_UNSAID);
	{
		OWN(policy_freep) struct policy *none = whole("{version: 1, egress: [{allow: a.x}]}");

		CHECK(policy_tripwires(none) == NULL);
	}
}

TEST(policy_tripwire_exfiltration)
{
	static const char text[] = "{version: 1, tripwires: {exfiltration: kill}}";
	OWN(policy_freep) struct policy *p = NULL;
	struct policy_limits limits = {0};
	static const char twice[] = "{version: 1, exfiltration: freeze, tripwires: {exfiltration: refuse}}";

	CHECK_OK(policy_load_text("t", text, strlen(text), &p, &limits, NULL));
	CHECK(limits.exfiltration == POLICY_EXFILTRATION_KILL);
	policy_free(TAKE(p));
	CHECK_OK(policy_load_text("t", twice, strlen(twice), &p, &limits, NULL));
	CHECK(limits.exfiltration == POLICY_EXFILTRATION_FREEZE);
}

TEST(policy_then_refuses)
{
	static const struct { const char *rules, *want; } cases[] = {
		{ "- {allow: a.x, then: {}}\n", "`then` is a map" },
		{ "- {allow: a.x, then: freeze}\n", "`then` is a map" },
		{ "- {allow: a.x, then: {freeze: false}}\n", "does nothing" },
		{ "- {allow: a.x, then: {frieze: true}}\n", "did you mean 'freeze'" },
		{ "- {allow: a.x, then: {narrow: }}\n", "`narrow` is a list of rules" },
		{ "- {allow: a.x, then: {narrow: {rules: []}}}\n", "`narrow` is a list of rules" },
		{ "- {allow: a.x, then: {narrow: other.yaml}}\n", "cannot be read from here" },
		{ "- {allow: a.x, then: {narrow: [{deny: b.x}], ask: [c.x]}}\n", "`narrow` says it all" },
		{ "- {allow: a.x, then: {ask: [c.x], narrow: [{deny: b.x}]}}\n", "`narrow` says it all" },
		{ "- {allow: a.x, then: {narrow: [{deny: b.x, then: {freeze: true}}]}}\n", "no `then` of its own" },
		{ "- {allow: a.x, then: {narrow: [{deny: b.x, principal: me}]}}\n", "is for everybody" },
		{ "- {allow: a.x, then: {narrow: [{allow: b.x, budget: {requests: 1}}]}}\n", "no budgets" },
		{ "- {allow: a.x, then: {narrow: [{deny: 'b x'}]}}\n", "b x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK(strstr(lab_refuses(cases[i].rules), cases[i].want) != NULL);
}

TEST(policy_tripwires_refuses)
{
	static const struct { const char *text, *want; } cases[] = {
		{ "tripwires: [a]", "`tripwires` is a map" },
		{ "tripwires: {credentials: freeze}", "did you mean 'credential'" },
		{ "tripwires: {credential: stop}", "does one of `notify`, `refuse`" },
		{ "tripwires: {transfer: {over: 10}, }", "such as 10x" },
		{ "tripwires: {transfer: {over: 10x}}", "says what happens" },
		{ "tripwires: {refusals: {then: refuse}}", "does one of `notify`, `freeze`" },
		{ "tripwires: {refusals: {count: 2000, then: kill}}", "up to 1000" },
		{ "tripwires: {exfiltration: notify}", "left at" },
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text), "version: 1\n%s\n", cases[i].text);
		CHECK(strstr(lab_refuses_file(text), cases[i].want) != NULL);
	}
}

TEST(policy_then_has_a_maximum)
{
	OWN(buf_free) struct buf b;

	buf_init(&b, 65536);
	for (size_t i = 0; i <= POLICY_NARROWS_MAX; i++)
		buf_put(&b, "- {log: a.x, then: {narrow: [{deny: b.x}]}}\n", 44);
	buf_put(&b, "", 1);
	CHECK(strstr(lab_refuses((char *)b.data), "may narrow it") != NULL);
}

static int
append(void *arg, const struct node *rule, struct err *err)
{
	(void)err;
	policy_flat_put_node(arg, rule);
	buf_put(arg, "\n", 1);
	return 0;
}

static void
write_file(const char *dir, const char *name, const char *text)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
	CHECK(chmod(path, 0600) == 0);
}

/* A file is as good as its rules, and who writes the policy down gets those. */
TEST(policy_then_a_file)
{
	const char *dir = test_dir();
	OWN(policy_freep) struct policy *p = NULL, *again = NULL;
	OWN(buf_free) struct buf flat;
	const struct policy_reader reader = { .arg = &flat, .rule = append };
	struct err err = {0};
	char path[4096], text[1024];

	buf_init(&flat, 65536);
	write_file(dir, "a.yaml", "{version: 1, egress: [{log: a.x, then: {narrow: b.yaml}}, {allow: '*'}]}");
	write_file(dir, "b.yaml", "{version: 1, egress: [{allow: b.x, methods: [GET]}], extends: c.yaml}");
	write_file(dir, "c.yaml", "{version: 1, egress: [{deny: c.x}]}");
	snprintf(path, sizeof(path), "%s/a.yaml", dir);
	CHECK_OK(policy_load_file(AT_FDCWD, path, &reader, &p, NULL, &err));
	snprintf(text, sizeof(text), "{version: 1, egress: [%.*s, %.*s]}",
	         (int)((char *)memchr(flat.data, '\n', flat.len) - (char *)flat.data), (char *)flat.data,
	         (int)strcspn(strchr((char *)flat.data, '\n') + 1, "\n"), strchr((char *)flat.data, '\n') + 1);
	CHECK_OK(policy_load_text("t", text, strlen(text), &again, NULL, &err));
	CHECK_U64(policy_consequence_key(policy_consequence(again, 0)),
	          policy_consequence_key(policy_consequence(p, 0)));
	p = after(sent(TAKE(p)), 0);
	CHECK_STR(lab_decide(p, "GET https://b.x/"), "allow 1");
	CHECK_STR(lab_decide(p, "GET https://d.x/"), "deny -1");
	write_file(dir, "b.yaml", "{version: 1, limits: {memory: 1G}}");
	CHECK_ERR(policy_load_file(AT_FDCWD, path, &reader, &again, NULL, &err), EINVAL);
	CHECK(strstr(err.text, "has rules only: 'limits' belongs") != NULL);
}
