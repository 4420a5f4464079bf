/* store_sweep.c - removes what no image needs, and what killed processes left.
 *
 * It may be killed itself at any moment: an image leaves the index first, a layer loses its name before its
 * files, and all the rest is found again by the next sweep. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "image/store_parts.h"

/* The names, as digits, of everything that stays. */
struct keep {
	char (*list)[HASH_HEX + 1];
	size_t n, cap;
};

static int
keep_add(struct keep *k, const char *digest, struct err *err)
{
	if (k->n == k->cap) {
		size_t cap = k->cap > 0 ? 2 * k->cap : 256;
		void *list = reallocarray(k->list, cap, sizeof(*k->list));

		if (list == NULL)
			return err_set(err, ENOMEM, "out of memory");
		k->list = list;
		k->cap = cap;
	}
	memcpy(k->list[k->n++], store_hex(digest), HASH_HEX + 1);
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool
is_kept(const struct keep *k, const char *name)
{
	return k->n > 0 && bsearch(name, k->list, k->n, sizeof(*k->list), by_name) != NULL;
}

/* Everything that the image DIGEST needs. */
static int
keep_image(const struct store *s, struct keep *k, const char *digest, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	int r = keep_add(k, digest, err);

	if (r < 0 || !store_has_blob(s, digest))
		return r;
	r = store_load(s, digest, &image, err);
	if (r == 0)
		r = keep_add(k, image.manifest.config.digest, err);
	for (size_t i = 0; r == 0 && i < image.manifest.n_layers; i++)
		r = keep_add(k, image.manifest.layers[i].digest, err);
	for (size_t i = 0; r == 0 && i < image.config.n_diff_ids; i++)
		r = keep_add(k, image.config.diff_ids[i], err);
	return r;
}

/* Calls EACH for every entry of the folder DIR, until one fails. */
static int
for_each(int dir, int (*each)(void *arg, const char *name, struct err *err), void *arg, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(dir);
	const struct dirent *d;
	int r = list == NULL ? err_errno(err, "cannot list a folder of the images") : 0;

	while (r == 0 && (d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name))
			r = each(arg, d->d_name, err);
	return r;
}

struct sweep {
	struct store *store;
	struct keep keep;
	struct store_swept *swept;
	int folder;                             /* that is swept now; -1: one that the store keeps open */
	void (*progress)(uint64_t bytes);
};

static void
sweep_free(struct sweep *w)
{
	free(w->keep.list);
	closep(&w->folder);
}

static bool
digest_of(const char *name, char ret_digest[HASH_NAME + 1])
{
	unsigned char hash[HASH_LEN];

	if (strlen(name) != HASH_HEX)
		return false;
	memcpy(ret_digest, HASH_PREFIX, sizeof(HASH_PREFIX) - 1);
	memcpy(ret_digest + sizeof(HASH_PREFIX) - 1, name, HASH_HEX + 1);
	return hash_parse_name(ret_digest, hash);
}

/* Cells may run an image that is listed no more. */
static int
keep_used(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;
	char digest[HASH_NAME + 1];

	if (!digest_of(name, digest) || !store_is_used(w->store, digest))
		return 0;
	return keep_image(w->store, &w->keep, digest, err);
}

static int
remove_file(struct sweep *w, int dir, const char *name, uint64_t *count, struct err *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(dir, name, 0) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot remove '%s' of the images", name);
	w->swept->bytes += (uint64_t)st.st_size;
	++*count;
	if (w->progress != NULL)
		w->progress(w->swept->bytes);
	return 0;
}

static int
sweep_blob(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;

	return is_kept(&w->keep, name) ? 0 : remove_file(w, w->store->blobs, name, &w->swept->blobs, err);
}

static int
sweep_part(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;

	return remove_file(w, w->store->parts, name, &w->swept->leftovers, err);
}

static int
sweep_signature(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;

	return is_kept(&w->keep, name) ? 0 : remove_file(w, w->folder, name, &w->swept->leftovers, err);
}

static int
sweep_made(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;
	char digest[HASH_NAME + 1];

	return store_made_digest(w->store, name, digest) && is_kept(&w->keep, store_hex(digest)) ? 0 :
	       remove_file(w, w->folder, name, &w->swept->leftovers, err);
}

/* A folder that may not be there. */
static int
sweep_folder(struct sweep *w, const char *name, int (*each)(void *arg, const char *name, struct err *err),
             struct err *err)
{
	closep(&w->folder);
	w->folder = tree_open_dir(w->store->top, name);
	if (w->folder < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open '%s/%s'", w->store->path, name);
	return for_each(w->folder, each, w, err);
}

static int
sweep_use(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;

	if (!is_kept(&w->keep, name) && unlinkat(w->store->uses, name, 0) < 0 && errno != ENOENT)
		return err_errno(err, "cannot remove '%s/uses/%s'", w->store->path, name);
	return 0;
}

static int
sweep_new_file(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;

	return strncmp(name, STORE_NEW, sizeof(STORE_NEW) - 1) != 0 ? 0 :
	       remove_file(w, w->store->top, name, &w->swept->leftovers, err);
}

/* A layer has its name only while it is whole. */
static int
sweep_layer(void *arg, const char *name, struct err *err)
{
	struct sweep *w = arg;
	char was[STORE_NEW_MAX];
	const bool is_new = strncmp(name, STORE_NEW, sizeof(STORE_NEW) - 1) == 0;
	OWN(closep) int dir = -1;
	int r = 0;

	if (is_kept(&w->keep, name))
		return 0;
	if (!is_new) {
		r = store_new_name(was, err);
		if (r == 0 && renameat(w->store->layers, name, w->store->layers, was) < 0)
			r = err_errno(err, "cannot remove the layer %s", name);
		name = was;
	}
	dir = r < 0 ? -1 : tree_open_dir_anyway(w->store->layers, name);
	if (r == 0 && dir >= 0)
		r = tree_empty(dir, err);
	if (r == 0 && unlinkat(w->store->layers, name, AT_REMOVEDIR) < 0)
		r = err_errno(err, "cannot remove '%s/layers/%s'", w->store->path, name);
	*(is_new ? &w->swept->leftovers : &w->swept->layers) += r == 0;
	if (w->progress != NULL)
		w->progress(w->swept->bytes);
	return r;
}

/* ---- images ---- */

static int
drop_unnamed(struct store *s, struct image_index *index, struct err *err)
{
	size_t kept = 0;
	const size_t was = index->n;

	for (size_t i = 0; i < was; i++)
		if (index->list[i].name != NULL || store_is_used(s, index->list[i].digest))
			index->list[kept++] = index->list[i];
	index->n = kept;
	return kept == was ? 0 : store_write_index(s, index, err);
}

static int
find_kept(struct sweep *w, const struct image_index *index, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < index->n; i++) {
		r = keep_image(w->store, &w->keep, index->list[i].digest, err);
		if (r == 0 && index->list[i].index[0] != '\0')
			r = keep_add(&w->keep, index->list[i].index, err);
	}
	if (r == 0)
		r = for_each(w->store->uses, keep_used, w, err);
	if (r == 0 && w->keep.n > 0)
		qsort(w->keep.list, w->keep.n, sizeof(*w->keep.list), by_name);
	return r;
}

/* Cells that start hold the lock for a moment. */
static int
stop_adding(const struct store *s, struct err *err)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	const int64_t deadline = io_now_ms() + STORE_SWEEP_WAIT_MS;
	int fd;

	while ((fd = store_lock(s, STORE_ADDING, LOCK_EX | LOCK_NB, err)) == -EWOULDBLOCK &&
	       io_now_ms() < deadline)
		nanosleep(&moment, NULL);
	return fd == -EWOULDBLOCK ? err_set(err, EBUSY, "another command adds an image now") : fd;
}

