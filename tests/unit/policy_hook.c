/* policy_hook.c - tests of policy/policy_hook. */
#include "policy/policy_hook.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

/* ---- reading ---- */

TEST(policy_hook_read)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {allow: a.x, hook: /usr/bin/check}\n"
		"- {ask: b.x, hook: [/usr/bin/check, --strict, x]}\n"
		"- {allow: c.x, hook: 'unix:/run/team.sock'}\n"
		"- {allow: d.x, hook: {call: 'unix:/run/team.sock', timeout: 250ms, body: 64K}}\n"
		"- {allow: e.x}\n");
	const struct policy_hook *hook = policy_hook_of(p, 0);

	CHECK_STR(hook->argv[0], "/usr/bin/check");
	CHECK(hook->argv[1] == NULL && hook->socket == NULL);
	CHECK(hook->timeout_ms == 5000 && hook->body_max == 0);
	hook = policy_hook_of(p, 1);
	CHECK_STR(hook->argv[2], "x");
	CHECK(hook->argv[3] == NULL);
	CHECK_STR(policy_hook_of(p, 2)->socket, "/run/team.sock");
	hook = policy_hook_of(p, 3);
	CHECK(hook->timeout_ms == 250 && hook->body_max == 65536 && hook->argv == NULL);
	CHECK(policy_hook_of(p, 4) == NULL && policy_hook_of(p, -1) == NULL && policy_hooks(p));
	CHECK(policy_hook_same(policy_hook_of(p, 2), policy_hook_of(p, 2)));
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < i; k++)
			CHECK(!policy_hook_same(policy_hook_of(p, i), policy_hook_of(p, k)));
	CHECK_STR(policy_rule_text(p, 1), "ask b.x hook [/usr/bin/check, --strict, x]");
	CHECK_STR(policy_rule_text(p, 3), "allow d.x hook unix:/run/team.sock timeout 250ms body 64K");
}

TEST(policy_hook_refused)
{
	static const struct { const char *hook, *why; } cases[] = {
		{ "check", "absolute path" },
		{ "[]", "this hook has no program: write `hook: /PATH`" },
		{ "/usr/../bin/x", "plain absolute path" },
		{ "/usr//x", "plain absolute path" },
		{ "/usr/x/", "plain absolute path" },
		{ "'unix:run.sock'", "absolute path" },
		{ "['unix:/run.sock', x]", "takes no arguments" },
		{ "{timeout: 2s, call: x}", "3:42: 'x' is not a plain absolute path" },
		{ "{timeout: 2s}", "`hook` needs `call`" },
		{ "{call: /x, timeout: 1ms}", "3:42: 'timeout' of a hook is from 10ms to 60s" },
		{ "{call: /x, timeout: 2m}", "3:42: 'timeout' of a hook is from 10ms to 60s" },
		{ "{call: /x, timeout: soon}", "from 10ms to 60s" },
		{ "{call: /x, body: 2M}", "3:39: a hook gets at most 1M" },
		{ "{call: /x, body: all}", "`body: 64K`" },
		{ "{call: /x, args: y}", "it takes call, timeout, body" },
	};
	static const char text[] = "version: 1\negress:\n- {allow: a.x, hook: /usr/bin/check}\n";
	struct policy *p = NULL;
	struct err err = {0};
	char rules[512];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *why;

		snprintf(rules, sizeof(rules), "- {allow: a.x, hook: %s}\n", cases[i].hook);
		why = lab_refuses(rules);
		if (*why == '\0' || strstr(why, cases[i].why) == NULL)
			printf("%s: %s\n", cases[i].hook, why);
		CHECK(*why != '\0' && strstr(why, cases[i].why) != NULL);
	}
	CHECK(strstr(lab_refuses("- {deny: a.x, hook: /x}\n"), "belongs to allow or ask") != NULL);
	/* Only who runs hooks may accept them. */
	CHECK(policy_load_text("p", text, strlen(text), &p, NULL, &err) < 0);
	CHECK(strstr(err.text, "p:3:22: a hook is the operator's own program") != NULL);
}

