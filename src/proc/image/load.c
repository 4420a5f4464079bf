/* load.c - brings images of files, folders and engines into the store. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "proc/image/image_proc.h"

#define LAYOUT_INDEX "index.json"
#define DOCKER_LIST "manifest.json"
#define DOCKER_LIST_MAX 256

static void
path_in_layout(const char *digest, char ret_path[IMAGE_REF_MAX])
{
	snprintf(ret_path, IMAGE_REF_MAX, "blobs/sha256/%s", digest + sizeof(HASH_PREFIX) - 1);
}

static void
path_in_dir(const char *digest, char ret_path[IMAGE_REF_MAX])
{
	snprintf(ret_path, IMAGE_REF_MAX, "%s", digest + sizeof(HASH_PREFIX) - 1);
}

int
load_manifest(struct store *s, const struct source *src, const char *text, size_t len, path_of_blob *path_of,
              struct image_descriptor *ret, struct err *err)
{
	OWN(image_manifest_free) struct image_manifest m = {0};
	char path[IMAGE_REF_MAX], digest[HASH_NAME + 1];
	int r = image_manifest_parse(text, len, &m, err);

	if (r < 0)
		return r;
	path_of(m.config.digest, path);
	r = source_store(src, path, m.config.digest, m.config.size, digest, err);
	for (size_t i = 0; r == 0 && i < m.n_layers; i++) {
		path_of(m.layers[i].digest, path);
		r = source_store(src, path, m.layers[i].digest, m.layers[i].size, digest, err);
	}
	if (r == 0)
		r = store_put_blob(s, text, len, ret->digest, err);
	ret->size = len;
	memcpy(ret->media_type, m.media_type, sizeof(m.media_type));
	return r;
}

/* ---- OCI layouts ---- */

/* A document by its descriptor. */
static int
read_document(const struct source *src, const struct image_descriptor *d, char **ret_text, size_t *ret_len,
              struct err *err)
{
	OWN(freep) char *text = NULL;
	char path[IMAGE_REF_MAX], name[HASH_NAME + 1];
	unsigned char hash[HASH_LEN];
	int r;

	path_in_layout(d->digest, path);
	r = source_read(src, path, &text, ret_len, err);
	if (r < 0)
		return r;
	hash_of(text, *ret_len, hash);
	hash_name(hash, name);
	if (strcmp(name, d->digest) != 0)
		return err_set(err, EBADMSG, "its file '%s' has the digest %s", path, name);
	*ret_text = TAKE(text);
	return 0;
}

static int
choose(const struct image_index *index, const char *tag, const struct image_descriptor **ret, struct err *err)
{
	if (tag[0] == '\0' && index->n == 1) {
		*ret = &index->list[0];
		return 0;
	}
	if (tag[0] == '\0')
		return err_set(err, EINVAL, "it has %zu images: name one as its tag", index->n);
	for (size_t i = 0; i < index->n; i++)
		if (index->list[i].name != NULL && strcmp(index->list[i].name, tag) == 0) {
			*ret = &index->list[i];
			return 0;
		}
	return err_set(err, ENOENT, "it has no image '%.100s'", tag);
}

/* From an index of platforms to the manifest for this one. */
static int
descend(struct store *s, const struct source *src, char **text, size_t *len, struct image_descriptor *ret,
        struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	const struct image_descriptor *chosen;
	int r = image_index_parse(*text, *len, &index, err);

	if (r == 0)
		r = image_index_choose(&index, image_architecture(), &chosen, err);
	if (r == 0)
		r = store_put_blob(s, *text, *len, ret->index, err);
	if (r < 0)
		return r;
	free(TAKE(*text));
	return read_document(src, chosen, text, len, err);
}

/* Only a text that names a registry or has a tag is a name: others are tags of the layout's own.  One with a digest is
 * none: the image has its own. */
