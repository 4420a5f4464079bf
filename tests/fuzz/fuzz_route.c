/* fuzz_route.c - paths and queries: the first line is a path, the second a query. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "serve/route.h"

static void
check_text(const char *text)
{
	uint32_t code;

	for (size_t step; text != NULL && *text != '\0'; text += step) {
		step = utf8_next(text, strlen(text), &code);
		assert(step > 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const patterns[] = { "/v1/cells", "/v1/cells/{id}/stop", "/{a}/{b*}" };
	OWN(freep) char *text = malloc(size + 1);
	char *values[ROUTE_QUERY_MAX] = {0}, *query;
	struct err err = {0};
	int r;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	query = strchr(text, '\n');
	if (query != NULL)
		*query++ = '\0';
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		OWN(route_params_free) struct route_params params = {0};
		bool matches = route_match(patterns[i], text, &params);

		assert(matches || params.at[0] == NULL);
		for (size_t k = 0; k < ROUTE_PARAMS_MAX; k++) {
			assert(params.at[k] == NULL || *params.at[k] != '\0');
			check_text(params.at[k]);
		}
	}
	r = route_query(query != NULL ? query : "", "limit after all", values, &err);
	assert((r == 0) == (err.text[0] == '\0'));
	for (size_t i = 0; i < ROUTE_QUERY_MAX; i++) {
		assert(values[i] == NULL || (r == 0 && i < 3));
		check_text(values[i]);
	}
	route_query_free(values);
	return 0;
}
