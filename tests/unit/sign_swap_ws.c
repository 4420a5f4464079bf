/* sign_swap_ws.c - tests of sign/swap_ws: frames, fragments, masks, what is refused. */
#include "sign/swap_ws.h"

#include <errno.h>

#include "base/err.h"
#include "swap_lab.h"

#define FAKE "tok_AAAAbbbb/cc+dd"

static const struct swap_needle needles[] = { { { FAKE, 18 }, { "tok_ZZ", 6 } } };

/* A frame, masked if it is a client's. */
static void
put_frame(struct buf *b, bool masked, unsigned first, const char *payload, size_t len)
{
	static const unsigned char mask[4] = { 0x11, 0x82, 0xf3, 0x04 };
	unsigned char head[10] = { (unsigned char)first };
	size_t n = 2;

	head[1] = (unsigned char)(len < 126 ? len : len < 65536 ? 126 : 127);
	for (size_t size = len < 126 ? 0 : len < 65536 ? 2 : 8; size-- > 0;)
		head[n++] = (unsigned char)(len >> 8 * size);
	head[1] |= masked ? 0x80 : 0;
	buf_put(b, head, n);
	if (masked)
		buf_put(b, mask, 4);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)payload[i] ^ (masked ? mask[i % 4] : 0);

		buf_put(b, &c, 1);
	}
}

static int
run(struct swap_lab *lab, const struct swap_set *set, bool from_client, const struct buf *in,
    size_t step, struct err *err)
{
	struct swap_ws *ws = calloc(1, sizeof(*ws));
	int r = 0;

	CHECK(ws != NULL);
	ws->from_client = from_client;
	ws->stream = (struct swap_stream){ .set = set, .judge = swap_lab_judge,
		.sink = swap_lab_sink, .arg = lab };
	swap_ws_init(ws);
	buf_reset(&lab->out);
	lab->n_seen = 0;
	for (size_t i = 0; i < in->len && r == 0; i += step)
		r = swap_ws_feed(ws, in->data + i, in->len - i < step ? in->len - i : step, err);
	swap_ws_free(ws);
	free(ws);
	return r;
}

/* What IN becomes is WANT, however it is cut. */
static void
check_frames(bool from_client, const struct buf *in, const struct buf *want)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct err err = {0};

	for (size_t step = 1; step <= in->len && step < 400; step++) {
		if (run(lab, set, from_client, in, step, &err) < 0)
			test_fail(__FILE__, __LINE__, "refused: %s", err.text);
		CHECK_U64(lab->out.len, want->len);
		CHECK(memcmp(lab->out.data, want->data, want->len) == 0);
	}
}

TEST(swap_ws_messages)
{
	for (int masked = 0; masked < 2; masked++) {
		OWN(buf_free) struct buf in, want;

		buf_init(&in, 1 << 20);
		buf_init(&want, 1 << 20);
		put_frame(&in, masked, 0x81, "{\"k\":\"" FAKE "\"}", 26);
		put_frame(&want, masked, 0x81, "{\"k\":\"tok_ZZ\"}", 14);
		put_frame(&in, masked, 0x81, "", 0);
		put_frame(&want, masked, 0x81, "", 0);
		put_frame(&in, masked, 0x89, FAKE, 18);
		put_frame(&want, masked, 0x89, "tok_ZZ", 6);
		put_frame(&in, masked, 0x82, FAKE FAKE, 36);
		put_frame(&want, masked, 0x82, "tok_ZZtok_ZZ", 12);
		check_frames(masked, &in, &want);
	}
}

/* Also in what is said at the end, and between the parts of a message, which is not touched. */
TEST(swap_ws_control)
{
	for (int masked = 0; masked < 2; masked++) {
		OWN(buf_free) struct buf in, want;

		buf_init(&in, 1 << 20);
		buf_init(&want, 1 << 20);
		put_frame(&in, masked, 0x01, "tok_AAAA", 8);
		put_frame(&in, masked, 0x8a, "a " FAKE, 20);
		put_frame(&want, masked, 0x8a, "a tok_ZZ", 8);
		put_frame(&in, masked, 0x80, "bbbb/cc+dd", 10);
		put_frame(&want, masked, 0x81, "tok_ZZ", 6);
		put_frame(&in, masked, 0x89, "", 0);
		put_frame(&want, masked, 0x89, "", 0);
		put_frame(&in, masked, 0x88, "\x03\xe8" FAKE, 20);
		put_frame(&want, masked, 0x88, "\x03\xe8tok_ZZ", 8);
		check_frames(masked, &in, &want);
	}
}

