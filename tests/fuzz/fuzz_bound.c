/* fuzz_bound.c - a cell's secrets as the courier gets them: what is taken can be looked for in
 * requests, and each of them be asked where it may go. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/sign.h"
#include "sign/swap.h"
#include "vault/bound.h"

#define NEEDLES (BOUND_MAX * SECRET_FIELDS)

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	assert(seen->needle < *(size_t *)arg);
	return SWAP_REPLACE;
}

static int
sink(void *arg, const unsigned char *data, size_t len)
{
	(void)arg;
	assert(data != NULL && len > 0);
	return 0;
}

/* As the courier does: placeholders become values. */
static void
look_for(const struct bound *bound)
{
	static struct swap_needle needles[NEEDLES];
	OWN(swap_set_freep) struct swap_set *set = NULL;
	struct swap_stream s = { .lengths = SWAP_FIT_LENGTH, .judge = judge, .sink = sink };
	size_t n = 0;

	for (size_t i = 0; i < bound->n; i++)
		for (size_t k = 0; k < SECRET_FIELDS; k++)
			if (bound->at[i].placeholder[k].len >= SWAP_NEEDLE_MIN)
				needles[n++] = (struct swap_needle){ bound->at[i].placeholder[k],
				                                     bound->at[i].real[k] };
	if (n == 0 || swap_set_new(needles, n, SWAP_CODED, &set, NULL) < 0)
		return;
	s.set = set;
	s.arg = &n;
	for (size_t i = 0; i < n; i++)
		assert(swap_feed(&s, needles[i].find.at, needles[i].find.len, NULL) == 0);
	assert(swap_finish(&s, NULL) == 0 && s.n_seen > 0);
	swap_free(&s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(bound_free) struct bound bound = {0};
	struct http_head head = { .method = { "GET", 3 }, .path = { "/a/b", 4 }, .host = { "a.x", 3 },
		.port = 443, .scheme = HTTP_TLS };
	struct policy_request req = { .head = &head, .host = "a.x", .port = 443 };
	struct err err = {0};
	int r;

	if (size == 0 || guard_copy(&bound.memory, data, size, NULL) < 0)
		return 0;
	r = bound_get(&bound, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code && bound.n <= BOUND_MAX);
	if (r < 0)
		return 0;
	for (size_t i = 0; i < bound.n; i++) {
		secret_in_scope(bound.at[i].secret, &req);
		(void)sign_scheme_find(bound.at[i].secret->scheme->name);
	}
	look_for(&bound);
	return 0;
}
