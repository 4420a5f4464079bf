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
#include "base/tree.h"
#include "image/tar.h"
#include "proc/image/image_proc.h"

#define COPY_BYTES (256 * 1024)
#define LAYOUT_TEXT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define DIR_VERSION "Directory Transport Version: 1.1\n"

/* A folder, or an archive. */
struct out {
	int folder, archive;            /* one of them is -1 */
	uint64_t done, total;
};

/* ---- files ---- */

/* Begin the file NAME of SIZE bytes: the descriptor to write it to, which the caller closes if it is not the
 * archive. */
static int
begin_file(const struct out *o, const char *name, uint64_t size, struct err *err)
{
	unsigned char block[TAR_BLOCK];
	int fd, r;

	if (o->archive >= 0) {
		r = tar_header(block, TAR_FILE, name, 0644, size, NULL, err);
		if (r == 0)
			r = write_all(o->archive, block, sizeof(block), err);
		return r < 0 ? r : o->archive;
	}
	fd = openat(o->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? err_errno(err, "cannot make the file '%s'", name) : fd;
}

static int
end_file(const struct out *o, int fd, uint64_t size, struct err *err)
{
	static const char zeroes[TAR_BLOCK];

	if (o->archive >= 0)
		return write_all(o->archive, zeroes, tar_padding(size), err);
	return close(fd) < 0 ? err_errno(err, "cannot write a file") : 0;
}

static int
put_text(const struct out *o, const char *name, const char *text, size_t len, struct err *err)
{
	int fd = begin_file(o, name, len, err), r = fd < 0 ? fd : write_all(fd, text, len, err);

	if (r < 0) {
		if (fd >= 0 && fd != o->archive)
			close(fd);
		return r;
	}
	return end_file(o, fd, len, err);
}

static int
copy(struct out *o, int from, int to, uint64_t size, struct err *err)
{
	OWN(freep) unsigned char *data = malloc(COPY_BYTES);

	if (data == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (size > 0) {
		size_t want = size < COPY_BYTES ? (size_t)size : COPY_BYTES;
		int r = read_exactly(from, data, want, err);

		if (r == 0)
			r = write_all(to, data, want, err);
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
	int to, r;

	from = store_open_blob(s, digest, &size, err);
	if (from < 0)
		return from;
	to = begin_file(o, name, size, err);
	if (to < 0)
		return to;
	r = copy(o, from, to, size, err);
	if (r < 0) {
		if (to != o->archive)
			close(to);
		return r;
	}
	return end_file(o, to, size, err);
}

static int
put_folder(const struct out *o, const char *name, struct err *err)
{
	unsigned char block[TAR_BLOCK];
	int r;

	if (o->archive < 0)
		return mkdirat(o->folder, name, 0755) < 0 ? err_errno(err, "cannot make the folder '%s'", name) : 0;
	r = tar_header(block, TAR_FOLDER, name, 0755, 0, NULL, err);
	return r < 0 ? r : write_all(o->archive, block, sizeof(block), err);
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
	char name[TAR_NAME_MAX + 1];
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
	char path[TAR_NAME_MAX + 1];
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
	char path[TAR_NAME_MAX + 1];
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
	static const char end[TAR_END];
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
	if (r == 0 && o->archive >= 0)
		r = write_all(o->archive, end, sizeof(end), err);
	return r;
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
	struct out o = { -1, -1, 0, 0 };
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