int
store_sweep(struct store *s, bool unnamed, void (*progress)(uint64_t bytes), struct store_swept *ret_swept,
            struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(closep) int adding = -1, lock = -1;
	OWN(sweep_free) struct sweep w = { .store = s, .swept = ret_swept, .folder = -1, .progress = progress };
	int r;

	*ret_swept = (struct store_swept){0};
	adding = stop_adding(s, err);
	lock = adding < 0 ? adding : store_lock(s, STORE_LOCK, LOCK_EX, err);
	r = lock < 0 ? lock : store_list(s, &index, err);
	if (r == 0 && unnamed)
		r = drop_unnamed(s, &index, err);
	if (r == 0)
		r = find_kept(&w, &index, err);
	if (r == 0)
		r = for_each(s->layers, sweep_layer, &w, err);
	if (r == 0)
		r = for_each(s->blobs, sweep_blob, &w, err);
	if (r == 0)
		r = for_each(s->uses, sweep_use, &w, err);
	if (r == 0)
		r = sweep_folder(&w, STORE_SIGNATURES, sweep_signature, err);
	if (r == 0)
		r = sweep_folder(&w, STORE_MADE, sweep_made, err);
	if (r == 0)
		r = for_each(s->top, sweep_new_file, &w, err);
	if (r == 0 && unnamed)
		r = for_each(s->parts, sweep_part, &w, err);
	return r;
}
