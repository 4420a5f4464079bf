/* lz4.c - decompresses LZ4's "legacy" frames: a magic number, and blocks with their lengths before them. */
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "vm/bzimage.h"

#define MAGIC_LEN 4
#define BLOCK_MAX ((size_t)8 << 20)     /* decompressed */
#define MATCH_LEAST 4

struct input {
	const unsigned char *at, *end;
};

/* A length that a token has four bits for; the last of them means that more bytes follow. */
static int
get_length(struct input *in, unsigned bits, size_t *ret_len)
{
	size_t len = bits;
	unsigned char more = 255;

	while (bits == 15 && more == 255) {
		if (in->at == in->end || len > BLOCK_MAX)
			return -EBADMSG;
		more = *in->at++;
		len += more;
	}
	*ret_len = len;
	return 0;
}

/* Bytes that were there before, DISTANCE back from the end; they may reach into what is being copied. */
static int
repeat(struct buf *out, size_t start, size_t distance, size_t len)
{
	unsigned char *to;

	if (distance == 0 || distance > out->len - start || len > BLOCK_MAX)
		return -EBADMSG;
	to = buf_add(out, len);
	if (to == NULL)
		return -EFBIG;
	for (size_t i = 0; i < len; i++)
		to[i] = to[(ptrdiff_t)i - (ptrdiff_t)distance];
	return 0;
}

static int
unpack_block(struct input in, struct buf *out)
{
	const size_t start = out->len;

	for (;;) {
		size_t literals, match, distance;
		unsigned token;
		int r;

		if (in.at == in.end)
			return -EBADMSG;
		token = *in.at++;
		if (get_length(&in, token >> 4, &literals) < 0 || literals > (size_t)(in.end - in.at))
			return -EBADMSG;
		buf_put(out, in.at, literals);
		in.at += literals;
		if (buf_failed(out))
			return -EFBIG;
		/* The last sequence has no match. */
		if (in.at == in.end)
			return 0;
		if (in.end - in.at < 2)
			return -EBADMSG;
		distance = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		if (get_length(&in, token & 15, &match) < 0)
			return -EBADMSG;
		r = repeat(out, start, distance, match + MATCH_LEAST);
		if (r < 0)
			return r;
		if (out->len - start > BLOCK_MAX)
			return -EBADMSG;
	}
}

int
lz4_unpack(const void *data, size_t len, struct buf *out)
{
	const unsigned char *at = data, *end = at + len;
	int r = len < MAGIC_LEN ? -EBADMSG : 0;

	for (at += MAGIC_LEN; r == 0 && at < end;) {
		uint32_t size;

		if (end - at < (ptrdiff_t)sizeof(size))
			return -EBADMSG;
		memcpy(&size, at, sizeof(size));
		size = le32toh(size);
		at += sizeof(size);
		if (size > (size_t)(end - at))
			return -EBADMSG;
		r = unpack_block((struct input){ at, at + size }, out);
		at += size;
	}
	return r;
}
