/* fuzz_secret_wire.c - definitions of secrets as messages: what is taken can be asked and
 * sent on. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/secret.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(secret_freep) struct secret *s = NULL;
	OWN(buf_free) struct buf out;
	struct http_head head = { .method = { "GET", 3 }, .path = { "/a/b", 4 }, .host = { "a.x", 3 },
		.port = 443, .scheme = HTTP_TLS };
	struct policy_request req = { .head = &head, .host = "a.x", .port = 443 };
	struct err err = {0};
	char places[64];
	struct buf in;
	int r;

	buf_init_borrowed(&in, data, size);
	buf_init(&out, SECRET_ENCODED_MAX);
	r = secret_get(&in, &s, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	secret_in_scope(s, &req);
	secret_in_header(s, "authorization", 13);
	secret_with(s, "region");
	secret_places_text(s, places, sizeof(places));
	secret_put(&out, s);
	assert(buf_failed(&out) || (out.len == in.pos && memcmp(out.data, data, out.len) == 0));
	return 0;
}
