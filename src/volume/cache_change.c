/* cache_change.c - fills, uses and removes caches: each change is one rename of a description. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/since.h"
#include "base/tree.h"
#include "volume/cache_parts.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- filling ---- */

static int
check_begin(struct volumes *v, const char *name, const struct cache_kind *kind, uint64_t *size, struct err *err)
{
	OWN(freep) struct cache *known = calloc(1, sizeof(*known));
	OWN(strv_freep) char **names = NULL;
	struct err why = {0};
	int r = known == NULL ? no_memory(err) : cache_load(v, name, known, &why);

	if (r == -ENOENT) {
		r = cache_list(v, &names, err);
		if (r == 0 && strv_len(names) >= CACHES_MAX)
			r = err_set(err, E2BIG, "there are %d caches already: remove some (see `cloister cache list`)", CACHES_MAX);
		*size = *size != 0 ? *size : VOLUME_SIZE_DEFAULT;
		return r;
	}
	if (r < 0)
		return why.code != 0 ? err_set(err, why.code, "%s", why.text) : r;
	if (known->kind != kind)
		return err_set(err, EEXIST, "the cache '%s' is of the kind %s: choose another name, or remove it first", name,
		               known->kind->name);
	*size = *size != 0 ? *size : known->size;
	return 0;
}

/* An empty tree, but for the folders that the kind needs. */
static int
make_base(const struct volumes *v, const struct cache_kind *kind, char ret_tree[VOLUME_ID + 1], struct err *err)
{
	OWN(closep) int files = -1;
	int r = volume_make_tree(v, -1, -1, 1, ret_tree, err);

	files = r < 0 ? r : volume_open_tree(v, ret_tree, err);
	for (const char *const *folder = kind->folders; files >= 0 && *folder != NULL; folder++)
		if (mkdirat(files, *folder, 0755) < 0)
			return err_errno(err, "cannot make the folder '%s' of the cache", *folder);
	return files < 0 ? files : 0;
}

int
cache_begin(struct volumes *v, const char *name, const struct cache_kind *kind, uint64_t size,
            char ret_volume[VOLUME_NAME_MAX + 1], struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	char id[VOLUME_ID + 1], tree[VOLUME_ID + 1];
	int r = volume == NULL ? no_memory(err) : check_begin(v, name, kind, &size, err);

	r = r == 0 ? cache_prune_fills(v, err) : r;
	r = r == 0 ? volume_new_id(id, err) : r;
	r = r == 0 ? make_base(v, kind, tree, err) : r;
	if (r < 0)
		return r;
	snprintf(ret_volume, VOLUME_NAME_MAX + 1, CACHE_FILL "%.8s-%s", id, name);
	r = volume_create(v, ret_volume, size, 0, tree, err);
	volume_release(v, VOLUME_TREE, tree);
	r = r == 0 ? volume_load(v, ret_volume, volume, err) : r;
	/* A process that prunes before this removes it, and then no cell can be started with it. */
	return r == 0 ? volume_hold(v, VOLUME_USERS, volume->id, false, err) : r;
}

int
cache_abandon(struct volumes *v, const char *volume, struct err *err)
{
	OWN(closep) int lock = volume_lock(v, err);

	return lock < 0 ? lock : volume_put_aside(v, v->names, volume, err);
}

int
cache_prune_fills(struct volumes *v, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closedirp) DIR *dir = tree_list(v->names);
	struct dirent *d;
	int r = volume == NULL ? no_memory(err) : dir == NULL ? err_errno(err, "cannot list '%s/names'", v->path) : 0;

	while (r == 0 && (d = readdir(dir)) != NULL) {
		if (strncmp(d->d_name, CACHE_FILL, sizeof(CACHE_FILL) - 1) != 0 || strlen(d->d_name) > VOLUME_NAME_MAX)
			continue;
		if (volume_load(v, d->d_name, volume, NULL) < 0 || !volume_is_used(v, volume))
			r = cache_abandon(v, d->d_name, err);
	}
	return r;
}

static void
drop(struct cache *cache, size_t i)
{
	memmove(&cache->versions[i], &cache->versions[i + 1], (cache->n - i - 1) * sizeof(cache->versions[0]));
	cache->n--;
}

/* Makes room for one more: the oldest that cells do not get. */
static void
drop_oldest(struct cache *cache)
{
	drop(cache, strcmp(cache->versions[0].hash, cache->current) == 0 ? 1 : 0);
}

