/* fuzz_definition.c - what a server states about a tool: its hash does not depend on how it was written, and what is
 * reported about it can be printed. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "fuzz.h"
#include "tools/definition.h"

static void
check_hidden(json_t *tool)
{
	struct definition_hidden hidden[DEFINITION_HIDDEN_MAX];
	size_t n = definition_find_hidden(tool, hidden, ARRAY_LEN(hidden));

	assert(n <= ARRAY_LEN(hidden));
	for (size_t i = 0; i < n; i++) {
		assert(definition_hidden_name(hidden[i].kind) != NULL);
		for (const char *c = hidden[i].where; *c != '\0'; c++)
			assert(*c >= ' ' && *c < 0x7f);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(json_decrefp) json_t *tool = canon_value((const char *)data, size), *pinned = NULL, *again = NULL;
	char one[HASH_HEX + 1], two[HASH_HEX + 1];
	OWN(freep) char *text = NULL;
	struct err err = {0};
	struct definition_hints h;
	size_t len;

	if (tool == NULL)
		return 0;
	check_hidden(tool);
	h = definition_hints(tool);
	assert((h.values & ~h.stated) == 0);
	if (definition_hash(tool, one, &err) < 0) {
		for (const char *c = err.text; *c != '\0'; c++)
			assert(*c >= ' ' && *c < 0x7f);
		return 0;
	}
	assert(definition_pin(tool, &pinned, NULL) == 0);
	assert(canon_dump(pinned, DEFINITION_MAX, &text, &len, NULL) == 0);
	again = canon_value(text, len);
	assert(again != NULL && definition_hash(again, two, NULL) == 0 && strcmp(one, two) == 0);
	return 0;
}
