/* store_index.c - images: their names in index.json, and their documents. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "image/store_parts.h"

/* ---- writing ---- */

static json_t *
describe(const struct image_descriptor *d)
{
	json_t *o = json_pack("{s:s, s:s, s:I}", "mediaType", d->media_type, "digest", d->digest, "size",
	                      (json_int_t)d->size);
	json_t *platform = d->architecture[0] == '\0' ? NULL :
	                   json_pack("{s:s, s:s}", "os", d->os, "architecture", d->architecture);
	json_t *annotations = json_object();

	if (d->name != NULL)
		json_object_set_new(annotations, IMAGE_ANNOTATION_NAME, json_string(d->name));
	if (d->index[0] != '\0')
		json_object_set_new(annotations, IMAGE_ANNOTATION_INDEX, json_string(d->index));
	if (platform != NULL && d->variant[0] != '\0')
		json_object_set_new(platform, "variant", json_string(d->variant));
	if (platform != NULL)
		json_object_set_new(o, "platform", platform);
	if (json_object_size(annotations) > 0)
		json_object_set(o, "annotations", annotations);
	json_decref(annotations);
	return o;
}

/* By a new file, so that readers see the old index or the new one. */
static int
replace_index(const struct store *s, const char *text, size_t len, struct err *err)
{
	OWN(closep) int fd = -1;
	char name[STORE_NEW_MAX];
	int r = store_new_name(name, err);

	if (r < 0)
		return r;
	fd = openat(s->top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write to '%s'", s->path);
	r = write_all(fd, text, len, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(s->top, name, s->top, STORE_INDEX) < 0 || fsync(s->top) < 0))
		r = err_errno(err, "cannot write '%s/%s'", s->path, STORE_INDEX);
	if (r < 0)
		unlinkat(s->top, name, 0);
	return r;
}

int
store_write_index(struct store *s, const struct image_index *index, struct err *err)
{
	json_t *manifests = json_array();
	OWN(json_decrefp) json_t *top = json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
	                                          IMAGE_TYPE_OCI_INDEX, "manifests", manifests);
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	for (size_t i = 0; i < index->n; i++)
		if (json_array_append_new(manifests, describe(&index->list[i])) < 0)
			return err_set(err, ENOMEM, "out of memory");
	r = top == NULL ? err_set(err, ENOMEM, "out of memory") :
	    canon_dump(top, IMAGE_DOCUMENT_MAX, &text, &len, err);
	return r < 0 ? r : replace_index(s, text, len, err);
}

/* ---- reading ---- */

int
store_list(const struct store *s, struct image_index *ret_index, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = read_file_at(s->top, STORE_INDEX, IMAGE_DOCUMENT_MAX, &text, &len, err);

	if (r == 0)
		r = image_index_parse(text, len, ret_index, err);
	return r < 0 ? err_wrap(err, "the images of '%s'", s->path) : 0;
}

static bool
is_named(const struct image_descriptor *d, const char *name)
{
	return d->name != NULL && strcmp(d->name, name) == 0;
}

void
store_found_free(struct image_descriptor *found)
{
	free(found->name);
	*found = (struct image_descriptor){0};
}

int
store_find(const struct store *s, const char *name, struct image_descriptor *ret_found, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	int r = store_list(s, &index, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < index.n; i++)
		if (is_named(&index.list[i], name) || strcmp(index.list[i].digest, name) == 0) {
			*ret_found = index.list[i];
			index.list[i].name = NULL;
			return 0;
		}
	return err_set(err, ENOENT, "there is no image '%s' here", name);
}

/* ---- changing ---- */

/* Remove entry I. */
static void
cut(struct image_index *index, size_t i)
{
	free(index->list[i].name);
	memmove(&index->list[i], &index->list[i + 1], (index->n - i - 1) * sizeof(*index->list));
	index->n--;
}

static size_t
count(const struct image_index *index, const char *digest)
{
	size_t n = 0;

	for (size_t i = 0; i < index->n; i++)
		n += strcmp(index->list[i].digest, digest) == 0;
	return n;
}

/* Entry I has a name no more.  An image with other names needs no entry without one. */
static void
take_name(struct image_index *index, size_t i)
{
	free(index->list[i].name);
	index->list[i].name = NULL;
	index->list[i].index[0] = '\0';
	if (count(index, index->list[i].digest) > 1)
		cut(index, i);
}

