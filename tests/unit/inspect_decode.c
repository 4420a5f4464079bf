/* inspect_decode.c - tests of inspect/decode: codings, one in another, broken and hostile. */
#include "inspect/decode.h"

#include <errno.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "inspect/inspect.h"
#include "test.h"

struct out {
	unsigned char data[1 << 16];
	size_t len;
	uint64_t all;
};

static int
keep(void *arg, const unsigned char *data, size_t len)
{
	struct out *o = arg;

	o->all += len;
	if (len > sizeof(o->data) - o->len)
		len = sizeof(o->data) - o->len;
	memcpy(o->data + o->len, data, len);
	o->len += len;
	return 0;
}

/* In pieces of STEP bytes. */
static int
decode_all(const char *coding, const void *data, size_t len, size_t step, struct out *out,
           struct err *err)
{
	OWN(decode_freep) struct decode *d = NULL;
	const unsigned char *at = data;
	int r;

	out->len = out->all = 0;
	r = decode_new((struct http_text){ coding, strlen(coding) }, keep, out, &d, err);
	for (size_t i = 0; r == 0 && i < len; i += step)
		r = decode_feed(d, at + i, len - i < step ? len - i : step, err);
	return r == 0 ? decode_finish(d, err) : r;
}

/* The same bit by bit. */
static int
pull_all(const char *coding, const void *data, size_t len, size_t step, struct out *out,
         struct err *err)
{
	OWN(decode_freep) struct decode *d = NULL;
	const unsigned char *at = data, *piece;
	size_t n = 1;
	int r;

	out->len = out->all = 0;
	r = decode_new_pulled((struct http_text){ coding, strlen(coding) }, &d, err);
	for (size_t left; r == 0 && len > 0; len -= left) {
		size_t given = left = len < step ? len : step;

		for (n = 1; r == 0 && n > 0;) {
			r = decode_pull(d, &at, &given, &piece, &n, err);
			CHECK(n <= DECODE_PIECE);
			if (r == 0 && n > 0)
				(void)keep(out, piece, n);
		}
		CHECK(r < 0 || given == 0);
	}
	return r == 0 ? decode_finish(d, err) : r;
}

static const unsigned char hello_br[] = { 0x0b, 0x02, 0x80, 'h', 'e', 'l', 'l', 'o', 0x03 };

