/* fuzz_redis.c - what a client of Redis sends: however it is cut, it is followed alike, and what
 * passes is read by a server as it was read here.  The first byte: the size of the pieces; 0: a
 * frame from a gate that an attacker has taken over. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "wire/redis.h"

#define OUT_MAX (16 * 1024 * 1024)

/* All of DATA through a reader; logins are written into OUT if KEEP, and counted. */
static int
follow(const uint8_t *data, size_t size, size_t piece, bool keep, struct buf *out, size_t *n_logins)
{
	struct redis_reader r;
	struct redis_login login;
	struct redis_text text;
	size_t used;
	int got = 0;

	*n_logins = 0;
	redis_reader_init(&r);
	for (; got >= 0 && size > 0; data += used, size -= used) {
		got = redis_read(&r, data, size < piece ? size : piece, &used, &text, &login, NULL);
		if (got == REDIS_PASS)
			buf_put(out, text.at, text.len);
		if (got == REDIS_LOGIN && keep)
			redis_login_write(out, &login, login.has_user ? &login.user : NULL, login.password);
		*n_logins += got == REDIS_LOGIN;
	}
	redis_reader_free(&r);
	return got < 0 ? got : 0;
}

static void
fuzz_frame(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf out = {0}, again = {0};
	struct redis_login login;
	size_t n;
	struct buf b;

	buf_init_borrowed(&b, data, size);
	if (redis_login_decode(&b, &login) < 0)
		return;
	buf_init(&out, OUT_MAX);
	buf_init(&again, OUT_MAX);
	redis_login_write(&out, &login, login.has_user ? &login.user : NULL, login.password);
	if (out.len < REDIS_LOGIN_MAX)
		assert(follow(out.data, out.len, out.len, true, &again, &n) == 0 && n == 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf whole = {0}, cut = {0}, again = {0};
	size_t n, n_cut, n_again;
	int r, r_cut;

	if (size == 0 || size > 256 * 1024)
		return 0;
	if (data[0] == 0) {
		fuzz_frame(data + 1, size - 1);
		return 0;
	}
	buf_init(&whole, OUT_MAX);
	buf_init(&cut, OUT_MAX);
	buf_init(&again, OUT_MAX);
	r = follow(data + 1, size - 1, size, true, &whole, &n);
	r_cut = follow(data + 1, size - 1, data[0], true, &cut, &n_cut);
	assert(r == r_cut && n == n_cut);
	/* Where it is refused, pieces before that may have gone. */
	if (r < 0)
		return 0;
	assert(whole.len == cut.len && (cut.len == 0 || memcmp(whole.data, cut.data, cut.len) == 0));
	assert(follow(whole.data, whole.len, data[0], true, &again, &n_again) == 0 && n_again == n);
	assert(again.len == whole.len);
	assert(again.len == 0 || memcmp(again.data, whole.data, again.len) == 0);
	/* Without its logins there are none. */
	buf_reset(&cut);
	assert(follow(data + 1, size - 1, data[0], false, &cut, &n_cut) == 0);
	assert(follow(cut.data, cut.len, size, false, &again, &n_again) == 0 && n_again == 0);
	return 0;
}
