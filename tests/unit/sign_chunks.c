/* Signed chunks, on the examples of S3's documentation: 64 KiB and 1 KiB of "a". */
#include "sign/sign_chunks.h"

#include <errno.h>
#include <openssl/hmac.h>

#include "base/buf.h"
#include "base/err.h"
#include "test.h"

#define SCOPE "20130524/us-east-1/s3/aws4_request"
#define TIME "20130524T000000Z"
#define TEXT(literal) { literal, sizeof(literal) - 1 }

struct example {
	bool trailers;
	const char *seed, *first, *second, *last, *behind;
};

static const struct example plain = { false,
	"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
	"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
	"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
	"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9", "\r\n" };
#define TRAILER_EXAMPLE(behind_) { true, \
	"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e", \
	"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2", \
	"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7", \
	"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992", behind_ }
#define TRAILER_SIGNATURE \
	"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
/* As several clients write it. */
static const struct example trailers[] = {
	TRAILER_EXAMPLE("x-amz-checksum-crc32c:sOO8/Q==\r\n" TRAILER_SIGNATURE "\r\n\r\n"),
	TRAILER_EXAMPLE("x-amz-checksum-crc32c:sOO8/Q==\n\r\n" TRAILER_SIGNATURE "\r\n\r\n"),
	TRAILER_EXAMPLE("X-Amz-Checksum-Crc32c: sOO8/Q== \r\n" TRAILER_SIGNATURE "\r\n"),
};

static void
derive(const char *secret, unsigned char key[32])
{
	static const char *const words[] = { "20130524", "us-east-1", "s3", "aws4_request" };
	char first[128];

	snprintf(first, sizeof(first), "AWS4%s", secret);
	HMAC(EVP_sha256(), first, (int)strlen(first), (const unsigned char *)words[0],
	     strlen(words[0]), key, NULL);
	for (int i = 1; i < 4; i++)
		HMAC(EVP_sha256(), key, 32, (const unsigned char *)words[i], strlen(words[i]), key, NULL);
}

static void
write_body(const struct example *e, struct buf *b)
{
	char line[128];

	buf_init(b, 1 << 20);
	buf_put(b, line, (size_t)snprintf(line, sizeof(line), "10000;chunk-signature=%s\r\n", e->first));
	memset(buf_add(b, 65536), 'a', 65536);
	buf_put(b, line, (size_t)snprintf(line, sizeof(line), "\r\n400;chunk-signature=%s\r\n", e->second));
	memset(buf_add(b, 1024), 'a', 1024);
	buf_put(b, line, (size_t)snprintf(line, sizeof(line), "\r\n0;chunk-signature=%s\r\n", e->last));
	buf_put(b, e->behind, strlen(e->behind));
}

/* From the example's key to another one, or, BACK, the other way. */
static struct sign_chunks *
begin(const struct example *e, bool back)
{
	unsigned char published[32], real[32];
	struct sign_chunks_start start = { e->trailers, TEXT(TIME), TEXT(SCOPE), published, real,
		e->seed, "00000000000000000000000000000000000000000000000000000000000000ff" };
	struct sign_chunks *c = NULL;

	derive("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", published);
	derive("the-real-secret", real);
	if (back) {
		const char *seed = start.from_signature;

		start.from_key = real;
		start.to_key = published;
		start.from_signature = start.to_signature;
		start.to_signature = seed;
	}
	CHECK_OK(sign_chunks_new(&start, &c, NULL));
	return c;
}

/* All of IN in pieces of PIECE; what came out is in OUT. */
static int
pass(struct sign_chunks *c, const struct buf *in, size_t piece, struct buf *out,
     struct err *err)
{
	buf_init(out, 1 << 21);
	for (size_t at = 0; at < in->len;) {
		size_t n = in->len - at < piece ? in->len - at : piece, used = 0;
		struct http_text got;
		int r = sign_chunks_next(c, in->data + at, n, &used, &got, err);

		if (r < 0)
			return r;
		CHECK(used > 0 && used <= n);
		buf_put(out, got.at, got.len);
		at += used;
	}
	return sign_chunks_end(c, err);
}

static void
check_example(const struct example *e, size_t piece)
{
	struct sign_chunks *c = begin(e, false);
	struct buf in, out, again;
	struct err err = {0};
	int r;

	write_body(e, &in);
	r = pass(c, &in, piece, &out, &err);
	if (r < 0)
		test_fail(__FILE__, __LINE__, "pieces of %zu: %s", piece, err.text);
	sign_chunks_free(c);
	CHECK_U64(out.len, in.len);
	CHECK(memmem(out.data, out.len, e->first, 64) == NULL &&
	      memmem(out.data, out.len, e->last, 64) == NULL);
	c = begin(e, true);
	CHECK_OK(pass(c, &out, piece, &again, &err));
	sign_chunks_free(c);
	CHECK(again.len == in.len && memcmp(again.data, in.data, in.len) == 0);
	buf_free(&in);
	buf_free(&out);
	buf_free(&again);
}

