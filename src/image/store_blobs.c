/* store_blobs.c - blobs: named by what is in them, and there only if they are whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "image/store_parts.h"

#define COPY_BYTES (256 * 1024)

struct store_blob {
	struct store *store;
	int fd;
	char part[HASH_HEX + 1];                /* in parts/ */
	char digest[HASH_NAME + 1];             /* "": whatever it is */
	uint64_t size, written;
	struct hash hash;
};

bool
store_has_blob(const struct store *s, const char *digest)
{
	struct stat st;

	return fstatat(s->blobs, store_hex(digest), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

int
store_open_blob(const struct store *s, const char *digest, uint64_t *ret_size, struct err *err)
{
	OWN(closep) int fd = openat(s->blobs, store_hex(digest), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open the blob %s", digest);
	*ret_size = (uint64_t)st.st_size;
	return TAKE_FD(fd);
}

int
store_read_blob(const struct store *s, const char *digest, size_t max, char **ret_text, size_t *ret_len,
                struct err *err)
{
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	uint64_t size;
	size_t len;
	int r;

	fd = store_open_blob(s, digest, &size, err);
	if (fd < 0)
		return fd;
	r = read_whole(fd, max, &text, &len, err);
	if (r < 0)
		return err_wrap(err, "the blob %s", digest);
	hash_of(text, len, hash);
	hash_name(hash, name);
	if (strcmp(name, digest) != 0)
		return err_set(err, EBADMSG, "the blob %s has been changed: remove its image and get it again", digest);
	*ret_text = TAKE(text);
	*ret_len = len;
	return 0;
}

/* ---- writing ---- */

static void
blob_free(struct store_blob *b)
{
	closep(&b->fd);
	free(b);
}

static void
blob_freep(struct store_blob **b)
{
	if (*b != NULL)
		blob_free(*b);
}

/* Opened, locked, and still there: another process may have finished it in between. */
static int
open_part(struct store_blob *b, struct err *err)
{
	for (;;) {
		struct stat st;

		b->fd = openat(b->store->parts, b->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (b->fd < 0)
			return err_errno(err, "cannot write to '%s/parts'", b->store->path);
		if (flock(b->fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK ? err_set(err, EBUSY, "another command gets %.19s now", b->digest) :
			       err_errno(err, "cannot lock '%s/parts/%s'", b->store->path, b->part);
		if (fstat(b->fd, &st) < 0)
			return err_errno(err, "cannot look at '%s/parts/%s'", b->store->path, b->part);
		if (st.st_nlink > 0)
			return 0;
		close(b->fd);
		b->fd = -1;
	}
}

/* Hash what an earlier attempt left. */
static int
take_up(struct store_blob *b, struct err *err)
{
	OWN(freep) unsigned char *data = malloc(COPY_BYTES);
	ssize_t n;

	if (data == NULL)
		return err_set(err, ENOMEM, "out of memory");
	do {
		n = read(b->fd, data, COPY_BYTES);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "cannot read '%s/parts/%s'", b->store->path, b->part);
		if (n > 0) {
			hash_add(&b->hash, data, (size_t)n);
			b->written += (uint64_t)n;
		}
	} while (n != 0 && b->written <= b->size);
	return b->written > b->size ? store_blob_restart(b, err) : 0;
}

int
store_blob_begin(struct store *s, const char *digest, uint64_t size, struct store_blob **ret_blob,
                 struct err *err)
{
	OWN(blob_freep) struct store_blob *b = calloc(1, sizeof(*b));
	int r = 0;

	if (b == NULL)
		return err_set(err, ENOMEM, "out of memory");
	b->store = s;
	b->fd = -1;
	b->size = size == STORE_SIZE_ANY ? IMAGE_BLOB_MAX : size;
	if (b->size > IMAGE_BLOB_MAX)
		return err_set(err, EFBIG, "a blob is over %llu GiB", (unsigned long long)(IMAGE_BLOB_MAX >> 30));
	hash_begin(&b->hash);
	if (digest != NULL) {
		memcpy(b->digest, digest, HASH_NAME + 1);
		memcpy(b->part, store_hex(digest), HASH_HEX + 1);
	} else {
		r = store_new_name(b->part, err);
	}
	if (r == 0)
		r = open_part(b, err);
	if (r == 0)
		r = take_up(b, err);
	if (r < 0)
		return r;
	/* Unlike a length of its own, the greatest is no promise. */
	b->size = size;
	*ret_blob = TAKE(b);
	return 0;
}

uint64_t
store_blob_offset(const struct store_blob *b)
{
	return b->written;
}

int
store_blob_restart(struct store_blob *b, struct err *err)
{
	if (ftruncate(b->fd, 0) < 0 || lseek(b->fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot empty '%s/parts/%s'", b->store->path, b->part);
	b->written = 0;
	hash_begin(&b->hash);
	return 0;
}

int
store_blob_write(struct store_blob *b, const void *data, size_t len, struct err *err)
{
	uint64_t most = b->size == STORE_SIZE_ANY ? IMAGE_BLOB_MAX : b->size;
	int r;

	if (len > most - b->written)
		return err_set(err, EFBIG, "%s is longer than the %llu bytes that it should have",
		               b->digest[0] != '\0' ? b->digest : "a blob", (unsigned long long)most);
	r = write_all(b->fd, data, len, err);
	if (r < 0)
		return err_wrap(err, "cannot write to '%s'", b->store->path);
	hash_add(&b->hash, data, len);
	b->written += len;
	return 0;
}

static int
check_blob(struct store_blob *b, char ret_digest[HASH_NAME + 1], struct err *err)
{
	unsigned char hash[HASH_LEN];

	hash_end(&b->hash, hash);
	hash_name(hash, ret_digest);
	if (b->size != STORE_SIZE_ANY && b->written != b->size)
		return err_set(err, EBADMSG, "%s has %llu bytes, and should have %llu",
		               b->digest[0] != '\0' ? b->digest : ret_digest, (unsigned long long)b->written,
		               (unsigned long long)b->size);
	if (b->digest[0] != '\0' && strcmp(b->digest, ret_digest) != 0)
		return err_set(err, EBADMSG, "%s is not what came: that has the digest %s", b->digest, ret_digest);
	return 0;
}

int
store_blob_finish(struct store_blob *b, char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(store_blob_abortp) struct store_blob *blob = b;
	const struct store *s = b->store;
	char digest[HASH_NAME + 1];
	int r = check_blob(b, digest, err);

	if (r < 0)
		return r;
	if (fsync(b->fd) < 0 || renameat(s->parts, b->part, s->blobs, store_hex(digest)) < 0 ||
	    fsync(s->blobs) < 0)
		return err_errno(err, "cannot keep the blob %s", digest);
	if (ret_digest != NULL)
		memcpy(ret_digest, digest, sizeof(digest));
	blob_free(TAKE(blob));
	return 0;
}

void
store_blob_abort(struct store_blob *b)
{
	if (b == NULL)
		return;
	unlinkat(b->store->parts, b->part, 0);
	blob_free(b);
}

void
store_blob_suspend(struct store_blob *b)
{
	if (b->digest[0] == '\0')
		store_blob_abort(b);
	else
		blob_free(b);
}

int
store_adopt_blob(struct store *s, int fd, const char *digest, uint64_t size, char ret_digest[HASH_NAME + 1],
                 struct err *err)
{
	OWN(freep) char *path = str_format("/proc/self/fd/%d", fd);
	unsigned char hash[HASH_LEN];
	uint64_t found;
	int r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(err, "cannot read a blob") :
	        hash_fd(fd, IMAGE_BLOB_MAX, hash, &found, err);

	if (r < 0)
		return r;
	hash_name(hash, ret_digest);
	if (size != STORE_SIZE_ANY && found != size)
		return err_set(err, EBADMSG, "%s has %llu bytes, and should have %llu", ret_digest,
		               (unsigned long long)found, (unsigned long long)size);
	if (digest != NULL && strcmp(digest, ret_digest) != 0)
		return err_set(err, EBADMSG, "%s is not what came: that has the digest %s", digest, ret_digest);
	if (path == NULL || fchmod(fd, 0600) < 0 || fsync(fd) < 0)
		return err_errno(err, "cannot keep the blob %s", ret_digest);
	if (linkat(AT_FDCWD, path, s->blobs, store_hex(ret_digest), AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
		return err_errno(err, "cannot keep the blob %s", ret_digest);
	return 0;
}

int
store_put_blob(struct store *s, const void *data, size_t len, char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(store_blob_abortp) struct store_blob *b = NULL;
	int r = store_blob_begin(s, NULL, len, &b, err);

	if (r == 0)
		r = store_blob_write(b, data, len, err);
	return r < 0 ? r : store_blob_finish(TAKE(b), ret_digest, err);
}
