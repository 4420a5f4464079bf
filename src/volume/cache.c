/* cache.c - see cache.h: the descriptions of caches. */
#include "volume/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "canon/canon.h"
#include "volume/cache_parts.h"

#define DESCRIPTION_NEW ".new"
#define DESCRIPTION_MAX (128 * 1024)

OWN_BY(json_freep, json_t *, json_decref)

bool
cache_name_ok(const char *name)
{
	return strlen(name) <= CACHE_NAME_MAX && volume_name_ok(name);
}

static int
open_folder(const struct volumes *v, struct err *err)
{
	int fd;

	if (mkdirat(v->top, CACHE_FOLDER, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '%s/" CACHE_FOLDER "'", v->path);
	fd = openat(v->top, CACHE_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open '%s/" CACHE_FOLDER "'", v->path) : fd;
}

/* ---- reading ---- */

static int
take_text(const json_t *value, char *ret_text, size_t size)
{
	const char *text = json_string_value(value);

	if (text == NULL || strlen(text) >= size)
		return -EBADMSG;
	snprintf(ret_text, size, "%s", text);
	return 0;
}

static int
take_digits(const json_t *value, char *ret_text, size_t n)
{
	const int r = take_text(value, ret_text, n + 1);

	return r < 0 || strlen(ret_text) != n || strspn(ret_text, "0123456789abcdef") != n ? -EBADMSG : 0;
}

static int
take_number(const json_t *value, uint64_t *ret_number)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return -EBADMSG;
	*ret_number = (uint64_t)json_integer_value(value);
	return 0;
}

static int
take_version(const json_t *item, struct cache_version *version)
{
	int r = take_digits(json_object_get(item, "hash"), version->hash, HASH_HEX);

	r = r == 0 ? take_digits(json_object_get(item, "tree"), version->tree, VOLUME_ID) : r;
	r = r == 0 ? take_number(json_object_get(item, "made"), &version->made_ms) : r;
	r = r == 0 ? take_number(json_object_get(item, "bytes"), &version->bytes) : r;
	r = r == 0 ? take_number(json_object_get(item, "entries"), &version->entries) : r;
	r = r == 0 ? take_number(json_object_get(item, "uid"), &version->uid) : r;
	r = r == 0 ? take_text(json_object_get(item, "cell"), version->cell, sizeof(version->cell)) : r;
	r = r == 0 ? take_text(json_object_get(item, "command"), version->command, sizeof(version->command)) : r;
	return r == 0 ? take_text(json_object_get(item, "hosts"), version->hosts, sizeof(version->hosts)) : r;
}

static int
take_all(const json_t *doc, struct cache *cache)
{
	const json_t *list = json_object_get(doc, "versions"), *item;
	const char *kind = json_string_value(json_object_get(doc, "kind"));
	size_t i;
	int r;

	cache->kind = kind == NULL ? NULL : cache_kind_find(kind);
	r = cache->kind == NULL || !json_is_array(list) || json_array_size(list) > CACHE_VERSIONS_MAX ? -EBADMSG : 0;
	r = r == 0 ? take_digits(json_object_get(doc, "current"), cache->current, HASH_HEX) : r;
	r = r == 0 ? take_number(json_object_get(doc, "size"), &cache->size) : r;
	r = r == 0 ? take_number(json_object_get(doc, "ttl"), &cache->ttl_ms) : r;
	r = r == 0 ? take_number(json_object_get(doc, "used"), &cache->used_ms) : r;
	json_array_foreach(list, i, item)
		r = r == 0 ? take_version(item, &cache->versions[cache->n++]) : r;
	return r == 0 && cache_find(cache, "", &(const struct cache_version *){ NULL }, NULL) < 0 ? -EBADMSG : r;
}

int
cache_load(const struct volumes *v, const char *name, struct cache *ret_cache, struct err *err)
{
	OWN(closep) int folder = open_folder(v, err);
	OWN(json_freep) json_t *doc = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (folder < 0)
		return folder;
	r = read_file_at(folder, name, DESCRIPTION_MAX, &text, &len, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "there is no cache '%s': `cloister cache fill %s --kind KIND -- CMD` makes it", name, name);
	if (r < 0)
		return err_wrap(err, "the cache '%s'", name);
	doc = canon_value(text, len);
	memset(ret_cache, 0, sizeof(*ret_cache));
	snprintf(ret_cache->name, sizeof(ret_cache->name), "%s", name);
	return take_all(doc, ret_cache) == 0 ? 0 :
	       err_set(err, EBADMSG, "the description of the cache '%s' is damaged: `cloister cache remove %s` removes it", name,
	               name);
}

/* ---- writing ---- */

static json_t *
pack_version(const struct cache_version *version)
{
	return json_pack("{s:I,s:s,s:s,s:I,s:s,s:s,s:I,s:s,s:I}", "bytes", (json_int_t)version->bytes, "cell", version->cell,
	                 "command", version->command, "entries", (json_int_t)version->entries, "hash", version->hash, "hosts",
	                 version->hosts, "made", (json_int_t)version->made_ms, "tree", version->tree, "uid",
	                 (json_int_t)version->uid);
}

int
cache_save(const struct volumes *v, const struct cache *cache, struct err *err)
{
	OWN(closep) int folder = open_folder(v, err), fd = -1;
	OWN(json_freep) json_t *doc = NULL;
	OWN(freep) char *text = NULL;
	json_t *list = json_array();
	size_t len;
	int r;

	for (size_t i = 0; i < cache->n; i++)
		json_array_append_new(list, pack_version(&cache->versions[i]));
	doc = json_pack("{s:s,s:s,s:I,s:I,s:I,s:o}", "current", cache->current, "kind", cache->kind->name, "size",
	                (json_int_t)cache->size, "ttl", (json_int_t)cache->ttl_ms, "used", (json_int_t)cache->used_ms, "versions",
	                list);
	if (folder < 0)
		return folder;
	r = doc == NULL ? err_set(err, ENOMEM, "out of memory") : canon_dump(doc, DESCRIPTION_MAX, &text, &len, err);
	if (r < 0)
		return r;
	fd = openat(folder, DESCRIPTION_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? err_errno(err, "cannot write '%s'", DESCRIPTION_NEW) : write_all(fd, text, len, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(folder, DESCRIPTION_NEW, folder, cache->name) < 0 || fsync(folder) < 0))
		r = err_errno(err, "cannot write its description");
	return r < 0 ? err_wrap(err, "the cache '%s'", cache->name) : 0;
}

int
cache_unlink(const struct volumes *v, const char *name, struct err *err)
{
	OWN(closep) int folder = open_folder(v, err);

	return folder < 0 ? folder : unlinkat(folder, name, 0) < 0 ? err_errno(err, "cannot remove the cache '%s'", name) : 0;
}

/* ---- looking ---- */

static int
order_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int
cache_list(const struct volumes *v, char ***ret_names, struct err *err)
{
	OWN(closep) int folder = open_folder(v, err);
	OWN(closedirp) DIR *dir = folder < 0 ? NULL : tree_list(folder);
	OWN(strv_freep) char **names = calloc(CACHES_MAX + 1, sizeof(*names));
	struct dirent *d;
	size_t n = 0;

	if (folder < 0)
		return folder;
	if (dir == NULL || names == NULL)
		return err_errno(err, "cannot list '%s/" CACHE_FOLDER "'", v->path);
	while (n < CACHES_MAX && (d = readdir(dir)) != NULL) {
		if (!cache_name_ok(d->d_name))
			continue;
		names[n] = strdup(d->d_name);
		if (names[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	qsort(names, n, sizeof(*names), order_names);
	*ret_names = TAKE(names);
	return 0;
}

int
cache_find(const struct cache *cache, const char *prefix, const struct cache_version **ret_version, struct err *err)
{
	const char *word = prefix[0] != '\0' ? prefix : cache->current;
	const size_t len = strlen(word);
	size_t found = 0;

	if (len < CACHE_PREFIX || strspn(word, "0123456789abcdef") != len)
		return err_set(err, EINVAL, "'%.80s' names no version of a cache: give %d of the first digits of its hash, or more",
		               prefix, CACHE_PREFIX);
	for (size_t i = 0; i < cache->n; i++)
		if (strncmp(cache->versions[i].hash, word, len) == 0) {
			*ret_version = &cache->versions[i];
			found++;
		}
	if (found == 1)
		return 0;
	return found == 0 ? err_set(err, ENOENT, "the cache '%s' has no version '%.80s': see `cloister cache show %s`", cache->name,
	                            word, cache->name) :
	       err_set(err, ENOTUNIQ, "several versions of the cache '%s' begin with '%.80s': give more digits", cache->name, word);
}

bool
cache_version_is_used(const struct volumes *v, const struct cache_version *version)
{
	return volume_is_held(v, VOLUME_TREE, version->tree);
}

bool
cache_is_used(const struct volumes *v, const struct cache *cache)
{
	for (size_t i = 0; i < cache->n; i++)
		if (cache_version_is_used(v, &cache->versions[i]))
			return true;
	return false;
}

bool
cache_is_over(const struct volumes *v, const struct cache *cache, uint64_t now_ms)
{
	return cache->ttl_ms != 0 && now_ms > cache->used_ms && now_ms - cache->used_ms >= cache->ttl_ms &&
	       !cache_is_used(v, cache);
}
