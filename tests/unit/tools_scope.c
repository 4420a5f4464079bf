/* tools_scope.c - tests of tools/scope and tools/scope_hold: the rules of scopes, and which secrets go with them. */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "test.h"
#include "tools/scope.h"
#include "tools/scope_hold.h"

/* Rules that a preset brings count like those that stand in the scope. */
static const struct {
	const char *scope, *writes;     /* "": it does not */
} writes_cases[] = {
	{ "{}", "" },
	{ "{egress: [{allow: a.example, methods: [GET]}]}", "" },
	{ "{egress: [{allow: a.example, methods: [POST]}]}", "a rule for POST" },
	{ "{egress: [{allow: a.example}]}", "a rule without `methods`, so that it allows any" },
	{ "{egress: [{include: preset:crates}]}", "" },
	{ "{egress: [{include: preset:openai}]}", "a rule for POST" },
};

TEST(scope_writes_with_presets)
{
	for (size_t i = 0; i < ARRAY_LEN(writes_cases); i++) {
		OWN(node_freep) struct node *node = NULL;
		OWN(scope_free) struct scope s = {0};
		char what[SCOPE_WHAT_MAX] = "";

		CHECK(node_parse("scope", writes_cases[i].scope, strlen(writes_cases[i].scope), &node, NULL) == 0);
		CHECK(scope_read(node, &s, NULL) == 0);
		CHECK(scope_writes(&s, what) == (writes_cases[i].writes[0] != '\0'));
		CHECK_STR(what, writes_cases[i].writes);
	}
}

/* A request by GET to https://HOST/, while calls with these scopes run: which secrets it may use. */
static const struct {
	const char *scopes[3], *host;
	const char *may;                /* of "A B C"; "no": the request is refused */
} uses_cases[] = {
	{ { "{egress: [{allow: a.example}]}" }, "a.example", "" },
	{ { "{egress: [{allow: a.example}], secrets: [A]}" }, "a.example", "A" },
	{ { "{egress: [{allow: a.example}], secrets: [A]}" }, "b.example", "no" },
	{ { "{secrets: [A]}" }, "a.example", "no" },
	/* A rule's own `uses` takes away, and gives nothing. */
	{ { "{egress: [{allow: a.example, uses: []}, {allow: b.example}], secrets: [A]}" }, "a.example", "" },
	{ { "{egress: [{allow: a.example, uses: [A, B]}], secrets: [A]}" }, "a.example", "A" },
	{ { "{egress: [{allow: a.example, uses: [A, B]}], secrets: own}" }, "a.example", "A B" },
	{ { "{egress: [{allow: a.example}], secrets: own}" }, "a.example", "" },
	/* So do the rules of a preset. */
	{ { "{egress: [{include: preset:npm}]}" }, "registry.npmjs.org", "" },
	{ { "{egress: [{include: preset:npm}], secrets: [B]}" }, "registry.npmjs.org", "B" },
	/* Calls that overlap: whichever comes first. */
	{ { "{egress: [{allow: a.example}]}", "{egress: [{allow: a.example}], secrets: [A]}" }, "a.example", "A" },
	{ { "{egress: [{allow: a.example}], secrets: [A]}", "{egress: [{allow: a.example}]}" }, "a.example", "A" },
	{ { "{egress: [{allow: a.example}]}", "{egress: [{allow: b.example}], secrets: [A]}" }, "a.example", "" },
	{ { "{egress: [{allow: a.example}]}", "{egress: [{allow: a.example}], secrets: [A, C]}",
	    "{egress: [{allow: a.example}], secrets: [A]}" }, "a.example", "A C" },
};

TEST(scope_hold_uses)
{
	static const char *const names[] = { "A", "B", "C" };

	for (size_t i = 0; i < ARRAY_LEN(uses_cases); i++) {
		const char *host = uses_cases[i].host;
		const struct http_head head = { .method = { "GET", 3 }, .host = { host, strlen(host) }, .path = { "/", 1 },
		                                .port = 443, .scheme = HTTP_TLS };
		const struct policy_request request = { .protocol = POLICY_HTTP, .head = &head, .host = host, .port = 443 };
		struct policy_tool tools[ARRAY_LEN(uses_cases[0].scopes)];
		const struct policy_tool *at[ARRAY_LEN(tools)];
		OWN(buf_free) struct buf text = BUF(SCOPE_HOLD_MAX), may = BUF(64);
		OWN(policy_flat_free) struct policy_flat flat;
		OWN(policy_freep) struct policy *p = NULL;
		struct policy_decision d;
		size_t n = 0;

		for (; n < ARRAY_LEN(tools) && uses_cases[i].scopes[n] != NULL; n++) {
			tools[n] = (struct policy_tool){ .name = "s.t", .scope = uses_cases[i].scopes[n] };
			at[n] = &tools[n];
		}
		CHECK(scope_hold_put(&text, at, n, NULL) == 0);
		policy_flat_init(&flat);
		CHECK(policy_flat_load(&flat, "scope", (char *)text.data, text.len, NULL, &p, NULL) == 0);
		policy_decide(p, &request, &d, NULL);
		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			if (policy_may_use(p, &d.way, names[k])) {
				buf_put_text(&may, may.len > 0 ? " " : "");
				buf_put_text(&may, names[k]);
			}
		if (d.verdict != POLICY_ALLOW)
			buf_reset(&may);
		buf_put_text(&may, d.verdict != POLICY_ALLOW ? "no" : "");
		buf_put(&may, "", 1);
		CHECK_STR((char *)may.data, uses_cases[i].may);
	}
}
