/* fuzz_refusals.c - an event's members, read for the summary of refusals. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cell/cell_refusals.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cell_refusals refusals = {0};
	OWN(freep) char *members = malloc(size + 1);

	if (members == NULL)
		return 0;
	memcpy(members, data, size);
	members[size] = '\0';
	cell_refusals_note(&refusals, members);
	cell_refusals_note(&refusals, members);
	assert(refusals.n <= 1 && refusals.total >= 2 * refusals.n);
	for (size_t i = 0; i < refusals.n; i++) {
		assert(refusals.kinds[i].times == refusals.total);
		assert(memchr(refusals.kinds[i].what, 0, CELL_REFUSAL_TEXT) != NULL);
		assert(memchr(refusals.kinds[i].why, 0, CELL_REFUSAL_TEXT) != NULL);
	}
	return 0;
}
