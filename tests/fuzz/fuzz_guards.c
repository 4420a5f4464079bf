/* fuzz_guards.c - guards of a state, and a path that an agent chose: guards, a NUL, a path. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "policy/policy_guards.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(policy_guards_free) struct policy_guards g = {0};
	OWN(freep) char *text = malloc(size + 1), *folded = malloc(size + 1), *again = malloc(size + 1);
	const char *path;

	assert(text != NULL && folded != NULL && again != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	path = strlen(text) < size ? text + strlen(text) + 1 : text;
	policy_guards_fold(path, folded);
	assert(strlen(folded) <= strlen(path));
	policy_guards_fold(folded, again);
	assert(strcmp(folded, again) == 0);
	if (policy_guards_read(text, &g, NULL) < 0)
		return 0;
	/* Whatever stands for a path has its guard. */
	assert(policy_guards_path(&g, path) == policy_guards_path(&g, folded));
	return 0;
}
