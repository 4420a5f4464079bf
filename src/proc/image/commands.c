/* commands.c - `cloister image load, pull, list, show, remove, prune`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/tree.h"
#include "proc/image/image_proc.h"

#define SHORT 12                        /* digits of a digest that are shown */
#define NAME_COLUMNS 60
#define STEP_MAX 4096                   /* bytes of a remembered step of a build */

static const char *
short_digest(const char *digest)
{
	static char text[SHORT + 1];

	snprintf(text, sizeof(text), "%.*s", SHORT, digest + sizeof(HASH_PREFIX) - 1);
	return text;
}

/* ---- load and pull ---- */

static void
print_loaded(const struct store_image *image, const char *name, bool json)
{
	struct json w = { .out = stdout };

	if (!json) {
		printf("%s\n", name != NULL ? name : image->digest);
		return;
	}
	json_open(&w, NULL, '{');
	json_str(&w, "name", name);
	json_str(&w, "digest", image->digest);
	json_str(&w, "config_digest", image->manifest.config.digest);
	json_close(&w, '}');
	putchar('\n');
}

/* A path, in place of a reference. */
static int
refuse_path(const char *word, struct err *err)
{
	struct stat st;

	if (stat(word, &st) < 0)
		return err_set(err, EINVAL, "'%.200s' is a name in a registry: `cloister image pull` it", word);
	if (S_ISDIR(st.st_mode))
		return err_set(err, EINVAL, "for a folder, write oci:%.200s, or dir:%.200s if skopeo wrote it", word, word);
	return err_set(err, EINVAL, "for a file, write oci-archive:%.200s or docker-archive:%.200s", word, word);
}

int
cmd_load(struct store *s, const struct args *args, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *name = NULL;
	const char *wanted = args_get(args, "name");
	struct image_name full = {0};
	struct image_ref ref;
	int r = image_ref_parse(args->words[1], &ref, err);

	if (r == 0 ? ref.kind == IMAGE_REF_REGISTRY : access(args->words[1], F_OK) == 0)
		r = refuse_path(args->words[1], err);
	if (r == 0 && wanted != NULL)
		r = image_name_parse_new(wanted, &full, err);
	if (r == 0)
		r = ref.kind == IMAGE_REF_MINIMAL ? image_resolve(s, args->words[1], &image, &name, err) :
		    image_load(s, &ref, wanted != NULL ? full.full : NULL, &image, &name, err);
	if (r < 0)
		return err_wrap(err, "cannot load '%.200s'", args->words[1]);
	print_loaded(&image, name, args_get(args, "json") != NULL);
	if (name == NULL)
		fputs("cloister: the image has no name, and `cloister image prune` removes it: --name NAME gives it one\n", stderr);
	return 0;
}

int
cmd_pull(struct store *s, const struct args *args, struct err *err)
{
	int r = 0;

	for (size_t i = 1; r == 0 && i < args->n_words; i++) {
		OWN(store_image_free) struct store_image image = {0};
		struct image_ref ref;

		r = image_ref_parse(args->words[i], &ref, err);
		if (r == 0 && ref.kind != IMAGE_REF_REGISTRY)
			r = err_set(err, EINVAL, "'%.200s' is in no registry: `cloister image load` it", args->words[i]);
		if (r == 0)
			r = image_pull(s, &ref.name, args, &image, err);
		if (r < 0)
			return err_wrap(err, "cannot pull '%.200s'", args->words[i]);
		print_loaded(&image, ref.name.full, args_get(args, "json") != NULL);
	}
	return r;
}

/* ---- list ---- */

static void
print_one(struct json *w, const struct store *s, const struct image_descriptor *d, const struct store_image *image)
{
	json_open(w, NULL, '{');
	json_str(w, "name", d->name);
	json_str(w, "digest", d->digest);
	json_str(w, "architecture", image->config.architecture);
	json_str(w, "created", image->config.created[0] != '\0' ? image->config.created : NULL);
	json_u64(w, "size", image_size(image));
	json_u64(w, "layers", image->manifest.n_layers);
	json_bool(w, "running", store_is_used(s, d->digest));
	json_close(w, '}');
}

