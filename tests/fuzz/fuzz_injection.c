/* fuzz_injection.c - results of tools: how they are cut into pieces makes no difference. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "inspect/injection.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct injection whole = {0}, cut = {0};

	injection_feed(&whole, data, size);
	for (size_t i = 0; i < size; i++)
		injection_feed(&cut, data + i, 1);
	assert(whole.found == cut.found && whole.found >> injection_n_kinds == 0);
	return 0;
}