/* Across fragments, with control between them: what is seen is held until it is whole. */
TEST(swap_ws_fragments)
{
	for (int masked = 0; masked < 2; masked++) {
		OWN(buf_free) struct buf in, want;

		buf_init(&in, 1 << 20);
		buf_init(&want, 1 << 20);
		put_frame(&in, masked, 0x01, "one tok_", 8);
		put_frame(&want, masked, 0x01, "one ", 4);
		put_frame(&in, masked, 0x89, "hi", 2);
		put_frame(&want, masked, 0x89, "hi", 2);
		put_frame(&in, masked, 0x00, "AAAAbb", 6);
		put_frame(&in, masked, 0x00, "", 0);
		put_frame(&in, masked, 0x00, "bb/cc+dd two", 12);
		put_frame(&want, masked, 0x00, "tok_ZZ two", 10);
		put_frame(&in, masked, 0x80, " tok_", 5);
		put_frame(&want, masked, 0x80, " tok_", 5);
		/* Not across messages. */
		put_frame(&in, masked, 0x81, "AAAAbbbb/cc+dd", 14);
		put_frame(&want, masked, 0x81, "AAAAbbbb/cc+dd", 14);
		put_frame(&in, masked, 0x88, "\003\350", 2);
		put_frame(&want, masked, 0x88, "\003\350", 2);
		/* Nobody reads this. */
		put_frame(&in, masked, 0x81, FAKE, 18);
		check_frames(masked, &in, &want);
	}
}

/* What is long is cut, and the whole of it is there. */
TEST(swap_ws_long)
{
	static char text[200000], swapped[200000];
	OWN(buf_free) struct buf in, want;
	size_t n = sizeof(text) - 12;

	buf_init(&in, 1 << 20);
	buf_init(&want, 1 << 20);
	memset(text, 'x', sizeof(text));
	memset(swapped, 'x', sizeof(swapped));
	memcpy(text + SWAP_WS_FRAME - 5, FAKE, 18);
	memcpy(swapped + SWAP_WS_FRAME - 5, "tok_ZZ", 6);
	put_frame(&in, true, 0x81, text, sizeof(text));
	for (size_t at = 0; at < n; at += SWAP_WS_FRAME)
		put_frame(&want, true, (at == 0 ? 1u : 0u) | (n - at <= SWAP_WS_FRAME ? 0x80u : 0u),
		          swapped + at, n - at < SWAP_WS_FRAME ? n - at : SWAP_WS_FRAME);
	check_frames(true, &in, &want);
}

static const struct {
	bool from_client;
	const char *bytes;
	size_t len;
	const char *why;
} refused_cases[] = {
	{ false, "\xc1\x00", 2, "extension" }, { false, "\x81\x80\0\0\0\0", 6, "masked" },
	{ true, "\x81\x00", 2, "not masked" }, { false, "\x83\x00", 2, "kind" },
	{ false, "\x8b\x00", 2, "kind" }, { false, "\x09\x00", 2, "control" },
	{ false, "\x89\x7e\x00\x7e", 4, "control" }, { false, "\x80\x00", 2, "order" },
	{ false, "\x01\x00\x81\x00", 4, "order" }, { false, "\x81\x7e\x00\x7d", 4, "length" },
	{ false, "\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", 10, "length" },
	{ false, "\x81\x7f\x80\x00\x00\x00\x00\x01\x00\x00", 10, "length" },
};

TEST(swap_ws_refuses)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(refused_cases); i++)
		for (size_t step = 1; step <= refused_cases[i].len; step++) {
			struct err err = {0};
			struct buf in;

			buf_init_borrowed(&in, refused_cases[i].bytes, refused_cases[i].len);
			CHECK_ERR(run(lab, set, refused_cases[i].from_client, &in, step, &err), EPROTO);
			if (strstr(err.text, refused_cases[i].why) == NULL)
				test_fail(__FILE__, __LINE__, "%zu: %s", i, err.text);
		}
}

TEST(swap_ws_stops)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	OWN(buf_free) struct buf in;

	buf_init(&in, 1024);
	put_frame(&in, true, 0x81, "before", 6);
	put_frame(&in, true, 0x81, "123" FAKE, 21);
	lab->verdict = SWAP_STOP;
	CHECK_ERR(run(lab, set, true, &in, 7, NULL), EACCES);
	CHECK(lab->seen[0].place == SWAP_MESSAGE && lab->seen[0].at == 3);
	CHECK_U64(lab->out.len, 12);
}
