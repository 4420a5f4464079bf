/* fuzz_vault_request.c - what is asked of cloister-vault: what is taken is what would be asked. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/vault_request.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(vault_request_free) struct vault_request request = {0};
	OWN(buf_free) struct buf out;
	struct err err = {0};
	struct buf in;
	int r;

	buf_init_borrowed(&in, data, size);
	buf_init(&out, VAULT_REQUEST_MAX);
	r = vault_request_get(&in, &request, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	vault_request_put(&out, &request);
	assert(buf_failed(&out) || (out.len == size && memcmp(out.data, data, size) == 0));
	return 0;
}
