/* fuzz_sign_chunks.c - a body of signed chunks.
 *
 * The first byte says whether there are trailers, the second how the body is cut.  As many
 * signatures as can be found are put right first.  However it is cut, the same must come of
 * it; nothing is added or lost; signed back it must be what it was. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/sign_chunks.h"
#include "sign/sigv4.h"

#define OUT_MAX (4 << 20)
#define TIME "20260102T030405Z"
#define SCOPE "20260102/r/s3/aws4_request"
#define SEED "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const unsigned char key_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const unsigned char key_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static void
make(const char *label, const char *last, const char *empty, const void *data, size_t len,
     char ret_hex[64])
{
	unsigned char hash[32], mac[32];
	char text[512], hex[64];
	int n;

	assert(EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL) == 1);
	codec_hex_digits(hash, 32, hex);
	n = snprintf(text, sizeof(text), "%s\n" TIME "\n" SCOPE "\n%.64s\n%s%.64s", label, last, empty,
	             hex);
	assert(sigv4_hmac(key_a, 32, text, (size_t)n, mac) == 0);
	codec_hex_digits(mac, 32, ret_hex);
}

/* Puts right what looks like a chunk, or behind the last one like a trailer with its
 * signature. */
static void
mend(char *at, char *end, bool trailers)
{
	static const char word[] = ";chunk-signature=", signature[] = "x-amz-trailer-signature:";
	const char *last = SEED;
	char *found;
	size_t size;

	for (;;) {
		found = memmem(at, (size_t)(end - at), word, sizeof(word) - 1);
		if (found == NULL || found == at || (size_t)(end - found) < sizeof(word) + 65)
			return;
		size = strtoul(at, NULL, 16);
		found += sizeof(word) - 1;
		if (size > (size_t)(end - found) - 66)
			return;
		make("AWS4-HMAC-SHA256-PAYLOAD", last, EMPTY "\n", found + 66, size, found);
		last = found;
		at = found + 66 + size;
		if (size == 0)
			break;
		at += end - at < 2 ? end - at : 2;
	}
	found = memmem(at, (size_t)(end - at), signature, sizeof(signature) - 1);
	if (trailers && found != NULL && (size_t)(end - found) >= sizeof(signature) + 63) {
		char text[SIGN_TRAILERS_MAX];
		size_t n = 0;

		for (char *p = at; p < found && n < sizeof(text) - 1; p++)
			if (*p != '\r' && (*p != '\n' || (n > 0 && text[n - 1] != '\n')))
				text[n++] = *p;
		make("AWS4-HMAC-SHA256-TRAILER", last, "", text, n, found + sizeof(signature) - 1);
	}
}

static struct sign_chunks *
begin(bool trailers, bool back)
{
	const struct sign_chunks_start start = { trailers, { TIME, sizeof(TIME) - 1 },
		{ SCOPE, sizeof(SCOPE) - 1 }, back ? key_b : key_a, back ? key_a : key_b, SEED, SEED };
	struct sign_chunks *c = NULL;

	assert(sign_chunks_new(&start, &c, NULL) == 0);
	return c;
}

/* 0: the body was complete. */
static int
pass(bool trailers, bool back, const char *data, size_t len, unsigned random, struct buf *out)
{
	OWN(sign_chunks_freep) struct sign_chunks *c = begin(trailers, back);
	struct err err = {0};
	struct http_text got;
	size_t used, n;
	int r;

	buf_init(out, OUT_MAX);
	for (size_t at = 0; at < len; at += used) {
		n = len - at;
		if (random != 0) {
			random = random * 1103515245 + 12345;
			n = 1 + (random >> 16) % 40;
			n = n < len - at ? n : len - at;
		}
		r = sign_chunks_next(c, data + at, n, &used, &got, &err);
		if (r < 0) {
			assert(err.text[0] != '\0' && got.len == 0);
			return r;
		}
		assert(used > 0 && used <= n);
		buf_put(out, got.at, got.len);
		assert(out->len <= at + used);
	}
	return sign_chunks_end(c, &err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf whole = {0}, cut = {0}, back = {0};
	OWN(freep) char *copy = NULL;
	bool trailers;
	int r;

	if (size < 3)
		return 0;
	trailers = (data[0] & 1) != 0;
	copy = malloc(size - 1);
	assert(copy != NULL);
	memcpy(copy, data + 2, size - 2);
	copy[size - 2] = '\0';
	mend(copy, copy + size - 2, trailers);
	r = pass(trailers, false, copy, size - 2, 0, &whole);
	assert(pass(trailers, false, copy, size - 2, data[1] + 1U, &cut) == r);
	assert(whole.len == cut.len && (cut.len == 0 || memcmp(whole.data, cut.data, cut.len) == 0));
	if (r == 0) {
		assert(whole.len == size - 2);
		assert(pass(trailers, true, (char *)whole.data, whole.len, data[1], &back) == 0);
		assert(back.len == size - 2 && memcmp(back.data, copy, back.len) == 0);
	}
	return 0;
}
