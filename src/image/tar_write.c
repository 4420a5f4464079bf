/* tar_write.c - see tar_write.h. */
#include "image/tar_write.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"

#define BLOCK 512
#define PAX_MAX (256u << 10)
#define SIZE_FITS ((UINT64_C(1) << 33) - 1)
#define ID_FITS ((UINT32_C(1) << 21) - 1)

/* POSIX: the ustar header. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2],
	     user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static void
put_octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = '\0';
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

static void
put_text(char *field, size_t size, const char *text)
{
	memcpy(field, text, strnlen(text, size));
}

static void
finish_header(struct header *h)
{
	unsigned sum = 0;

	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	memset(h->sum, ' ', sizeof(h->sum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += ((const unsigned char *)h)[i];
	put_octal(h->sum, 7, sum);
}

static int
put_padded(struct tar_write *t, const void *data, size_t len, struct err *err)
{
	static const char zeroes[BLOCK];
	int r = t->put(t->arg, data, len, err);

	return r < 0 || len % BLOCK == 0 ? r : t->put(t->arg, zeroes, BLOCK - len % BLOCK, err);
}

/* "LEN KEY=VALUE\n", where LEN counts its own digits. */
static void
put_record(struct buf *b, const char *key, const void *value, size_t len)
{
	const size_t rest = strlen(key) + len + 3;
	size_t total = rest + 1;
	char digits[24];

	while (rest + (size_t)snprintf(digits, sizeof(digits), "%zu", total) != total)
		total = rest + strlen(digits);
	buf_put_text(b, digits);
	buf_put_text(b, " ");
	buf_put_text(b, key);
	buf_put_text(b, "=");
	buf_put(b, value, len);
	buf_put_text(b, "\n");
}

static void
put_number(struct buf *b, const char *key, uint64_t value)
{
	char digits[24];

	put_record(b, key, digits, (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value));
}

void
tar_put_xattr(struct buf *xattrs, const char *name, const void *value, size_t len)
{
	buf_put_str(xattrs, name);
	buf_put_u32(xattrs, (uint32_t)len);
	buf_put(xattrs, value, len);
}

static void
put_xattrs(struct buf *b, const struct buf *xattrs)
{
	struct buf in;
	const char *name;
	uint32_t len;

	buf_init_borrowed(&in, xattrs->data, xattrs->len);
	while (buf_get_str(&in, &name) == 0 && buf_get_u32(&in, &len) == 0 && buf_left(&in) >= len) {
		char key[300];

		snprintf(key, sizeof(key), "SCHILY.xattr.%s", name);
		put_record(b, key, in.data + in.pos, len);
		in.pos += len;
	}
}

/* Those facts that the plain header has no room for. */
static int
put_extended(struct tar_write *t, const struct tar_entry *e, const char *path, const char *link, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(PAX_MAX);
	struct header h = {0};
	int r;

	if (strlen(path) > sizeof(h.name))
		put_record(&b, "path", path, strlen(path));
	if (strlen(link) > sizeof(h.link))
		put_record(&b, "linkpath", link, strlen(link));
	if (e->size > SIZE_FITS)
		put_number(&b, "size", e->size);
	if (e->uid > ID_FITS)
		put_number(&b, "uid", e->uid);
	if (e->gid > ID_FITS)
		put_number(&b, "gid", e->gid);
	if (e->xattrs != NULL)
		put_xattrs(&b, e->xattrs);
	if (b.len == 0 || buf_failed(&b))
		return buf_failed(&b) ? err_set(err, E2BIG, "the names or attributes of '%s' are too long", e->path) : 0;
	put_text(h.name, sizeof(h.name), "PaxHeaders/x");
	put_octal(h.mode, sizeof(h.mode), 0644);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), b.len);
	put_octal(h.mtime, sizeof(h.mtime), 0);
	h.type = 'x';
	finish_header(&h);
	r = t->put(t->arg, &h, sizeof(h), err);
	return r < 0 ? r : put_padded(t, b.data, b.len, err);
}

static char
type_of(const struct tar_entry *e)
{
	if (e->hard != NULL)
		return '1';
	switch (e->mode & S_IFMT) {
	case S_IFDIR: return '5';
	case S_IFLNK: return '2';
	case S_IFIFO: return '6';
	default:      return '0';
	}
}

int
tar_entry(struct tar_write *t, const struct tar_entry *e, struct err *err)
{
	const bool is_file = e->hard == NULL && S_ISREG(e->mode);
	const char *link = e->hard != NULL ? e->hard : e->link != NULL ? e->link : "";
	const uint64_t size = is_file ? e->size : 0;
	char path[PATH_MAX + 1];
	struct header h = {0};
	int r;

	assert(t->left == 0);
	if ((size_t)snprintf(path, sizeof(path), "%s%s", e->path, S_ISDIR(e->mode) ? "/" : "") >= sizeof(path))
		return err_set(err, ENAMETOOLONG, "the path '%s' is too long", e->path);
	r = put_extended(t, e, path, link, err);
	if (r < 0)
		return r;
	put_text(h.name, sizeof(h.name), path);
	put_octal(h.mode, sizeof(h.mode), e->mode & 07777);
	put_octal(h.uid, sizeof(h.uid), e->uid > ID_FITS ? 0 : e->uid);
	put_octal(h.gid, sizeof(h.gid), e->gid > ID_FITS ? 0 : e->gid);
	put_octal(h.size, sizeof(h.size), size > SIZE_FITS ? 0 : size);
	put_octal(h.mtime, sizeof(h.mtime), e->mtime < 0 ? 0 : (uint64_t)e->mtime);
	h.type = type_of(e);
	put_text(h.link, sizeof(h.link), link);
	finish_header(&h);
	t->left = size;
	t->pad = (unsigned)((BLOCK - size % BLOCK) % BLOCK);
	return t->put(t->arg, &h, sizeof(h), err);
}

int
tar_data(struct tar_write *t, const void *data, size_t len, struct err *err)
{
	static const char zeroes[BLOCK];
	int r;

	assert(len <= t->left);
	r = t->put(t->arg, data, len, err);
	t->left -= len;
	return r < 0 || t->left > 0 ? r : t->put(t->arg, zeroes, t->pad, err);
}

int
tar_end(struct tar_write *t, struct err *err)
{
	static const char zeroes[2 * BLOCK];

	assert(t->left == 0);
	return t->put(t->arg, zeroes, sizeof(zeroes), err);
}
