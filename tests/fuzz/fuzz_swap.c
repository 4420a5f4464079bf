/* fuzz_swap.c - needles in a stream.
 *
 * The first byte has flags, the second says how the stream is cut, the third how many needles
 * there are (and, with its highest bit, that they are looked for as in answers) and the fourth how long; then come the needles, and then the stream.  However it
 * is cut, the same must come of it; what was declared as long stays so; what was to be
 * scrubbed is not there any more. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/sign.h"
#include "sign/swap.h"

#define NEEDLES 8
#define OUT_MAX (32 << 20)

enum { CODED = 1, LEAVE = 2, LENGTHS = 12, PLACE = 0xf0 };
#define IN_ANSWERS 0x80

struct pass {
	struct buf out, seen;
	bool leave;
};

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	struct pass *p = arg;

	assert(seen->len > 0);
	buf_put_u32(&p->seen, (uint32_t)seen->needle);
	buf_put_u64(&p->seen, seen->at);
	buf_put_u64(&p->seen, seen->len);
	buf_put_u32(&p->seen, seen->form | seen->percent << 8 | seen->json << 9);
	return p->leave ? SWAP_LEAVE : SWAP_REPLACE;
}

static int
sink(void *arg, const unsigned char *data, size_t len)
{
	struct pass *p = arg;

	assert(len > 0);
	buf_put(&p->out, data, len);
	return 0;
}

/* In pieces of random sizes; in one if RANDOM is 0. */
static int
run(struct pass *p, const struct swap_set *set, uint8_t flags, unsigned random,
    const uint8_t *data, size_t size)
{
	bool is_whole = random == 0;

	struct swap_stream s = { .set = set, .place = (flags & PLACE) >> 4,
		.lengths = (flags & LENGTHS) >> 2, .judge = judge, .sink = sink, .arg = p };
	int r = 0;

	buf_init(&p->out, OUT_MAX);
	buf_init(&p->seen, OUT_MAX);
	p->leave = (flags & LEAVE) != 0;
	for (size_t at = 0, n; at < size && r == 0; at += n) {
		OWN(freep) uint8_t *piece = NULL;

		random = random * 1103515245 + 12345;
		n = is_whole ? size : 1 + (random >> 16) % 40;
		n = n > size - at ? size - at : n;
		piece = malloc(n);
		assert(piece != NULL);
		memcpy(piece, data + at, n);
		r = swap_feed(&s, piece, n, NULL);
	}
	if (r == 0)
		r = swap_finish(&s, NULL);
	assert(r == 0 || r == -EMSGSIZE);
	assert(r < 0 || (int64_t)p->out.len == (int64_t)size + s.grown);
	assert(s.lengths == SWAP_ANY_LENGTH || s.grown == 0);
	assert(s.lengths != SWAP_FIT_LENGTH || r == 0);
	swap_free(&s);
	return r;
}

static bool
same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* The same bytes as a field: nothing may be read or written beside them. */
static void
run_head(const struct swap_set *set, uint8_t flags, const uint8_t *data, size_t size)
{
	static struct sign_memory m;
	static struct http_head head;
	struct pass p = { .leave = (flags & LEAVE) != 0 };
	struct swap_heads how = { .set = set, .lengths = (flags & LENGTHS) >> 2, .judge = judge,
		.arg = &p };
	struct http_text text = { (const char *)data, size };

	buf_init(&p.out, OUT_MAX);
	buf_init(&p.seen, OUT_MAX);
	m.used = 0;
	head = (struct http_head){ .host = { "h", 1 }, .path = text, .n_fields = 2 };
	head.fields[0] = (struct http_field){ { "authorization", 13 }, text };
	head.fields[1] = (struct http_field){ text, text };
	(void)swap_head(&how, &head, &m, NULL);
	assert(m.used <= sizeof(m.at));
	buf_free(&p.out);
	buf_free(&p.seen);
}

static void
check(const struct swap_set *set, uint8_t flags, unsigned random, bool is_apart,
      const uint8_t *data, size_t size)
{
	struct pass whole = {0}, cut = {0}, again = {0};
	int r = run(&whole, set, flags, 0, data, size);

	assert(run(&cut, set, flags, random, data, size) == r);
	assert(same(&whole.seen, &cut.seen));
	assert(r < 0 || same(&whole.out, &cut.out));
	assert((flags & LEAVE) == 0 || (whole.out.len == size &&
	       (size == 0 || memcmp(whole.out.data, data, size) == 0)));
	if (r == 0 && (flags & (LEAVE | CODED)) == 0 && is_apart) {
		run(&again, set, flags, random, whole.out.data, whole.out.len);
		assert(again.seen.len == 0);
		buf_free(&again.out);
		buf_free(&again.seen);
	}
	buf_free(&whole.out);
	buf_free(&whole.seen);
	buf_free(&cut.out);
	buf_free(&cut.seen);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char with[65] = "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!";
	struct swap_needle needles[NEEDLES];
	OWN(swap_set_freep) struct swap_set *set = NULL;
	bool is_apart = true;
	uint8_t flags, cut;
	unsigned echoed;
	size_t n, len;

	if (size < 4)
		return 0;
	flags = data[0];
	cut = data[1];
	n = data[2] % NEEDLES + 1;
	echoed = (data[2] & IN_ANSWERS) != 0 ? SWAP_ECHOED : 0;
	len = SWAP_NEEDLE_MIN + data[3] % 40;
	data += 4;
	size -= 4;
	if ((flags & LENGTHS) == LENGTHS || flags >> 4 > SWAP_MESSAGE || size < n * len)
		return 0;
	for (size_t i = 0; i < n; i++) {
		needles[i] = (struct swap_needle){ { (const char *)data, len }, { with, len } };
		data += len;
		size -= len;
		/* Cut off at a zero byte, so that there are needles of all lengths. */
		needles[i].find.len = strnlen(needles[i].find.at, len);
		if (needles[i].find.len < SWAP_NEEDLE_MIN)
			needles[i].find.len = len;
		/* Has no byte of what is put in, however it is written. */
		for (size_t k = 0; k < needles[i].find.len; k++)
			is_apart &= memchr("!x%\\u012&#;=4XU", needles[i].find.at[k], 16) == NULL;
	}
	if (swap_set_new(needles, n, (flags & CODED) | echoed, &set, NULL) < 0)
		abort();
	run_head(set, flags, data, size);
	check(set, flags, cut + 1u, is_apart, data, size);
	return 0;
}
