/* cache_commands.c - the verbs of `cloister cache`, and the end of a filling. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/operator.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/since.h"
#include "proc/volume/volume_proc.h"

#define SHORT 12                        /* digits of a hash that are printed */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static int
note(const char *type, const char *name, const char *detail, const char *value, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "cache", .text = name }, { .name = detail != NULL ? detail : "detail", .text = value },
	};

	return operator_note(type, members, detail != NULL ? 2 : 1, err);
}

static int
sweep(struct volumes *v, struct err *err)
{
	struct volume_swept swept;

	return volume_sweep(v, &swept, err);
}

/* "NAME" or "NAME@VERSION". */
static int
parse(const char *word, char ret_name[CACHE_NAME_MAX + 1], const char **ret_version, struct err *err)
{
	const char *at = strchr(word, '@');
	const size_t len = at != NULL ? (size_t)(at - word) : strlen(word);

	*ret_version = at != NULL ? at + 1 : "";
	snprintf(ret_name, CACHE_NAME_MAX + 1, "%.*s", (int)(len <= CACHE_NAME_MAX ? len : 0), word);
	if (!cache_name_ok(ret_name) || (at != NULL && at[1] == '\0'))
		return err_set(err, EINVAL, "'%.100s' is not NAME or NAME@VERSION", word);
	return 0;
}

static int
load(struct volumes *v, const char *word, struct cache *ret_cache, const char **ret_version, struct err *err)
{
	char name[CACHE_NAME_MAX + 1];
	int r = parse(word, name, ret_version, err);

	return r < 0 ? r : cache_load(v, name, ret_cache, err);
}

/* ---- output ---- */

static void
put_time(struct json *w, const char *key, uint64_t ms)
{
	char text[SINCE_TEXT_MAX];

	since_format(ms, text);
	json_str(w, key, text);
}

static void
put_hosts(struct json *w, const char *hosts)
{
	char host[CACHE_HOSTS_MAX + 1];

	json_open(w, "hosts", '[');
	for (size_t n; *hosts != '\0'; hosts += n + (hosts[n] == ' ')) {
		n = strcspn(hosts, " ");
		snprintf(host, sizeof(host), "%.*s", (int)n, hosts);
		json_str(w, NULL, host);
	}
	json_close(w, ']');
}

static void
put_version(struct json *w, const char *key, const struct volumes *v, const struct cache_version *version)
{
	json_open(w, key, '{');
	json_str(w, "hash", version->hash);
	json_u64(w, "bytes", version->bytes);
	json_u64(w, "entries", version->entries);
	put_time(w, "filled", version->made_ms);
	json_u64(w, "uid", version->uid);
	json_str(w, "cell", version->cell);
	json_str(w, "command", version->command);
	put_hosts(w, version->hosts);
	json_str(w, "tree", version->tree);
	json_bool(w, "in_use", cache_version_is_used(v, version));
	json_close(w, '}');
}

static void
put_cache(struct json *w, const struct volumes *v, const struct cache *cache)
{
	json_open(w, NULL, '{');
	json_str(w, "name", cache->name);
	json_str(w, "kind", cache->kind->name);
	json_str(w, "current", cache->current);
	json_u64(w, "size", cache->size);
	put_time(w, "used", cache->used_ms);
	if (cache->ttl_ms == 0) {
		json_none(w, "ttl_ms");
		json_none(w, "expires");
	} else {
		json_u64(w, "ttl_ms", cache->ttl_ms);
		put_time(w, "expires", cache->used_ms + cache->ttl_ms);
	}
	json_bool(w, "expired", cache_is_over(v, cache, since_now_ms()));
	json_bool(w, "in_use", cache_is_used(v, cache));
	json_open(w, "versions", '[');
	for (size_t i = 0; i < cache->n; i++)
		put_version(w, NULL, v, &cache->versions[i]);
	json_close(w, ']');
	json_close(w, '}');
}

