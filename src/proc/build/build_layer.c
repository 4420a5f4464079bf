/* build_layer.c - an archive becomes a layer of the store: hashed, compressed and written while it comes in. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "image/layer_limits.h"
#include "proc/build/build.h"

#define CHUNK (256u << 10)
#define LEVEL 6
#define GZIP 16                         /* zlib: a gzip header, whose time is 0 */
#define END 1024                        /* zeroes at the end of an archive */

struct taking {
	struct store_blob *blob;
	struct hash hash;
	z_stream z;
	size_t zeroes;                  /* at the end of what has come so far */
	uint64_t total;
	unsigned char in[CHUNK], out[CHUNK];
};

static int
compress_some(struct taking *t, size_t len, int flush, uint64_t *written, struct err *err)
{
	int r = 0;

	t->z.next_in = t->in;
	t->z.avail_in = (unsigned)len;
	do {
		t->z.next_out = t->out;
		t->z.avail_out = CHUNK;
		(void)deflate(&t->z, flush);
		r = store_blob_write(t->blob, t->out, CHUNK - t->z.avail_out, err);
		*written += CHUNK - t->z.avail_out;
	} while (r == 0 && t->z.avail_out == 0);
	return r;
}

static void
count_zeroes(struct taking *t, size_t len)
{
	size_t n = 0;

	while (n < len && t->in[len - 1 - n] == 0)
		n++;
	t->zeroes = n == len ? t->zeroes + n : n;
}

/* No layer is stored that could not be unpacked.  Holes count as the zeroes that they are in an archive. */
static int
check_size(const struct taking *t, uint64_t written, struct err *err)
{
	if (t->total > LAYER_SIZE_MAX)
		return err_set(err, EFBIG, "the layer has over %llu GiB", (unsigned long long)(LAYER_SIZE_MAX >> 30));
	if (t->total > LAYER_RATIO_FROM && t->total / LAYER_RATIO_MAX > written)
		return err_set(err, EFBIG, "the layer is too large for what is in it: no layer is unpacked to over %d times its size",
		               LAYER_RATIO_MAX);
	return 0;
}

static int
take_all(struct taking *t, int fd, struct layer_made *made, struct err *err)
{
	unsigned char hash[HASH_LEN];
	ssize_t n = 1;
	int r = 0;

	while (r == 0 && n > 0) {
		n = read(fd, t->in, sizeof(t->in));
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_errno(err, "cannot read the layer");
		else if (n > 0) {
			hash_add(&t->hash, t->in, (size_t)n);
			count_zeroes(t, (size_t)n);
			t->total += (uint64_t)n;
			r = compress_some(t, (size_t)n, Z_NO_FLUSH, &made->size, err);
			if (r == 0)
				r = check_size(t, made->size, err);
		}
	}
	if (r == 0)
		r = compress_some(t, 0, Z_FINISH, &made->size, err);
	hash_end(&t->hash, hash);
	hash_name(hash, made->diff_id);
	return r;
}

int
build_take_layer(struct build *b, int fd, struct layer_made *ret_made, struct err *err)
{
	OWN(freep) struct taking *t = calloc(1, sizeof(*t));
	struct layer_made made = {0};
	int r;

	if (t == NULL || deflateInit2(&t->z, LEVEL, Z_DEFLATED, 15 + GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ENOMEM, "out of memory");
	hash_begin(&t->hash);
	r = store_blob_begin(b->store, NULL, STORE_SIZE_ANY, &t->blob, err);
	if (r == 0)
		r = take_all(t, fd, &made, err);
	deflateEnd(&t->z);
	if (r == 0 && (t->zeroes < END || t->total % 512 != 0))
		r = err_set(err, EBADMSG, "the layer is incomplete");
	made.empty = t->total <= END;
	if (r < 0 || made.empty) {
		store_blob_abort(t->blob);
		t->blob = NULL;
	} else {
		r = store_blob_finish(TAKE(t->blob), made.digest, err);
	}
	if (r == 0)
		*ret_made = made;
	return r;
}