static void
print_row(const struct store *s, const struct image_descriptor *d, const struct store_image *image, int width)
{
	char size[NUM_TEXT_MAX];
	const char *name = d->name != NULL ? d->name : "-";

	text_print_safe(stdout, name, strlen(name), false);
	printf("%*s  %s  %8s  %6zu  %-10.10s  %s\n", width > (int)strlen(name) ? width - (int)strlen(name) : 0, "",
	       short_digest(d->digest), num_format_size(size, image_size(image)), image->manifest.n_layers,
	       image->config.created[0] != '\0' ? image->config.created : "-", store_is_used(s, d->digest) ? "yes" : "no");
}

static int
by_name(const void *a, const void *b)
{
	const struct image_descriptor *one = a, *two = b;

	if (one->name == NULL || two->name == NULL)
		return one->name == two->name ? strcmp(one->digest, two->digest) : one->name == NULL ? 1 : -1;
	return strcmp(one->name, two->name);
}

static int
name_width(const struct image_index *index)
{
	size_t width = strlen("NAME");

	for (size_t i = 0; i < index->n; i++)
		if (index->list[i].name != NULL && strlen(index->list[i].name) > width)
			width = strlen(index->list[i].name);
	return width > NAME_COLUMNS ? NAME_COLUMNS : (int)width;
}

int
cmd_list(struct store *s, const struct args *args, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	const bool json = args_get(args, "json") != NULL;
	struct json w = { .out = stdout };
	int r = store_list(s, &index, err), width;

	if (r < 0)
		return r;
	if (index.n > 0)
		qsort(index.list, index.n, sizeof(*index.list), by_name);
	width = name_width(&index);
	if (json)
		json_open(&w, NULL, '[');
	else if (index.n > 0)
		printf("%-*s  %-*s  %8s  %6s  %-10s  %s\n", width, "NAME", SHORT, "DIGEST", "SIZE", "LAYERS", "CREATED", "RUNNING");
	else
		fputs("there are no images: `cloister image pull` or `load` brings one\n", stderr);
	for (size_t i = 0; i < index.n; i++) {
		OWN(store_image_free) struct store_image image = {0};

		/* One that is damaged does not hide the others. */
		(void)store_load(s, index.list[i].digest, &image, NULL);
		if (json)
			print_one(&w, s, &index.list[i], &image);
		else
			print_row(s, &index.list[i], &image, width);
	}
	if (json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return 0;
}

/* ---- show ---- */

static void
show_json(const struct store *s, const struct store_image *image, const char *name)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "name", name);
	json_str(&w, "digest", image->digest);
	json_str(&w, "config_digest", image->manifest.config.digest);
	json_str(&w, "os", image->config.os);
	json_str(&w, "architecture", image->config.architecture);
	json_str(&w, "created", image->config.created[0] != '\0' ? image->config.created : NULL);
	json_u64(&w, "size", image_size(image));
	json_bool(&w, "running", store_is_used(s, image->digest));
	json_raw(&w, "config", "%s", image->config.config);
	json_open(&w, "layers", '[');
	for (size_t i = 0; i < image->manifest.n_layers; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "digest", image->manifest.layers[i].digest);
		json_str(&w, "media_type", image->manifest.layers[i].media_type);
		json_u64(&w, "size", image->manifest.layers[i].size);
		json_str(&w, "diff_id", image->config.diff_ids[i]);
		json_bool(&w, "unpacked", store_has_layer(s, image->config.diff_ids[i]));
		if (image->manifest.layers[i].cell[0] != '\0') {
			json_str(&w, "cell", image->manifest.layers[i].cell);
			json_str(&w, "policy", image->manifest.layers[i].policy);
			json_str(&w, "timeline", image->manifest.layers[i].timeline);
		}
		json_close(&w, '}');
	}
	json_close(&w, ']');
	json_close(&w, '}');
	putchar('\n');
}

