/* fuzz_swap_ws.c - one direction of a WebSocket.
 *
 * The first byte says which, and what becomes of needles; the second how the stream is cut.
 * However it is cut, the same messages must come of it; and they are a WebSocket's again. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/swap_ws.h"

#define OUT_MAX (8 << 20)

enum { CLIENT = 1, LEAVE = 2 };

struct pass {
	struct buf out;
	size_t n_seen;
	bool leave;
};

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	struct pass *p = arg;

	assert(seen->place == SWAP_MESSAGE);
	p->n_seen++;
	return p->leave ? SWAP_LEAVE : SWAP_REPLACE;
}

static int
sink(void *arg, const unsigned char *data, size_t len)
{
	struct pass *p = arg;

	buf_put(&p->out, data, len);
	return 0;
}

static int
run(struct pass *p, const struct swap_set *set, uint8_t flags, unsigned random,
    const uint8_t *data, size_t size)
{
	struct swap_ws *ws = calloc(1, sizeof(*ws));
	bool is_whole = random == 0;
	int r = 0;

	assert(ws != NULL);
	ws->from_client = (flags & CLIENT) != 0;
	ws->stream = (struct swap_stream){ .set = set, .judge = judge, .sink = sink, .arg = p };
	buf_init(&p->out, OUT_MAX);
	p->leave = (flags & LEAVE) != 0;
	p->n_seen = 0;
	swap_ws_init(ws);
	for (size_t at = 0, n; at < size && r == 0; at += n) {
		random = random * 1103515245 + 12345;
		n = is_whole ? size : 1 + (random >> 16) % 40;
		n = n > size - at ? size - at : n;
		r = swap_ws_feed(ws, data + at, n, NULL);
	}
	assert(r == 0 || r == -EPROTO);
	swap_ws_free(ws);
	free(ws);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct swap_needle needles[] = {
		{ { "sk-test-0123", 12 }, { "key", 3 } }, { { "aaaaaaaa", 8 }, { "bbbbbbbbbbbbbbbbb", 17 } },
	};
	OWN(swap_set_freep) struct swap_set *set = NULL;
	struct pass whole = {0}, cut = {0}, again = {0};
	int r;

	if (size < 2)
		return 0;
	if (swap_set_new(needles, 2, 0, &set, NULL) < 0)
		abort();
	r = run(&whole, set, data[0], 0, data + 2, size - 2);
	assert(run(&cut, set, data[0], data[1] + 1u, data + 2, size - 2) == r);
	assert(whole.n_seen == cut.n_seen);
	assert(whole.out.len == cut.out.len &&
	       (cut.out.len == 0 || memcmp(whole.out.data, cut.out.data, cut.out.len) == 0));
	/* What was written is read again, and is the same, but for where it is cut. */
	assert(run(&again, set, data[0] | LEAVE, 0, whole.out.data, whole.out.len) == 0);
	assert(again.n_seen <= ((data[0] & LEAVE) != 0 ? whole.n_seen : 0));
	buf_free(&whole.out);
	buf_free(&cut.out);
	buf_free(&again.out);
	return 0;
}
