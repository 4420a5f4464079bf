/* resolve.c - finds the image that a reference means, and brings it if it is missing. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/spawn.h"
#include "proc/image/image_proc.h"

#define PULL_WORDS_MAX 64
#define PULL_ANSWER_MAX 8192
#define OPAQUE_XATTR "user.overlay.opaque"

uint64_t
image_size(const struct store_image *image)
{
	uint64_t size = image->manifest.config.size;

	for (size_t i = 0; i < image->manifest.n_layers; i++)
		size += image->manifest.layers[i].size;
	return size;
}

/* ---- in the store ---- */

/* Whether WORD is a digest, or the beginning of its digits. */
static bool
means_digest(const char *word, const char **ret_digits)
{
	const char *digits = strncmp(word, HASH_PREFIX, sizeof(HASH_PREFIX) - 1) == 0 ? word + sizeof(HASH_PREFIX) - 1 :
	                     word;
	const size_t len = strlen(digits);

	*ret_digits = digits;
	return len >= IMAGE_PREFIX_MIN && len <= HASH_HEX && strspn(digits, "0123456789abcdef") == len;
}

static int
find_digest(const struct image_index *index, const char *digits, const struct image_descriptor **ret_found,
            struct err *err)
{
	const struct image_descriptor *found = NULL;

	for (size_t i = 0; i < index->n; i++) {
		const struct image_descriptor *d = &index->list[i];

		if (strncmp(d->digest + sizeof(HASH_PREFIX) - 1, digits, strlen(digits)) != 0)
			continue;
		if (found != NULL && strcmp(found->digest, d->digest) != 0)
			return err_set(err, ENOTUNIQ, "several images begin with '%s': give more digits", digits);
		if (found == NULL || found->name == NULL)
			found = d;
	}
	if (found == NULL)
		return -ENOENT;
	*ret_found = found;
	return 0;
}

/* Whether D is what a name with a digest promises: this manifest, or one of this index. */
static bool
has_digest(const struct image_descriptor *d, const char *digest)
{
	return strcmp(d->digest, digest) == 0 || strcmp(d->index, digest) == 0;
}

static int
find_name(const struct image_index *index, const struct image_name *name, const struct image_descriptor **ret_found)
{
	const bool is_pinned = name->digest[0] != '\0';

	for (size_t i = 0; i < index->n; i++)
		if (index->list[i].name != NULL && strcmp(index->list[i].name, name->full) == 0 &&
		    (!is_pinned || has_digest(&index->list[i], name->digest))) {
			*ret_found = &index->list[i];
			return 0;
		}
	/* The same bytes, whatever they are called here. */
	for (size_t i = 0; is_pinned && i < index->n; i++)
		if (strcmp(index->list[i].digest, name->digest) == 0) {
			*ret_found = &index->list[i];
			return 0;
		}
	return -ENOENT;
}

int
image_find(const struct store *s, const char *word, struct store_image *ret_image, char **ret_name, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	const struct image_descriptor *found = NULL;
	struct image_ref ref = {0};
	const char *digits;
	int r = store_list(s, &index, err);

	if (r < 0)
		return r;
	r = -ENOENT;
	if (image_ref_parse(word, &ref, NULL) == 0 && ref.name.full[0] != '\0')
		r = find_name(&index, &ref.name, &found);
	/* Digits alone may be a name as well. */
	if (r == -ENOENT && means_digest(word, &digits))
		r = find_digest(&index, digits, &found, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "there is no image '%.200s' here: see `cloister image list`", word);
	if (r < 0)
		return r;
	r = store_load(s, found->digest, ret_image, err);
	if (r == 0)
		*ret_name = found->name == NULL ? NULL : strdup(found->name);
	return r;
}

/* ---- pulled ---- */

/* {"digest":...}: what it has checked or put into the store. */
static int
take_answer(const char *text, size_t len, char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(json_decrefp) json_t *answer = json_loadb(text, len, 0, NULL);
	const char *digest = json_string_value(json_object_get(answer, "digest"));
	unsigned char hash[HASH_LEN];

	if (digest == NULL || !hash_parse_name(digest, hash))
		return err_set(err, EPROTO, "cannot read the answer of cloister-pull");
	memcpy(ret_digest, digest, HASH_NAME + 1);
	return 0;
}