static void
print_json(const struct volumes *v, const struct cache *cache)
{
	struct json w = { .out = stdout };

	put_cache(&w, v, cache);
	putchar('\n');
}

static const char *
state_of(const struct volumes *v, const struct cache *cache)
{
	return cache_is_used(v, cache) ? "in use" : cache_is_over(v, cache, since_now_ms()) ? "expired" : "-";
}

static void
print_row(const struct volumes *v, const struct cache *cache)
{
	const struct cache_version *current = NULL;
	const uint64_t now = since_now_ms();
	char bytes[NUM_TEXT_MAX], age[NUM_TEXT_MAX];

	(void)cache_find(cache, "", &current, NULL);
	num_format_age(age, now > cache->used_ms ? now - cache->used_ms : 0);
	printf("%-20s  %-5s  %.12s  %8s  %8llu  %8zu  %8s  %s\n", cache->name, cache->kind->name, current->hash,
	       num_format_size(bytes, current->bytes), (unsigned long long)current->entries, cache->n, age, state_of(v, cache));
}

static void
print_version(const struct volumes *v, const struct cache *cache, const struct cache_version *version)
{
	char bytes[NUM_TEXT_MAX], time[SINCE_TEXT_MAX];

	since_format(version->made_ms, time);
	printf("\nversion:   %s%s%s\n", version->hash, strcmp(version->hash, cache->current) == 0 ? "  (current)" : "",
	       cache_version_is_used(v, version) ? "  (in use)" : "");
	printf("size:      %s, %llu entries\n", num_format_size(bytes, version->bytes), (unsigned long long)version->entries);
	printf("filled:    %s by uid %llu, in cell %s\n", time, (unsigned long long)version->uid, version->cell);
	printf("command:   %s\n", version->command);
	printf("hosts:     %s\n", version->hosts[0] != '\0' ? version->hosts : "none");
}

/* ---- verbs ---- */

int
cmd_cache_list(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	OWN(strv_freep) char **names = NULL;
	const bool json = args_get(args, "json") != NULL;
	struct json w = { .out = stdout };
	int r = cache == NULL ? no_memory(err) : cache_list(v, &names, err);

	if (r < 0)
		return r;
	if (json)
		json_open(&w, NULL, '[');
	else if (names[0] != NULL)
		printf("%-20s  %-5s  %-12s  %8s  %8s  %8s  %8s  %s\n", "CACHE", "KIND", "VERSION", "BYTES", "ENTRIES", "VERSIONS",
		       "USED", "STATE");
	for (char **name = names; *name != NULL; name++) {
		struct err why = {0};

		/* One that cannot be read does not hide the others. */
		if (cache_load(v, *name, cache, &why) < 0)
			fprintf(stderr, "cloister: %s\n", why.text);
		else if (json)
			put_cache(&w, v, cache);
		else
			print_row(v, cache);
	}
	if (json) {
		json_close(&w, ']');
		putchar('\n');
	} else if (names[0] == NULL) {
		fputs("there are no caches: `cloister cache fill NAME --kind KIND -- CMD` makes one\n", stderr);
	}
	return 0;
}

int
cmd_cache_show(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	const struct cache_version *only = NULL;
	const char *version;
	char size[NUM_TEXT_MAX], time[SINCE_TEXT_MAX];
	int r = cache == NULL ? no_memory(err) : load(v, args->words[1], cache, &version, err);

	if (r == 0 && version[0] != '\0')
		r = cache_find(cache, version, &only, err);
	if (r < 0)
		return r;
	if (args_get(args, "json") != NULL) {
		print_json(v, cache);
		return 0;
	}
	since_format(cache->used_ms, time);
	printf("cache:     %s\nkind:      %s\nsize:      at most %s\nlast used: %s\nstate:     %s\n", cache->name,
	       cache->kind->name, num_format_size(size, cache->size), time, state_of(v, cache));
	for (size_t i = cache->n; i-- > 0;)
		if (only == NULL || only == &cache->versions[i])
			print_version(v, cache, &cache->versions[i]);
	return 0;
}

