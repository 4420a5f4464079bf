/* fuzz_states.c - `state` of a policy: what is read has valid names, places and guards. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_state.h"
#include "policy/policy_yaml.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = strndup((const char *)data, size);
	struct policy_states states;
	struct policy_state state;

	if (text != NULL && policy_state_parse(text, &state, NULL) == 0)
		assert(policy_state_name_ok(state.name) && (state.path[0] == '\0' || policy_state_path_ok(state.path)));
	if (text != NULL)
		(void)policy_state_guards_ok(text);
	if (node_parse("f", (const char *)data, size, &root, NULL) < 0 || policy_states_read(root, &states, NULL) < 0)
		return 0;
	assert(states.n > 0 && states.n <= POLICY_STATES_MAX);
	for (size_t i = 0; i < states.n; i++) {
		assert(policy_state_name_ok(states.at[i].name) && policy_state_guards_ok(states.at[i].guards));
		assert(policy_states_find(&states, states.at[i].name) == &states.at[i]);
	}
	return 0;
}
