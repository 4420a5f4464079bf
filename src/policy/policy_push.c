/* policy_push.c - recognises a push for the body's parser, by the rules' own test. */
#include "policy/policy_parts.h"

bool
policy_is_push(struct http_text method, struct http_text path)
{
	struct http_head head = { .method = method, .path = path };
	struct policy_decoded decoded;
	struct policy_facts facts;

	policy_facts_init(&facts, &head, policy_wants_decoded(&head) ? &decoded : NULL);
	return facts.git == POLICY_GIT_PUSH;
}
