/* manifest.c - see manifest.h. */
#include "image/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "canon/canon.h"

/* ---- members ---- */

static int
read_object(const char *text, size_t len, const char *what, json_t **ret_value, struct err *err)
{
	OWN(json_decrefp) json_t *value = NULL;
	int r;

	if (len > IMAGE_DOCUMENT_MAX)
		return err_set(err, EFBIG, "its %s is over %u MiB", what, IMAGE_DOCUMENT_MAX >> 20);
	r = canon_read(text, len, &value, err);
	if (r < 0)
		return err_wrap(err, "its %s", what);
	if (!json_is_object(value))
		return err_set(err, EBADMSG, "its %s is no JSON object", what);
	*ret_value = TAKE(value);
	return 0;
}

/* A word without control characters; absent and null are "". */
static int
get_text(const json_t *object, const char *key, char ret_text[IMAGE_TEXT_MAX + 1], struct err *err)
{
	const json_t *member = json_object_get(object, key);
	const char *text = json_string_value(member);

	ret_text[0] = '\0';
	if (member == NULL || json_is_null(member))
		return 0;
	if (text == NULL || strlen(text) > IMAGE_TEXT_MAX)
		return err_set(err, EBADMSG, "'%s' is no text of at most %d bytes", key, IMAGE_TEXT_MAX);
	for (const char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return err_set(err, EBADMSG, "'%s' has control characters", key);
	memcpy(ret_text, text, strlen(text) + 1);
	return 0;
}

static int
get_digest(const char *text, char ret_digest[HASH_NAME + 1], struct err *err)
{
	unsigned char hash[HASH_LEN];

	if (text == NULL || !hash_parse_name(text, hash))
		return err_set(err, EBADMSG, "a digest is not 'sha256:' and 64 digits");
	memcpy(ret_digest, text, HASH_NAME + 1);
	return 0;
}

/* ---- descriptors ---- */

static int
read_annotations(const json_t *object, struct image_descriptor *d, struct err *err)
{
	const json_t *annotations = json_object_get(object, "annotations");
	const char *name = json_string_value(json_object_get(annotations, IMAGE_ANNOTATION_NAME));
	const char *index = json_string_value(json_object_get(annotations, IMAGE_ANNOTATION_INDEX));

	if (name != NULL && strlen(name) > IMAGE_DOCUMENT_MAX / 1024)
		return err_set(err, EBADMSG, "a name is over %u bytes long", IMAGE_DOCUMENT_MAX / 1024);
	if (name != NULL && (d->name = strdup(name)) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	/* Anybody may have written these. */
	if (get_text(annotations, IMAGE_ANNOTATION_CELL, d->cell, NULL) < 0 ||
	    get_text(annotations, IMAGE_ANNOTATION_POLICY, d->policy, NULL) < 0 ||
	    get_text(annotations, IMAGE_ANNOTATION_TIMELINE, d->timeline, NULL) < 0)
		d->cell[0] = '\0';
	return index == NULL ? 0 : get_digest(index, d->index, err);
}

static int
read_platform(const json_t *object, struct image_descriptor *d, struct err *err)
{
	const json_t *platform = json_object_get(object, "platform");
	int r = get_text(platform, "os", d->os, err);

	if (r == 0)
		r = get_text(platform, "architecture", d->architecture, err);
	return r < 0 ? r : get_text(platform, "variant", d->variant, err);
}

/* On failure *RET may be partly filled: the caller frees it. */
static int
read_descriptor(const json_t *object, struct image_descriptor *ret, struct err *err)
{
	const json_t *size = json_object_get(object, "size");
	int r;

	if (!json_is_object(object))
		return err_set(err, EBADMSG, "a descriptor is no object");
	r = get_text(object, "mediaType", ret->media_type, err);
	if (r == 0)
		r = get_digest(json_string_value(json_object_get(object, "digest")), ret->digest, err);
	if (r == 0 && (!json_is_integer(size) || json_integer_value(size) < 0 ||
	               (uint64_t)json_integer_value(size) > IMAGE_BLOB_MAX))
		r = err_set(err, EBADMSG, "the size of %.19s is no number up to %llu GiB", ret->digest,
		            (unsigned long long)(IMAGE_BLOB_MAX >> 30));
	if (r < 0)
		return r;
	ret->size = (uint64_t)json_integer_value(size);
	r = read_platform(object, ret, err);
	return r < 0 ? r : read_annotations(object, ret, err);
}

static void
free_descriptors(struct image_descriptor *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].name);
	free(list);
}

