/* policy_explain.c - tests of policy/policy_explain, and of the index by it. */
#include "policy/policy_explain.h"

#include <stdio.h>

#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

TEST(policy_explain)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- deny: b.x\n"
		"- allow: a.x:8443\n"
		"- {allow: a.x:443, protocol: tcp}\n"
		"- {allow: a.x, methods: [GET]}\n"
		"- {log: a.x}\n"
		"- {allow: a.x, methods: [POST], body: {max: 10}}\n"
		"- {allow: a.x, methods: [POST], body: {regex: q}}\n"
		"- {ask: a.x, methods: [POST]}\n"
		"- deny: '*.x'\n");
	static const struct policy_step want[] = {
		{ POLICY_STEP_HOST, NULL }, { POLICY_STEP_PORT, NULL }, { POLICY_STEP_PROTOCOL, NULL },
		{ POLICY_STEP_KEY, "methods" }, { POLICY_STEP_LOGS, NULL }, { POLICY_STEP_SIZE, NULL },
		{ POLICY_STEP_OPEN, NULL }, { POLICY_STEP_DECIDES, NULL }, { POLICY_STEP_BEHIND, NULL },
	};
	struct policy_step steps[ARRAY_LEN(want)];
	unsigned char fits[2] = { 0, 0 };
	struct lab_request lab;

	lab_request(&lab, "POST https://a.x/\nlength: 11");
	policy_explain(p, &lab.req, steps);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		CHECK(steps[i].kind == want[i].kind);
		CHECK((steps[i].key == NULL) == (want[i].key == NULL));
		if (want[i].key != NULL)
			CHECK_STR(steps[i].key, want[i].key);
	}
	lab.req.body_fits = fits;
	lab.req.n_body_fits = sizeof(fits);
	policy_explain(p, &lab.req, steps);
	CHECK(steps[6].kind == POLICY_STEP_BODY && steps[7].kind == POLICY_STEP_DECIDES);
	fits[0] = 1 << 6;
	policy_explain(p, &lab.req, steps);
	CHECK(steps[6].kind == POLICY_STEP_DECIDES && steps[7].kind == POLICY_STEP_BEHIND);
}

/* A generator of its own, so that every run is the same. */
static unsigned
pick(unsigned *state, unsigned n)
{
	*state = *state * 1103515245u + 12345u;
	return (*state >> 16) % n;
}

static void
random_rules(unsigned *state, char *text, size_t size)
{
	static const char *const verbs[] = { "allow", "deny", "ask", "log" };
	static const char *const hosts[] = { "a.x", "'*.x'", "'**.x'", "'*'", "b.a.x", "10.0.0.0/8",
		"c.y", "'**.y'" };
	static const char *const methods[] = { "", ", methods: [GET]", ", methods: [POST, FOO]",
		", methods: [DELETE]" };
	static const char *const paths[] = { "", ", paths: [/a/**]", ", paths: [/a/*, /abcdefghij/k]",
		", paths: [/abcdefghij/**]", ", paths: ['/**/z']", ", paths: [/a]", ", paths: [/abc*]" };
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < 12; i++)
		len += (size_t)snprintf(text + len, size - len, "- {%s: [%s, %s]%s%s, headers: {n%u: absent}}\n",
		                        verbs[pick(state, 4)], hosts[pick(state, 8)],
		                        hosts[pick(state, 8)], methods[pick(state, 4)],
		                        paths[pick(state, 7)], i);
}

TEST(policy_decide_as_it_is_explained)
{
	static const char *const methods[] = { "GET", "POST", "FOO", "BAR", "DELETE" };
	static const char *const hosts[] = { "a.x", "b.a.x", "q.x", "x", "c.y", "d.c.y", "10.1.2.3",
		"11.1.2.3" };
	static const char *const paths[] = { "/", "/a", "/a/", "/a/b", "/a/b/z", "/abcdefghij/k",
		"/abcdefghij/", "/abcdefgh", "/z", "/a%2Fb", "/%61/b" };
	unsigned state = 7, decided = 0;
	char rules[8192], request[256];

	for (unsigned round = 0; round < 200; round++) {
		random_rules(&state, rules, sizeof(rules));
		OWN(policy_freep) struct policy *p = lab_rules(rules);

		for (unsigned i = 0; i < 100; i++) {
			struct policy_step steps[12];
			struct policy_decision d;
			struct policy_logged logged;
			struct lab_request lab;
			size_t n = 0, logs = 0;

			snprintf(request, sizeof(request), "%s https://%s%s", methods[pick(&state, 5)],
			         hosts[pick(&state, 8)], paths[pick(&state, 11)]);
			lab_request(&lab, request);
			policy_decide(p, &lab.req, &d, &logged);
			policy_explain(p, &lab.req, steps);
			for (; n < 12 && steps[n].kind != POLICY_STEP_DECIDES; n++)
				logs += steps[n].kind == POLICY_STEP_LOGS;
			if (d.rule != (n < 12 ? (int)n : -1) ||
			    logged.n != (logs < POLICY_LOGGED_LAYER ? logs : POLICY_LOGGED_LAYER))
				test_fail(__FILE__, __LINE__, "%s\n%s: rule %d, not %zu", rules, request, d.rule, n);
			decided += d.rule >= 0;
		}
	}
	CHECK(decided > 2000 && decided < 18000);
}
