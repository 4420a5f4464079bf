/* fuzz_e2b.c - what E2B's clients send: the message of a stream, a time, the name of a sandbox's port.
 *
 * The first byte says which. */
#include <assert.h>

#include "proc/serve/e2b_host.c"

#include "fuzz.h"

static void
fuzz_message(const uint8_t *data, size_t size)
{
	struct serve_request q = {0};
	struct api_call c = { .q = &q };

	buf_init_borrowed(&q.body.data, data, size);
	if (e2b_read_message(&c) == 0)
		assert(json_is_object(c.body) && size >= 5);
	json_decref(c.body);
}

static void
fuzz_timeout(const uint8_t *data, size_t size)
{
	struct serve_request q = {0};

	q.head.fields[0] = (struct http_field){ { "connect-timeout-ms", 18 }, { (const char *)data, size } };
	q.head.n_fields = 1;
	assert(e2b_read_timeout(&q) <= INT32_MAX);
}

static void
fuzz_name(const uint8_t *data, size_t size)
{
	char host[HTTP_HOST_MAX + 1];
	struct e2b_host h = {0};

	snprintf(host, sizeof(host), "%.*s", (int)size, (const char *)data);
	if (e2b_is_host(host) && read_name(&h, host))
		assert(h.port > 0 && strlen(h.id) == DISPATCH_ID_LEN && strchr(h.id, '.') == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const all[])(const uint8_t *data, size_t size) = { fuzz_message, fuzz_timeout, fuzz_name };

	if (size > 0)
		all[data[0] % ARRAY_LEN(all)](data + 1, size - 1);
	return 0;
}
