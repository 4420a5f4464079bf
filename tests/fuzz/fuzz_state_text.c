/* fuzz_state_text.c - the text of a commit object of a state, and its signature. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "state/state_parts.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(state_text_free) struct state_text text = {0};
	static const unsigned char key[AUDIT_KEY] = { 1 };
	struct err err = {0};
	size_t len;

	if (state_text_read((const char *)data, size, &text, &err) < 0) {
		assert(err.code == EBADMSG && text.message == NULL);
		return 0;
	}
	assert(state_is_id(text.tree) && strlen(text.sum) == STATE_SUM && text.n_parents <= STATE_PARENTS_MAX);
	for (size_t i = 0; i < text.n_parents; i++)
		assert(state_is_id(text.parents[i]));
	assert(state_text_field(&text, "Tree-SHA256", &len) != NULL && len == STATE_SUM);
	/* Nobody knows this key. */
	assert(!state_text_is_signed(&text, (const char *)data, size, key));
	return 0;
}
