/* initramfs_unpack.c - tests of cloister-initramfs' decompression. */
#include <errno.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "proc/initramfs/initramfs.h"
#include "test.h"

#define MAX ((size_t)1 << 20)           /* of the buffer that is unpacked to */

struct packed {
	const char *suffix;
	unsigned char data[MAX * 2];
	size_t len;
};

static void
pack_plain(struct packed *p, const unsigned char *data, size_t len)
{
	memcpy(p->data, data, len);
	p->len = len;
}

static void
pack_xz(struct packed *p, const unsigned char *data, size_t len)
{
	p->len = 0;
	CHECK(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, len, p->data, &p->len, sizeof(p->data)) == LZMA_OK);
}

static void
pack_zstd(struct packed *p, const unsigned char *data, size_t len)
{
	p->len = ZSTD_compress(p->data, sizeof(p->data), data, len, 1);
	CHECK(!ZSTD_isError(p->len));
}

static void
pack_gzip(struct packed *p, const unsigned char *data, size_t len)
{
	z_stream s = { .next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)len, .next_out = p->data,
		.avail_out = sizeof(p->data) };

	CHECK(deflateInit2(&s, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	CHECK(deflate(&s, Z_FINISH) == Z_STREAM_END);
	p->len = sizeof(p->data) - s.avail_out;
	deflateEnd(&s);
}

static const struct {
	const char *suffix;
	void (*pack)(struct packed *p, const unsigned char *data, size_t len);
} ways[] = { { ".xz", pack_xz }, { ".zst", pack_zstd }, { ".gz", pack_gzip }, { "", pack_plain } };
#define PACKED 3                        /* of these, the first ones are compressed */

/* Some of it compresses well, some does not. */
static void
fill(unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)(i % 50000 < 25000 ? 0 : (i * 2654435761u) >> 13);
}

static int
unpack(const char *suffix, const struct packed *p, size_t len, struct buf *out, struct err *err)
{
	buf_free(out);
	buf_init(out, MAX);
	return initramfs_unpack(suffix, p->data, len, out, err);
}

TEST(initramfs_unpack)
{
	static const size_t sizes[] = { 1, 65535, 65536, 65537, 131072, 200000, MAX };
	static unsigned char data[MAX];
	static struct packed p;
	OWN(buf_free) struct buf out = {0};

	fill(data, sizeof(data));
	for (size_t w = 0; w < ARRAY_LEN(ways); w++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			ways[w].pack(&p, data, sizes[i]);
			CHECK_OK(unpack(ways[w].suffix, &p, p.len, &out, NULL));
			CHECK_U64(out.len, sizes[i]);
			CHECK(memcmp(out.data, data, sizes[i]) == 0);
		}
}

TEST(initramfs_unpack_has_a_maximum)
{
	static unsigned char data[MAX + 1];
	static struct packed p;
	OWN(buf_free) struct buf out = {0};
	struct err err = {0};

	for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
		ways[w].pack(&p, data, sizeof(data));
		CHECK_ERR(unpack(ways[w].suffix, &p, p.len, &out, &err), EFBIG);
		CHECK_STR(err.text, "decompressed, it is over 1 MiB");
	}
}

/* Cut off anywhere, with something behind it, or under another name. */
TEST(initramfs_unpack_broken)
{
	static unsigned char data[70000];
	static struct packed p;
	OWN(buf_free) struct buf out = {0};

	fill(data, sizeof(data));
	for (size_t w = 0; w < PACKED; w++) {
		ways[w].pack(&p, data, sizeof(data));
		for (size_t len = 0; len < p.len; len += len < 40 || len + 40 > p.len ? 1 : 997)
			CHECK_ERR(unpack(ways[w].suffix, &p, len, &out, NULL), EBADMSG);
		memset(p.data + p.len, 'x', 5);
		CHECK_ERR(unpack(ways[w].suffix, &p, p.len + 5, &out, NULL), EBADMSG);
		CHECK_ERR(unpack(ways[(w + 1) % PACKED].suffix, &p, p.len, &out, NULL), EBADMSG);
		CHECK_ERR(unpack(".bz2", &p, p.len, &out, NULL), EBADMSG);
	}
}
