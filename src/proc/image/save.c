/* save.c - `cloister image save`: writes an image where other tools read it. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/tree.h"
#include "image/tar_write.h"
#include "proc/image/image_proc.h"

#define COPY_BYTES (256 * 1024)
#define PATH_BYTES 100                  /* of a file in an archive or layout */
#define LAYOUT_TEXT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define DIR_VERSION "Directory Transport Version: 1.1\n"

/* A folder, or an archive. */
struct out {
	int folder, archive;            /* one of them is -1 */
	int file;                       /* of the folder, as it is written */
	struct tar_write tar;           /* of the archive */
	uint64_t done, total;
};

/* ---- files ---- */

static int
put_archive(void *arg, const void *data, size_t len, struct err *err)
{
	const struct out *o = arg;

	return write_all(o->archive, data, len, err);
}

/* Begins the file NAME of SIZE bytes, which put_bytes() brings. */
static int
begin_file(struct out *o, const char *name, uint64_t size, struct err *err)
{
	if (o->archive >= 0)
		return tar_entry(&o->tar, &(struct tar_entry){ .path = name, .mode = S_IFREG | 0644, .size = size }, err);
	o->file = openat(o->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return o->file < 0 ? err_errno(err, "cannot make the file '%s'", name) : 0;
}

static int
put_bytes(struct out *o, const void *data, size_t len, struct err *err)
{
	return o->archive >= 0 ? tar_data(&o->tar, data, len, err) : write_all(o->file, data, len, err);
}

/* R is the result of writing it. */
static int
end_file(struct out *o, int r, struct err *err)
{
	int fd = o->file;

	o->file = -1;
	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = err_errno(err, "cannot write a file");
	return r;
}

static int
put_text(struct out *o, const char *name, const char *text, size_t len, struct err *err)
{
	int r = begin_file(o, name, len, err);

	return r < 0 ? r : end_file(o, put_bytes(o, text, len, err), err);
}

static int
copy(struct out *o, int from, uint64_t size, struct err *err)
{
	OWN(freep) unsigned char *data = malloc(COPY_BYTES);

	if (data == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (size > 0) {
		size_t want = size < COPY_BYTES ? (size_t)size : COPY_BYTES;
		int r = read_exactly(from, data, want, err);

		if (r == 0)
			r = put_bytes(o, data, want, err);
		if (r < 0)
			return r;
		size -= want;
		o->done += want;
		progress_show(o->done, o->total);
	}
	return 0;
}

static int
put_blob(struct out *o, const struct store *s, const char *name, const char *digest, struct err *err)
{
	OWN(closep) int from = -1;
	uint64_t size;
	int r;

	from = store_open_blob(s, digest, &size, err);
	if (from < 0)
		return from;
	r = begin_file(o, name, size, err);
	return r < 0 ? r : end_file(o, copy(o, from, size, err), err);
}

static int
put_folder(struct out *o, const char *name, struct err *err)
{
	if (o->archive >= 0)
		return tar_entry(&o->tar, &(struct tar_entry){ .path = name, .mode = S_IFDIR | 0755 }, err);
	return mkdirat(o->folder, name, 0755) < 0 ? err_errno(err, "cannot make the folder '%s'", name) : 0;
}

/* Layer I has come already: two layers of an image may be the same. */
static bool
is_repeated(const struct store_image *image, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(image->manifest.layers[i].digest, image->manifest.layers[j].digest) == 0)
			return true;
	return false;
}

/* Configuration and layers, each at FORMAT with its digits. */
static int
put_blobs(struct out *o, const struct store *s, const struct store_image *image, const char *before, const char *after,
          const char *after_config, struct err *err)
{
	char name[PATH_BYTES];
	int r;

	snprintf(name, sizeof(name), "%s%s%s", before, image->manifest.config.digest + sizeof(HASH_PREFIX) - 1, after_config);
	r = put_blob(o, s, name, image->manifest.config.digest, err);
	for (size_t i = 0; r == 0 && i < image->manifest.n_layers; i++) {
		if (is_repeated(image, i))
			continue;
		snprintf(name, sizeof(name), "%s%s%s", before, image->manifest.layers[i].digest + sizeof(HASH_PREFIX) - 1, after);
		r = put_blob(o, s, name, image->manifest.layers[i].digest, err);
	}
	return r;
}

/* ---- formats ---- */

static int
save_layout(struct out *o, const struct store *s, const struct store_image *image, const char *name, struct err *err)
{
	char path[PATH_BYTES];
	OWN(freep) char *index = NULL;
	OWN(closep) int fd = -1;
	OWN(json_decrefp) json_t *d = NULL;
	uint64_t size;
	int r = put_folder(o, "blobs", err);

	if (r == 0)
		r = put_folder(o, "blobs/sha256", err);
	if (r == 0)
		r = put_blobs(o, s, image, "blobs/sha256/", "", "", err);
	snprintf(path, sizeof(path), "blobs/sha256/%s", image->digest + sizeof(HASH_PREFIX) - 1);
	if (r == 0)
		r = put_blob(o, s, path, image->digest, err);
	if (r < 0)
		return r;
	fd = store_open_blob(s, image->digest, &size, err);
	if (fd < 0)
		return fd;
	d = json_pack("{s:i, s:[{s:s, s:s, s:I}]}", "schemaVersion", 2, "manifests", "mediaType", image->manifest.media_type,
	              "digest", image->digest, "size", (json_int_t)size);
	if (name != NULL)
		json_object_set_new(json_array_get(json_object_get(d, "manifests"), 0), "annotations",
		                    json_pack("{s:s}", IMAGE_ANNOTATION_NAME, name));
	index = json_dumps(d, JSON_COMPACT);
	if (index == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = put_text(o, "index.json", index, strlen(index), err);
	return r < 0 ? r : put_text(o, "oci-layout", LAYOUT_TEXT, strlen(LAYOUT_TEXT), err);
}

static int
save_dir(struct out *o, const struct store *s, const struct store_image *image, struct err *err)
{
	int r = put_text(o, "version", DIR_VERSION, strlen(DIR_VERSION), err);

	if (r == 0)
		r = put_blobs(o, s, image, "", "", "", err);
	return r < 0 ? r : put_blob(o, s, "manifest.json", image->digest, err);
}

static json_t *
list_docker(const struct store_image *image, const char *name)
{
	char path[PATH_BYTES];
	json_t *layers = json_array(), *tags = json_array();

	for (size_t i = 0; i < image->manifest.n_layers; i++) {
		snprintf(path, sizeof(path), "%s.tar", image->manifest.layers[i].digest + sizeof(HASH_PREFIX) - 1);
		json_array_append_new(layers, json_string(path));
	}
	if (name != NULL)
		json_array_append_new(tags, json_string(name));
	snprintf(path, sizeof(path), "%s.json", image->manifest.config.digest + sizeof(HASH_PREFIX) - 1);
	return json_pack("[{s:s, s:o, s:o}]", "Config", path, "RepoTags", tags, "Layers", layers);
}

static int
save_docker(struct out *o, const struct store *s, const struct store_image *image, const char *name, struct err *err)
{
	/* A digest is no part of such a name. */
	OWN(json_decrefp) json_t *list = list_docker(image, name != NULL && strchr(name, '@') == NULL ? name : NULL);
	OWN(freep) char *text = json_dumps(list, JSON_COMPACT);
	int r = text == NULL ? err_set(err, ENOMEM, "out of memory") : put_blobs(o, s, image, "", ".tar", ".json", err);

	return r < 0 ? r : put_text(o, "manifest.json", text, strlen(text), err);
}

static int
save(struct out *o, const struct store *s, const struct store_image *image, const struct image_ref *to, const char *name,
     struct err *err)
{
	int r;

	switch (to->kind) {
	case IMAGE_REF_OCI:
	case IMAGE_REF_OCI_ARCHIVE:
		r = save_layout(o, s, image, to->tag[0] != '\0' ? to->tag : name, err);
		break;
	case IMAGE_REF_DIR:
		r = save_dir(o, s, image, err);
		break;
	default:
		r = save_docker(o, s, image, to->name.full[0] != '\0' ? to->name.full : name, err);
		break;
	}
	return r < 0 || o->archive < 0 ? r : tar_end(&o->tar, err);
}

/* ---- where ---- */

static int
open_folder(const char *path, struct out *o, struct err *err)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder '%s'", path);
	o->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->folder < 0)
		return err_errno(err, "cannot open the folder '%s'", path);
	return tree_has_entries(o->folder) == 0 ? 0 :
	       err_set(err, EEXIST, "the folder '%s' is not empty", path);
}

