/* fuzz_call.c - bodies as rules for calls of MCP tools look at them. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "inspect/inspect.h"

static const char text[] =
	"version: 1\n"
	"egress:\n"
	"  - allow: [tool:gh.get_*, prompt:gh.*, resource:fs/file:///srv/**]\n"
	"  - deny: tool:gh.*\n    args: {/a/*/b: [x*, 7, absent], /n: {min: 1, max: 9}, /p: {pattern: '(a+)+x'}}\n"
	"  - ask: tool:**\n"
	"    args:\n"
	"      /s:\n"
	"        schema: {type: object, required: [a], properties: {a: {enum: [1, x]}, b: {items: {pattern: '^a'}, maxItems: 3}},\n"
	"          additionalProperties: {anyOf: [{type: [string, 'null']}, {minimum: 3}], not: {const: {q: []}}}}\n";

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char type[] = "application/json", path[] = "/mcp";
	static struct policy *policy;
	OWN(inspect_freep) struct inspect *in = NULL;
	struct inspect_request req = { .method = { "POST", 4 }, .path = { path, sizeof(path) - 1 },
	                               .content_type = { type, sizeof(type) - 1 }, .rules = true, .shape = true };
	struct inspect_findings f;
	struct err err = {0};

	if (policy == NULL)
		assert(policy_load_text("fuzz.yaml", text, sizeof(text) - 1, &policy, NULL, &err) == 0);
	req.policy = policy;
	assert(inspect_new(&req, &in, &err) == 0);
	if (inspect_feed(in, data, size) == INSPECT_WANTS_MORE)
		inspect_finish(in);
	inspect_result(in, &f);
	assert(f.n_fits == 1 && !f.unreadable && memchr(f.call, '\0', sizeof(f.call)) != NULL);
	/* A message calls something or nothing, and what cannot be read is allowed by no rule. */
	assert((f.fits[0] & 1) == 0 || (f.fits[0] & 4) == 0);
	assert(f.call[0] != '\0' || (f.fits[0] & 7) == 0);
	for (const char *c = f.call; *c != '\0'; c++)
		assert(*c >= 0x20 && *c < 0x7f);
	return 0;
}
