/* fuzz_fired.c - what a courier says of a consequence. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "proc/supervisor/supervisor_fired.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fired_message f = {0};
	struct buf b;

	buf_init_borrowed(&b, data, size);
	if (fired_get(&b, &f) < 0)
		return 0;
	assert(f.key != 0 && f.flags <= COURIER_FIRED_FLAGS && f.n_revoked <= COURIER_FIRED_REVOKES);
	assert(strlen(f.place) <= COURIER_FIRED_TEXT && strlen(f.why) <= COURIER_FIRED_TEXT);
	assert(buf_left(&b) == f.len && f.len <= COURIER_FIRED_BYTES);
	return 0;
}
