/* run_caches.c - --cache, and `cache` of a policy: the caches of packages that a cell has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/run.h"

_Static_assert(POLICY_CACHES_MAX == CELL_CACHES_MAX && POLICY_CACHE_NAME_MAX == CACHE_NAME_MAX &&
               POLICY_CACHE_VERSION_LEAST == CACHE_PREFIX && POLICY_VOLUME_LABEL_MAX == HASH_HEX, "they are the same caches");

/* ---- what is asked for ---- */

int
run_add_cache(struct run *run, const char *text, struct err *err)
{
	struct policy_volume cache;
	int r = policy_cache_parse(text, &cache, err);

	if (r < 0)
		return err_wrap(err, "--cache");
	for (size_t i = 0; i < run->caches.n; i++)
		if (strcmp(run->caches.at[i].name, cache.name) == 0)
			return err_set(err, EEXIST, "--cache '%s' is given twice", cache.name);
	if (run->caches.n == POLICY_CACHES_MAX)
		return err_set(err, E2BIG, "--cache is given more than %d times", POLICY_CACHES_MAX);
	r = cache.path[0] != '\0' ? run_check_inside(cache.path, err) : 0;
	if (r == 0)
		run->caches.at[run->caches.n++] = cache;
	return r;
}

static bool
is_given(const struct run *run, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(run->caches.at[i].name, name) == 0)
			return true;
	return false;
}

int
run_take_caches(struct run *run, const struct policy_volumes *caches, struct err *err)
{
	const size_t given = run->caches.n;

	/* Like a volume: a stranger's policy must not choose which packages its agent gets. */
	if (caches->n > 0 && run->policy_found && !run->policy_accepted)
		return err_set(err, EPERM, "the policy that was found gives the cell the cache '%s', but it was not named: read it, "
		               "then name it with -p; or use --cache, and ignore it with --no-policy", caches->at[0].name);
	for (size_t i = 0; i < caches->n; i++) {
		int r = caches->at[i].path[0] != '\0' ? run_check_inside(caches->at[i].path, err) : 0;

		if (r < 0)
			return err_wrap(err, "the policy's cache '%s'", caches->at[i].name);
		if (is_given(run, given, caches->at[i].name))
			continue;
		if (run->caches.n == POLICY_CACHES_MAX)
			return err_set(err, E2BIG, "--cache and the policy give more than %d caches", POLICY_CACHES_MAX);
		run->caches.at[run->caches.n++] = caches->at[i];
	}
	return 0;
}

/* ---- grants ---- */

int
run_grant_settings(struct run *run, struct volumes *v, const struct volume_use *use, const struct cache_kind *kind,
                   const char *path, struct err *err)
{
	OWN(freep) char *text = NULL, *inside = NULL;
	struct volume_use file = {0};
	int r;

	if (kind->settings == NULL)
		return 0;
	text = kind->settings(path);
	inside = str_format("%s.conf", path);
	if (text == NULL || inside == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = cache_put_settings(v, use, text, &file.tree, err);
	r = r == 0 ? run_grant_volume(run, &file, inside, NULL, err) : r;
	volume_use_free(&file);
	return r;
}

static int
check_kind(const struct run *run, size_t number, const struct policy_volume *cache, struct err *err)
{
	const struct cache_kind *kind = run->cache_kinds[number];
	char usual[sizeof(CACHE_PATH) + CACHE_NAME_MAX];

	for (size_t i = 0; i < number; i++)
		if (run->cache_kinds[i] == kind)
			return err_set(err, EEXIST, "the caches '%s' and '%s' are both of the kind %s, and its programs use only one: remove "
			               "one of them", run->caches.at[i].name, cache->name, kind->name);
	if (kind == run->fills)
		return err_set(err, EEXIST, "the cell fills a cache of the kind %s: remove --cache %s", kind->name, cache->name);
	snprintf(usual, sizeof(usual), CACHE_PATH "%s", cache->name);
	if (kind->settings != NULL && strcmp(cache->path, usual) != 0)
		return err_set(err, EINVAL, "a cache of the kind %s is always at '%s' in the cell: remove ':%s'", kind->name, usual,
		               cache->path);
	return 0;
}

static int
take(struct run *run, struct volumes *v, size_t number, struct err *err)
{
	OWN(volume_use_free) struct volume_use use = {0};
	OWN(freep) struct cache_version *version = calloc(1, sizeof(*version));
	OWN(freep) struct cache *known = calloc(1, sizeof(*known));
	OWN(freep) char *named = NULL;
	struct policy_volume *cache = &run->caches.at[number];
	int r = version == NULL || known == NULL ? err_set(err, ENOMEM, "out of memory") :
	        cache_load(v, cache->name, known, err);

	if (r < 0)
		return r;
	run->cache_kinds[number] = known->kind;
	if (cache->path[0] == '\0')
		snprintf(cache->path, sizeof(cache->path), CACHE_PATH "%s", cache->name);
	r = check_kind(run, number, cache, err);
	r = r == 0 ? cache_take(v, cache->name, cache->label, &use, version, err) : r;
	if (r < 0)
		return r;
	named = str_format("%s@%s", cache->name, version->hash);
	r = named == NULL ? err_set(err, ENOMEM, "out of memory") : run_grant_volume(run, &use, cache->path, named, err);
	return r == 0 ? run_grant_settings(run, v, &use, known->kind, cache->path, err) : r;
}

int
run_grant_caches(struct run *run, struct volumes *v, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < run->caches.n; i++)
		r = take(run, v, i, err);
	return r;
}

/* ---- variables ---- */

static int
put_variables(const struct run *run, const struct cache_kind *kind, const char *path, bool fills,
              int (*put)(void *arg, const char *name, const char *value), void *arg)
{
	int r = 0;

	for (const struct cache_variable *v = kind->variables; r == 0 && v->name != NULL; v++) {
		OWN(freep) char *value = str_format("%s%s", v->is_path ? path : "", v->value);

		if ((v->when == CACHE_FILLING && !fills) || (v->when == CACHE_OFFLINE && (fills || run->spec.has_policy)))
			continue;
		r = value == NULL ? -ENOMEM : put(arg, v->name, value);
	}
	return r;
}

int
run_put_cache_env(const struct run *run, int (*put)(void *arg, const char *name, const char *value), void *arg)
{
	int r = run->fills == NULL ? 0 : put_variables(run, run->fills, run->volumes.at[0].path, true, put, arg);

	for (size_t i = 0; r == 0 && i < run->caches.n; i++)
		r = put_variables(run, run->cache_kinds[i], run->caches.at[i].path, false, put, arg);
	return r;
}