static int
add_version(struct volumes *v, const struct cache_fill *fill, uint64_t size, const struct cache_version *made, bool *ret_new,
            struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	struct err why = {0};
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, fill->name, cache, &why);

	if (r < 0 && r != -ENOENT)
		return why.code != 0 ? err_set(err, why.code, "%s", why.text) : r;
	if (r == 0 && cache->kind != fill->kind)
		return err_set(err, EEXIST, "the cache '%s' has become one of the kind %s", fill->name, cache->kind->name);
	if (r == -ENOENT)
		memset(cache, 0, sizeof(*cache));
	snprintf(cache->name, sizeof(cache->name), "%s", fill->name);
	cache->kind = fill->kind;
	cache->size = size;
	cache->ttl_ms = fill->has_ttl ? fill->ttl_ms : cache->ttl_ms;
	cache->used_ms = since_now_ms();
	*ret_new = cache_find(cache, made->hash, &(const struct cache_version *){ NULL }, NULL) < 0;
	/* One of the same files stays as it is. */
	if (*ret_new && cache->n == CACHE_VERSIONS_MAX)
		drop_oldest(cache);
	if (*ret_new)
		cache->versions[cache->n++] = *made;
	snprintf(cache->current, sizeof(cache->current), "%s", made->hash);
	return cache_save(v, cache, err);
}

/* What the cell left becomes a tree, which is hashed. */
static int
make_version(struct volumes *v, const struct cache_fill *fill, struct cache_version *made, uint64_t *ret_size, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int files = -1;
	enum volume_settled settled;
	int r = volume == NULL ? no_memory(err) : volume_load(v, fill->volume, volume, err);

	if (r == 0 && volume_is_written(v, volume))
		r = err_set(err, EBUSY, "a cell still fills the cache '%s': end it first (see `cloister ps`)", fill->name);
	r = r == 0 ? volume_settle(v, fill->volume, &settled, err) : r;
	if (r == 0 && settled == VOLUME_REFUSED)
		r = err_set(err, EDQUOT, "the command left too many files and folders for the size of the cache, or folders that are "
		            "nested too deep: use a larger --size");
	if (r == 0 && settled == VOLUME_SAME)
		r = err_set(err, ENODATA, "the command left nothing in the cache: see docs/caches.md for how each kind is filled");
	r = r == 0 ? volume_load(v, fill->volume, volume, err) : r;
	/* From here on it outlives the volume. */
	r = r == 0 ? volume_hold(v, VOLUME_TREE, volume->tree, false, err) : r;
	r = r == 0 ? volume_measure(v, volume->tree, &made->bytes, &made->entries, err) : r;
	files = r < 0 ? r : volume_open_tree(v, volume->tree, err);
	r = files < 0 ? files : cache_hash(files, made->hash, err);
	if (r == 0) {
		memcpy(made->tree, volume->tree, sizeof(made->tree));
		*ret_size = volume->size;
	}
	return r;
}

int
cache_keep(struct volumes *v, const struct cache_fill *fill, struct cache_version *ret_version, bool *ret_new,
           struct err *err)
{
	OWN(freep) struct cache_version *made = calloc(1, sizeof(*made));
	uint64_t size = 0;
	int r = made == NULL ? no_memory(err) : make_version(v, fill, made, &size, err);

	if (r == 0) {
		made->made_ms = since_now_ms();
		made->uid = geteuid();
		snprintf(made->cell, sizeof(made->cell), "%s", fill->cell);
		snprintf(made->command, sizeof(made->command), "%s", fill->command);
		snprintf(made->hosts, sizeof(made->hosts), "%s", fill->hosts);
		r = add_version(v, fill, size, made, ret_new, err);
	}
	if (r != -EBUSY)
		(void)cache_abandon(v, fill->volume, NULL);
	if (r == 0)
		*ret_version = *made;
	return r;
}

/* ---- use ---- */

