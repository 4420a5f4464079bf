/* policy_flat.c - tests of policies that are written down again. */
#include "policy/policy_flat.h"

#include "base/err.h"
#include "policy/policy.h"
#include "policy/policy_yaml.h"
#include "test.h"

static char *
flatten(const char *text)
{
	OWN(policy_flat_free) struct policy_flat f;
	OWN(policy_freep) struct policy *p = NULL;
	struct err err = {0};
	struct buf b;

	policy_flat_init(&f);
	if (policy_flat_load(&f, "t.yaml", text, strlen(text), NULL, &p, &err) < 0)
		return strdup(err.text);
	buf_init(&b, POLICY_FLAT_MAX);
	policy_flat_put(&b, &f);
	buf_put(&b, "", 1);
	CHECK(!buf_failed(&b));
	return (char *)b.data;
}

TEST(policy_flat)
{
	static const struct { const char *text, *want; } cases[] = {
		{ "version: 1\n", "version: 1\negress: []\n" },
		{ "{version: 1, egress: [{allow: '*', methods: [GET, HEAD]}]}",
		  "version: 1\negress:\n  - allow: '*'\n    methods: [GET, HEAD]\n" },
		{ "version: 1\nlimits: {memory: 2G}\negress:\n  # why\n  - deny: a.example # there\n"
		  "    reason: it's, well\n",
		  "version: 1\negress:\n  - deny: a.example\n    reason: 'it''s, well'\nlimits: {memory: 2G}\n" },
		/* A text stays one, a number a number, and what is absent is. */
		{ "version: 1\negress:\n  - allow: a.example\n    headers: {x: absent, y: 'absent', z: '1'}\n"
		  "    reason: \"two\\nlines\\t\\\"\\\\\"\n",
		  "version: 1\negress:\n  - allow: a.example\n    headers: {x: absent, y: 'absent', z: '1'}\n"
		  "    reason: \"two\\nlines\\t\\\"\\\\\"\n" },
		{ "version: 1\negress:\n  - allow: a.example\n    paths: ['/a, b', '/**']\n    body: {json: {/n: 1}}\n",
		  "version: 1\negress:\n  - allow: a.example\n    paths: ['/a, b', '/**']\n    body: {json: {/n: 1}}\n" },
		/* A rule that nothing is left for is no error here. */
		{ "version: 1\negress: [{deny: a.example}, {allow: a.example}]",
		  "version: 1\negress:\n  - deny: a.example\n  - allow: a.example\n" },
		/* What the courier keeps of the limits stands behind what the walls do. */
		{ "version: 1\nlimits: {rate: 5/s, pids: 9}\nbudgets:\n  - {per: cell, requests: 5}\n"
		  "  - {per: cell, hosts: 2}\nprices: {a-*: {input: 1, output: 2}}\n",
		  "version: 1\negress: []\nlimits: {pids: 9, rate: 5/s}\nbudgets: [{per: cell, requests: 5}, "
		  "{per: cell, hosts: 2}]\nprices: {'a-*': {input: 1, output: 2}}\n" },
		{ "version: 1\negress: [{allow: }]", "t.yaml:2:" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *got = flatten(cases[i].text), *again = NULL;

		if (cases[i].want[0] == 't') {
			CHECK(strncmp(got, cases[i].want, strlen(cases[i].want)) == 0);
			continue;
		}
		CHECK_STR(got, cases[i].want);
		again = flatten(got);
		CHECK_STR(again, got);
	}
}

/* A part of another kind is not left out, but refused; one without a value takes what comes. */
TEST(policy_flat_mixed)
{
	static const char *const texts[] = { "secrets: ", "secrets: [A]", "secrets: [B]", "secrets: {C: {hosts: c.x}}" };
	OWN(policy_flat_free) struct policy_flat f;
	OWN(buf_free) struct buf b = BUF(4096);

	policy_flat_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		OWN(node_freep) struct node *root = NULL;
		struct err err = {0};

		CHECK_OK(node_parse("t.yaml", texts[i], strlen(texts[i]), &root, &err));
		CHECK((policy_flat_part(&f, root->items[0], root->values[0], &err) < 0) == (i == 3));
	}
	policy_flat_put(&b, &f);
	buf_put(&b, "", 1);
	CHECK_STR((char *)b.data, "version: 1\negress: []\nsecrets: [A, B]\n");
}

/* Presets are written out, and mean what they meant. */
TEST(policy_flat_presets)
{
	static const char text[] = "version: 1\negress:\n  - include: [npm, pypi, github]\n";
	OWN(policy_freep) struct policy *one = NULL, *other = NULL;
	OWN(freep) char *flat = flatten(text);
	struct err err = {0};

	CHECK_OK(policy_load_text("a", text, strlen(text), &one, NULL, &err));
	CHECK_OK(policy_load_text("b", flat, strlen(flat), &other, NULL, &err));
	CHECK(policy_n_rules(one) > 3 && policy_n_rules(one) == policy_n_rules(other));
	for (int i = 0; i < (int)policy_n_rules(one); i++)
		CHECK_STR(policy_rule_text(other, i), policy_rule_text(one, i));
}

TEST(policy_put_short)
{
	static const struct { const char *verb, *text, *want; } cases[] = {
		{ "allow", "a.example", "{allow: 'a.example'}" },
		{ "deny", "GET,POST a.example/x/", "{deny: 'a.example', paths: '/x/', methods: [GET,POST]}" },
		{ "deny", "db.example:5432/tcp", "{deny: 'db.example:5432', protocol: 'tcp'}" },
		{ "allow", "preset:npm", "{include: 'preset:npm'}" },
		{ "deny", "preset:npm", "deny 'preset:npm': a preset can only be allowed" },
		{ "deny", "a b", "deny 'a b': methods stand in front of the host, in capitals: 'GET,POST "
		  "api.example.com'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf b;
		struct err err = {0};

		buf_init(&b, 4096);
		if (policy_put_short(&b, cases[i].verb, cases[i].verb, cases[i].text, &err) < 0) {
			CHECK_STR(err.text, cases[i].want);
			continue;
		}
		buf_put(&b, "", 1);
		CHECK_STR((char *)b.data, cases[i].want);
	}
}
