/* fuzz_decode.c - content codings: the first byte says which, the rest is the body. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "inspect/decode.h"
#include "inspect/inspect.h"

struct out { uint64_t len, sum; };

static int
count(void *arg, const unsigned char *data, size_t len)
{
	struct out *out = arg;

	out->len += len;
	for (size_t i = 0; i < len; i++)
		out->sum = out->sum * 31 + data[i];
	return 0;
}

static int
decode(const char *coding, const uint8_t *data, size_t size, size_t step, struct out *out)
{
	OWN(decode_freep) struct decode *d = NULL;
	struct err err = {0};
	int r = decode_new((struct http_text){ coding, strlen(coding) }, count, out, &d, &err);

	for (size_t i = 0; r == 0 && i < size; i += step)
		r = decode_feed(d, data + i, size - i < step ? size - i : step, &err);
	if (r == 0)
		r = decode_finish(d, &err);
	assert((r == 0) == (err.text[0] == '\0'));
	return r;
}

static int
pull(const char *coding, const uint8_t *data, size_t size, size_t step, struct out *out)
{
	OWN(decode_freep) struct decode *d = NULL;
	struct err err = {0};
	const unsigned char *piece;
	int r = decode_new_pulled((struct http_text){ coding, strlen(coding) }, &d, &err);

	for (size_t i = 0; r == 0 && i < size; i += step) {
		size_t left = size - i < step ? size - i : step, n = 1;
		const unsigned char *at = data + i;

		while (r == 0 && n > 0 && out->len <= INSPECT_DECODED_MAX) {
			r = decode_pull(d, &at, &left, &piece, &n, &err);
			(void)count(out, piece, n);
		}
	}
	if (r == 0)
		r = decode_finish(d, &err);
	assert((r == 0) == (err.text[0] == '\0'));
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const codings[] = {
		"gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip, deflate", "identity",
	};
	struct out whole = {0}, cut = {0}, pulled = {0};
	const char *coding;
	int r;

	if (size < 2)
		return 0;
	coding = codings[data[0] % ARRAY_LEN(codings)];
	data++;
	size--;
	r = decode(coding, data, size, size, &whole);
	assert(whole.len <= INSPECT_DECODED_MAX);
	assert(decode(coding, data, size, size / 7 + 1, &cut) == r);
	if (r == 0)
		assert(whole.len == cut.len && whole.sum == cut.sum);
	/* What is taken when it is counted is taken when it is not. */
	if (pull(coding, data, size, size / 5 + 1, &pulled) < 0)
		assert(r < 0);
	else if (r == 0)
		assert(whole.len == pulled.len && whole.sum == pulled.sum);
	return 0;
}
