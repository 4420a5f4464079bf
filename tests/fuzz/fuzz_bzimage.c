/* fuzz_bzimage.c - a kernel for amd64, and bytes that were compressed with LZ4. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "vm/bzimage.h"

#define MOST ((size_t)1 << 20)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out;
	const char *suffix;
	const void *at;
	size_t len;

	buf_init(&out, MOST);
	if (lz4_unpack(data, size, &out) == 0)
		assert(size >= 4 && out.len <= MOST);
	buf_free(&out);
	if (bzimage_find(data, size, &at, &len, &suffix, NULL) < 0)
		return 0;
	assert(suffix[0] == '.' && (const uint8_t *)at > data && len > 0 && (const uint8_t *)at + len <= data + size);
	buf_init(&out, MOST);
	if (strcmp(suffix, ".lz4") == 0)
		(void)lz4_unpack(at, len, &out);
	buf_free(&out);
	return 0;
}