/* With --json, the cache as it is now. */
static int
finish(struct volumes *v, const struct args *args, const char *name, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	int r = cache == NULL ? no_memory(err) : 0;

	if (r < 0 || args_get(args, "json") == NULL)
		return r;
	r = cache_load(v, name, cache, err);
	if (r == 0)
		print_json(v, cache);
	return r;
}

int
cmd_cache_use(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	const struct cache_version *version = NULL;
	const char *none;
	int r = cache == NULL ? no_memory(err) : load(v, args->words[1], cache, &none, err);

	if (r == 0 && none[0] != '\0')
		r = err_set(err, EINVAL, "give the name and the version as two words: `cloister cache use %s %.80s`", cache->name, none);
	r = r == 0 ? cache_find(cache, args->words[2][0] != '\0' ? args->words[2] : "-", &version, err) : r;
	r = r == 0 ? cache_use(v, cache->name, version->hash, err) : r;
	r = r == 0 ? note("cache.used", cache->name, "hash", version->hash, err) : r;
	return r < 0 ? r : finish(v, args, cache->name, err);
}

int
cmd_cache_remove(struct volumes *v, const struct args *args, struct err *err)
{
	char name[CACHE_NAME_MAX + 1];
	const char *version;
	int r = 0;

	for (size_t i = 1; r == 0 && i < args->n_words; i++) {
		r = parse(args->words[i], name, &version, err);
		if (r == 0)
			r = version[0] != '\0' ? cache_remove_version(v, name, version, err) : cache_remove(v, name, false, err);
		if (r == 0)
			r = note("cache.removed", name, version[0] != '\0' ? "hash" : NULL, version, err);
	}
	return r < 0 ? r : sweep(v, err);
}

struct pruned {
	char **names;                   /* of removed caches; borrowed */
	uint64_t versions;
};

static int
prune_one(struct volumes *v, char *name, struct pruned *pruned, size_t *n, struct err *err)
{
	uint64_t removed = 0;
	struct err why = {0};
	int r = cache_remove(v, name, true, &why);

	if (r == 0) {
		pruned->names[(*n)++] = name;
		return note("cache.removed", name, "why", "ttl", err);
	}
	r = r == -EAGAIN ? cache_prune(v, name, &removed, &why) : r;
	pruned->versions += removed;
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return err_set(err, why.code, "%s", why.text);
	return removed > 0 ? note("cache.removed", name, "why", "unused", err) : 0;
}

int
cmd_cache_prune(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(strv_freep) char **names = NULL;
	OWN(freep) char **removed = calloc(CACHES_MAX + 1, sizeof(*removed));
	struct pruned pruned = { .names = removed };
	struct volume_swept swept = {0};
	struct json w = { .out = stdout };
	char bytes[NUM_TEXT_MAX];
	size_t n = 0;
	int r = removed == NULL ? no_memory(err) : cache_list(v, &names, err);

	for (size_t i = 0; r == 0 && names[i] != NULL; i++)
		r = prune_one(v, names[i], &pruned, &n, err);
	r = r == 0 ? cache_prune_fills(v, err) : r;
	r = r == 0 ? volume_sweep(v, &swept, err) : r;
	if (r < 0)
		return r;
	if (args_get(args, "json") == NULL) {
		printf("removed %zu cache%s, %llu version%s and %s\n", n, n == 1 ? "" : "s", (unsigned long long)pruned.versions,
		       pruned.versions == 1 ? "" : "s", num_format_size(bytes, swept.bytes));
		return 0;
	}
	json_open(&w, NULL, '{');
	json_strv(&w, "removed", (const char *const *)removed);
	json_u64(&w, "versions", pruned.versions);
	json_u64(&w, "bytes", swept.bytes);
	json_close(&w, '}');
	putchar('\n');
	return 0;
}