TEST(policy_hook_put_rule)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {allow: a.x, hook: [/x/y, z], cookies: {s: absent, t: [a, b]}, rewrite: {host: h}}\n- {allow: b.x, hook: 'unix:/s'}\n");
	OWN(policy_freep) struct policy *again = NULL, *bad = NULL;
	OWN(buf_free) struct buf b, second;
	unsigned char *at;

	buf_init(&b, 65536);
	buf_init(&second, 65536);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	policy_put(&second, again);
	CHECK(b.len == second.len && memcmp(b.data, second.data, b.len) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(policy_hook_same(policy_hook_of(p, i), policy_hook_of(again, i)));
	at = memmem(second.data, second.len, "/x/y", 4);
	CHECK(at != NULL);
	*at = 'x';
	CHECK(policy_get(&second, &bad, NULL) < 0);
}

/* ---- the question ---- */

#define ID "0123456789abcdef0123456789abcdef"
#define OTHER_ID "0123456789abcdef0123456789abcdee"

static const char *
ask(const char *request, const char *body)
{
	static struct buf b;
	struct lab_request lab;
	struct policy_hook_question question = { .id = ID, .head = &lab.head, .has_body = body != NULL,
		.body = body, .n_body = body != NULL ? strlen(body) : 0, .cell = "c1", .agent = "",
		.principal = "ann", .rule = "allow \"a\"", .place = "p:1:2" };

	buf_free(&b);
	buf_init(&b, 65536);
	lab_request(&lab, request);
	policy_hook_put(&b, &question);
	buf_put(&b, "", 1);
	CHECK(!buf_failed(&b));
	return (const char *)b.data;
}

#define ABOUT "{\"id\":\"" ID "\",\"version\":1,\"cell\":\"c1\",\"agent\":\"\",\"principal\":\"ann\"," \
	"\"rule\":\"allow \\\"a\\\"\",\"place\":\"p:1:2\","

TEST(policy_hook_question)
{
	CHECK_STR(ask("GET https://a.x/p?q", NULL), ABOUT "\"method\":\"GET\",\"url\":\"https://a.x/p?q\","
	          "\"host\":\"a.x\",\"port\":443,\"headers\":[]}\n");
	CHECK_STR(ask("PUT http://a.x:81/\nx-a: b\nauthorization: Bearer t\nx_api_key: t\ncookie: t\n"
	              "x-amz-security-token: t", "{\"k\":\"\xc3\xa9\"}"),
	          ABOUT "\"method\":\"PUT\",\"url\":\"http://a.x:81/\",\"host\":\"a.x\",\"port\":81,"
	          "\"headers\":[[\"x-a\",\"b\"],[\"authorization\",null],[\"x_api_key\",null],"
	          "[\"cookie\",null],[\"x-amz-security-token\",null]],"
	          "\"body\":\"{\\\"k\\\":\\\"\xc3\xa9\\\"}\"}\n");
	CHECK(strstr(ask("PUT https://a.x/\nx-a: \xe9", ""), "[[\"x-a\",\"\xc3\xa9\"]],\"body\":\"\"}\n") != NULL);
	CHECK(strstr(ask("PUT https://a.x/", "\xff"), "\"body_base64\":\"/w==\"}\n") != NULL);
	CHECK(strstr(ask("PUT https://a.x/", "\xff" "a"), "\"body_base64\":\"/2E=\"}\n") != NULL);
	CHECK(strstr(ask("PUT https://a.x/", "\xff" "ab?"), "\"body_base64\":\"/2FiPw==\"}\n") != NULL);
	/* One line, whatever is in it. */
	CHECK(strchr(ask("PUT https://a.x/", "a\nb"), '\n')[1] == '\0');
}

/* ---- the answer ---- */