static int
bring_name(const char *text, struct image_descriptor *ret, struct err *err)
{
	struct image_name name;

	if (text == NULL || strpbrk(text, ":/") == NULL || image_name_parse_new(text, &name, NULL) < 0)
		return 0;
	ret->name = strdup(name.full);
	return ret->name == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
load_layout(struct store *s, const struct source *src, const char *tag, struct image_descriptor *ret,
            struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(freep) char *list = NULL, *text = NULL;
	const struct image_descriptor *d = NULL;
	enum image_document kind;
	size_t len;
	int r = source_read(src, LAYOUT_INDEX, &list, &len, err);

	if (r == 0)
		r = image_index_parse(list, len, &index, err);
	if (r == 0)
		r = choose(&index, tag, &d, err);
	if (r == 0)
		r = read_document(src, d, &text, &len, err);
	if (r == 0)
		r = image_document_kind(text, len, d->media_type, &kind, err);
	if (r == 0 && kind == IMAGE_DOCUMENT_INDEX)
		r = descend(s, src, &text, &len, ret, err);
	if (r == 0)
		r = load_manifest(s, src, text, len, path_in_layout, ret, err);
	return r < 0 ? r : bring_name(d->name, ret, err);
}

/* ---- folders of skopeo's ---- */

int
load_dir(struct store *s, const struct source *src, struct image_descriptor *ret, struct err *err)
{
	OWN(freep) char *text = NULL;
	enum image_document kind;
	size_t len;
	int r = source_read(src, DOCKER_LIST, &text, &len, err);

	if (r == 0)
		r = image_document_kind(text, len, NULL, &kind, err);
	if (r == 0 && kind != IMAGE_DOCUMENT_MANIFEST)
		r = err_set(err, ENOTSUP, "it has several images: copy one without `--all`");
	return r < 0 ? r : load_manifest(s, src, text, len, path_in_dir, ret, err);
}

/* ---- docker save ---- */

static bool
is_tagged(const json_t *image, const struct image_name *wanted)
{
	const json_t *tags = json_object_get(image, "RepoTags");
	struct image_name name;

	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *tag = json_string_value(json_array_get(tags, i));

		if (tag != NULL && image_name_parse(tag, &name, NULL) == 0 && strcmp(name.full, wanted->full) == 0)
			return true;
	}
	return false;
}

static int
choose_docker(const json_t *list, const struct image_name *name, const json_t **ret_image, struct err *err)
{
	const size_t n = json_array_size(list);

	if (!json_is_array(list) || n == 0 || n > DOCKER_LIST_MAX)
		return err_set(err, EBADMSG, "its '%s' lists no images", DOCKER_LIST);
	if (name->full[0] == '\0' && n > 1)
		return err_set(err, EINVAL, "it has %zu images: name one behind a colon", n);
	for (size_t i = 0; i < n; i++)
		if (name->full[0] == '\0' || is_tagged(json_array_get(list, i), name)) {
			*ret_image = json_array_get(list, i);
			return 0;
		}
	/* An engine lists an image that was asked for by its id without names. */
	if (n == 1 && json_array_size(json_object_get(json_array_get(list, 0), "RepoTags")) == 0) {
		*ret_image = json_array_get(list, 0);
		return 0;
	}
	return err_set(err, ENOENT, "it has no image '%s'", name->full);
}

static int
describe_blob(json_t *into, const char *key, const char *type, const char *digest, const struct store *s,
              struct err *err)
{
	OWN(closep) int fd = -1;
	uint64_t size = 0;
	json_t *d;

	fd = store_open_blob(s, digest, &size, err);
	if (fd < 0)
		return fd;
	d = json_pack("{s:s, s:I, s:s}", "mediaType", type, "size", (json_int_t)size, "digest", digest);
	if (key != NULL ? json_object_set_new(into, key, d) < 0 : json_array_append_new(into, d) < 0)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int
store_docker_layer(const struct source *src, const json_t *path, const char *diff_id, char ret_digest[HASH_NAME + 1],
                   struct err *err)
{
	if (!json_is_string(path))
		return err_set(err, EBADMSG, "its '%s' has a layer without a path", DOCKER_LIST);
	/* Layers are plain archives there, so that a diff id is their digest.  If it is not, it is compressed, and
	 * its contents are checked as it is unpacked. */
	if (store_has_blob(src->store, diff_id)) {
		memcpy(ret_digest, diff_id, HASH_NAME + 1);
		return 0;
	}
	return source_store(src, json_string_value(path), NULL, STORE_SIZE_ANY, ret_digest, err);
}

/* The manifest that skopeo makes of such an image, byte by byte, so that both agree on its digest. */
static int
make_manifest(struct store *s, const struct source *src, const json_t *image, json_t *m, struct err *err)
{
	const json_t *paths = json_object_get(image, "Layers");
	const char *config_path = json_string_value(json_object_get(image, "Config"));
	OWN(image_config_free) struct image_config config = {0};
	OWN(freep) char *text = NULL;
	char digest[HASH_NAME + 1];
	json_t *layers = json_array();
	size_t len;
	int r = config_path == NULL ? err_set(err, EBADMSG, "its '%s' names no configuration", DOCKER_LIST) :
	        source_read(src, config_path, &text, &len, err);

	if (r == 0)
		r = image_config_parse(text, len, &config, err);
	if (r == 0 && json_array_size(paths) != config.n_diff_ids)
		r = err_set(err, EBADMSG, "its '%s' has %zu layers, and its configuration %zu", DOCKER_LIST,
		            json_array_size(paths), config.n_diff_ids);
	if (r == 0)
		r = store_put_blob(s, text, len, digest, err);
	if (r == 0)
		r = describe_blob(m, "config", IMAGE_TYPE_DOCKER_CONFIG, digest, s, err);
	for (size_t i = 0; r == 0 && i < config.n_diff_ids; i++) {
		r = store_docker_layer(src, json_array_get(paths, i), config.diff_ids[i], digest, err);
		if (r == 0)
			r = describe_blob(layers, NULL, IMAGE_TYPE_DOCKER_LAYER_GZIP, digest, s, err);
	}
	if (json_object_set_new(m, "layers", layers) < 0)
		r = err_set(err, ENOMEM, "out of memory");
	return r;
}

int
load_docker(struct store *s, const struct source *src, const struct image_name *name, struct image_descriptor *ret,
            struct err *err)
{
	OWN(json_decrefp) json_t *list = NULL;
	OWN(json_decrefp) json_t *m = json_pack("{s:i, s:s}", "schemaVersion", 2, "mediaType", IMAGE_TYPE_DOCKER_MANIFEST);
	OWN(freep) char *text = NULL, *manifest = NULL;
	const json_t *image = NULL;
	size_t len;
	int r = source_read(src, DOCKER_LIST, &text, &len, err);