struct verifying {
	struct volumes *v;
	struct json *json;              /* or NULL */
	size_t bad;
};

static void
verify_version(struct verifying *t, const struct cache *cache, const struct cache_version *version)
{
	struct err why = {0};
	const bool sound = cache_verify(t->v, cache, version, &why) == 0;

	t->bad += !sound;
	if (t->json != NULL) {
		json_open(t->json, NULL, '{');
		json_str(t->json, "name", cache->name);
		json_str(t->json, "hash", version->hash);
		json_bool(t->json, "sound", sound);
		json_close(t->json, '}');
	} else if (sound) {
		printf("%s@%.*s: sound\n", cache->name, SHORT, version->hash);
	}
	if (!sound)
		fprintf(stderr, "cloister: %s\n", why.text);
}

static int
verify_word(struct verifying *t, const char *word, struct err *err)
{
	OWN(freep) struct cache *cache = calloc(1, sizeof(*cache));
	const struct cache_version *only = NULL;
	const char *version;
	int r = cache == NULL ? no_memory(err) : load(t->v, word, cache, &version, err);

	if (r == 0 && version[0] != '\0')
		r = cache_find(cache, version, &only, err);
	for (size_t i = 0; r == 0 && i < cache->n; i++)
		if (only == NULL || only == &cache->versions[i])
			verify_version(t, cache, &cache->versions[i]);
	return r;
}

int
cmd_cache_verify(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(strv_freep) char **all = NULL;
	const bool json = args_get(args, "json") != NULL;
	struct json w = { .out = stdout };
	struct verifying t = { v, json ? &w : NULL, 0 };
	int r = args->n_words > 1 ? 0 : cache_list(v, &all, err);
	char *const *words = args->n_words > 1 ? args->words + 1 : all;

	if (r < 0)
		return r;
	if (json)
		json_open(&w, NULL, '[');
	for (; r == 0 && *words != NULL; words++)
		r = verify_word(&t, *words, err);
	if (json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return r < 0 ? r : t.bad > 0 ? 1 : 0;
}

/* ---- the end of a filling ---- */

static bool
is_printable(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

int
volume_do_keep(struct volumes *v, char *const *words, struct err *err)
{
	OWN(freep) struct cache_version *made = calloc(1, sizeof(*made));
	struct cache_fill fill = { .volume = words[0], .name = words[1], .kind = cache_kind_find(words[2]),
		.has_ttl = words[3][0] != '\0', .cell = words[4], .command = words[5], .hosts = words[6] };
	char bytes[NUM_TEXT_MAX];
	bool new = false;
	int r = made == NULL ? no_memory(err) : 0;

	if (strncmp(fill.volume, CACHE_FILL, sizeof(CACHE_FILL) - 1) != 0 || strlen(fill.volume) > VOLUME_NAME_MAX ||
	    !volume_name_ok(fill.volume + sizeof(CACHE_FILL) - 1) || !cache_name_ok(fill.name) || fill.kind == NULL ||
	    !is_printable(fill.command) || !is_printable(fill.hosts) || !is_printable(fill.cell))
		return err_set(err, EINVAL, "cloister-volume is started by cloister only");
	if (r == 0 && fill.has_ttl)
		r = num_parse_duration(words[3], &fill.ttl_ms, err);
	r = r == 0 ? cache_keep(v, &fill, made, &new, err) : r;
	if (r == 0) {
		struct audit_member members[] = { { .name = "cache", .text = fill.name }, { .name = "cell", .text = fill.cell },
			{ .name = "hash", .text = made->hash } };

		r = operator_note("cache.filled", members, 3, err);
	}
	if (r == 0)
		fprintf(stderr, "cloister: the cache '%s' is at %.*s: %s, %llu entries%s\n", fill.name, SHORT, made->hash,
		        num_format_size(bytes, made->bytes), (unsigned long long)made->entries,
		        new ? "" : ", the same as before");
	if (r == 0)
		r = sweep(v, err);
	return r;
}
