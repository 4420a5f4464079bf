/* bound.c - see bound.h. */
#include "vault/bound.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

#define FORMAT 0x626e6431u              /* before each secret; changes with the format */

/* ---- writing ---- */

int
bound_pack(const struct secret *s, const struct placeholder *placeholder, const struct secret_values *real,
           struct guard *ret_packed, struct err *err)
{
	OWN(guard_free) struct guard g = {0};
	OWN(buf_free) struct buf b = BUF(SECRET_ENCODED_MAX + 64);
	const char *fake[SECRET_FIELDS];
	size_t size;
	int r;

	buf_put_u32(&b, FORMAT);
	secret_put(&b, s);
	buf_put_u64(&b, real->expires);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the secret '%s' is too large", s->name);
	size = b.len;
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		fake[i] = placeholder->field[i] == NULL ? "" : placeholder->field[i];
		size += 2 * (4 + 1) + strlen(fake[i]) + real->field[i].len;
	}
	r = guard_alloc(&g, size, err);
	if (r < 0)
		return r;
	guard_put(&g, b.data, b.len);
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		guard_put_str(&g, fake[i], strlen(fake[i]));
		guard_put_str(&g, real->field[i].at, real->field[i].len);
	}
	*ret_packed = guard_take(&g);
	return 0;
}

int
bound_write(int fd, const struct secret *s, const struct placeholder *placeholder,
            const struct secret_values *real, struct err *err)
{
	OWN(guard_free) struct guard g = {0};
	int r = bound_pack(s, placeholder, real, &g, err);

	return r < 0 ? r : write_all(fd, g.at, g.len, err);
}

/* ---- reading ---- */

static int
get_text(struct buf *b, struct http_text *ret_text)
{
	const char *text;
	int r = buf_get_str(b, &text);

	if (r == 0)
		*ret_text = (struct http_text){ text, strlen(text) };
	return r;
}

static int
get_one(struct buf *b, struct bound_secret *one, struct err *err)
{
	uint32_t format;
	int r = buf_get_u32(b, &format);

	if (r < 0 || format != FORMAT)
		return -EBADMSG;
	r = secret_get(b, &one->secret, err);
	if (r == 0)
		r = buf_get_u64(b, &one->expires);
	for (size_t i = 0; r == 0 && i < SECRET_FIELDS; i++) {
		r = get_text(b, &one->placeholder[i]);
		if (r == 0)
			r = get_text(b, &one->real[i]);
	}
	return r;
}

int
bound_get(struct bound *bound, struct err *err)
{
	struct buf b;
	int r = 0;

	buf_init_borrowed(&b, bound->memory.at, bound->memory.len);
	while (r == 0 && buf_left(&b) > 0) {
		if (bound->n == BOUND_MAX)
			return err_set(err, E2BIG, "there are more than %d secrets", BOUND_MAX);
		r = get_one(&b, &bound->at[bound->n], err);
		if (r == 0 || bound->at[bound->n].secret != NULL)
			bound->n++;
	}
	return r == 0 ? 0 : err_set(err, EBADMSG, "the cell's secrets are malformed");
}

int
bound_read(int fd, struct bound *bound, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || st.st_size > BOUND_ENCODED_MAX || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, EBADMSG, "the cell's secrets cannot be read");
	r = guard_alloc(&bound->memory, (size_t)st.st_size, err);
	r = r == 0 ? guard_read(&bound->memory, fd, err) : r;
	return r == 0 ? bound_get(bound, err) : r;
}

struct sign_key
bound_key(const struct http_text field[SECRET_FIELDS])
{
	return (struct sign_key){ .id = field[SECRET_ID], .secret = field[SECRET_SECRET],
	                          .token = field[SECRET_TOKEN] };
}

void
bound_free(struct bound *bound)
{
	while (bound->n > 0)
		secret_free(bound->at[--bound->n].secret);
	guard_free(&bound->memory);
}
