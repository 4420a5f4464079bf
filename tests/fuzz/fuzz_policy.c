/* fuzz_policy.c - policies as text: what loads is what its message says, and decides. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_explain.h"
#include "policy/policy_rule.h"
#include "policy/policy_yaml.h"

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

/* By the index and without it. */
static void
check_decision(const struct policy *p, const struct policy_request *req)
{
	OWN(freep) struct policy_step *steps = calloc(policy_n_rules(p) + 1, sizeof(*steps));
	struct policy_decision d;
	struct policy_logged logged;
	size_t n = 0;

	if (steps == NULL)
		return;
	policy_decide(p, req, &d, &logged);
	policy_explain(p, req, steps);
	while (n < policy_n_rules(p) && steps[n].kind != POLICY_STEP_DECIDES)
		n++;
	if (!d.needs_body && !d.too_large)
		assert(d.rule == (n < policy_n_rules(p) ? (int)n : -1));
	assert(d.rule >= 0 || d.verdict == POLICY_DENY);
}

static void
ask(const struct policy *p, const char *host, uint16_t port)
{
	static const char *const paths[] = { "/", "/a/b?c=d&e", "/a%2Fb%20c/x",
		"/o/r.git/info/refs?service=git-upload-pack", "/o/r/git-receive-pack" };
	struct http_head head = { .method = text_of("POST"), .host = text_of(host), .port = port,
		.scheme = HTTP_TLS, .length = 5, .n_fields = 2,
		.fields = { { text_of("content-type"), text_of("application/json; x") },
		            { text_of("x-a"), text_of("b") } } };
	struct policy_request req = { .head = &head, .host = host, .port = port };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		head.path = text_of(paths[i]);
		head.method = text_of(i == 3 ? "GET" : "POST");
		check_decision(p, &req);
	}
	req.protocol = POLICY_TCP;
	check_decision(p, &req);
	policy_mentions_host(p, host);
	policy_route(p, host, port);
}

/* As the operator's own file: with hooks and `tools`. */
static int
load(const char *text, size_t len, struct policy **ret_policy, struct policy_limits *ret_limits, struct err *err)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse("fuzz", text, len, &root, err);

	return r < 0 ? r : policy_load_node(root, &reader, ret_policy, ret_limits, err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(policy_freep) struct policy *p = NULL, *again = NULL;
	OWN(buf_free) struct buf b, c;
	struct policy_limits limits;
	struct err err = {0};
	int r = load((const char *)data, size, &p, &limits, &err);

	buf_init(&b, POLICY_ENCODED_MAX);
	buf_init(&c, POLICY_ENCODED_MAX);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	policy_put(&b, p);
	if (buf_failed(&b))
		return 0;
	assert(policy_get(&b, &again, &err) == 0 && buf_left(&b) == 0);
	policy_put(&c, again);
	assert(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
	ask(again, "a.example.com", 443);
	ask(again, "10.0.0.1", 80);
	for (size_t i = 0; i < policy_n_rules(p) && i < 8; i++)
		ask(p, policy_rule_at(p, i)->hosts[0].name, 443);
	return 0;
}
