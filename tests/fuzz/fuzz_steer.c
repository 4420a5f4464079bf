/* fuzz_steer.c - requests of the control socket: a byte with the number of descriptors, and a message.
 *
 * A request that is read is within its limits, and written again it is read as the same one. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

static int
get(const uint8_t *data, size_t size, size_t n_fds, struct steer_request *ret_q, size_t *ret_left)
{
	struct buf b;
	uint32_t type;
	int r;

	buf_init_borrowed(&b, data, size);
	if (buf_get_u32(&b, &type) < 0)
		return -EBADMSG;
	r = steer_get(type, &b, n_fds, ret_q);
	*ret_left = buf_left(&b);
	return r;
}

static bool
is_same(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct steer_request q = {0}, again = {0};
	OWN(buf_free) struct buf message = {0};
	size_t left;

	if (size == 0 || get(data + 1, size - 1, data[0], &q, &left) < 0)
		return 0;
	assert(q.verb < STEER_VERBS && strlen(q.by) <= CONTROL_BY_MAX && strlen(q.why) <= CONTROL_WHY_MAX);
	assert(left == 0 || strchr(steer_rows[q.verb].fields, 'x') != NULL);
	steer_put(&message, &q);
	assert(!buf_failed(&message) && get(message.data, message.len, data[0], &again, &left) == 0);
	assert(again.verb == q.verb && memcmp(again.n, q.n, sizeof(q.n)) == 0 && again.tells == q.tells);
	assert(is_same(again.by, q.by) && is_same(again.why, q.why));
	for (size_t i = 0; i < STEER_TEXTS_MAX; i++)
		assert(is_same(again.text[i], q.text[i]));
	return 0;
}
