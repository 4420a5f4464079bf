/* fuzz_clipboard.c - an agent's output: no sequence that sets the clipboard is left in it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "loop/clipboard.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct clipboard c = {0}, again = {0};
	unsigned char *out = malloc(size + CLIPBOARD_HELD_MAX), *twice = malloc(size + 2 * CLIPBOARD_HELD_MAX);
	size_t half = size / 2, n, m;

	assert(out != NULL && twice != NULL);
	n = clipboard_filter(&c, data, half, out);
	n += clipboard_filter(&c, data + half, size - half, out + n);
	assert(n <= size);
	assert(memmem(out, n, "\033]52;", 5) == NULL && memmem(out, n, "\xc2\x9d" "52;", 5) == NULL);
	/* Nothing is left to take out, but for a beginning that is still held. */
	m = clipboard_filter(&again, out, n, twice);
	assert(m <= n && n - m <= CLIPBOARD_HELD_MAX);
	free(out);
	free(twice);
	return 0;
}
