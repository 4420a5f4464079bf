/* policy_behaviour.c - tests of `watch`: reading, encoding, and merging with other files. */
#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_flat.h"
#include "policy_lab.h"
#include "test.h"

static struct policy *
load(const char *watch)
{
	char text[8192];
	struct policy *p = NULL;
	struct err err = {0};

	snprintf(text, sizeof(text), "version: 1\n%s", watch);
	if (policy_load_text("t.yaml", text, strlen(text), &p, NULL, &err) < 0)
		CHECK_STR(err.text, "");
	return p;
}

static const struct {
	const char *rule, *text, *leads;
} rules[] = {
	{ "{write: ~/.ssh, then: freeze}", "watch write [~/.ssh] then freeze", "freeze" },
	{ "{write: [.git/hooks/, '/etc/**'], then: [notify, kill]}", "watch write [.git/hooks, /etc] then notify kill",
	  "notify, kill" },
	{ "{read: '*.pem', then: {ask: true, notify: true}}", "watch read [*.pem] then notify ask", "notify, ask" },
	{ "{exec: [downloaded, curl, memory], then: ask}", "watch exec [memory, downloaded, curl] then ask", "ask" },
	{ "{exec: refused, then: notify}", "watch exec [refused] then notify", "notify" },
	{ "{connect: [10.0.0.0/8, '*:25', /run/x], then: {narrow: [{deny: '*'}]}}",
	  "watch connect [/run/x, 10.0.0.0/8, *:25] then narrow", "narrow" },
	{ "{refused: [ptrace, 'mount*'], then: {revoke: [A, B]}}", "watch refused [ptrace, mount*] then revoke [A, B]",
	  "revoke" },
};

TEST(policy_behaviour_read)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		char text[1024], leads[POLICY_LEADS_MAX];

		snprintf(text, sizeof(text), "watch: [%s]\n", rules[i].rule);
		p = load(text);
		CHECK_U64(policy_n_behaviours(p), 1);
		CHECK_STR(policy_behaviour_at(p, 0)->text, rules[i].text);
		CHECK_STR(policy_behaviour_leads(policy_behaviour_at(p, 0), leads), rules[i].leads);
	}
}

static const struct {
	const char *watch, *error;
} wrong[] = {
	{ "{write: x, then: blow}", "`then` of a `watch` rule is" },
	{ "{write: x}", "leads to something" },
	{ "{then: freeze}", "has a condition" },
	{ "{write: x, read: y, then: freeze}", "one condition" },
	{ "{write: ../x, then: freeze}", "is not a path" },
	{ "{write: '**', then: freeze}", "is not a path" },
	{ "{write: ~root/x, then: freeze}", "is not a path" },
	{ "{refused: ptrac, then: freeze}", "did you mean 'ptrace'" },
	{ "{connect: api.example.com, then: freeze}", "`- log: api.example.com`" },
	{ "{write: x, then: {freeze: false}}", "does nothing" },
	{ "{write: x, then: [ask, freeze]}", "leave `freeze` out" },
	{ "{write: x, then: {narrow: other.yaml}}", "has its rules here" },
	{ "{writes: x, then: freeze}", "did you mean 'write'" },
	{ "preset:npm", "has no rules of `watch`" },
	{ "preset:codin", "did you mean 'coding'" },
};

TEST(policy_behaviour_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[1024];

		snprintf(text, sizeof(text), "version: 1\nwatch: [%s]\n", wrong[i].watch);
		if (strstr(lab_refuses_file(text), wrong[i].error) == NULL)
			CHECK_STR(lab_refuses_file(text), wrong[i].error);
	}
}

#define TWO "watch:\n  - {write: ~/.ssh, then: freeze, reason: keys}\n  - {refused: ptrace, then: {narrow: [{deny: a}]}}\n"

/* The encoding keeps everything, in its layer, and a reader of the behaviours alone gets all of them. */
TEST(policy_behaviour_put)
{
	OWN(policy_freep) struct policy *p = load(TWO), *again = NULL, *only = NULL;
	struct policy *outer = load("egress:\n  - allow: x.example\nwatch: preset:coding\n");
	size_t n = policy_n_behaviours(outer);
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX), twice = BUF(POLICY_ENCODED_MAX);
	struct buf view;

	CHECK_OK(policy_within(p, &outer, NULL));
	policy_put(&b, p);
	CHECK(policy_begins_with_behaviours(b.data));
	buf_init_borrowed(&view, b.data, b.len);
	CHECK_OK(policy_get(&view, &again, NULL));
	CHECK_U64(buf_left(&view), 0);
	policy_put(&twice, again);
	CHECK_U64(twice.len, b.len);
	CHECK(memcmp(twice.data, b.data, b.len) == 0);
	CHECK_U64(policy_n_behaviours(policy_outer(again)), n);
	CHECK_STR(policy_behaviour_at(again, 0)->reason, "keys");
	buf_init_borrowed(&view, b.data, b.len);
	CHECK_OK(policy_get_behaviours_only(&view, &only, NULL));
	CHECK_U64(policy_n_behaviours(only), n + 2);
	CHECK(policy_behaviour_find(only, policy_behaviour_at(p, 1)->key) != NULL);
	CHECK(policy_behaviour_find(only, 1) == NULL);
	for (size_t cut = 0; cut < b.len; cut += 7) {
		struct policy *none = NULL;

		buf_init_borrowed(&view, b.data, cut);
		CHECK_ERR(policy_get(&view, &none, NULL), EBADMSG);
	}
}

/* Rules whose texts are cut at the same place are still two. */
TEST(policy_behaviour_keys)
{
	char text[4096], long_name[700];
	OWN(policy_freep) struct policy *p = NULL;

	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	snprintf(text, sizeof(text), "watch:\n  - {write: %s/a, then: notify}\n  - {write: %s/b, then: notify}\n"
	         "  - {write: %s/b, then: notify}\n", long_name, long_name, long_name);
	p = load(text);
	CHECK_U64(policy_n_behaviours(p), 2);
	CHECK(policy_behaviour_at(p, 0)->key != policy_behaviour_at(p, 1)->key);
}

/* A preset alone, and rules of another file, are one list in the text of a cell. */
TEST(policy_behaviour_flat)
{
	static const char text[] = "version: 1\nwatch: preset:coding\nextends: preset:coding-strict\n";
	OWN(policy_flat_free) struct policy_flat f;
	OWN(policy_freep) struct policy *p = NULL, *again = NULL;
	OWN(buf_free) struct buf b = BUF(POLICY_FLAT_MAX);

	policy_flat_init(&f);
	CHECK_OK(policy_flat_load(&f, "t.yaml", text, strlen(text), NULL, &p, NULL));
	policy_flat_put(&b, &f);
	CHECK_OK(policy_load_text("flat", (char *)b.data, b.len, &again, NULL, NULL));
	CHECK_U64(policy_n_behaviours(again), policy_n_behaviours(p));
	CHECK(policy_n_behaviours(p) > 5);
}
