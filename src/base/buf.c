/* buf.c - see buf.h. */
#include "base/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

void
buf_init(struct buf *b, size_t max)
{
	*b = BUF(max);
}

void
buf_init_secret(struct buf *b, size_t max)
{
	*b = BUF_SECRET(max);
}

static void
buf_wipe(struct buf *b)
{
	if (b->wipes && b->data != NULL)
		explicit_bzero(b->data, b->high);
	b->high = 0;
}

void
buf_init_borrowed(struct buf *b, const void *data, size_t len)
{
	/* Never written through: every put on a borrowed buf fails. */
	*b = (struct buf){ .data = (unsigned char *)(uintptr_t)data, .len = len,
	                   .cap = len, .max = len, .borrowed = true };
}

void
buf_free(struct buf *b)
{
	buf_wipe(b);
	if (!b->borrowed)
		free(b->data);
	*b = (struct buf){ .max = b->max, .wipes = b->wipes };
}

void
buf_reset(struct buf *b)
{
	buf_wipe(b);
	b->len = b->pos = 0;
	b->failed = false;
}

bool
buf_failed(const struct buf *b)
{
	return b->failed;
}

/* realloc() would leave a copy behind. */
static unsigned char *
buf_grow_wiping(struct buf *b, size_t cap)
{
	unsigned char *data = malloc(cap);

	if (data == NULL)
		return NULL;
	if (b->len > 0)
		memcpy(data, b->data, b->len);
	buf_wipe(b);
	free(b->data);
	return data;
}

static bool
buf_reserve(struct buf *b, size_t more)
{
	size_t want = b->cap > 0 ? b->cap : 256;
	unsigned char *data;

	if (b->failed || b->borrowed || more > b->max - b->len) {
		b->failed = true;
		return false;
	}
	if (b->len + more <= b->cap) {
		b->high = b->high > b->len + more ? b->high : b->len + more;
		return true;
	}
	while (want < b->len + more)
		want *= 2;
	if (want > b->max)
		want = b->max;
	data = b->wipes ? buf_grow_wiping(b, want) : realloc(b->data, want);
	if (data == NULL) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = want;
	b->high = b->len + more;
	return true;
}

void
buf_put(struct buf *b, const void *data, size_t len)
{
	if (len > 0 && buf_reserve(b, len)) {
		memcpy(b->data + b->len, data, len);
		b->len += len;
	}
}

unsigned char *
buf_add(struct buf *b, size_t len)
{
	unsigned char *at;

	if (!buf_reserve(b, len))
		return NULL;
	at = b->data + b->len;
	b->len += len;
	return at;
}

static void
buf_put_le(struct buf *b, uint64_t v, size_t size)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(v >> (8 * i));
	buf_put(b, bytes, size);
}

void
buf_put_u32(struct buf *b, uint32_t v)
{
	buf_put_le(b, v, 4);
}

void
buf_put_u64(struct buf *b, uint64_t v)
{
	buf_put_le(b, v, 8);
}

void
buf_put_str(struct buf *b, const char *s)
{
	size_t len = strlen(s);

	if (len > UINT32_MAX) {
		b->failed = true;
		return;
	}
	buf_put_u32(b, (uint32_t)len);
	buf_put(b, s, len + 1);
}

void
buf_put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

void
buf_put_decimal(struct buf *b, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	buf_put_text(b, text);
}

void
buf_put_strv(struct buf *b, char *const *v)
{
	buf_put_u32(b, (uint32_t)strv_len(v));
	for (; v != NULL && *v != NULL; v++)
		buf_put_str(b, *v);
}

size_t
buf_left(const struct buf *b)
{
	return b->len - b->pos;
}

static int
buf_get_le(struct buf *b, size_t size, uint64_t *ret_v)
{
	uint64_t v = 0;

	if (buf_left(b) < size)
		return -EBADMSG;
	for (size_t i = 0; i < size; i++)
		v |= (uint64_t)b->data[b->pos + i] << (8 * i);
	b->pos += size;
	*ret_v = v;
	return 0;
}

int
buf_get_u32(struct buf *b, uint32_t *ret_v)
{
	uint64_t v;

	if (buf_get_le(b, 4, &v) < 0)
		return -EBADMSG;
	*ret_v = (uint32_t)v;
	return 0;
}

int
buf_get_u64(struct buf *b, uint64_t *ret_v)
{
	return buf_get_le(b, 8, ret_v);
}

int
buf_get_str(struct buf *b, const char **ret_s)
{
	uint32_t len;
	const char *s;

	if (buf_get_u32(b, &len) < 0 || buf_left(b) <= len)
		return -EBADMSG;
	s = (const char *)b->data + b->pos;
	if (s[len] != '\0' || memchr(s, '\0', len) != NULL)
		return -EBADMSG;
	b->pos += (size_t)len + 1;
	*ret_s = s;
	return 0;
}

int
buf_dup_str(struct buf *b, char **ret_s)
{
	const char *s;
	char *copy;

	if (buf_get_str(b, &s) < 0)
		return -EBADMSG;
	copy = strdup(s);
	if (copy == NULL)
		return -ENOMEM;
	*ret_s = copy;
	return 0;
}

int
buf_dup_strv(struct buf *b, size_t max, char ***ret_v)
{
	OWN(strv_freep) char **v = NULL;
	uint32_t n;
	int r;

	/* Each string takes at least five bytes: an impossible count must not make us allocate. */
	if (buf_get_u32(b, &n) < 0 || n > max || n > buf_left(b) / 5)
		return -EBADMSG;
	v = calloc((size_t)n + 1, sizeof(*v));
	if (v == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		r = buf_dup_str(b, &v[i]);
		if (r < 0)
			return r;
	}
	*ret_v = TAKE(v);
	return 0;
}

void
strv_free(char **v)
{
	for (char **s = v; s != NULL && *s != NULL; s++)
		free(*s);
	free(v);
}

size_t
strv_len(char *const *v)
{
	size_t n = 0;

	while (v != NULL && v[n] != NULL)
		n++;
	return n;
}
