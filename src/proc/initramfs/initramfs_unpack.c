/* initramfs_unpack.c - decompresses module files: xz, zstd and gzip, with a maximum. */
#include "proc/initramfs/initramfs.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/own.h"

#define PIECE (64 << 10)
#define XZ_MEMORY_MAX (128 << 20)

/* 0 once all data is decompressed; -EBADMSG, -ENOMEM, or -EFBIG. */
typedef int unpack_fn(const unsigned char *data, size_t len, struct buf *out);

static int
unpack_plain(const unsigned char *data, size_t len, struct buf *out)
{
	buf_put(out, data, len);
	return buf_failed(out) ? -EFBIG : 0;
}

static int
unpack_xz(const unsigned char *data, size_t len, struct buf *out)
{
	lzma_stream s = LZMA_STREAM_INIT;
	lzma_ret r = lzma_stream_decoder(&s, XZ_MEMORY_MAX, LZMA_CONCATENATED);
	unsigned char piece[PIECE];

	s.next_in = data;
	s.avail_in = len;
	while (r == LZMA_OK && !buf_failed(out)) {
		s.next_out = piece;
		s.avail_out = sizeof(piece);
		r = lzma_code(&s, LZMA_FINISH);
		buf_put(out, piece, sizeof(piece) - s.avail_out);
	}
	lzma_end(&s);
	if (buf_failed(out))
		return -EFBIG;
	return r == LZMA_STREAM_END ? 0 : r == LZMA_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

static void
zstd_freep(ZSTD_DStream **s)
{
	ZSTD_freeDStream(*s);
}

static int
unpack_zstd(const unsigned char *data, size_t len, struct buf *out)
{
	OWN(zstd_freep) ZSTD_DStream *s = ZSTD_createDStream();
	ZSTD_inBuffer from = { data, len, 0 };
	unsigned char piece[PIECE];
	ZSTD_outBuffer to;
	size_t r;

	if (s == NULL)
		return -ENOMEM;
	do {
		to = (ZSTD_outBuffer){ piece, sizeof(piece), 0 };
		r = ZSTD_decompressStream(s, &to, &from);
		if (ZSTD_isError(r))
			return -EBADMSG;
		buf_put(out, piece, to.pos);
		if (buf_failed(out))
			return -EFBIG;
	} while (from.pos < from.size || (r != 0 && to.pos == to.size));
	return r == 0 ? 0 : -EBADMSG;
}

static int
unpack_gzip(const unsigned char *data, size_t len, struct buf *out)
{
	z_stream s = { .next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)len };
	unsigned char piece[PIECE];
	int r = inflateInit2(&s, 15 + 16);

	if (r != Z_OK)
		return -ENOMEM;
	while (r == Z_OK && !buf_failed(out)) {
		s.next_out = piece;
		s.avail_out = sizeof(piece);
		r = inflate(&s, Z_NO_FLUSH);
		buf_put(out, piece, sizeof(piece) - s.avail_out);
	}
	inflateEnd(&s);
	if (buf_failed(out))
		return -EFBIG;
	return r == Z_STREAM_END && s.avail_in == 0 ? 0 : -EBADMSG;
}

int
initramfs_unpack(const char *suffix, const void *data, size_t len, struct buf *out, struct err *err)
{
	static const struct {
		const char *suffix;
		unpack_fn *unpack;
	} ways[] = { { "", unpack_plain }, { ".xz", unpack_xz }, { ".zst", unpack_zstd }, { ".gz", unpack_gzip } };
	int r = -EBADMSG;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		if (strcmp(suffix, ways[i].suffix) == 0)
			r = ways[i].unpack(data, len, out);
	if (r == -EFBIG)
		return err_set(err, EFBIG, "decompressed, it is over %zu MiB", out->max >> 20);
	return r == 0 ? 0 : err_set(err, -r, r == -ENOMEM ? "out of memory" : "it cannot be decompressed");
}
