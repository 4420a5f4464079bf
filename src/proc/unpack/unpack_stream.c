/* unpack_stream.c - decompresses a layer and hashes all bytes of its archive, also those behind its end mark. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/unpack/unpack.h"

#define IN_BYTES (256 * 1024)
#define OUT_BYTES (512 * 1024)
#define WINDOW_LOG_MAX 27               /* of zstd: 128 MiB */
#define GZIP_WINDOW (15 + 16)           /* zlib: the largest window, gzip only */

enum coding { CODING_NONE, CODING_GZIP, CODING_ZSTD };

struct unpack_stream {
	int fd;
	enum coding coding;
	const struct unpack_limits *limits;
	struct hash hash;
	uint64_t consumed, produced;
	bool at_end;                    /* of the file */
	bool in_frame;                  /* in the middle of a compressed member */
	size_t in_at, in_len;
	z_stream gzip;
	ZSTD_DStream *zstd;
	unsigned char in[IN_BYTES], out[OUT_BYTES];
};

void
unpack_stream_close(struct unpack_stream *s)
{
	if (s == NULL)
		return;
	if (s->coding == CODING_GZIP)
		(void)inflateEnd(&s->gzip);
	(void)ZSTD_freeDStream(s->zstd);
	free(s);
}

void
unpack_stream_closep(struct unpack_stream **s)
{
	unpack_stream_close(*s);
}

/* More of the file behind what is left of it. */
static int
fill(struct unpack_stream *s, struct err *err)
{
	ssize_t n;

	memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
	s->in_len -= s->in_at;
	s->in_at = 0;
	if (s->at_end || s->in_len == IN_BYTES)
		return 0;
	do
		n = read(s->fd, s->in + s->in_len, IN_BYTES - s->in_len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, "cannot read the layer");
	s->at_end = n == 0;
	s->in_len += (size_t)n;
	s->consumed += (uint64_t)n;
	return 0;
}

static enum coding
guess(const unsigned char *data, size_t len)
{
	static const unsigned char zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };

	if (len >= 2 && data[0] == 0x1f && data[1] == 0x8b)
		return CODING_GZIP;
	if (len >= sizeof(zstd) && memcmp(data, zstd, sizeof(zstd)) == 0)
		return CODING_ZSTD;
	/* A frame to skip, which may come first. */
	if (len >= 4 && (data[0] & 0xf0) == 0x50 && memcmp(data + 1, "\x2a\x4d\x18", 3) == 0)
		return CODING_ZSTD;
	return CODING_NONE;
}

static int
prepare(struct unpack_stream *s, struct err *err)
{
	switch (s->coding) {
	case CODING_GZIP:
		if (inflateInit2(&s->gzip, GZIP_WINDOW) != Z_OK) {
			s->coding = CODING_NONE;
			return err_set(err, ENOMEM, "out of memory");
		}
		return 0;
	case CODING_ZSTD:
		s->zstd = ZSTD_createDStream();
		if (s->zstd == NULL || ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
			return err_set(err, ENOMEM, "out of memory");
		return 0;
	default:
		return 0;
	}
}

int
unpack_stream_open(int fd, const struct unpack_limits *limits, struct unpack_stream **ret_stream, struct err *err)
{
	OWN(unpack_stream_closep) struct unpack_stream *s = calloc(1, sizeof(*s));
	int r = 0;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->fd = fd;
	s->limits = limits;
	hash_begin(&s->hash);
	while (r == 0 && s->in_len < 4 && !s->at_end)
		r = fill(s, err);
	if (r == 0) {
		s->coding = guess(s->in, s->in_len);
		r = prepare(s, err);
	}
	if (r == 0)
		*ret_stream = TAKE(s);
	return r;
}

static ssize_t
cut_short(struct err *err)
{
	return err_set(err, EBADMSG, "it is cut short");
}

static ssize_t
next_gzip(struct unpack_stream *s, struct err *err)
{
	int code;

	s->gzip.next_in = s->in + s->in_at;
	s->gzip.avail_in = (unsigned)(s->in_len - s->in_at);
	s->gzip.next_out = s->out;
	s->gzip.avail_out = OUT_BYTES;
	code = inflate(&s->gzip, Z_NO_FLUSH);
	s->in_at = s->in_len - s->gzip.avail_in;
	s->in_frame = code != Z_STREAM_END;
	/* Another member may follow. */
	if (code == Z_STREAM_END && inflateReset(&s->gzip) == Z_OK)
		code = Z_OK;
	if (code != Z_OK && code != Z_BUF_ERROR)
		return err_set(err, EBADMSG, "its gzip data is malformed: %s",
		               s->gzip.msg != NULL ? s->gzip.msg : "unknown error");
	return (ssize_t)(OUT_BYTES - s->gzip.avail_out);
}

static ssize_t
next_zstd(struct unpack_stream *s, struct err *err)
{
	ZSTD_inBuffer in = { s->in + s->in_at, s->in_len - s->in_at, 0 };
	ZSTD_outBuffer out = { s->out, OUT_BYTES, 0 };
	size_t code = ZSTD_decompressStream(s->zstd, &out, &in);

	if (ZSTD_isError(code))
		return err_set(err, EBADMSG, "its zstd data is malformed: %s", ZSTD_getErrorName(code));
	s->in_at += in.pos;
	s->in_frame = code != 0;
	return (ssize_t)out.pos;
}

static ssize_t
next_plain(struct unpack_stream *s)
{
	size_t n = s->in_len - s->in_at;

	memcpy(s->out, s->in + s->in_at, n);
	s->in_at = s->in_len;
	return (ssize_t)n;
}

static int
check_limits(const struct unpack_stream *s, struct err *err)
{
	if (s->produced > s->limits->size)
		return err_set(err, EFBIG, "it is over %llu GiB unpacked", (unsigned long long)(s->limits->size >> 30));
	if (s->produced > s->limits->ratio_from && s->produced / LAYER_RATIO_MAX > s->consumed)
		return err_set(err, EFBIG, "it is a bomb: it unpacks to over %d times its size", LAYER_RATIO_MAX);
	return 0;
}

ssize_t
unpack_stream_next(struct unpack_stream *s, const void **ret_data, struct err *err)
{
	ssize_t n = 0;
	int r = 0;

	while (n == 0) {
		if (s->in_at == s->in_len)
			r = fill(s, err);
		if (r < 0)
			return r;
		if (s->in_at == s->in_len && s->at_end && !s->in_frame)
			return 0;
		n = s->coding == CODING_GZIP ? next_gzip(s, err) :
		    s->coding == CODING_ZSTD ? next_zstd(s, err) : next_plain(s);
		/* All is consumed, and there is no output left in the decoder. */
		if (n == 0 && s->in_at == s->in_len && s->at_end && s->in_frame)
			return cut_short(err);
	}
	if (n < 0)
		return n;
	s->produced += (uint64_t)n;
	r = check_limits(s, err);
	if (r < 0)
		return r;
	hash_add(&s->hash, s->out, (size_t)n);
	*ret_data = s->out;
	return n;
}

uint64_t
unpack_stream_consumed(const struct unpack_stream *s)
{
	return s->consumed;
}

void
unpack_stream_hash(struct unpack_stream *s, unsigned char ret_hash[HASH_LEN])
{
	hash_end(&s->hash, ret_hash);
}