static int
append(struct image_index *index, const struct image_descriptor *d, struct err *err)
{
	struct image_descriptor *list;

	if (index->n >= STORE_IMAGES_MAX)
		return err_set(err, E2BIG, "there are %d images already: see `cloister image remove`", STORE_IMAGES_MAX);
	list = reallocarray(index->list, index->n + 1, sizeof(*list));
	if (list == NULL)
		return err_set(err, ENOMEM, "out of memory");
	index->list = list;
	list[index->n] = *d;
	list[index->n].name = d->name == NULL ? NULL : strdup(d->name);
	if (d->name != NULL && list[index->n].name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	index->n++;
	return 0;
}

static int
put(struct image_index *index, const struct image_descriptor *d, struct err *err)
{
	for (size_t i = index->n; i-- > 0;)
		if (strcmp(index->list[i].digest, d->digest) == 0 && index->list[i].name == NULL)
			cut(index, i);
	for (size_t i = index->n; d->name != NULL && i-- > 0;)
		if (is_named(&index->list[i], d->name) && strcmp(index->list[i].digest, d->digest) == 0)
			cut(index, i);
		else if (is_named(&index->list[i], d->name))
			take_name(index, i);
	return d->name == NULL && count(index, d->digest) > 0 ? 0 : append(index, d, err);
}

static int
check_whole(const struct store *s, const char *digest, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	int r = store_load(s, digest, &image, err);

	for (size_t i = 0; r == 0 && i < image.manifest.n_layers; i++)
		if (!store_has_blob(s, image.manifest.layers[i].digest))
			r = err_set(err, ENOENT, "its layer %s is missing", image.manifest.layers[i].digest);
	return r;
}

int
store_set(struct store *s, const struct image_descriptor *descriptor, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(closep) int lock = -1;
	int r = check_whole(s, descriptor->digest, err);

	if (r < 0)
		return r;
	lock = store_lock(s, STORE_LOCK, LOCK_EX, err);
	r = lock < 0 ? lock : store_list(s, &index, err);
	if (r == 0)
		r = put(&index, descriptor, err);
	return r < 0 ? r : store_write_index(s, &index, err);
}

int
store_unset(struct store *s, const char *name, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(closep) int lock = store_lock(s, STORE_LOCK, LOCK_EX, err);
	int r = lock < 0 ? lock : store_list(s, &index, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < index.n; i++)
		if (is_named(&index.list[i], name)) {
			take_name(&index, i);
			return store_write_index(s, &index, err);
		}
	return err_set(err, ENOENT, "there is no image '%s' here", name);
}

int
store_drop(struct store *s, const char *digest, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(closep) int lock = store_lock(s, STORE_LOCK, LOCK_EX, err);
	int r = lock < 0 ? lock : store_list(s, &index, err);

	if (r < 0)
		return r;
	if (count(&index, digest) == 0)
		return err_set(err, ENOENT, "there is no image '%s' here", digest);
	if (store_is_used(s, digest))
		return err_set(err, EBUSY, "a running cell uses it");
	for (size_t i = index.n; i-- > 0;)
		if (strcmp(index.list[i].digest, digest) == 0)
			cut(&index, i);
	return store_write_index(s, &index, err);
}

/* ---- documents ---- */

int
store_load(const struct store *s, const char *digest, struct store_image *ret_image, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *manifest = NULL, *config = NULL;
	size_t len;
	int r = store_read_blob(s, digest, IMAGE_DOCUMENT_MAX, &manifest, &len, err);

	if (r == 0)
		r = image_manifest_parse(manifest, len, &image.manifest, err);
	if (r == 0)
		r = store_read_blob(s, image.manifest.config.digest, IMAGE_DOCUMENT_MAX, &config, &len, err);
	if (r == 0)
		r = image_config_parse(config, len, &image.config, err);
	if (r == 0)
		r = image_config_check(&image.config, &image.manifest, err);
	if (r < 0)
		return err_wrap(err, "the image %.19s", digest);
	memcpy(image.digest, digest, HASH_NAME + 1);
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}

void
store_image_free(struct store_image *image)
{
	image_manifest_free(&image->manifest);
	image_config_free(&image->config);
}
