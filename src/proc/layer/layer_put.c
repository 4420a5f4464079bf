/* layer_put.c - one entry of a layer. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "proc/layer/layer.h"

#define CHUNK (256u << 10)
#define SMALL 4096

int64_t
layer_time(const struct layer *l, const struct stat *st)
{
	return st->st_mtim.tv_sec < l->epoch ? st->st_mtim.tv_sec : l->epoch;
}

static bool
is_own(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int
take_xattrs(int fd, const char *names, size_t len, struct buf *ret_xattrs, struct err *err)
{
	char value[TAR_XATTRS_MAX];
	const char *list[1024] = {0};
	size_t n = 0;

	for (const char *name = names; name < names + len && n < ARRAY_LEN(list); name += strlen(name) + 1)
		if (is_own(name))
			list[n++] = name;
	qsort(list, n, sizeof(*list), by_bytes);
	for (size_t i = 0; i < n; i++) {
		ssize_t size = fgetxattr(fd, list[i], value, sizeof(value));

		if (size < 0)
			return err_errno(err, "cannot read an attribute");
		tar_put_xattr(ret_xattrs, list[i], value, (size_t)size);
	}
	return buf_failed(ret_xattrs) ? err_set(err, E2BIG, "its attributes are too large") : 0;
}

int
layer_xattrs(int fd, struct buf *ret_xattrs, struct err *err)
{
	char names[TAR_XATTRS_MAX];
	ssize_t len = flistxattr(fd, names, sizeof(names));

	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : err_errno(err, "cannot list attributes");
	return len == 0 ? 0 : take_xattrs(fd, names, (size_t)len, ret_xattrs, err);
}

int
layer_put(struct layer *l, const struct tar_entry *e, struct err *err)
{
	if (++l->entries > LAYER_ENTRIES_MAX)
		return err_set(err, E2BIG, "a layer cannot have over %d files", LAYER_ENTRIES_MAX);
	return tar_entry(&l->tar, e, err);
}

/* Refuses what could not be unpacked, before it is written out.  Compressed, holes are less than a thousandth. */
static int
count_bytes(struct layer *l, const char *path, const struct stat *st, struct err *err)
{
	const uint64_t size = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * 512;

	if (size > LAYER_FILE_MAX)
		return err_set(err, EFBIG, "'%s' has over %llu GiB: no file of a layer is larger", path,
		               (unsigned long long)(LAYER_FILE_MAX >> 30));
	l->bytes += size;
	/* A small file may be stored without a block. */
	l->stored += blocks < SMALL && size < SMALL ? size : blocks;
	if (l->bytes > LAYER_SIZE_MAX)
		return err_set(err, EFBIG, "the files have over %llu GiB: no layer is larger",
		               (unsigned long long)(LAYER_SIZE_MAX >> 30));
	if (l->bytes > LAYER_RATIO_FROM && l->bytes / LAYER_RATIO_MAX > 2 * l->stored)
		return err_set(err, EFBIG, "'%s' is mostly holes: no layer is unpacked to over %d times its size", path,
		               LAYER_RATIO_MAX);
	return 0;
}

int
layer_put_file(struct layer *l, struct tar_entry *e, int fd, struct err *err)
{
	static char chunk[CHUNK];
	struct stat st;
	uint64_t left;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot look at '%s'", e->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EBUSY, "'%s' changed while it was read", e->path);
	e->size = left = (uint64_t)st.st_size;
	r = count_bytes(l, e->path, &st, err);
	if (r < 0)
		return r;
	for (r = layer_put(l, e, err); r == 0 && left > 0;) {
		ssize_t n = read(fd, chunk, left < sizeof(chunk) ? left : sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read '%s'", e->path);
		if (n == 0)
			return err_set(err, EBUSY, "'%s' changed while it was read", e->path);
		r = tar_data(&l->tar, chunk, (size_t)n, err);
		left -= (uint64_t)n;
	}
	return r;
}