TEST(sign_chunks_published)
{
	static const size_t pieces[] = { 1, 7, 64, 1000, 65536, 1 << 20 };

	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		check_example(&plain, pieces[i]);
		for (size_t k = 0; k < ARRAY_LEN(trailers); k++)
			check_example(&trailers[k], pieces[i]);
	}
}

/* A changed byte: nothing of its chunk, or of what follows, may go on. */
static void
check_changed(const struct example *e, size_t at, size_t out_max)
{
	struct sign_chunks *c = begin(e, false);
	struct buf in, out;
	struct err err = {0};
	struct http_text got;
	size_t used;

	write_body(e, &in);
	in.data[at] ^= 1;
	CHECK(pass(c, &in, 5000, &out, &err) < 0);
	CHECK(out.len <= out_max);
	CHECK(strstr(err.text, "b6c6") == NULL && strstr(err.text, "ad80") == NULL);
	CHECK(sign_chunks_next(c, "\r\n", 2, &used, &got, NULL) < 0 || got.len == 0);
	CHECK(sign_chunks_end(c, NULL) < 0);
	sign_chunks_free(c);
	buf_free(&in);
	buf_free(&out);
}

TEST(sign_chunks_changed)
{
	const size_t first = 88 + 65536 + 2, second = first + 86 + 1024 + 2;

	check_changed(&plain, 0, 0);                    /* the size */
	check_changed(&plain, 30, 0);                   /* the signature */
	check_changed(&plain, 5000, 0);                 /* the data */
	check_changed(&plain, first - 1, 0);
	check_changed(&plain, first + 500, first);
	check_changed(&plain, second + 40, second);     /* the last signature */
	check_changed(&trailers[0], second + 40, second);
	check_changed(&trailers[0], second + 84 + 25, second + 84);     /* a trailer */
	check_changed(&trailers[0], second + 84 + 60, second + 84);     /* its signature */
	check_changed(&trailers[0], second + 84 + 34, second + 84);     /* its name */
}

TEST(sign_chunks_cut)
{
	const struct example *examples[] = { &plain, &trailers[0] };

	for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
		struct buf in, out;
		size_t whole;

		write_body(examples[i], &in);
		whole = in.len;
		/* Of the last line's end, trailers may do without. */
		for (size_t lost = examples[i]->trailers ? 3 : 1; lost < 400; lost++) {
			struct sign_chunks *c = begin(examples[i], false);

			in.len = whole - lost;
			CHECK_ERR(pass(c, &in, 4096, &out, NULL), EBADMSG);
			sign_chunks_free(c);
			buf_free(&out);
		}
		in.len = whole;
		buf_put(&in, "0", 1);
		{
			struct sign_chunks *c = begin(examples[i], false);

			CHECK_ERR(pass(c, &in, 4096, &out, NULL), EBADMSG);
			sign_chunks_free(c);
			buf_free(&out);
		}
		buf_free(&in);
	}
}

static const struct {
	const char *body;
	int code;
} bad[] = {
	{ "10000\r\naaaa", EBADMSG },
	{ "100001;chunk-signature=0000000000000000000000000000000000000000000000000000000000000000"
	  "\r\n", EMSGSIZE },
	{ "00000000000000001;chunk-signature=0000000000000000000000000000000000000000000000000000000"
	  "000000000\r\n", EBADMSG },
	{ "x;chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\r\n",
	  EBADMSG },
	{ ";chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\r\n",
	  EBADMSG },
	{ "1;chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\n",
	  EBADMSG },
	{ "1;chunk-signaturf=0000000000000000000000000000000000000000000000000000000000000000\r\n",
	  EBADMSG },
	{ "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	  "0000000000000000000000000000000000000000000000000000000000000000", EBADMSG },
};

TEST(sign_chunks_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sign_chunks *c = begin(&plain, false);
		struct buf in, out;

		buf_init_borrowed(&in, bad[i].body, strlen(bad[i].body));
		CHECK_ERR(pass(c, &in, 9, &out, NULL), bad[i].code);
		CHECK(out.len == 0);
		sign_chunks_free(c);
		buf_free(&out);
	}
}
