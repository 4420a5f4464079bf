/* dispatch_policy.c - tests of the policy and the limits in force. */
#include <errno.h>

#include "base/err.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy_yaml.h"
#include "test.h"

static json_t *
read_json(const char *text)
{
	json_t *value = NULL;
	struct err err = {0};

	if (text != NULL && canon_read(text, strlen(text), &value, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
	return value;
}

static const struct {
	const char *document, *one, *two;       /* the agent's; rules of capabilities */
	const char *want;                       /* NULL: there is no policy */
} merge_cases[] = {
	{ NULL, "[]", "[]", NULL },
	{ NULL, "[{\"allow\":\"a.example\"}]", "[]", "{\"egress\":[{\"allow\":\"a.example\"}],\"version\":1}" },
	{ "{\"version\":1}", "[]", "[]", "{\"egress\":[],\"version\":1}" },
	/* In order: the agent's own, then the capabilities'. */
	{ "{\"version\":1,\"egress\":[{\"deny\":\"a.example\"}]}", "[{\"allow\":\"b.example\"}]",
	  "[{\"allow\":\"c.example\"}]",
	  "{\"egress\":[{\"deny\":\"a.example\"},{\"allow\":\"b.example\"},{\"allow\":\"c.example\"}],"
	  "\"version\":1}" },
	/* What two need is needed once; what the agent's own settles is settled. */
	{ NULL, "[{\"allow\":\"a.example\"}]", "[{\"allow\":\"a.example\"},{\"allow\":\"b.example\"}]",
	  "{\"egress\":[{\"allow\":\"a.example\"},{\"allow\":\"b.example\"}],\"version\":1}" },
	{ "{\"version\":1,\"egress\":[{\"deny\":\"a.example\"}]}", "[{\"allow\":\"a.example\"}]", "[]",
	  "{\"egress\":[{\"deny\":\"a.example\"}],\"version\":1}" },
	/* The rest of the agent's policy stays. */
	{ "{\"version\":1,\"limits\":{\"pids\":5}}", "[{\"allow\":\"a.example\"}]", "[]",
	  "{\"egress\":[{\"allow\":\"a.example\"}],\"limits\":{\"pids\":5},\"version\":1}" },
	/* JSON's escapes mean the same when it is read as YAML. */
	{ NULL, "[{\"deny\":\"a.example\",\"reason\":\"\\\"q\\\\\\u00e9\\ud83d\\ude00 #: {}\\tx\"}]", "[]",
	  "{\"egress\":[{\"deny\":\"a.example\",\"reason\":\"\\\"q\\\\\xc3\xa9\xf0\x9f\x98\x80 #: {}\\tx\"}],"
	  "\"version\":1}" },
};

TEST(dispatch_policy_merges)
{
	for (size_t i = 0; i < ARRAY_LEN(merge_cases); i++) {
		OWN(json_decrefp) json_t *document = read_json(merge_cases[i].document);
		OWN(json_decrefp) json_t *one = read_json(merge_cases[i].one);
		OWN(json_decrefp) json_t *two = read_json(merge_cases[i].two), *policy = NULL;
		json_t *const rules[] = { one, two };
		OWN(freep) char *text = NULL;
		struct err err = {0};
		size_t len;

		if (dispatch_policy_merge(document, rules, 2, &policy, &err) < 0)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
		CHECK((policy == NULL) == (merge_cases[i].want == NULL));
		if (policy == NULL)
			continue;
		CHECK_OK(canon_dump(policy, 1 << 20, &text, &len, &err));
		CHECK_STR(text, merge_cases[i].want);
	}
}

TEST(dispatch_policy_refuses_invalid_text)
{
	OWN(json_decrefp) json_t *rules = read_json("[{\"allow\":\"a.example\"},{\"alow\":\"b.example\"}]");
	OWN(json_decrefp) json_t *policy = NULL;
	struct err err = {0};

	CHECK_ERR(dispatch_policy_merge(NULL, &rules, 1, &policy, &err), EINVAL);
	CHECK(strstr(err.text, "alow") != NULL && policy == NULL);
}

static const struct {
	const char *agent, *policy, *one, *two;
	uint64_t timeout_ms;
	const char *want;
} limit_cases[] = {
	{ "{}", NULL, "{}", "{}", 0, "{}" },
	{ "{\"memory\":\"1G\"}", "{\"memory\":\"2G\",\"pids\":7}", "{}", "{}", 0,
	  "{\"memory\":\"1G\",\"pids\":\"7\"}" },
	/* The most that a capability wants, where nobody else says anything. */
	{ "{}", NULL, "{\"memory\":\"512M\"}", "{\"memory\":\"1G\"}", 0, "{\"memory\":\"1G\"}" },
	{ "{\"memory\":\"256M\"}", NULL, "{\"memory\":\"512M\"}", "{}", 0, "{\"memory\":\"256M\"}" },
	/* A time-out shortens, and never lengthens. */
	{ "{}", NULL, "{}", "{}", 1500, "{\"time\":\"1500ms\"}" },
	{ "{\"time\":\"1h\"}", NULL, "{}", "{}", 60000, "{\"time\":\"60000ms\"}" },
	{ "{\"time\":\"1s\"}", NULL, "{}", "{}", 60000, "{\"time\":\"1s\"}" },
};

TEST(dispatch_limits_merge)
{
	for (size_t i = 0; i < ARRAY_LEN(limit_cases); i++) {
		OWN(json_decrefp) json_t *agent = read_json(limit_cases[i].agent);
		OWN(json_decrefp) json_t *policy = read_json(limit_cases[i].policy);
		OWN(json_decrefp) json_t *one = read_json(limit_cases[i].one);
		OWN(json_decrefp) json_t *two = read_json(limit_cases[i].two), *limits = NULL;
		const json_t *const wanted[] = { one, two };
		OWN(freep) char *text = NULL;
		size_t len;

		CHECK_OK(dispatch_limits_merge(agent, policy, wanted, 2, limit_cases[i].timeout_ms, &limits,
		                               NULL));
		CHECK_OK(canon_dump(limits, 4096, &text, &len, NULL));
		CHECK_STR(text, limit_cases[i].want);
	}
}

/* What is written as canonical JSON is read back as YAML: it must be the same text. */
TEST(dispatch_policy_is_read_as_it_was_written)
{
	static const char text[] = "{\"egress\":[{\"deny\":\"a.example\",\"reason\":\"\\\"q\\\\ '#: {}[]&*!|> %@`"
	                           "\xc3\xa9\xf0\x9f\x98\x80\\n\\tx\"}],\"version\":1}";
	static const char want[] = "\"q\\ '#: {}[]&*!|> %@`\xc3\xa9\xf0\x9f\x98\x80\n\tx";
	OWN(node_freep) struct node *root = NULL;
	const struct node *egress;
	struct err err = {0};

	if (node_parse("x", text, sizeof(text) - 1, &root, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	egress = node_get(root, "egress");
	CHECK(egress != NULL && egress->n == 1);
	CHECK_STR(node_get(egress->items[0], "reason")->text, want);
}