int
run_pull(const struct image_name *name, const struct args *args, char ret_digest[HASH_NAME + 1], struct err *err)
{
	char program[] = "cloister-pull", full[IMAGE_NAME_MAX + 1];
	char *argv[PULL_WORDS_MAX + 4] = { program };
	OWN(freep) char *answer = NULL;
	size_t n = 1, len;
	int ends[2], r, status;
	pid_t pid;

	for (size_t i = 0; args != NULL && i < args->n_options && n < PULL_WORDS_MAX; i++)
		if (strcmp(args->options[i], "--json") != 0)
			argv[n++] = args->options[i];
	memcpy(full, name->full, sizeof(full));
	argv[n++] = full;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start cloister-pull");
	pid = spawn_start(&(struct spawn){ .argv = argv, .fds = (struct spawn_fd[]){ { ends[1], STDOUT_FILENO } }, .n_fds = 1,
		.flags = SPAWN_DIES }, NULL, err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : read_open(ends[0], "cloister-pull", PULL_ANSWER_MAX, &answer, &len, err);
	close(ends[0]);
	if (pid < 0)
		return r;
	status = spawn_await(pid, err);
	/* It has printed why. */
	if (status > 0)
		exit(status > SPAWN_KILLED ? 125 : status);
	return status < 0 ? status : r < 0 ? r : take_answer(answer, len, ret_digest, err);
}

int
image_pull(struct store *s, const struct image_name *name, const struct args *args, struct store_image *ret_image,
           struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	char digest[HASH_NAME + 1];
	struct store_swept swept;
	int adding = store_adding(s, err), r = adding < 0 ? adding : run_pull(name, args, digest, err);

	if (r == 0)
		r = store_load(s, digest, &image, err);
	if (r == 0) {
		r = unpack_image(s, &image, err);
		/* An image that cannot be used has no name. */
		if (r < 0)
			(void)store_drop(s, digest, NULL);
	}
	closep(&adding);
	if (r < 0) {
		(void)store_sweep(s, false, NULL, &swept, NULL);
		return r;
	}
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}

/* ---- archives ---- */

/* As it is now, and which of its images is meant. */
static int
archive_key(const struct image_ref *ref, struct store_key *ret_key)
{
	OWN(freep) char *kind = str_format("%s %s %s", ref->kind == IMAGE_REF_OCI_ARCHIVE ? "oci-archive" : "docker-archive",
	                                   ref->tag, ref->name.full);

	return kind == NULL ? -ENOMEM : store_made_key(kind, ref->path, ret_key);
}

static int
use_loaded(struct store *s, const struct store_key *key, struct store_image *ret_image, struct err *err)
{
	OWN(store_found_free) struct image_descriptor found = {0};
	OWN(store_image_free) struct store_image image = {0};
	OWN(closep) int adding = store_adding(s, err);
	int r = adding < 0 ? adding : store_made_find(s, key, &found);

	if (r == 0)
		r = store_load(s, found.digest, &image, err);
	if (r == 0)
		r = unpack_image(s, &image, err);
	if (r < 0)
		return r;
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}

/* An archive that is still as it was when it was loaded is not read again. */
static int
bring_archive(struct store *s, const struct image_ref *ref, struct store_image *ret_image, char **ret_name,
              struct err *err)
{
	struct store_key before, after;
	bool has_key = archive_key(ref, &before) == 0;
	int r = has_key ? use_loaded(s, &before, ret_image, err) : -ENOENT;

	if (r == 0)
		return 0;
	r = image_load(s, ref, "", ret_image, ret_name, err);
	if (r == 0 && has_key && archive_key(ref, &after) == 0 && strcmp(before.hex, after.hex) == 0)
		store_made_note(s, &before, ret_image->digest, *ret_name);
	return r;
}

/* ---- any reference ---- */

static int
bring(struct store *s, const struct image_ref *ref, struct store_image *ret_image, char **ret_name, struct err *err)
{
	int r;

	switch (ref->kind) {
	case IMAGE_REF_MINIMAL:
		r = minimal_load(s, ret_image, err);
		break;
	case IMAGE_REF_REGISTRY:
		/* Names of ours are in no registry. */
		if (strcmp(ref->name.full, IMAGE_MINIMAL) == 0)
			return minimal_load(s, ret_image, err);
		r = image_pull(s, &ref->name, NULL, ret_image, err);
		break;
	case IMAGE_REF_OCI_ARCHIVE:
	case IMAGE_REF_DOCKER_ARCHIVE:
		return bring_archive(s, ref, ret_image, ret_name, err);
	default:
		return image_load(s, ref, "", ret_image, ret_name, err);
	}
	if (r == 0)
		*ret_name = strdup(ref->name.full);
	return r;
}

int
image_resolve(struct store *s, const char *word, struct store_image *ret_image, char **ret_name, struct err *err)
{
	struct image_ref ref;
	struct store_image image = {0};
	OWN(closep) int adding = -1;
	const bool is_digest = image_ref_is_digest(word);
	unsigned char hash[HASH_LEN];
	int r;

	if (!is_digest) {
		r = image_ref_parse(word, &ref, err);
		if (r < 0)
			return r;
		if (ref.kind != IMAGE_REF_REGISTRY || strcmp(ref.name.full, IMAGE_MINIMAL) == 0)
			return bring(s, &ref, ret_image, ret_name, err);
	}
	r = image_find(s, word, &image, ret_name, err);
	/* An image that is being built is not listed. */
	if (r == -ENOENT && hash_parse_name(word, hash) && store_has_blob(s, word))
		r = store_load(s, word, &image, err);
	if (r == -ENOENT && !is_digest)
		return bring(s, &ref, ret_image, ret_name, err);
	if (r < 0)
		return r;
	adding = store_adding(s, err);
	r = adding < 0 ? adding : unpack_image(s, &image, err);
	if (r < 0)
		store_image_free(&image);
	else
		*ret_image = image;
	return r;
}

/* ---- for `cloister run` ---- */

/* overlayfs does not look for this mark at the top of a layer. */
static bool
is_opaque(const char *path)
{
	char value[2];

	return getxattr(path, OPAQUE_XATTR, value, sizeof(value)) == 1 && value[0] == 'y';
}

static int
print_layers(struct json *w, const struct store *s, const struct store_image *image, struct err *err)
{
	size_t first = 0;

	for (size_t i = 0; i < image->config.n_diff_ids; i++) {
		OWN(freep) char *path = store_layer_path(s, image->config.diff_ids[i]);

		if (path == NULL)
			return err_set(err, ENOMEM, "out of memory");
		if (is_opaque(path))
			first = i;
	}
	json_open(w, "layers", '[');
	for (size_t i = first; i < image->config.n_diff_ids; i++) {
		OWN(freep) char *path = store_layer_path(s, image->config.diff_ids[i]);

		json_open(w, NULL, '{');
		json_str(w, "diff_id", image->config.diff_ids[i]);
		json_str(w, "path", path);
		json_close(w, '}');
	}
	json_close(w, ']');
	return 0;
}

int
resolve(struct store *s, const char *word, const char *require, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *name = NULL, *checked_name = NULL;
	struct json w = { .out = stdout };
	char checked[HASH_NAME + 1] = "";
	int r = require != NULL ? require_check(s, word, require, checked, &checked_name, err) : 0;

	if (r == 0)
		r = image_resolve(s, checked[0] != '\0' ? checked : word, &image, &name, err);
	if (r == 0)
		r = image_config_runs_here(&image.config, err);
	if (r < 0)
		return err_wrap(err, "the image '%.200s'", word);
	json_open(&w, NULL, '{');
	json_str(&w, "name", checked_name != NULL ? checked_name : name != NULL ? name : strlen(word) <= IMAGE_NAME_MAX ?
	         word : "");
	json_str(&w, "digest", image.digest);
	json_str(&w, "config_digest", image.manifest.config.digest);
	json_str(&w, "architecture", image.config.architecture);
	json_raw(&w, "config", "%s", image.config.config);
	r = print_layers(&w, s, &image, err);
	json_close(&w, '}');
	putchar('\n');
	return r;
}
