/* fuzz_pg_login.c - what a Postgres server says during a login, in pieces.  The first byte: the
 * size of the pieces, and whether there is TLS. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "wire/pg_login.h"

#define PASSWORD "the-password-itself"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) struct pg_login *l = calloc(1, sizeof(*l));
	OWN(buf_free) struct buf out = {0};
	size_t piece, used, before;
	int r = 0;

	if (size == 0)
		return 0;
	assert(l != NULL);
	l->user = "me";
	l->password = PASSWORD;
	l->nonce = "fyko+d2lbbFgONRv9qkxdawL";
	l->is_private = (data[0] & 1) != 0;
	l->binding.len = l->is_private ? 32 : 0;
	piece = data[0] / 2 + 1u;
	buf_init(&out, 1024 * 1024);
	for (data++, size--; r == 0 && size > 0; data += used, size -= used) {
		before = out.len;
		r = pg_login_read(l, data, size < piece ? size : piece, &used, &out, NULL);
		assert(r == 1 || r == 0 || r == -EACCES || r == -EPROTO);
		assert(r < 0 || used > 0);
		assert(out.len - before < (size_t)2 * SCRAM_MESSAGE_MAX);
	}
	/* The password itself goes nowhere but to who may read it. */
	assert(l->is_private || !l->told_password);
	assert(l->told_password || out.len == 0 || memmem(out.data, out.len, PASSWORD,
	                                                  sizeof(PASSWORD) - 1) == NULL);
	pg_login_wipe(l);
	return 0;
}
