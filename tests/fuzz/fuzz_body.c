/* fuzz_body.c - bodies as rules look at them: JSON, JSON-RPC, GraphQL, expressions. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "inspect/inspect.h"

static const char text[] =
	"version: 1\n"
	"egress:\n"
	"  - allow: a.example\n    body: {json: {/a/*/b: [x*, 7, true, null, absent], /c: y}}\n"
	"  - deny: a.example\n    body: {json: {/a/*/b: [x*, 7, true, null], '': z}}\n"
	"  - allow: b.example\n    body: {jsonrpc: {methods: [eth_*]}}\n"
	"  - deny: b.example\n    body: {jsonrpc: {methods: [eth_*]}}\n"
	"  - allow: c.example\n    body: {graphql: {operations: [query], names: [Get*]}}\n"
	"  - deny: c.example\n    body: {graphql: {operations: [mutation]}}\n"
	"  - allow: d.example\n    body: {regex: ['(a+)+x', '^{.*\"q\".*}$']}\n"
	"  - deny: d.example\n    body: {json: {/a: x}, regex: ['[0-9]{3,9}z']}\n";

/* The first byte says what it claims to be. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = { "application/json", "application/graphql",
		"application/x-www-form-urlencoded", "text/plain" };
	static struct policy *policy;
	OWN(inspect_freep) struct inspect *in = NULL;
	struct inspect_request req = { .method = { "POST", 4 }, .path = { "/x", 2 },
	                               .secrets = true, .rules = true };
	struct inspect_findings f;
	struct err err = {0};

	if (policy == NULL)
		assert(policy_load_text("fuzz.yaml", text, sizeof(text) - 1, &policy, NULL, &err) == 0);
	if (size < 1)
		return 0;
	req.policy = policy;
	req.content_type.at = types[data[0] % ARRAY_LEN(types)];
	req.content_type.len = strlen(req.content_type.at);
	assert(inspect_new(&req, &in, &err) == 0);
	if (inspect_feed(in, data + 1, size - 1) == INSPECT_WANTS_MORE)
		inspect_finish(in);
	inspect_result(in, &f);
	assert(f.n_fits == 1 && !f.unreadable);
	assert(size > 1 || f.fits[0] == 0);
	return 0;
}
