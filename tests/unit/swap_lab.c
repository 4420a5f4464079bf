/* swap_lab.c - for tests of swap: a stream in pieces of any size, and what came of it. */
#include "swap_lab.h"

#include "base/err.h"

struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

struct swap_set *
set_of(const struct swap_needle *needles, size_t n, unsigned flags)
{
	struct swap_set *set = NULL;
	struct err err = {0};

	if (swap_set_new(needles, n, flags, &set, &err) < 0)
		test_fail(__FILE__, __LINE__, "no set: %s", err.text);
	return set;
}

uint32_t
lab_random(uint32_t below)
{
	static uint64_t state = 42;

	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

struct swap_lab *
swap_lab_new(void)
{
	struct swap_lab *lab = calloc(1, sizeof(*lab));

	CHECK(lab != NULL);
	lab->verdict = SWAP_REPLACE;
	buf_init(&lab->out, 64 << 20);
	return lab;
}

void
swap_lab_free(struct swap_lab *lab)
{
	buf_free(&lab->out);
	swap_free(&lab->stream);
	free(lab);
}

void
swap_lab_freep(struct swap_lab **lab)
{
	swap_lab_free(*lab);
}

enum swap_verdict
swap_lab_judge(void *arg, const struct swap_seen *seen)
{
	struct swap_lab *lab = arg;

	CHECK(lab->n_seen < LAB_SEEN_MAX);
	lab->seen[lab->n_seen++] = *seen;
	if (lab->allowed != 0 && (lab->allowed >> seen->place & 1) == 0)
		return SWAP_LEAVE;
	return lab->verdict;
}

int
swap_lab_sink(void *arg, const unsigned char *data, size_t len)
{
	struct swap_lab *lab = arg;

	CHECK(len > 0);
	buf_put(&lab->out, data, len);
	CHECK(!buf_failed(&lab->out));
	return 0;
}

int
swap_lab_run(struct swap_lab *lab, const struct swap_set *set, enum swap_place place,
             enum swap_lengths lengths, const void *data, size_t len, size_t step)
{
	const char *at = data;
	int r = 0;

	swap_free(&lab->stream);
	lab->stream = (struct swap_stream){ .set = set, .place = place, .lengths = lengths,
		.judge = swap_lab_judge, .sink = swap_lab_sink, .arg = lab };
	lab->n_seen = 0;
	buf_reset(&lab->out);
	for (size_t i = 0, n; i < len && r == 0; i += n) {
		/* Of its own, so that the sanitizer sees what is read beside it. */
		OWN(freep) char *piece = NULL;

		n = step > 0 ? step : 1 + lab_random(lab_random(2) == 0 ? 4 : 60);
		if (n > len - i)
			n = len - i;
		piece = malloc(n);
		CHECK(piece != NULL);
		memcpy(piece, at + i, n);
		r = swap_feed(&lab->stream, piece, n, lab->err);
	}
	return r == 0 ? swap_finish(&lab->stream, lab->err) : r;
}

const char *
swap_lab_text(struct swap_lab *lab)
{
	buf_put(&lab->out, "", 1);
	lab->out.len--;
	return (const char *)lab->out.data;
}