static size_t
pack_zlib(int bits, const void *data, size_t len, unsigned char *out, size_t size)
{
	z_stream z = {0};

	CHECK(deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (unsigned)len;
	z.next_out = out;
	z.avail_out = (unsigned)size;
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	deflateEnd(&z);
	return size - z.avail_out;
}

#define GZIP (15 + 16)
#define ZLIB 15
#define BARE (-15)

static void
check_hello(const char *coding, const void *data, size_t len)
{
	static struct out out;

	for (size_t step = 1; step <= len; step++) {
		CHECK_OK(decode_all(coding, data, len, step, &out, NULL));
		CHECK(out.len == 5 && memcmp(out.data, "hello", 5) == 0);
		CHECK_OK(pull_all(coding, data, len, step, &out, NULL));
		CHECK(out.len == 5 && memcmp(out.data, "hello", 5) == 0);
	}
}

TEST(decode_codings)
{
	unsigned char a[256], b[256];
	size_t n;

	check_hello("", "hello", 5);
	check_hello("identity", "hello", 5);
	check_hello(" identity , Identity", "hello", 5);
	n = pack_zlib(GZIP, "hello", 5, a, sizeof(a));
	check_hello("gzip", a, n);
	check_hello("X-GZip", a, n);
	n = pack_zlib(ZLIB, "hello", 5, a, sizeof(a));
	check_hello("deflate", a, n);
	n = ZSTD_compress(a, sizeof(a), "hello", 5, 3);
	check_hello("zstd", a, n);
	check_hello("br", hello_br, sizeof(hello_br));
	/* gzip was put on first. */
	n = pack_zlib(GZIP, "hello", 5, a, sizeof(a));
	n = ZSTD_compress(b, sizeof(b), a, n, 3);
	check_hello("gzip, zstd", b, n);
	n = pack_zlib(ZLIB, b, n, a, sizeof(a));
	check_hello("gzip,zstd,\tdeflate", a, n);
}

/* Members and frames may follow one another. */
TEST(decode_several)
{
	unsigned char a[256];
	size_t n = pack_zlib(GZIP, "hel", 3, a, sizeof(a));

	n += pack_zlib(GZIP, "lo", 2, a + n, sizeof(a) - n);
	check_hello("gzip", a, n);
	n = ZSTD_compress(a, sizeof(a), "hel", 3, 3);
	n += ZSTD_compress(a + n, sizeof(a) - n, "lo", 2, 3);
	check_hello("zstd", a, n);
}

static void
check_broken(const char *coding, const void *data, size_t len, const char *why)
{
	static struct out out;
	struct err err = {0};

	CHECK_ERR(decode_all(coding, data, len, len, &out, &err), EBADMSG);
	CHECK(strstr(err.text, why) != NULL);
}

TEST(decode_broken)
{
	unsigned char a[256];
	size_t n;

	check_broken("compress", "x", 1, "not known");
	check_broken("gzip;q=1", "x", 1, "not known");
	check_broken("gzip, br, zstd, gzip", "x", 1, "more than 3 times");
	check_broken("gzip", "hello", 5, "gzip data are broken");
	check_broken("br", "\xff\xff\xff", 3, "br data are broken");
	check_broken("zstd", "hello", 5, "zstd data are broken");
	n = pack_zlib(GZIP, "hello", 5, a, sizeof(a));
	check_broken("gzip", a, n - 1, "cut short");
	a[n - 5] ^= 1;                  /* its checksum */
	check_broken("gzip", a, n, "broken");
	n = pack_zlib(GZIP, "hello", 5, a, sizeof(a));
	a[n] = 'x';
	check_broken("gzip", a, n + 1, "cut short");
	memcpy(a + n, "behind it", 9);
	check_broken("gzip", a, n + 9, "broken");
	/* Bare deflate: RFC 9110 wants it wrapped, and readers differ. */
	n = pack_zlib(BARE, "hello", 5, a, sizeof(a));
	check_broken("deflate", a, n, "broken");
	n = pack_zlib(ZLIB, "hello", 5, a, sizeof(a));
	a[n] = 0;
	check_broken("deflate", a, n + 1, "broken");
	memcpy(a, hello_br, sizeof(hello_br));
	a[sizeof(hello_br)] = 0;
	check_broken("br", a, sizeof(hello_br) + 1, "broken");
	check_broken("br", a, sizeof(hello_br) - 1, "cut short");
	n = ZSTD_compress(a, sizeof(a), "hello", 5, 3);
	check_broken("zstd", a, n - 1, "cut short");
}

/* What unpacking skips could hold anything, and some keep a body as it came. */
TEST(decode_hidden)
{
	static const struct { int flag; const char *more; size_t n; } extras[] = {
		{ 4, "\6\0secret", 8 }, { 8, "secret", 7 }, { 16, "secret", 7 },
	};
	unsigned char a[256], b[256];
	size_t n = pack_zlib(GZIP, "hello", 5, a, sizeof(a)), more;

	for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
		static struct out out;

		more = extras[i].n;
		memcpy(b, a, 10);
		b[3] = (unsigned char)extras[i].flag;
		memcpy(b + 10, extras[i].more, more);
		memcpy(b + 10 + more, a + 10, n - 10);
		check_broken("gzip", b, n + more, "hold more than its content");
		CHECK_ERR(decode_all("gzip", b, n + more, 1, &out, NULL), EBADMSG);
		/* in a second member */
		memmove(b + n, b, n + more);
		memcpy(b, a, n);
		check_broken("gzip", b, 2 * n + more, "hold more than its content");
		CHECK_ERR(decode_all("gzip", b, 2 * n + more, 1, &out, NULL), EBADMSG);
	}
	memcpy(a, "\x5a\x2a\x4d\x18\6\0\0\0secret", 14);
	check_broken("zstd", a, 14, "hold more than its content");
	n = ZSTD_compress(a + 14, sizeof(a) - 14, "hello", 5, 3);
	check_broken("zstd", a, n + 14, "hold more than its content");
	memcpy(b, a + 14, n);
	memcpy(b + n, a, 14);
	check_broken("zstd", b, n + 14, "hold more than its content");
	memcpy(b + n, "behind it", 9);
	check_broken("zstd", b, n + 9, "broken");
}

TEST(decode_empty)
{
	static struct out out;

	CHECK_OK(decode_all("gzip", "", 0, 1, &out, NULL));
	CHECK_OK(decode_all("gzip, br", "", 0, 1, &out, NULL));
}

