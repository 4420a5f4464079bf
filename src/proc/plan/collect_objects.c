/* collect_objects.c - the registered objects of a plan, and the files of capabilities. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "canon/canon.h"
#include "proc/plan/plan_proc.h"
#include "registry/object.h"

struct collecting {
	struct registry *r;
	int data;
	json_t *known;                  /* "KIND HASH": its entry of the plan */
	struct err *err;
};

static int add_version(struct collecting *c, const struct registry_version *v, json_t *content, bool newest);

/* Whatever in CONTENT has the form of a pinned version is looked up as each kind. */
static int
add_pinned(struct collecting *c, json_t *value)
{
	struct registry_ref ref;
	const char *name;
	json_t *item;
	size_t i;
	int r = 0;

	if (json_is_array(value)) {
		json_array_foreach(value, i, item)
			if (r == 0)
				r = add_pinned(c, item);
	} else if (json_is_object(value)) {
		json_object_foreach(value, name, item)
			if (r == 0)
				r = add_pinned(c, item);
	}
	if (!json_is_string(value) || registry_ref_parse(json_string_value(value), false, &ref, NULL) < 0 || ref.hash[0] == '\0')
		return r;
	for (enum registry_kind kind = 0; r == 0 && kind < REGISTRY_KINDS; kind++) {
		OWN(json_decrefp) json_t *content = NULL;
		struct registry_version v;

		if (registry_resolve(c->r, kind, json_string_value(value), REGISTRY_LIVE, &v, &content, NULL) == 0)
			r = add_version(c, &v, content, false);
	}
	return r;
}

static int
keep_files(struct collecting *c, const json_t *files)
{
	const json_t *file;
	size_t i;

	json_array_foreach(files, i, file) {
		const char *name = json_string_value(json_object_get(file, "hash"));
		OWN(closep) int fd = registry_open_blob(c->r, name, c->err);
		char hash[HASH_HEX + 1];
		int r = fd < 0 ? fd : plan_keep_file(c->data, fd, hash, c->err);

		if (r < 0)
			return r;
		if (strcmp(hash, name + strlen(HASH_PREFIX)) != 0)
			return err_set(c->err, EUCLEAN, "the blob %s of the registry is damaged", name);
	}
	return 0;
}

static int
add_version(struct collecting *c, const struct registry_version *v, json_t *content, bool newest)
{
	OWN(freep) char *text = NULL;
	char key[HASH_NAME + 32];
	json_t *entry;
	size_t len;
	int r;

	snprintf(key, sizeof(key), "%d %s", (int)v->kind, v->hash);
	entry = json_object_get(c->known, key);
	if (entry != NULL) {
		if (newest)
			json_object_set_new(entry, "newest", json_true());
		return 0;
	}
	r = canon_dump(content, OBJECT_TEXT_MAX, &text, &len, c->err);
	if (r < 0)
		return r;
	entry = json_pack("{s:s,s:s,s:s,s:s,s:b}", "content", text, "hash", v->hash, "kind", registry_kinds[v->kind], "name",
	                  v->name, "newest", (int)newest);
	if (json_object_set_new(c->known, key, entry) < 0)
		return err_set(c->err, ENOMEM, "out of memory");
	r = c->data >= 0 && v->kind == REGISTRY_CAPABILITY ? keep_files(c, json_object_get(content, "files")) : 0;
	return r == 0 ? add_pinned(c, content) : r;
}

static int
add_kind(struct collecting *c, enum registry_kind kind)
{
	char after[REGISTRY_NAME_MAX + 1] = "", ref[REGISTRY_REF_MAX + 1];
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		OWN(registry_page_free) struct registry_page page = {0};

		r = registry_list(c->r, kind, REGISTRY_LIVE, after, REGISTRY_PAGE_MAX, &page, c->err);
		for (size_t i = 0; r == 0 && i < page.n; i++) {
			OWN(json_decrefp) json_t *content = NULL;
			struct registry_version v;

			snprintf(ref, sizeof(ref), "%s@%s", page.at[i].name, page.at[i].hash);
			r = registry_resolve(c->r, kind, ref, REGISTRY_LIVE, &v, &content, c->err);
			r = r == 0 ? add_version(c, &v, content, true) : r;
		}
		more = page.more;
		if (page.n > 0)
			snprintf(after, sizeof(after), "%s", page.at[page.n - 1].name);
	}
	return r;
}

static int
kind_of(const json_t *entry)
{
	const char *kind = json_string_value(json_object_get(entry, "kind"));
	int i = 0;

	while (i < REGISTRY_KINDS && strcmp(registry_kinds[i], kind) != 0)
		i++;
	return i;
}

static const char *
text_of(const json_t *entry, const char *key)
{
	return json_string_value(json_object_get(entry, key));
}

/* As plan_read.c wants them. */
static int
compare(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int order = kind_of(x) - kind_of(y), newest = json_is_true(json_object_get(x, "newest"));

	order = order != 0 ? order : strcmp(text_of(x, "name"), text_of(y, "name"));
	order = order != 0 ? order : newest - json_is_true(json_object_get(y, "newest"));
	return order != 0 ? order : strcmp(text_of(x, "hash"), text_of(y, "hash"));
}

int
collect_objects(json_t *list, int data, struct err *err)
{
	OWN(registry_closep) struct registry *registry = NULL;
	OWN(json_decrefp) json_t *known = json_object();
	struct collecting c = { .data = data, .known = known, .err = err };
	OWN(freep) json_t **sorted = NULL;
	const char *key;
	json_t *entry;
	size_t n = 0;
	int r = registry_open(false, &registry, err);

	if (r == -ENOENT)
		return 0;
	c.r = registry;
	for (enum registry_kind kind = 0; r == 0 && kind < REGISTRY_KINDS; kind++)
		r = add_kind(&c, kind);
	sorted = calloc(json_object_size(known) + 1, sizeof(*sorted));
	if (r < 0 || sorted == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	json_object_foreach(known, key, entry)
		sorted[n++] = entry;
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 0; i < n; i++)
		if (json_array_append(list, sorted[i]) < 0)
			return err_set(err, ENOMEM, "out of memory");
	return 0;
}