static bool
is_archive(enum image_ref_kind kind)
{
	return kind == IMAGE_REF_OCI_ARCHIVE || kind == IMAGE_REF_DOCKER_ARCHIVE;
}

/* The archive is there only if it is whole. */
static int
save_archive(struct out *o, const struct store *s, const struct store_image *image, const struct image_ref *to,
             const char *name, struct err *err)
{
	OWN(freep) char *part = NULL;
	int r;

	if (access(to->path, F_OK) == 0)
		return err_set(err, EEXIST, "'%s' exists already", to->path);
	part = str_format("%s.part", to->path);
	if (part == NULL)
		return err_set(err, ENOMEM, "out of memory");
	o->archive = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (o->archive < 0)
		return err_errno(err, "cannot write '%s'", part);
	r = save(o, s, image, to, name, err);
	if (close(o->archive) < 0 && r == 0)
		r = err_errno(err, "cannot write '%s'", part);
	if (r == 0 && rename(part, to->path) < 0)
		r = err_errno(err, "cannot write '%s'", to->path);
	if (r < 0)
		unlink(part);
	return r;
}

int
cmd_save(struct store *s, const struct args *args, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *name = NULL;
	struct out o = { .folder = -1, .archive = -1, .file = -1, .tar = { .put = put_archive, .arg = &o } };
	OWN(closep) int use = -1;
	struct image_ref to;
	int r = image_find(s, args->words[1], &image, &name, err);

	if (r == 0)
		r = image_ref_parse(args->words[2], &to, err);
	if (r < 0)
		return r;
	if (!is_archive(to.kind) && to.kind != IMAGE_REF_OCI && to.kind != IMAGE_REF_DIR)
		return err_set(err, EINVAL, "'%.200s' is no place to save to: use oci-archive:, docker-archive:, oci: or dir:",
		               args->words[2]);
	/* Nobody removes it meanwhile. */
	r = store_use(s, image.digest, &use, err);
	o.total = image_size(&image);
	progress_begin("saving");
	if (r == 0 && is_archive(to.kind))
		r = save_archive(&o, s, &image, &to, name, err);
	else if (r == 0) {
		r = open_folder(to.path, &o, err);
		if (r == 0)
			r = save(&o, s, &image, &to, name, err);
		closep(&o.folder);
	}
	progress_end();
	return r < 0 ? err_wrap(err, "cannot save '%.200s'", args->words[1]) : 0;
}
