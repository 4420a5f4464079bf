/* fuzz_usage_asked.c - requests to models, as agents write them. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "inspect/usage.h"
#include "inspect/usage_asked.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usage_asked asked;
	bool read = usage_read_asked((const char *)data, size, USAGE_CHAT, &asked);

	assert(strlen(asked.model) <= POLICY_MODEL_MAX);
	for (const char *c = asked.model; *c != '\0'; c++)
		assert(*c > ' ' && *c <= '~' && *c != '\\');
	assert(asked.max_output <= 10 * USAGE_TOKENS_MAX + 9);
	assert(asked.copies >= 1 && asked.copies <= (uint64_t)USAGE_COPIES_MAX * USAGE_COPIES_MAX);
	/* Of what cannot be read nothing is believed. */
	assert(read || (asked.model[0] == '\0' && asked.max_output == 0));
	return 0;
}
