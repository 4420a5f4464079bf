/* fuzz_link_hello.c - the first bytes of whoever connects to a service, or of whom a worker has dialed: what is taken is
 * written again as it was. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "link/link_hello.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct link_hello_message message;
	OWN(buf_free) struct buf out = BUF(LINK_HELLO_MAX + 4);
	struct buf in;
	size_t len;

	/* The first byte says who it is from. */
	if (size < 1)
		return 0;
	buf_init_borrowed(&in, data + 1, size - 1);
	if (link_hello_get(&in, (data[0] & 1) != 0, &message, &len) <= 0)
		return 0;
	assert(len <= size - 1);
	link_hello_put(&out, &message);
	assert(!buf_failed(&out) && out.len == len && memcmp(out.data, data + 1, len) == 0);
	return 0;
}