static const struct {
	const char *answer;
	enum policy_verdict verdict;
	const char *reason;
	const char *edit;               /* its first edit, or NULL */
	const char *why;                /* it is refused; NULL: it is not */
} answers[] = {
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\"}\n", POLICY_ALLOW, "", NULL, NULL },
	{ " { \"id\":\"" ID "\",\"verdict\" : \"ask\" , \"reason\" : \"why not\" } ", POLICY_ASK, "why not", NULL, NULL },
	{ "{\"id\":\"" ID "\",\"reason\":\"a\\nb\\u0007\\u202e\xc3\xa9\",\"verdict\":\"deny\"}", POLICY_DENY, "a b  \xc3\xa9", NULL, NULL },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{\"x\":\"y\"}}}}", POLICY_ALLOW, "",
	  "header x=y", NULL },
	{ "{\"id\":\"" ID "\",\"verdict\":\"ask\",\"rewrite\":{\"headers\":{\"remove\":[\"x\",\"y\"]}}}", POLICY_ASK, "",
	  "header x removed", NULL },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"json\":{\"max\":{\"/a\":5},\"set\":{\"/b\":\"\\u0041\"}}}}",
	  POLICY_ALLOW, "", "json /b=\"\\u0041\"", NULL },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"host\":\"b.x:81\",\"path\":{\"to\":\"/\",\"from\":\"/v/\"}}}",
	  POLICY_ALLOW, "", "host b.x:81", NULL },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"query\":{\"set\":{\"\\u0071\":\"1\"}}}}", POLICY_ALLOW, "",
	  "query q=1", NULL },
	{ "", 0, NULL, NULL, "not one JSON object" },
	{ "[]", 0, NULL, NULL, "not one JSON object" },
	{ "{}", 0, NULL, NULL, "no id" },
	{ "{\"verdict\":\"allow\"}", 0, NULL, NULL, "no id" },
	{ "{\"id\":\"" ID "\"}", 0, NULL, NULL, "no verdict" },
	{ "{\"id\":\"" ID "\",\"id\":\"" ID "\",\"verdict\":\"allow\"}", 0, NULL, NULL, "a name twice" },
	{ "{\"id\":1,\"verdict\":\"allow\"}", 0, NULL, NULL, "id is not a text" },
	{ "{\"id\":\"" ID "0\",\"verdict\":\"allow\"}", 0, NULL, NULL, "id is not that of a question" },
	{ "{\"id\":\"0123456789ABCDEF0123456789abcdef\",\"verdict\":\"allow\"}", 0, NULL, NULL,
	  "id is not that of a question" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\"} x", 0, NULL, NULL, "not one JSON object" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\"}{}", 0, NULL, NULL, "not one JSON object" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\"", 0, NULL, NULL, "not one JSON object" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"Allow\"}", 0, NULL, NULL, "not allow, deny or ask" },
	{ "{\"id\":\"" ID "\",\"verdict\":true}", 0, NULL, NULL, "not allow, deny or ask" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"deny\",\"verdict\":\"allow\"}", 0, NULL, NULL, "a name twice" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"x\":1}", 0, NULL, NULL, "a name other than" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"reason\":1}", 0, NULL, NULL, "not a text" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"deny\",\"rewrite\":{\"host\":\"b\"}}", 0, NULL, NULL, "denies, and has a rewrite" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{}}", 0, NULL, NULL, "changes nothing" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{}}}}", 0, NULL, NULL, "changes nothing" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":[]}", 0, NULL, NULL, "not an object" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"body\":{}}}", 0, NULL, NULL, "unknown name" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"max\":{\"x\":1}}}}", 0, NULL, NULL, "unknown name" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{\"x\":1}}}}", 0, NULL, NULL, "not a text" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{\"host\":\"x\"}}}}", 0, NULL, NULL,
	  "frames the request" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{\"x\":\"a\\r\\nb\"}}}}", 0, NULL, NULL,
	  "control character" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"headers\":{\"set\":{\"x\":\"1\"},\"remove\":[\"x\"]}}}", 0,
	  NULL, NULL, "rewritten twice" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"json\":{\"set\":{\"/a\":[1]}}}}", 0, NULL, NULL, "not a short text" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"path\":{\"from\":\"/\"}}}", 0, NULL, NULL, "begins and ends" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"path\":{\"from\":\"/\",\"from\":\"/\"}}}", 0, NULL, NULL, "once each" },
	{ "{\"id\":\"" ID "\",\"verdict\":\"allow\",\"rewrite\":{\"host\":1}}", 0, NULL, NULL, "`host` is a text" },
};

TEST(policy_hook_answer)
{
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		OWN(policy_hook_answer_free) struct policy_hook_answer answer = {0};
		char text[POLICY_EDIT_TEXT_MAX];
		struct err err = {0};
		int r = policy_hook_get(answers[i].answer, strlen(answers[i].answer), &answer, &err);

		if (answers[i].why != NULL) {
			if (r == 0 || strstr(err.text, answers[i].why) == NULL)
				printf("%s: %s\n", answers[i].answer, err.text);
			CHECK(r < 0 && strstr(err.text, answers[i].why) != NULL && answer.memory == NULL);
			continue;
		}
		if (r < 0)
			printf("%s: %s\n", answers[i].answer, err.text);
		CHECK(r == 0 && answer.verdict == answers[i].verdict);
		CHECK_STR(answer.id, ID);
		CHECK_STR(answer.reason, answers[i].reason);
		CHECK((answer.rewrite != NULL) == (answers[i].edit != NULL));
		if (answer.rewrite != NULL)
			CHECK_STR(policy_edit_text(&answer.rewrite->edits[0], text), answers[i].edit);
	}
}

