/* fuzz_buf.c - the fields of a message.
 *
 * The first byte is how many fields to read, the next ones say what each is,
 * the rest is the message.  What could be read must be written the same. */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"

#define FIELDS_MAX 16
#define STRV_MAX 64

static int
copy_strv(struct buf *in, struct buf *out)
{
	OWN(strv_freep) char **v = NULL;
	int r = buf_dup_strv(in, STRV_MAX, &v);

	if (r == 0) {
		assert(strv_len(v) <= STRV_MAX);
		buf_put_strv(out, v);
	}
	return r;
}

static int
copy_string(struct buf *in, struct buf *out)
{
	OWN(freep) char *copy = NULL;
	int r = buf_dup_str(in, &copy);

	if (r == 0)
		buf_put_str(out, copy);
	return r;
}

static int
copy_field(uint8_t kind, struct buf *in, struct buf *out)
{
	const char *s;
	uint32_t u32;
	uint64_t u64;
	int r;

	switch (kind % 5) {
	case 0:
		r = buf_get_u32(in, &u32);
		if (r == 0)
			buf_put_u32(out, u32);
		return r;
	case 1:
		r = buf_get_u64(in, &u64);
		if (r == 0)
			buf_put_u64(out, u64);
		return r;
	case 2:
		r = buf_get_str(in, &s);
		if (r == 0)
			buf_put_str(out, s);
		return r;
	case 3:
		return copy_string(in, out);
	default:
		return copy_strv(in, out);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf out;
	struct buf in;
	size_t fields, read;
	const uint8_t *kinds = data + 1;

	buf_init(&out, size);
	if (size == 0)
		return 0;
	fields = data[0] % FIELDS_MAX;
	if (size < 1 + fields)
		return 0;
	data += 1 + fields;
	buf_init_borrowed(&in, data, size - 1 - fields);
	for (size_t i = 0; i < fields; i++) {
		size_t before = buf_left(&in);

		read = in.pos;
		if (copy_field(kinds[i], &in, &out) < 0)
			break;
		assert(buf_left(&in) < before);
		assert(!buf_failed(&out) && out.len == in.pos);
		assert(memcmp(out.data + read, data + read, in.pos - read) == 0);
	}
	return 0;
}
