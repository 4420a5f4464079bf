/* lz4.c - decompresses LZ4's "legacy" frames: a magic number, and blocks with their lengths before them.
 * liblz4's own functions for frames do not know these. */
#include <endian.h>
#include <errno.h>
#include <lz4.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "vm/bzimage.h"

#define MAGIC_LEN 4
#define BLOCK_MAX (8 << 20)             /* decompressed */

int
lz4_unpack(const void *data, size_t len, struct buf *out)
{
	const unsigned char *at = data, *end = at + len;
	OWN(freep) char *block = malloc(BLOCK_MAX);

	if (block == NULL)
		return -ENOMEM;
	if (len < MAGIC_LEN)
		return -EBADMSG;
	for (at += MAGIC_LEN; at < end;) {
		uint32_t size;
		int n;

		if (end - at < (ptrdiff_t)sizeof(size))
			return -EBADMSG;
		memcpy(&size, at, sizeof(size));
		size = le32toh(size);
		at += sizeof(size);
		if (size > (size_t)(end - at) || size > INT32_MAX)
			return -EBADMSG;
		n = LZ4_decompress_safe((const char *)at, block, (int)size, BLOCK_MAX);
		if (n < 0)
			return -EBADMSG;
		buf_put(out, block, (size_t)n);
		if (buf_failed(out))
			return -EFBIG;
		at += size;
	}
	return 0;
}