static int
read_descriptors(const json_t *array, const char *key, size_t max, struct image_descriptor **ret_list,
                 size_t *ret_n, struct err *err)
{
	size_t n = json_array_size(array);
	struct image_descriptor *list;
	int r = 0;

	if (!json_is_array(array) || n > max)
		return err_set(err, EBADMSG, "'%s' is no list of at most %zu descriptors", key, max);
	list = calloc(n > 0 ? n : 1, sizeof(*list));
	if (list == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_descriptor(json_array_get(array, i), &list[i], err);
	if (r < 0) {
		free_descriptors(list, n);
		return r;
	}
	*ret_list = list;
	*ret_n = n;
	return 0;
}

/* ---- documents ---- */

static int
check_version(const json_t *object, const char *what, struct err *err)
{
	const json_t *version = json_object_get(object, "schemaVersion");

	if (json_integer_value(version) != 2)
		return err_set(err, ENOTSUP, "its %s has schema version %lld: only 2 is supported", what,
		               (long long)json_integer_value(version));
	return 0;
}

static int
kind_of_type(const char *type, enum image_document *ret_kind)
{
	if (strcmp(type, IMAGE_TYPE_OCI_INDEX) == 0 || strcmp(type, IMAGE_TYPE_DOCKER_LIST) == 0)
		*ret_kind = IMAGE_DOCUMENT_INDEX;
	else if (strcmp(type, IMAGE_TYPE_OCI_MANIFEST) == 0 || strcmp(type, IMAGE_TYPE_DOCKER_MANIFEST) == 0)
		*ret_kind = IMAGE_DOCUMENT_MANIFEST;
	else
		return -ENOTSUP;
	return 0;
}

/* A document that is both could be read as another image by somebody else. */
static int
kind_of_members(const json_t *object, enum image_document *ret_kind, struct err *err)
{
	bool index = json_object_get(object, "manifests") != NULL;
	bool manifest = json_object_get(object, "layers") != NULL || json_object_get(object, "config") != NULL;

	if (index == manifest)
		return err_set(err, EBADMSG, "it is %s", index ? "both an index and a manifest" :
		               "neither an index nor a manifest of version 2");
	*ret_kind = index ? IMAGE_DOCUMENT_INDEX : IMAGE_DOCUMENT_MANIFEST;
	return 0;
}

int
image_document_kind(const char *text, size_t len, const char *media_type, enum image_document *ret_kind,
                    struct err *err)
{
	OWN(json_decrefp) json_t *object = NULL;
	char own[IMAGE_TEXT_MAX + 1];
	enum image_document members = IMAGE_DOCUMENT_MANIFEST, kind;
	int r = read_object(text, len, "manifest", &object, err);

	if (r == 0)
		r = get_text(object, "mediaType", own, err);
	if (r == 0)
		r = kind_of_members(object, &members, err);
	if (r < 0)
		return r;
	kind = members;
	if (own[0] != '\0' && kind_of_type(own, &kind) < 0)
		return err_set(err, ENOTSUP, "its type '%s' is not supported", own);
	if (own[0] == '\0' && media_type != NULL)
		(void)kind_of_type(media_type, &kind);
	if (kind != members)
		return err_set(err, EBADMSG, "its type and its members contradict each other");
	*ret_kind = kind;
	return 0;
}

int
image_index_parse(const char *text, size_t len, struct image_index *ret_index, struct err *err)
{
	OWN(json_decrefp) json_t *object = NULL;
	int r = read_object(text, len, "index", &object, err);

	if (r == 0)
		r = check_version(object, "index", err);
	if (r == 0)
		r = read_descriptors(json_object_get(object, "manifests"), "manifests", IMAGE_INDEX_MAX,
		                     &ret_index->list, &ret_index->n, err);
	return r;
}

void
image_index_free(struct image_index *index)
{
	free_descriptors(index->list, index->n);
	*index = (struct image_index){0};
}

static int
read_config_descriptor(const json_t *object, struct image_descriptor *ret, struct err *err)
{
	int r = read_descriptor(json_object_get(object, "config"), ret, err);

	if (r < 0)
		return err_wrap(err, "its configuration");
	if (strcmp(ret->media_type, IMAGE_TYPE_OCI_CONFIG) != 0 &&
	    strcmp(ret->media_type, IMAGE_TYPE_DOCKER_CONFIG) != 0)
		return err_set(err, ENOTSUP, "it is no image of a file system, but '%s'", ret->media_type);
	if (ret->size > IMAGE_DOCUMENT_MAX)
		return err_set(err, EFBIG, "its configuration is over %u MiB", IMAGE_DOCUMENT_MAX >> 20);
	return 0;
}

int
image_manifest_parse(const char *text, size_t len, struct image_manifest *ret_manifest, struct err *err)
{
	OWN(image_manifest_free) struct image_manifest m = {0};
	OWN(json_decrefp) json_t *object = NULL;
	enum image_document kind;
	int r = read_object(text, len, "manifest", &object, err);

	if (r == 0)
		r = check_version(object, "manifest", err);
	if (r == 0)
		r = image_document_kind(text, len, NULL, &kind, err);
	if (r == 0 && kind != IMAGE_DOCUMENT_MANIFEST)
		r = err_set(err, EBADMSG, "its manifest is an index");
	if (r == 0)
		r = get_text(object, "mediaType", m.media_type, err);
	if (r == 0)
		r = read_config_descriptor(object, &m.config, err);
	if (r == 0)
		r = read_descriptors(json_object_get(object, "layers"), "layers", IMAGE_LAYERS_MAX, &m.layers,
		                     &m.n_layers, err);
	if (r < 0)
		return r;
	if (m.media_type[0] == '\0')
		snprintf(m.media_type, sizeof(m.media_type), "%s",
		         strcmp(m.config.media_type, IMAGE_TYPE_OCI_CONFIG) == 0 ? IMAGE_TYPE_OCI_MANIFEST :
		         IMAGE_TYPE_DOCKER_MANIFEST);
	*ret_manifest = m;
	m = (struct image_manifest){0};
	return 0;
}

void
image_manifest_free(struct image_manifest *manifest)
{
	free(manifest->config.name);
	free_descriptors(manifest->layers, manifest->n_layers);
	*manifest = (struct image_manifest){0};
}

/* ---- the configuration ---- */

static int
read_diff_ids(const json_t *object, struct image_config *c, struct err *err)
{
	const json_t *rootfs = json_object_get(object, "rootfs");
	const json_t *list = json_object_get(rootfs, "diff_ids");
	size_t n = json_array_size(list);
	int r = 0;

	/* An image without layers may leave the list out. */
	if (list != NULL && !json_is_null(list) && (!json_is_array(list) || n > IMAGE_LAYERS_MAX))
		return err_set(err, EBADMSG, "its configuration has no list of at most %d layers", IMAGE_LAYERS_MAX);
	if (!json_is_object(rootfs))
		return err_set(err, EBADMSG, "its configuration has no 'rootfs'");
	c->diff_ids = calloc(n > 0 ? n : 1, sizeof(*c->diff_ids));
	if (c->diff_ids == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = get_digest(json_string_value(json_array_get(list, i)), c->diff_ids[i], err);
	c->n_diff_ids = n;
	return r;
}

static int
read_inner(const json_t *object, struct image_config *c, struct err *err)
{
	json_t *inner = json_object_get(object, "config");
	size_t len;

	if (inner == NULL || json_is_null(inner)) {
		c->config = strdup("{}");
		return c->config == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (!json_is_object(inner))
		return err_set(err, EBADMSG, "its configuration's 'config' is no object");
	return canon_dump(inner, IMAGE_DOCUMENT_MAX, &c->config, &len, err);
}

int
image_config_parse(const char *text, size_t len, struct image_config *ret_config, struct err *err)
{
	OWN(image_config_free) struct image_config c = {0};
	OWN(json_decrefp) json_t *object = NULL;
	int r = read_object(text, len, "configuration", &object, err);

	if (r == 0)
		r = get_text(object, "os", c.os, err);
	if (r == 0)
		r = get_text(object, "architecture", c.architecture, err);
	if (r == 0)
		r = get_text(object, "variant", c.variant, err);
	if (r == 0)
		r = get_text(object, "created", c.created, err);
	if (r == 0)
		r = read_diff_ids(object, &c, err);
	if (r == 0)
		r = read_inner(object, &c, err);
	if (r < 0)
		return r;
	*ret_config = c;
	c = (struct image_config){0};
	return 0;
}

void
image_config_free(struct image_config *config)
{
	free(config->diff_ids);
	free(config->config);
	*config = (struct image_config){0};
}

int
image_config_check(const struct image_config *config, const struct image_manifest *manifest, struct err *err)
{
	if (config->n_diff_ids != manifest->n_layers)
		return err_set(err, EBADMSG, "its manifest has %zu layers, and its configuration %zu",
		               manifest->n_layers, config->n_diff_ids);
	return 0;
}

/* ---- platforms ---- */

static const struct {
	const char *kernel, *name;
} architectures[] = {
	{ "x86_64", "amd64" }, { "aarch64", "arm64" }, { "i686", "386" }, { "armv7l", "arm" },
	{ "ppc64le", "ppc64le" }, { "s390x", "s390x" }, { "riscv64", "riscv64" }, { "loongarch64", "loong64" },
};

const char *
image_architecture(void)
{
	struct utsname u;

	if (uname(&u) == 0)
		for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
			if (strcmp(architectures[i].kernel, u.machine) == 0)
				return architectures[i].name;
	return "unknown";
}

/* A descriptor without a platform is for any. */
static bool
is_for(const struct image_descriptor *d, const char *architecture)
{
	enum image_document kind;

	if (d->media_type[0] != '\0' && kind_of_type(d->media_type, &kind) < 0)
		return false;
	return (d->os[0] == '\0' || strcmp(d->os, "linux") == 0) &&
	       (d->architecture[0] == '\0' || strcmp(d->architecture, architecture) == 0);
}

int
image_index_choose(const struct image_index *index, const char *architecture,
                   const struct image_descriptor **ret_chosen, struct err *err)
{
	char there[200] = "";
	size_t used = 0;

	for (size_t i = 0; i < index->n; i++) {
		const struct image_descriptor *d = &index->list[i];
		int n;

		if (is_for(d, architecture)) {
			*ret_chosen = d;
			return 0;
		}
		n = snprintf(there + used, sizeof(there) - used, "%s%.20s/%.20s", used > 0 ? ", " : "", d->os,
		             d->architecture);
		if (used + (size_t)n < sizeof(there) && strcmp(d->os, "unknown") != 0)
			used += (size_t)n;
		there[used] = '\0';
	}
	return err_set(err, ENOENT, "it has no image for linux/%s, only for: %s", architecture,
	               used > 0 ? there : "nothing");
}

int
image_config_runs_here(const struct image_config *config, struct err *err)
{
	const char *here = image_architecture();

	if (config->os[0] != '\0' && strcmp(config->os, "linux") != 0)
		return err_set(err, ENOEXEC, "it is an image for %s, and this is Linux", config->os);
	if (config->architecture[0] != '\0' && strcmp(config->architecture, here) != 0)
		return err_set(err, ENOEXEC, "it is an image for %s, and this machine is %s", config->architecture,
		               here);
	return 0;
}