static void
show_text(const char *label, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	printf("%-13s ", label);
	text_print_safe(stdout, text, strlen(text), false);
	putchar('\n');
}

/* A value of the configuration, as JSON unless it is a string. */
static void
show_value(const char *label, const json_t *value)
{
	OWN(freep) char *text = NULL;

	if (json_is_string(value)) {
		show_text(label, json_string_value(value));
	} else if (json_is_array(value) && json_array_size(value) > 0) {
		text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		show_text(label, text);
	}
}

static void
show_config(const struct store_image *image)
{
	OWN(json_decrefp) json_t *config = json_loads(image->config.config, 0, NULL);
	const json_t *env = json_object_get(config, "Env");
	json_t *ports = json_object_get(config, "ExposedPorts");
	const char *port;
	json_t *unused;

	show_value("entrypoint", json_object_get(config, "Entrypoint"));
	show_value("command", json_object_get(config, "Cmd"));
	show_value("folder", json_object_get(config, "WorkingDir"));
	show_value("user", json_object_get(config, "User"));
	for (size_t i = 0; i < json_array_size(env); i++)
		show_value(i == 0 ? "env" : "", json_array_get(env, i));
	json_object_foreach(ports, port, unused)
		show_text("port", port);
}

/* Of a layer that a cell made: see docs/images-build.md. */
static void
show_record(const struct image_descriptor *layer)
{
	const struct { const char *label, *text; } rows[] = {
		{ "cell", layer->cell }, { "policy", layer->policy }, { "timeline", layer->timeline },
	};

	for (size_t i = 0; layer->cell[0] != '\0' && i < ARRAY_LEN(rows); i++) {
		printf("%-13s   %-8s  ", "", rows[i].label);
		text_print_safe(stdout, rows[i].text, strlen(rows[i].text), false);
		putchar('\n');
	}
}

int
cmd_show(struct store *s, const struct args *args, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *name = NULL;
	char size[NUM_TEXT_MAX], platform[2 * IMAGE_TEXT_MAX + 4];
	int r = image_find(s, args->words[1], &image, &name, err);

	if (r < 0)
		return r;
	if (args_get(args, "json") != NULL) {
		show_json(s, &image, name);
		return 0;
	}
	show_text("name", name);
	show_text("digest", image.digest);
	show_text("configuration", image.manifest.config.digest);
	snprintf(platform, sizeof(platform), "%s/%s", image.config.os, image.config.architecture);
	show_text("platform", platform);
	show_text("created", image.config.created);
	show_text("size", num_format_size(size, image_size(&image)));
	show_config(&image);
	for (size_t i = 0; i < image.manifest.n_layers; i++) {
		printf("%-13s %s  %8s  %s\n", i == 0 ? "layers" : "", short_digest(image.manifest.layers[i].digest),
		       num_format_size(size, image.manifest.layers[i].size),
		       store_has_layer(s, image.config.diff_ids[i]) ? "unpacked" : "not unpacked");
		show_record(&image.manifest.layers[i]);
	}
	return 0;
}

/* ---- remove and prune ---- */

static size_t
count_names(const struct image_index *index, const char *digest)
{
	size_t n = 0;

	for (size_t i = 0; i < index->n; i++)
		n += index->list[i].name != NULL && strcmp(index->list[i].digest, digest) == 0;
	return n;
}

/* A name is taken away; an image goes with its last name, or if its digest is given. */
static int
remove_one(struct store *s, const char *word, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(image_index_free) struct image_index index = {0};
	OWN(freep) char *name = NULL;
	struct image_ref ref;
	int r = image_find(s, word, &image, &name, err);
	bool by_its_name;

	if (r == 0)
		r = store_list(s, &index, err);
	if (r < 0)
		return r;
	by_its_name = name != NULL && image_ref_parse(word, &ref, NULL) == 0 && strcmp(ref.name.full, name) == 0;
	r = by_its_name && count_names(&index, image.digest) > 1 ? store_unset(s, name, err) :
	    store_drop(s, image.digest, err);
	return r < 0 ? err_wrap(err, "the image '%.200s'", word) : 0;
}