/* cloister-hook compares the ids of questions and answers, and reads nothing else of them. */
TEST(policy_hook_ids)
{
	static const struct { const char *answer, *why; } cases[] = {
		{ "{\"verdict\":[{\"id\":1}],\"id\":\"" ID "\"}\n", NULL },
		{ "{\"id\":\"\\u0030123456789abcdef0123456789abcdef\"}", NULL },
		{ "{\"id\":\"" OTHER_ID "\"}", "another question" },
		{ "{\"id\":null}", "another question" },
		{ "{\"id\":[\"" ID "\"]}", "another question" },
		{ "{\"x\":{\"id\":\"" ID "\"}}", "without the id" },
		{ "{\"id\":\"" ID "\",\"i\\u0064\":\"" OTHER_ID "\"}", "two ids" },
		{ "{\"id\":\"" ID "\"} x", "not one JSON object" },
		{ "\"" ID "\"", "not one JSON object" },
		{ "", "not one JSON object" },
	};
	const char *question = ask("GET https://a.x/p", NULL);
	char id[POLICY_HOOK_ID + 1] = "";

	CHECK(policy_hook_id(question, strlen(question), id));
	CHECK_STR(id, ID);
	for (size_t n = 0; n < strlen("{\"id\":\"" ID "\""); n++)
		CHECK(!policy_hook_id(question, n, id));
	CHECK(!policy_hook_id(question + 1, strlen(question + 1), id));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *why = policy_hook_stray(cases[i].answer, strlen(cases[i].answer), ID);

		if ((why == NULL) != (cases[i].why == NULL) || (why != NULL && strstr(why, cases[i].why) == NULL))
			test_fail(__FILE__, __LINE__, "%s: %s", cases[i].answer, why != NULL ? why : "taken");
	}
}

TEST(policy_hook_answer_bounds)
{
	OWN(policy_hook_answer_free) struct policy_hook_answer answer = {0};
	static char text[POLICY_HOOK_ANSWER_MAX + 1];
	int n = snprintf(text, sizeof(text), "{\"id\":\"" ID "\",\"verdict\":\"deny\",\"reason\":\"");

	memset(text + n, 'x', POLICY_HOOK_REASON_MAX);
	memcpy(text + n + POLICY_HOOK_REASON_MAX, "\"}", 3);
	CHECK_OK(policy_hook_get(text, strlen(text), &answer, NULL));
	CHECK(strlen(answer.reason) == POLICY_HOOK_REASON_MAX);
	memcpy(text + n + POLICY_HOOK_REASON_MAX, "x\"}", 4);
	CHECK(policy_hook_get(text, strlen(text), &answer, NULL) < 0);
	n = snprintf(text, sizeof(text), "{\"id\":\"" ID "\",\"verdict\":\"deny\"}");
	memset(text + n, ' ', sizeof(text) - (size_t)n);
	CHECK(policy_hook_get(text, sizeof(text), &answer, NULL) < 0);
}
