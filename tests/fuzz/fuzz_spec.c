/* fuzz_spec.c - the description of a cell, as it is in a memory file and a record.
 *
 * What could be read must be written the same. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "cell/cell_spec.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(cell_spec_free) struct cell_spec spec = {0};
	OWN(buf_free) struct buf out;
	struct buf in;

	buf_init(&out, size);
	buf_init_borrowed(&in, data, size);
	if (cell_spec_get(&in, &spec, NULL) < 0)
		return 0;
	assert(spec.argv[0] != NULL && spec.n_grants <= CELL_GRANTS_MAX);
	cell_spec_put(&out, &spec);
	assert(!buf_failed(&out) && out.len == in.pos);
	assert(memcmp(out.data, data, out.len) == 0);
	return 0;
}