static void
show_removed(uint64_t bytes)
{
	progress_show(bytes, 0);
}

/* Frees the space of everything that no image needs. */
static int
sweep(struct store *s, bool unnamed, struct store_swept *ret_swept, struct err *err)
{
	int r;

	progress_begin("removing");
	r = store_sweep(s, unnamed, show_removed, ret_swept, err);
	progress_end();
	return r;
}

int
cmd_remove(struct store *s, const struct args *args, struct err *err)
{
	struct store_swept swept;
	int r = 0;

	for (size_t i = 1; r == 0 && i < args->n_words; i++)
		r = remove_one(s, args->words[i], err);
	if (r < 0)
		return r;
	r = sweep(s, false, &swept, err);
	if (r == -EBUSY) {
		fputs("cloister: another command adds an image now: `cloister image prune` frees the space later\n", stderr);
		r = 0;
	}
	return r;
}

/* "1 blob", "2 blobs" */
static const char *
count(char ret_text[NUM_TEXT_MAX + 32], uint64_t n, const char *what)
{
	snprintf(ret_text, NUM_TEXT_MAX + 32, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
	return ret_text;
}

static size_t
count_images(const struct store *s)
{
	OWN(image_index_free) struct image_index index = {0};

	return store_list(s, &index, NULL) < 0 ? 0 : index.n;
}

/* Whether the step of a build is remembered in vain: its layer is gone. */
static bool
is_stale_step(const struct store *s, int folder, const char *name)
{
	OWN(freep) char *text = NULL;
	const char *digest;
	json_t *entry;
	bool stale;

	if (read_file_at(folder, name, STEP_MAX, &text, NULL, NULL) < 0)
		return true;
	entry = json_loads(text, 0, NULL);
	digest = json_string_value(json_object_get(entry, "digest"));
	stale = digest == NULL || (digest[0] != '\0' && !store_has_blob(s, digest)) ||
	        (digest[0] == '\0' && count_images(s) == 0);
	json_decref(entry);
	return stale;
}

static size_t
drop_stale_steps(const struct store *s)
{
	int folder = openat(store_folder(s), STORE_BUILDS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *dir = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *d;
	size_t n = 0;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (!tree_is_dots(d->d_name) && is_stale_step(s, folder, d->d_name))
			n += unlinkat(folder, d->d_name, 0) == 0;
	(void)unlinkat(store_folder(s), STORE_BUILDS, AT_REMOVEDIR);    /* only if it is empty */
	return n;
}

int
cmd_prune(struct store *s, const struct args *args, struct err *err)
{
	const size_t before = count_images(s);
	char images[NUM_TEXT_MAX + 32], blobs[NUM_TEXT_MAX + 32], layers[NUM_TEXT_MAX + 32], leftovers[NUM_TEXT_MAX + 32];
	uint64_t n_images;
	struct store_swept swept;
	struct json w = { .out = stdout };
	char bytes[NUM_TEXT_MAX];
	int r = sweep(s, true, &swept, err);

	if (r < 0)
		return r;
	n_images = before - count_images(s);
	swept.leftovers += drop_stale_steps(s);
	if (args_get(args, "json") == NULL) {
		printf("removed %s without a name: %s (%s), %s and %s\n", count(images, n_images, "image"),
		       count(blobs, swept.blobs, "blob"), num_format_size(bytes, swept.bytes),
		       count(layers, swept.layers, "unpacked layer"), count(leftovers, swept.leftovers, "leftover"));
		return 0;
	}
	json_open(&w, NULL, '{');
	json_u64(&w, "images", n_images);
	json_u64(&w, "blobs", swept.blobs);
	json_u64(&w, "layers", swept.layers);
	json_u64(&w, "leftovers", swept.leftovers);
	json_u64(&w, "bytes", swept.bytes);
	json_close(&w, '}');
	putchar('\n');
	return 0;
}
