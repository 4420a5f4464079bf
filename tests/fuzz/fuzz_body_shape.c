/* fuzz_body_shape.c - bodies as people are shown them: bounded text, whatever comes. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "inspect/body_shape.h"

/* The first byte says what it claims to be. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = { "application/json", "application/x-www-form-urlencoded",
		"" };
	const char *type;
	char shape[INSPECT_SHAPE_MAX];

	if (size < 1)
		return 0;
	type = types[data[0] % ARRAY_LEN(types)];
	memset(shape, 'x', sizeof(shape));
	body_shape((struct http_text){ type, strlen(type) }, (const char *)data + 1, size - 1, shape);
	assert(memchr(shape, '\0', sizeof(shape)) != NULL);
	return 0;
}
