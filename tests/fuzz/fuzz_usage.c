/* fuzz_usage.c - answers of models: the first byte says the coding and how they come in pieces. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "inspect/usage.h"

static void
read_in(const char *coding, const uint8_t *data, size_t size, size_t step, bool complete,
        struct usage_found *ret_found)
{
	OWN(usage_freep) struct usage *u = NULL;

	assert(usage_new((struct http_text){ coding, strlen(coding) }, &u, NULL) == 0);
	for (size_t i = 0; i < size; i += step)
		usage_feed(u, data + i, size - i < step ? size - i : step);
	usage_finish(u, complete, ret_found);
	assert(strlen(ret_found->model) <= POLICY_MODEL_MAX);
	for (const char *c = ret_found->model; *c != '\0'; c++)
		assert(*c > ' ' && *c <= '~');
	assert(ret_found->tokens.input <= 3 * USAGE_TOKENS_MAX);
	assert(ret_found->found || !complete || ret_found->tokens.cache_read <= USAGE_TOKENS_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const codings[] = { "", "gzip", "br", "zstd" };
	struct usage_found whole, pieces;
	const char *coding;
	bool complete;

	if (size == 0)
		return 0;
	coding = codings[data[0] & 3];
	complete = (data[0] & 4) != 0;
	read_in(coding, data + 1, size - 1, size, complete, &whole);
	read_in(coding, data + 1, size - 1, (size_t)(data[0] >> 3) + 1, complete, &pieces);
	/* What is packed and broken may yield more or less before that is noticed. */
	if (coding[0] != '\0')
		return 0;
	assert(memcmp(&whole, &pieces, sizeof(whole)) == 0);
	/* The courier's own way reads the same. */
	if (usage_read((const char *)data + 1, size - 1, complete, &pieces))
		assert(memcmp(&whole, &pieces, sizeof(whole)) == 0);
	return 0;
}
