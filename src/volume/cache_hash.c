/* cache_hash.c - hashes the files of a cache's version.
 *
 * Agents chose names and contents: this walks by descriptor, follows no link, and only hashes bytes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/tree.h"
#include "volume/cache.h"
#include "volume/volume_parts.h"
#include "workspace/workspace_tree.h"

struct hashing {
	struct hash hash;
	uint64_t bytes;
	struct wtree_path path;
};

struct listed {
	char **names;
	size_t n, room;
};

static void
listed_free(struct listed *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
}

static int
fail(const struct hashing *h, int code, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	errno = code;
	return err_errno(err, "cannot hash '%s' of the cache", wtree_show(shown, h->path.text != NULL ? h->path.text : ""));
}

static int
order_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names but "." and "..", sorted by their bytes. */
static int
list_names(int dir, struct listed *l)
{
	OWN(closedirp) DIR *entries = tree_list(dir);
	struct dirent *d;

	while (entries != NULL && (errno = 0, d = readdir(entries)) != NULL) {
		if (tree_is_dots(d->d_name))
			continue;
		if (l->n == l->room) {
			const size_t room = l->room == 0 ? 64 : 2 * l->room;
			char **names = reallocarray(l->names, room, sizeof(*names));

			if (names == NULL)
				return -ENOMEM;
			l->names = names;
			l->room = room;
		}
		l->names[l->n] = strdup(d->d_name);
		if (l->names[l->n] == NULL)
			return -ENOMEM;
		l->n++;
	}
	if (entries == NULL || errno != 0)
		return -errno;
	if (l->n > 0)
		qsort(l->names, l->n, sizeof(*l->names), order_names);
	return 0;
}

static void
add(struct hashing *h, char type, unsigned mode, const char *value)
{
	char text[HASH_HEX + 16];

	snprintf(text, sizeof(text), "%c %04o %s ", type, mode & 0777, value);
	hash_add(&h->hash, text, strlen(text));
	hash_add(&h->hash, h->path.text, h->path.len + 1);
}

static int
add_file(struct hashing *h, int dir, const char *name, const struct stat *st, struct err *err)
{
	OWN(closep) int fd = -1;
	unsigned char hash[HASH_LEN];
	char hex[HASH_HEX + 1];
	uint64_t size;
	int r;

	/* Root could read it, and the cells that get the cache could not. */
	if ((st->st_mode & 0400) == 0)
		return fail(h, EACCES, err);
	/* Holes count: they are hashed, too. */
	if ((uint64_t)st->st_size > CACHE_HASHED_MAX - h->bytes)
		return fail(h, EFBIG, err);
	fd = wtree_open_file(dir, name);
	if (fd < 0)
		return fail(h, -fd, err);
	r = hash_fd(fd, CACHE_HASHED_MAX - h->bytes, hash, &size, err);
	if (r < 0)
		return r;
	h->bytes += size;
	progress_show(h->bytes, 0);
	codec_hex(hash, HASH_LEN, hex);
	add(h, 'f', st->st_mode, hex);
	return 0;
}

static int
add_link(struct hashing *h, int dir, const char *name, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char target[PATH_MAX], hex[HASH_HEX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0 || n == (ssize_t)sizeof(target))
		return fail(h, n < 0 ? errno : ENAMETOOLONG, err);
	hash_of(target, (size_t)n, hash);
	codec_hex(hash, HASH_LEN, hex);
	add(h, 'l', 0777, hex);
	return 0;
}

static int add_folder(struct hashing *h, int dir, int depth, struct err *err);

static int
add_entry(struct hashing *h, int dir, const char *name, int depth, struct err *err)
{
	OWN(closep) int fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(h, errno, err);
	if (S_ISREG(st.st_mode))
		return add_file(h, dir, name, &st, err);
	if (S_ISLNK(st.st_mode))
		return add_link(h, dir, name, err);
	if (!S_ISDIR(st.st_mode))
		return fail(h, EINVAL, err);
	fd = tree_open_dir(dir, name);
	if (fd < 0 || depth >= WORKSPACE_DEPTH_MAX)
		return fail(h, fd < 0 ? -fd : ENAMETOOLONG, err);
	add(h, 'd', st.st_mode, "-");
	return add_folder(h, fd, depth + 1, err);
}

static int
add_folder(struct hashing *h, int dir, int depth, struct err *err)
{
	OWN(listed_free) struct listed l = {0};
	const size_t len = h->path.len;
	int r = list_names(dir, &l);

	r = r < 0 ? fail(h, -r, err) : 0;
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		r = wtree_path_push(&h->path, l.names[i], err);
		r = r == 0 ? add_entry(h, dir, l.names[i], depth, err) : r;
		wtree_path_pop(&h->path, len);
	}
	return r;
}

int
cache_hash(int dir, char ret_hash[HASH_HEX + 1], struct err *err)
{
	struct hashing h = {0};
	unsigned char hash[HASH_LEN];
	int r;

	hash_begin(&h.hash);
	progress_begin("hashing the cache");
	r = add_folder(&h, dir, 0, err);
	progress_end();
	wtree_path_free(&h.path);
	if (r < 0)
		return r;
	hash_end(&h.hash, hash);
	codec_hex(hash, HASH_LEN, ret_hash);
	return 0;
}

int
cache_verify(const struct volumes *v, const struct cache *cache, const struct cache_version *version, struct err *err)
{
	OWN(closep) int dir = volume_open_tree(v, version->tree, err);
	char hash[HASH_HEX + 1];
	int r = dir < 0 ? dir : cache_hash(dir, hash, err);

	if (r < 0)
		return err_wrap(err, "the version %.12s of the cache '%s'", version->hash, cache->name);
	return strcmp(hash, version->hash) == 0 ? 0 :
	       err_set(err, EBADMSG, "the files of the version %.12s of the cache '%s' are not those that it was made of: use "
	               "another version (`cloister cache use`), remove it, and fill the cache again", version->hash, cache->name);
}