	if (r == 0)
		r = canon_read(text, len, &list, err);
	if (r == 0)
		r = choose_docker(list, name, &image, err);
	if (r == 0)
		r = make_manifest(s, src, image, m, err);
	if (r < 0)
		return r;
	manifest = json_dumps(m, JSON_COMPACT | JSON_PRESERVE_ORDER);
	if (manifest == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = store_put_blob(s, manifest, strlen(manifest), ret->digest, err);
	ret->size = strlen(manifest);
	snprintf(ret->media_type, sizeof(ret->media_type), "%s", IMAGE_TYPE_DOCKER_MANIFEST);
	return r < 0 ? r : bring_name(name->full[0] != '\0' ? name->full :
	                              json_string_value(json_array_get(json_object_get(image, "RepoTags"), 0)), ret, err);
}

/* ---- all of them ---- */

static int
load_source(struct store *s, const struct image_ref *ref, struct image_descriptor *d, struct err *err)
{
	OWN(source_close) struct source src = { .dir = -1 };
	int r = source_open(s, ref, &src, err);

	if (r < 0)
		return r;
	src.store = s;
	/* A new engine's archive is both; its layout has several platforms where the list has one. */
	if (source_has(&src, DOCKER_LIST) && ref->kind != IMAGE_REF_OCI && ref->kind != IMAGE_REF_OCI_ARCHIVE &&
	    ref->kind != IMAGE_REF_DIR)
		return load_docker(s, &src, &ref->name, d, err);
	if (ref->kind == IMAGE_REF_OCI_ARCHIVE && !source_has(&src, LAYOUT_INDEX) && source_has(&src, DOCKER_LIST))
		return err_set(err, EINVAL, "it is an archive of `docker save`: write docker-archive:%.200s", ref->path);
	return ref->kind == IMAGE_REF_DIR ? load_dir(s, &src, d, err) :
	       load_layout(s, &src, ref->kind == IMAGE_REF_CONTAINERS_STORAGE ? "" : ref->tag, d, err);
}

static int
keep(struct store *s, const struct image_descriptor *d, struct store_image *ret_image, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	int r = store_load(s, d->digest, &image, err);

	if (r == 0)
		r = unpack_image(s, &image, err);
	if (r == 0)
		r = store_set(s, d, err);
	if (r < 0)
		return r;
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}

int
image_load(struct store *s, const struct image_ref *ref, const char *name, struct store_image *ret_image,
           char **ret_name, struct err *err)
{
	OWN(store_found_free) struct image_descriptor d = {0};
	struct store_swept swept;
	int adding = store_adding(s, err), r = adding < 0 ? adding : load_source(s, ref, &d, err);

	if (r == 0 && d.name == NULL && ref->kind == IMAGE_REF_CONTAINERS_STORAGE)
		r = bring_name(ref->name.full, &d, err);
	if (r == 0 && name != NULL) {
		free(d.name);
		d.name = name[0] == '\0' ? NULL : strdup(name);
		r = name[0] != '\0' && d.name == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (r == 0)
		r = keep(s, &d, ret_image, err);
	closep(&adding);
	/* Nothing stays of an image that could not be loaded. */
	if (r < 0)
		(void)store_sweep(s, false, NULL, &swept, NULL);
	else
		*ret_name = TAKE(d.name);
	return r;
}
