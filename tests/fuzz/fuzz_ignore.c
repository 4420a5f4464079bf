/* fuzz_ignore.c - a .dockerignore, and a path after its first NUL. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "image/ignore.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(ignore_free) struct ignore ignore = {0};
	const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
	const size_t len = nul == NULL ? size : (size_t)(nul - data);
	OWN(freep) char *path = nul == NULL ? strdup("a/b") : strndup((const char *)nul + 1, size - len - 1);
	struct err err = {0};

	if (path == NULL || size > 4096)
		return 0;
	if (ignore_parse((const char *)data, len, &ignore, &err) < 0)
		return 0;
	(void)ignore_is_out(&ignore, path);
	(void)ignore_may_return(&ignore, path);
	for (size_t i = 0; i < ignore.n; i++)
		assert(strncmp(ignore.list[i].text, "../", 3) != 0);
	return 0;
}
