/* volume_sweep.c - removes trees that nothing names, and what killed processes left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/tree.h"
#include "volume/cache.h"
#include "volume/volume_parts.h"

struct named {
	char (*ids)[VOLUME_ID + 1];
	size_t n, room;
};

static int
add(struct named *named, const char *id)
{
	if (named->n == named->room) {
		size_t room = named->room == 0 ? 256 : 2 * named->room;
		void *ids = reallocarray(named->ids, room, sizeof(*named->ids));

		if (ids == NULL)
			return -ENOMEM;
		named->ids = ids;
		named->room = room;
	}
	memcpy(named->ids[named->n++], id, VOLUME_ID + 1);
	return 0;
}

static bool
has(const struct named *named, const char *id)
{
	for (size_t i = 0; i < named->n; i++)
		if (strcmp(named->ids[i], id) == 0)
			return true;
	return false;
}

static bool
starts(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int
add_volume(const struct volumes *v, const char *name, struct volume *volume, struct named *named, struct err *err)
{
	int r = volume_load(v, name, volume, err);

	r = r == 0 ? add(named, volume->tree) : r;
	for (size_t i = 0; r == 0 && i < volume->n_snapshots; i++)
		r = add(named, volume->snapshots[i].tree);
	return r;
}

/* Volumes that cells fill for a cache; volume_list() has none of them. */
static int
add_fills(const struct volumes *v, struct volume *volume, struct named *named, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(v->names);
	struct dirent *d;
	int r = dir == NULL ? err_errno(err, "cannot list '%s/names'", v->path) : 0;

	while (r == 0 && (d = readdir(dir)) != NULL)
		if (starts(d->d_name, CACHE_FILL) && strlen(d->d_name) <= VOLUME_NAME_MAX)
			r = add_volume(v, d->d_name, volume, named, err);
	return r;
}

static int
add_caches(const struct volumes *v, struct named *named, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(strv_freep) char **names = NULL;
	int r = cache == NULL ? err_set(err, ENOMEM, "out of memory") : cache_list(v, &names, err);

	for (char **name = names; r == 0 && *name != NULL; name++) {
		r = cache_load(v, *name, cache, err);
		for (size_t i = 0; r == 0 && i < cache->n; i++)
			r = add(named, cache->versions[i].tree);
	}
	return r;
}

/* A damaged description may name any tree: then none is removed. */
static int
list_named(const struct volumes *v, struct named *named, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(strv_freep) char **names = NULL;
	int r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_list(v, &names, err);

	for (char **name = names; r == 0 && *name != NULL; name++)
		r = add_volume(v, *name, volume, named, err);
	r = r == 0 ? add_fills(v, volume, named, err) : r;
	return r == 0 ? add_caches(v, named, err) : r;
}

/* Whether a process fills it. */
static bool
is_being_made(const struct volumes *v, const char *name)
{
	OWN(closep) int fd = openat(v->trees, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Of volumes whose maker was killed: the caller has the lock, so nobody is making one. */
static int
put_parts_aside(const struct volumes *v, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(v->names);
	struct dirent *d;
	int r = dir == NULL ? err_errno(err, "cannot list '%s/names'", v->path) : 0;

	while (r == 0 && (d = readdir(dir)) != NULL)
		if (starts(d->d_name, VOLUME_PART))
			r = volume_put_aside(v, v->names, d->d_name, err);
	return r;
}

/* Under the lock: renames what is to be removed. */
static int
put_aside(const struct volumes *v, struct volume_swept *swept, struct err *err)
{
	OWN(closep) int lock = volume_lock(v, err);
	OWN(closedirp) DIR *dir = lock < 0 ? NULL : tree_list(v->trees);
	struct named named = {0};
	struct dirent *d;
	int r = lock < 0 ? lock : dir == NULL ? err_errno(err, "cannot list '%s/trees'", v->path) : list_named(v, &named, err);

	r = r == 0 ? put_parts_aside(v, err) : r;
	while (r == 0 && (d = readdir(dir)) != NULL) {
		uint64_t bytes = 0, entries;

		if (starts(d->d_name, VOLUME_PART) && !is_being_made(v, d->d_name))
			r = volume_put_aside(v, v->trees, d->d_name, err);
		if (d->d_name[0] == '.' || strlen(d->d_name) != VOLUME_ID || has(&named, d->d_name) ||
		    volume_is_held(v, VOLUME_TREE, d->d_name))
			continue;
		(void)volume_measure(v, d->d_name, &bytes, &entries, NULL);
		r = volume_put_aside(v, v->trees, d->d_name, err);
		swept->trees++;
		swept->bytes += bytes;
	}
	free(named.ids);
	return r;
}

static int
clear(int parent, const char *name, struct err *err)
{
	OWN(closep) int fd = tree_open_dir_anyway(parent, name);
	int r;

	/* Another process removes it, too. */
	if (fd < 0)
		return fd == -ENOENT ? 0 : err_set(err, -fd, "cannot remove the folder '%s' of volumes", name);
	r = tree_empty(fd, err);
	return r < 0 ? r : unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT ?
	       err_errno(err, "cannot remove the folder '%s' of volumes", name) : 0;
}

static int
clear_all(const struct volumes *v, int parent, const char *prefix, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(parent);
	uint64_t done = 0;
	struct dirent *d;
	int r = dir == NULL ? err_errno(err, "cannot list '%s'", v->path) : 0;

	progress_begin("removing files of volumes");
	while (r == 0 && (d = readdir(dir)) != NULL)
		if (starts(d->d_name, prefix)) {
			r = clear(parent, d->d_name, err);
			progress_show(++done, 0);
		}
	progress_end();
	return r;
}

int
volume_sweep(struct volumes *v, struct volume_swept *ret_swept, struct err *err)
{
	struct volume_swept swept = {0};
	int r = put_aside(v, &swept, err);

	r = r == 0 ? clear_all(v, v->trees, VOLUME_OLD, err) : r;
	if (r == 0)
		*ret_swept = swept;
	return r;
}
