/* registry_blob.c - contents of files, kept by their hash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "registry/registry_parts.h"

/* Where a blob is: "ab/cdef..." in blobs/; the folder in it is "ab". */
#define BLOB_PATH_MAX (HASH_HEX + 2)

static void
blob_path(const unsigned char hash[HASH_LEN], char ret_path[BLOB_PATH_MAX])
{
	char hex[HASH_HEX + 1];

	hex_put(hash, HASH_LEN, hex);
	snprintf(ret_path, BLOB_PATH_MAX, "%.2s/%s", hex, hex + 2);
}

/* Copy from FD, or DATA if that is not NULL, and hash what is written. */
static int
copy(int to, int fd, const void *data, uint64_t max, unsigned char ret_hash[HASH_LEN],
     uint64_t *ret_size, struct err *err)
{
	unsigned char block[64 * 1024];
	uint64_t size = 0;
	struct hash h;
	ssize_t n;
	int r = 0;

	if (data != NULL) {
		hash_of(data, max, ret_hash);
		*ret_size = max;
		return write_all(to, data, max, err);
	}
	hash_begin(&h);
	while (r == 0 && (n = read(fd, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read");
		size += (uint64_t)n;
		if (size > max)
			return err_set(err, EFBIG, "this is over %llu bytes", (unsigned long long)max);
		hash_add(&h, block, (size_t)n);
		r = write_all(to, block, (size_t)n, err);
	}
	hash_end(&h, ret_hash);
	*ret_size = size;
	return r;
}

static int
sync_folder(int dir, const char *name, struct err *err)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_errno(err, "cannot write a folder of blobs to the disk");
	return 0;
}

/* Give the file TMP its name for good, unless there is one of it already; either way it is on
 * the disk afterwards, even if whoever else puts the same has not come so far. */
static int
settle(struct registry *r, const char *tmp, const unsigned char hash[HASH_LEN], bool there,
       struct err *err)
{
	char path[BLOB_PATH_MAX], folder[3];
	int n;

	blob_path(hash, path);
	snprintf(folder, sizeof(folder), "%.2s", path);
	if (mkdirat(r->blobs, folder, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make a folder for blobs");
	if (!there && renameat(r->tmp, tmp, r->blobs, path) < 0)
		return err_errno(err, "cannot keep a blob");
	n = sync_folder(r->blobs, ".", err);
	return n == 0 ? sync_folder(r->blobs, folder, err) : n;
}

static bool
is_there(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t size)
{
	char path[BLOB_PATH_MAX];
	struct stat st;

	blob_path(hash, path);
	return fstatat(r->blobs, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == size;
}

static int
put(struct registry *r, int fd, const void *data, uint64_t max, char ret_hash[HASH_NAME + 1],
    uint64_t *ret_size, struct err *err)
{
	OWN(closep) int to = -1;
	unsigned char hash[HASH_LEN];
	char tmp[REGISTRY_TMP_MAX];
	uint64_t size = 0;
	bool there;
	int n = registry_tmp_name(tmp, err);

	if (n < 0)
		return n;
	to = openat(r->tmp, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (to < 0)
		return err_errno(err, "cannot write to '%s/tmp'", r->path);
	n = copy(to, fd, data, max, hash, &size, err);
	there = n == 0 && is_there(r, hash, size);
	if (n == 0 && !there && fsync(to) < 0)
		n = err_errno(err, "cannot write a blob to the disk");
	n = n == 0 ? settle(r, tmp, hash, there, err) : n;
	if (n < 0 || there)
		unlinkat(r->tmp, tmp, 0);
	if (n < 0)
		return n;
	hash_name(hash, ret_hash);
	*ret_size = size;
	return 0;
}

int
registry_put_blob_fd(struct registry *r, int fd, uint64_t max, char ret_hash[HASH_NAME + 1],
                     uint64_t *ret_size, struct err *err)
{
	return put(r, fd, NULL, max, ret_hash, ret_size, err);
}

int
registry_put_blob(struct registry *r, const void *data, size_t len, char ret_hash[HASH_NAME + 1],
                  struct err *err)
{
	uint64_t size;

	return put(r, -1, len == 0 ? "" : data, len, ret_hash, &size, err);
}

int
registry_open_blob(struct registry *r, const char *name, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char path[BLOB_PATH_MAX];
	int fd;

	if (!hash_parse_name(name, hash))
		return err_set(err, EINVAL, "'%.80s' is not the hash of a blob", name);
	blob_path(hash, path);
	fd = openat(r->blobs, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open the blob %s", name) : fd;
}
