/* fuzz_policy_wire.c - policies as messages: what is taken can be asked and sent on. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_rule.h"

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(policy_freep) struct policy *p = NULL, *again = NULL;
	OWN(buf_free) struct buf out;
	struct http_head head = { .method = text_of("POST"), .path = text_of("/a/b?c=d"),
		.port = 443, .scheme = HTTP_TLS, .length = 5, .n_fields = 1,
		.fields = { { text_of("content-type"), text_of("application/json") } } };
	struct policy_request req = { .head = &head, .port = 443 };
	struct policy_decision d;
	struct policy_logged logged;
	struct err err = {0};
	struct buf in;
	int r;

	buf_init_borrowed(&in, data, size);
	buf_init(&out, POLICY_ENCODED_MAX);
	r = policy_get(&in, &p, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	for (size_t i = 0; i <= policy_n_rules(p) && i < 16; i++) {
		req.host = i < policy_n_rules(p) ? policy_rule_at(p, i)->hosts[0].name : "10.0.0.1";
		head.host = text_of(req.host);
		policy_decide(p, &req, &d, &logged);
		policy_route(p, req.host, 443);
		assert(policy_rule_place(p, (int)i) != NULL && policy_rule_text(p, (int)i) != NULL);
	}
	policy_put(&out, p);
	assert(!buf_failed(&out) && out.len == in.pos && memcmp(out.data, data, out.len) == 0);
	assert(policy_get(&out, &again, &err) == 0);
	return 0;
}
