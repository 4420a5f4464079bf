/* fuzz_vault.c - the vault's file: its header, which nobody vouches for, and what is sealed,
 * in case somebody had the key. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/vault_parts.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf out;
	struct vault_header header;
	struct vault_item *items = NULL;
	unsigned char bytes[VAULT_HEADER];
	struct err err = {0};
	struct buf in;
	size_t n = 0;
	int r = vault_header_get(data, size, &header, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r == 0) {
		vault_header_put(&header, bytes);
		assert(memcmp(bytes, data, sizeof(bytes)) == 0);
		data += VAULT_HEADER;
		size -= VAULT_HEADER;
	}
	buf_init_borrowed(&in, data, size);
	buf_init(&out, VAULT_FILE_MAX);
	if (vault_items_get(&in, &items, &n, NULL) < 0)
		return 0;
	vault_items_put(&out, items, n);
	assert(out.len == size && memcmp(out.data, data, size) == 0);
	for (size_t i = 0; i < n; i++)
		vault_item_free(&items[i]);
	free(items);
	return 0;
}
