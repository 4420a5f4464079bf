/* fuzz_secrets.c - the scanner of secrets: the first byte says how the rest is cut.
 *
 * Seeds have the lowest bit of every byte turned, so that nobody takes them for secrets. */
#include <assert.h>
#include <stdlib.h>

#include "base/own.h"
#include "fuzz.h"
#include "inspect/inspect.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct secrets_scan whole = { .n_tail = 0 }, cut = { .n_tail = 0 };
	OWN(freep) uint8_t *text = size < 2 ? NULL : malloc(size - 1);
	const char *found, *again = NULL;
	size_t step;

	if (text == NULL)
		return 0;
	step = data[0] % 64 + 1 + size / 64;
	size--;
	for (size_t i = 0; i < size; i++)
		text[i] = data[i + 1] ^ 1;
	found = secrets_find(&whole, text, size);
	for (size_t i = 0; i < size && again == NULL; i += step)
		again = secrets_find(&cut, text + i, size - i < step ? size - i : step);
	/* What still is in sight as a whole is found however it came. */
	if (size <= SECRETS_TAIL)
		assert(found == NULL || again != NULL);
	return 0;
}
