/* store.c - see store.h: its folders and locks. */
#include "image/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "image/store_parts.h"

#define LAYOUT_FILE "oci-layout"
#define LAYOUT_TEXT "{\"imageLayoutVersion\":\"1.0.0\"}"

static const char *const folders[] = { "blobs", "blobs/sha256", "layers", "uses", "parts" };

const char *
store_hex(const char *digest)
{
	unsigned char hash[HASH_LEN];

	assert(hash_parse_name(digest, hash));
	return digest + sizeof(HASH_PREFIX) - 1;
}

int
store_new_name(char ret_name[STORE_NEW_MAX], struct err *err)
{
	unsigned char random[8];
	char hex[2 * sizeof(random) + 1];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), hex);
	snprintf(ret_name, STORE_NEW_MAX, STORE_NEW "%s", hex);
	return 0;
}

int
store_lock(const struct store *s, const char *name, int how, struct err *err)
{
	OWN(closep) int fd = openat(s->top, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return err_errno(err, "cannot open '%s/%s'", s->path, name);
	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno(err, "cannot lock '%s/%s'", s->path, name) : TAKE_FD(fd);
}

int
store_adding(struct store *s, struct err *err)
{
	return store_lock(s, STORE_ADDING, LOCK_SH, err);
}

static bool
is_there(const struct store *s, const char *name)
{
	return faccessat(s->top, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What is missing of an OCI image layout. */
static int
make_layout(struct store *s, struct err *err)
{
	OWN(closep) int lock = -1;
	int r = 0;

	if (is_there(s, STORE_INDEX))
		return 0;
	lock = store_lock(s, STORE_LOCK, LOCK_EX, err);
	if (lock < 0)
		return lock;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdirat(s->top, folders[i], 0700) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '%s/%s'", s->path, folders[i]);
	if (!is_there(s, LAYOUT_FILE))
		r = create_file_at(s->top, LAYOUT_FILE, 0600, LAYOUT_TEXT, err);
	/* It comes last, so that a store with an index has everything. */
	if (r == 0 && !is_there(s, STORE_INDEX))
		r = store_write_index(s, &(struct image_index){0}, err);
	return r;
}

static int
open_folder(const struct store *s, const char *name, int *ret_fd, struct err *err)
{
	*ret_fd = openat(s->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret_fd < 0 ? err_errno(err, "cannot open '%s/%s'", s->path, name) : 0;
}

static int
open_folders(struct store *s, struct err *err)
{
	int r = open_folder(s, "blobs/sha256", &s->blobs, err);

	if (r == 0)
		r = open_folder(s, "layers", &s->layers, err);
	if (r == 0)
		r = open_folder(s, "uses", &s->uses, err);
	return r < 0 ? r : open_folder(s, "parts", &s->parts, err);
}

int
store_open(bool make, struct store **ret_store, struct err *err)
{
	OWN(store_closep) struct store *s = calloc(1, sizeof(*s));
	int r = 0;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->top = s->blobs = s->layers = s->uses = s->parts = -1;
	s->path = data_path(STORE_FOLDER, err);
	if (s->path == NULL)
		return -ENOENT;
	s->top = data_folder(STORE_FOLDER, make, err);
	if (s->top < 0)
		return s->top;
	if (make)
		r = make_layout(s, err);
	else if (!is_there(s, STORE_INDEX))
		r = err_set(err, ENOENT, "there are no images yet");
	if (r == 0)
		r = open_folders(s, err);
	if (r == 0)
		*ret_store = TAKE(s);
	return r;
}

void
store_close(struct store *s)
{
	if (s == NULL)
		return;
	closep(&s->top);
	closep(&s->blobs);
	closep(&s->layers);
	closep(&s->uses);
	closep(&s->parts);
	free(s->path);
	free(s);
}

const char *
store_path(const struct store *s)
{
	return s->path;
}

int
store_folder(const struct store *s)
{
	return s->top;
}
