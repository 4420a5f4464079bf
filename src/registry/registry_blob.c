/* registry_blob.c - stores contents of files by their hash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "registry/registry_parts.h"

/* A blob younger than this counts as just touched. */
#define TOUCH_SECONDS ((time_t)(REGISTRY_UNUSED_MS / 1000 / 4))
#define BLOB_PATH_MAX REGISTRY_BLOB_PATH_MAX

void
registry_blob_path(const unsigned char hash[HASH_LEN], char ret_path[BLOB_PATH_MAX])
{
	char hex[HASH_HEX + 1];

	codec_hex(hash, HASH_LEN, hex);
	snprintf(ret_path, BLOB_PATH_MAX, "%.2s/%s", hex, hex + 2);
}

/* Copy from FD, or DATA if that is not NULL, and hash what is written. */
static int
copy(int to, int fd, const void *data, uint64_t max, unsigned char ret_hash[HASH_LEN],
     uint64_t *ret_size, struct err *err)
{
	if (data != NULL) {
		hash_of(data, max, ret_hash);
		*ret_size = max;
		return write_all(to, data, max, err);
	}
	return hash_copy(fd, to, max, ret_hash, ret_size, err);
}

/* ---- staging ---- */

/* This few are synced one by one; more are synced with the whole file system. */
#define STAGE_FEW 16