/* A megabyte of zeros may be a kilobyte; 64 of them may not. */
TEST(decode_bombs)
{
	enum { BIG = 80 * 1024 * 1024 };
	OWN(freep) unsigned char *zeros = calloc(1, BIG), *packed = malloc(1 << 20);
	static struct out out;
	size_t n;

	CHECK(zeros != NULL && packed != NULL);
	n = pack_zlib(GZIP, zeros, 1000000, packed, 1 << 20);
	CHECK_OK(decode_all("gzip", packed, n, n, &out, NULL));
	CHECK_U64(out.all, 1000000);
	n = pack_zlib(GZIP, zeros, BIG, packed, 1 << 20);
	check_broken("gzip", packed, n, "200 times");
	CHECK(out.all < (uint64_t)2 * 1024 * 1024);
	n = ZSTD_compress(packed, 1 << 20, zeros, BIG, 3);
	check_broken("zstd", packed, n, "200 times");
	/* The outer one is no bomb: the inner one is. */
	n = pack_zlib(GZIP, zeros, BIG, packed, 1 << 19);
	n = pack_zlib(GZIP, packed, n, packed + (1 << 19), 1 << 19);
	check_broken("gzip, gzip", packed + (1 << 19), n, "200 times");
}

/* In pieces, and nobody counts them: what is not content is left out. */
TEST(decode_pulled)
{
	enum { BIG = 80 * 1024 * 1024 };
	OWN(freep) unsigned char *zeros = calloc(1, BIG), *packed = malloc(1 << 20);
	static struct out out;
	struct err err = {0};
	size_t n;

	CHECK(zeros != NULL && packed != NULL);
	n = pack_zlib(GZIP, zeros, BIG, packed, 1 << 19);
	CHECK_OK(pull_all("gzip", packed, n, 1000, &out, NULL));
	CHECK_U64(out.all, BIG);
	n = pack_zlib(GZIP, packed, n, packed + (1 << 19), 1 << 19);
	CHECK_OK(pull_all("gzip, gzip", packed + (1 << 19), n, n, &out, NULL));
	CHECK_U64(out.all, BIG);
	/* Bare deflate, and zeros behind the end, as some servers send them. */
	n = pack_zlib(BARE, "hello", 5, packed, 1 << 19);
	CHECK_OK(pull_all("deflate", packed, n, 1, &out, NULL));
	CHECK(out.len == 5);
	n = pack_zlib(ZLIB, "hello", 5, packed, 1 << 19);
	CHECK_OK(pull_all("deflate", packed, n, n, &out, NULL));
	CHECK(out.len == 5);
	n = pack_zlib(GZIP, "hello", 5, packed, 1 << 19);
	memset(packed + n, 0, 600);
	CHECK_OK(pull_all("gzip", packed, n + 600, 100, &out, NULL));
	CHECK(out.len == 5);
	packed[n + 600] = 'x';
	CHECK_ERR(pull_all("gzip", packed, n + 601, 100, &out, NULL), EBADMSG);
	CHECK_OK(pull_all("none", "hello", 5, 5, &out, NULL));
	CHECK(out.len == 5);
	/* A name in its header. */
	n = pack_zlib(GZIP, "hello", 5, packed, 1 << 19);
	memmove(packed + 12, packed + 10, n - 10);
	packed[3] |= 8;
	memcpy(packed + 10, "x", 2);
	CHECK_OK(pull_all("gzip", packed, n + 2, 1, &out, NULL));
	CHECK(out.len == 5);
	CHECK_ERR(pull_all("gzip", packed, n, n, &out, &err), EBADMSG);
	CHECK(strstr(err.text, "cut short") != NULL);
	packed[n - 3] ^= 1;
	CHECK_ERR(pull_all("gzip", packed, n + 2, n, &out, &err), EBADMSG);
	CHECK_ERR(pull_all("rot13", packed, n, n, &out, &err), EBADMSG);
}

TEST(decode_too_much)
{
	enum { BIG = INSPECT_DECODED_MAX + 4096 };
	OWN(freep) unsigned char *data = malloc(BIG), *packed = malloc(BIG);
	uint32_t x = 1;

	CHECK(data != NULL && packed != NULL);
	/* It must shrink by less than 200 times. */
	for (size_t i = 0; i < BIG; i++) {
		x = x * 1664525u + 1013904223u;
		data[i] = i % 64 == 0 ? (unsigned char)(x >> 24) : 0;
	}
	check_broken("zstd", packed, ZSTD_compress(packed, BIG, data, BIG, 1), "64 MiB");
}

/* A block of brotli that holds what is not content. */
TEST(decode_brotli_metadata)
{
	unsigned char data[103] = { 0xac, 0x31 };       /* 100 bytes are skipped */

	memset(data + 2, 'x', 100);
	data[102] = 0x03;
	check_broken("br", data, sizeof(data), "hold more than its content");
}