int
cache_take(struct volumes *v, const char *name, const char *prefix, struct volume_use *ret_use,
           struct cache_version *ret_version, struct err *err)
{
	OWN(volume_use_free) struct volume_use use = {0};
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	const struct cache_version *version = NULL;
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, name, cache, err);

	r = r == 0 ? cache_find(cache, prefix, &version, err) : r;
	if (r == 0 && cache_is_over(v, cache, since_now_ms()))
		r = err_set(err, ENOENT, "the time to live of the cache '%s' is over: fill it again", name);
	if (r < 0)
		return r;
	r = volume_hold(v, VOLUME_TREE, version->tree, false, err);
	if (r < 0)
		return r == -EBUSY ? err_set(err, EBUSY, "the cache '%s' is being removed: try again", name) : r;
	use.tree = str_format("%s/trees/%s/" VOLUME_FILES, v->path, version->tree);
	if (use.tree == NULL)
		return no_memory(err);
	use.size = cache->size;
	use.entries = volume_entries_max(cache->size);
	cache->used_ms = since_now_ms();
	r = cache_save(v, cache, err);
	if (r == 0) {
		*ret_version = *version;
		*ret_use = use;
		use = (struct volume_use){0};
	}
	return r;
}

int
cache_put_settings(struct volumes *v, const struct volume_use *use, const char *text, char **ret_file, struct err *err)
{
	const char *tree = use->tree + strlen(v->path) + sizeof("/trees/") - 1;
	OWN(freep) char *part = NULL, *file = NULL;
	char id[VOLUME_ID + 1];
	int r = volume_new_id(id, err);

	if (r < 0)
		return r;
	/* Each process writes the same. */
	part = str_format("%.*s/%s", VOLUME_ID, tree, id);
	file = str_format("%.*s/settings", VOLUME_ID, tree);
	if (part == NULL || file == NULL)
		return no_memory(err);
	r = create_file_at(v->trees, part, 0644, text, err);
	if (r == 0 && renameat(v->trees, part, v->trees, file) < 0)
		r = err_errno(err, "cannot write '%s'", file);
	if (r < 0)
		return r;
	*ret_file = str_format("%s/trees/%s", v->path, file);
	return *ret_file == NULL ? no_memory(err) : 0;
}

/* ---- changes of descriptions ---- */

int
cache_use(struct volumes *v, const char *name, const char *prefix, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	const struct cache_version *version = NULL;
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, name, cache, err);

	r = r == 0 ? cache_find(cache, prefix, &version, err) : r;
	if (r < 0)
		return r;
	snprintf(cache->current, sizeof(cache->current), "%s", version->hash);
	cache->used_ms = since_now_ms();
	return cache_save(v, cache, err);
}

int
cache_remove(struct volumes *v, const char *name, bool over, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	struct err why = {0};
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, name, cache, &why);

	/* A damaged one can be removed, too. */
	if (r < 0 && r != -EBADMSG)
		return why.code != 0 ? err_set(err, why.code, "%s", why.text) : r;
	if (over && (r < 0 || !cache_is_over(v, cache, since_now_ms())))
		return -EAGAIN;
	if (r == 0 && cache_is_used(v, cache))
		return err_set(err, EBUSY, "a cell uses the cache '%s': wait until it has ended (see `cloister ps`)", name);
	return cache_unlink(v, name, err);
}

int
cache_remove_version(struct volumes *v, const char *name, const char *prefix, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	const struct cache_version *version = NULL;
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, name, cache, err);

	r = r == 0 ? cache_find(cache, prefix, &version, err) : r;
	if (r == 0 && strcmp(version->hash, cache->current) == 0)
		r = err_set(err, EBUSY, "cells get the version %.12s of the cache '%s': let them use another one first (`cloister cache "
		            "use`), or remove the whole cache", version->hash, name);
	if (r == 0 && cache_version_is_used(v, version))
		r = err_set(err, EBUSY, "a cell uses the version %.12s of the cache '%s': wait until it has ended (see `cloister ps`)",
		            version->hash, name);
	if (r < 0)
		return r;
	drop(cache, (size_t)(version - cache->versions));
	return cache_save(v, cache, err);
}

int
cache_prune(struct volumes *v, const char *name, uint64_t *ret_removed, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : cache == NULL ? no_memory(err) : cache_load(v, name, cache, err);
	size_t n;

	if (r < 0)
		return r;
	n = cache->n;
	for (size_t i = n; i-- > 0;)
		if (strcmp(cache->versions[i].hash, cache->current) != 0 && !cache_version_is_used(v, &cache->versions[i]))
			drop(cache, i);
	*ret_removed = n - cache->n;
	return *ret_removed > 0 ? cache_save(v, cache, err) : 0;
}