static int
touch(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size)
{
	char path[BLOB_PATH_MAX];
	struct stat st;
	int n = 0;

	registry_blob_path(hash, path);
	/* Nobody may remove it between the two. */
	(void)flock(r->blobs, LOCK_SH);
	if (fstatat(r->blobs, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		n = -ENOENT;
	else if (st.st_mtime < time(NULL) - TOUCH_SECONDS)
		(void)utimensat(r->blobs, path, NULL, AT_SYMLINK_NOFOLLOW);
	(void)flock(r->blobs, LOCK_UN);
	if (n == 0)
		*ret_size = (uint64_t)st.st_size;
	return n;
}

static bool
is_there(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t size)
{
	uint64_t now;

	return touch(r, hash, &now) == 0 && now == size;
}

int
registry_touch_blob(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	if (r->s3 != NULL && !(registry_is_known(r, hash) && touch(r, hash, ret_size) == 0))
		return registry_touch_s3(r, hash, ret_size, err);
	if (touch(r, hash, ret_size) == 0)
		return 0;
	return err_set(err, ENOENT, "it is not here, or was just removed: register it again");
}

static int
grow(struct registry *r, struct err *err)
{
	size_t cap = r->n_staged == 0 ? STAGE_FEW : r->n_staged * 2;
	struct registry_staged *more;

	if (r->n_staged >= REGISTRY_STAGED_MAX)
		return err_set(err, E2BIG, "too many files at once");
	if (r->n_staged != 0 && (r->n_staged < STAGE_FEW || (r->n_staged & (r->n_staged - 1)) != 0))
		return 0;
	more = realloc(r->staged, cap * sizeof(*more));
	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r->staged = more;
	return 0;
}

static int
write_staged(struct registry *r, int to, int fd, const void *data, uint64_t max,
             struct registry_staged *staged, uint64_t *ret_size, bool *ret_there, struct err *err)
{
	int n = copy(to, fd, data, max, staged->hash, ret_size, err);

	if (n < 0)
		return n;
	*ret_there = is_there(r, staged->hash, *ret_size);
	if (!*ret_there && r->n_staged < STAGE_FEW && fsync(to) < 0)
		return err_errno(err, "cannot write a blob to the disk");
	return 0;
}

int
registry_stage_blob(struct registry *r, int fd, const void *data, uint64_t max,
                    char ret_hash[HASH_NAME + 1], uint64_t *ret_size, struct err *err)
{
	struct registry_staged staged;
	OWN(closep) int to = -1;
	bool there = false;
	int n = grow(r, err);

	n = n == 0 ? registry_tmp_name(staged.tmp, err) : n;
	if (n < 0)
		return n;
	to = openat(r->tmp, staged.tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (to < 0)
		return err_errno(err, "cannot write to '%s/tmp'", r->path);
	n = write_staged(r, to, fd, data, max, &staged, ret_size, &there, err);
	if (n < 0 || there)
		unlinkat(r->tmp, staged.tmp, 0);
	if (n < 0)
		return n;
	/* Another process that put the same may not have synced it yet. */
	r->unsynced[staged.hash[0]] = true;
	if (there)
		staged.tmp[0] = '\0';
	if (!there || (r->s3 != NULL && !registry_is_known(r, staged.hash)))
		r->staged[r->n_staged++] = staged;
	hash_name(staged.hash, ret_hash);
	return 0;
}

void
registry_drop_staged(struct registry *r)
{
	while (r->n_staged > 0)
		if (r->staged[--r->n_staged].tmp[0] != '\0')
			unlinkat(r->tmp, r->staged[r->n_staged].tmp, 0);
}

/* ---- settling ---- */

static int
sync_folder(struct registry *r, const char *name, struct err *err)
{
	OWN(closep) int fd = openat(r->blobs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_errno(err, "cannot write '%s/blobs/%s' to the disk", r->path, name);
	return 0;
}

static int
sync_folders(struct registry *r, struct err *err)
{
	char name[3];
	int n = sync_folder(r, ".", err);

	for (unsigned i = 0; n == 0 && i < 256; i++) {
		if (!r->unsynced[i])
			continue;
		snprintf(name, sizeof(name), "%02x", i);
		n = sync_folder(r, name, err);
		/* It could not be created when there was no room. */
		n = n == -ENOENT ? 0 : n;
		r->unsynced[i] = n < 0;
	}
	return n;
}

static int
settle_one(struct registry *r, const struct registry_staged *staged, struct err *err)
{
	char path[BLOB_PATH_MAX], folder[3];

	registry_blob_path(staged->hash, path);
	snprintf(folder, sizeof(folder), "%.2s", path);
	if (mkdirat(r->blobs, folder, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make a folder for blobs");
	/* Another process may do the same at the same time: it is the same content. */
	return renameat(r->tmp, staged->tmp, r->blobs, path) < 0 ?
	       err_errno(err, "cannot keep a blob") : 0;
}

int
registry_keep_staged(struct registry *r, struct err *err)
{
	int n = 0;

	/* A blob gets its name only once it is on the disk. */
	if (r->n_staged > STAGE_FEW && syncfs(r->tmp) < 0)
		n = err_errno(err, "cannot write blobs to the disk");
	for (size_t i = 0; n == 0 && i < r->n_staged; i++)
		if (r->staged[i].tmp[0] != '\0')
			n = settle_one(r, &r->staged[i], err);
	if (n < 0)
		registry_drop_staged(r);
	r->n_staged = 0;
	return n < 0 ? n : sync_folders(r, err);
}

int
registry_settle_staged(struct registry *r, struct err *err)
{
	int n = r->s3 != NULL && r->n_staged > 0 ? registry_put_staged(r, err) : 0;

	if (n < 0)
		registry_drop_staged(r);
	return n < 0 ? n : registry_keep_staged(r, err);
}

/* ---- one ---- */

int
registry_put_blob_fd(struct registry *r, int fd, uint64_t max, char ret_hash[HASH_NAME + 1],
                     uint64_t *ret_size, struct err *err)
{
	int n = registry_stage_blob(r, fd, NULL, max, ret_hash, ret_size, err);

	return n < 0 ? n : registry_settle_staged(r, err);
}

int
registry_put_blob(struct registry *r, const void *data, size_t len, char ret_hash[HASH_NAME + 1],
                  struct err *err)
{
	uint64_t size;
	int n = registry_stage_blob(r, -1, len == 0 ? "" : data, len, ret_hash, &size, err);

	return n < 0 ? n : registry_settle_staged(r, err);
}

bool
registry_has_blob(struct registry *r, const char *name)
{
	unsigned char hash[HASH_LEN];
	char path[BLOB_PATH_MAX];

	if (!hash_parse_name(name, hash))
		return false;
	registry_blob_path(hash, path);
	return faccessat(r->blobs, path, R_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int
registry_open_blob(struct registry *r, const char *name, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char path[BLOB_PATH_MAX];
	int fd;

	if (!hash_parse_name(name, hash))
		return err_set(err, EINVAL, "'%.80s' is not the hash of a blob", name);
	registry_blob_path(hash, path);
	fd = openat(r->blobs, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && r->s3 != NULL) {
		fd = registry_fetch_blob(r, hash, err);
		if (fd < 0)
			return err_wrap(err, "the blob %s", name);
		fd = openat(r->blobs, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd < 0 ? err_errno(err, "cannot open the blob %s", name) : fd;
}

int
registry_read_blob(struct registry *r, const char *name, size_t max, char **ret_text,
                   size_t *ret_len, struct err *err)
{
	OWN(closep) int fd = registry_open_blob(r, name, err);
	OWN(freep) char *text = NULL;
	struct stat st;
	int n;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read the blob %s", name);
	if ((uint64_t)st.st_size > max)
		return err_set(err, EFBIG, "the blob %s is over %zu bytes", name, max);
	text = malloc((size_t)st.st_size + 1);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = read_exactly(fd, text, (size_t)st.st_size, err);
	if (n < 0)
		return n;
	text[st.st_size] = '\0';
	*ret_text = TAKE(text);
	*ret_len = (size_t)st.st_size;
	return 0;
}
