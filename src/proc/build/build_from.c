/* build_from.c - the images that a build begins with and copies from. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "image/ref.h"
#include "proc/build/build.h"

#define ANSWER_MAX (8u << 20)

/* Has cloister-image bring the image WORD, check that it has what REQUIRE says, and unpack its layers: one line of
 * JSON. */
static int
resolve(const char *word, const char *require, json_t **ret_answer, struct err *err)
{
	OWN(freep) char *text = NULL, *copy = strdup(word), *requires = strdup(require);
	char *const plain[] = { (char[]){ "cloister-image" }, (char[]){ "--resolve" }, copy, NULL };
	char *const strict[] = { plain[0], plain[1], (char[]){ "--require" }, requires, copy, NULL };
	struct spawn_fd out = { -1, STDOUT_FILENO };
	int ends[2], r, status;
	pid_t pid;

	if (copy == NULL || requires == NULL || pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot create a pipe");
	out.fd = ends[1];
	pid = spawn_start(&(struct spawn){ .argv = require[0] != '\0' ? strict : plain, .fds = &out, .n_fds = 1,
		.flags = SPAWN_DIES }, NULL, err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : read_open(ends[0], "cloister-image", ANSWER_MAX, &text, NULL, err);
	close(ends[0]);
	status = pid < 0 ? -ECHILD : spawn_await(pid, err);
	if (pid < 0 || r < 0)
		return r < 0 ? r : status;
	if (status != 0)
		return err_set(err, ENOENT, "it cannot be used");
	*ret_answer = json_loads(text, 0, NULL);
	return *ret_answer == NULL ? err_set(err, EPROTO, "cannot read the answer of cloister-image") : 0;
}

int
state_folders(struct build *b, const struct state *state, json_t **ret_list, struct err *err)
{
	const json_t *diff_ids = json_object_get(json_object_get(state->config, "rootfs"), "diff_ids"), *id;
	struct image_descriptor d = {0};
	json_t *list = json_array(), *answer = NULL;
	bool whole = true;
	size_t i;
	int r = 0;

	json_array_foreach(diff_ids, i, id)
		whole = whole && store_has_layer(b->store, json_string_value(id));
	if (!whole) {
		r = state_store(b, state, &d, err);
		if (r == 0)
			r = resolve(d.digest, "", &answer, err);
		json_decref(answer);
	}
	json_array_foreach(diff_ids, i, id) {
		OWN(freep) char *path = r < 0 ? NULL : store_layer_path(b->store, json_string_value(id));

		if (r == 0 && (path == NULL || json_array_append_new(list, json_string(path)) < 0))
			r = err_set(err, ENOMEM, "out of memory");
	}
	if (r < 0)
		json_decref(list);
	else
		*ret_list = list;
	return r;
}

/* ---- a base ---- */

/* What Docker's own files call otherwise has the same bytes. */
static const char *
layer_type(const char *type)
{
	if (strcmp(type, IMAGE_TYPE_DOCKER_LAYER_GZIP) == 0)
		return IMAGE_TYPE_OCI_LAYER_GZIP;
	if (strcmp(type, IMAGE_TYPE_DOCKER_LAYER_ZSTD) == 0)
		return IMAGE_TYPE_OCI_LAYER_ZSTD;
	return strcmp(type, IMAGE_TYPE_DOCKER_LAYER) == 0 ? IMAGE_TYPE_OCI_LAYER : type;
}

/* Members that other tools add describe their own builds. */
static int
take_config(struct build *b, struct state *state, const char *digest, struct err *err)
{
	static const char *const kept[] = { "architecture", "os", "variant", "os.version", "config", "rootfs", "history",
	                                    "author", "created" };
	OWN(freep) char *text = NULL;
	json_t *all;
	size_t len;
	int r = store_read_blob(b->store, digest, IMAGE_DOCUMENT_MAX, &text, &len, err);

	if (r < 0)
		return r;
	all = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		json_t *value = json_object_get(all, kept[i]);

		if (value != NULL && !json_is_null(value))
			json_object_set(state->config, kept[i], value);
	}
	json_decref(all);
	if (!json_is_object(state_config(state)) || !json_is_array(json_object_get(state->config, "history")))
		return err_set(err, EINVAL, "its configuration is malformed");
	if (json_array_size(json_object_get(state_config(state), "OnBuild")) > 0)
		return err_set(err, ENOTSUP, "it has ONBUILD instructions, which are not supported");
	return 0;
}

static int
take_env(struct state *state, struct err *err)
{
	const json_t *list = json_object_get(state_config(state), "Env"), *item;
	size_t i;

	json_array_foreach(list, i, item) {
		const char *entry = json_string_value(item), *value = entry == NULL ? NULL : strchr(entry, '=');
		OWN(freep) char *name = value == NULL ? NULL : strndup(entry, (size_t)(value - entry));

		if (value != NULL && (name == NULL || !build_vars_set(&state->env, name, value + 1)))
			return err_set(err, E2BIG, "it has too many variables");
	}
	return 0;
}

static int
take_layers(struct state *state, const struct image_manifest *m, struct err *err)
{
	for (size_t i = 0; i < m->n_layers; i++)
		if (json_array_append_new(state->layers, json_pack("{s:s, s:s, s:I}", "mediaType",
		    layer_type(m->layers[i].media_type), "digest", m->layers[i].digest, "size",
		    (json_int_t)m->layers[i].size)) < 0)
			return err_set(err, ENOMEM, "out of memory");
	return 0;
}

/* A stranger may have written the file.  It names images of the store and of registries: files, folders and engines
 * are the operator's to load. */
static int
check_ref(const char *word, struct err *err)
{
	OWN(freep) struct image_ref *ref = calloc(1, sizeof(*ref));
	int r = ref == NULL ? err_set(err, ENOMEM, "out of memory") : image_ref_is_digest(word) ? 0 :
	        image_ref_parse(word, ref, err);

	if (r < 0 || ref->kind == IMAGE_REF_REGISTRY || ref->kind == IMAGE_REF_MINIMAL)
		return r;
	return err_set(err, EPERM, "a build names images of the store and of registries only: `cloister image load` it with "
	               "--name NAME, and write NAME");
}

int
build_load(struct build *b, const char *ref, struct state **ret_state, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(state_freep) struct state *state = state_new();
	json_t *answer = NULL;
	const char *digest;
	int r = state == NULL ? err_set(err, ENOMEM, "out of memory") : check_ref(ref, err);

	if (r == 0)
		r = resolve(ref, b->require, &answer, err);
	digest = json_string_value(json_object_get(answer, "digest"));
	if (r == 0)
		r = digest == NULL ? err_set(err, EPROTO, "cannot read the answer of cloister-image") :
		    store_load(b->store, digest, &image, err);
	if (r == 0)
		r = image_config_runs_here(&image.config, err);
	if (r == 0)
		r = take_config(b, state, image.manifest.config.digest, err);
	if (r == 0)
		r = take_env(state, err);
	if (r == 0)
		r = take_layers(state, &image.manifest, err);
	/* Layers and configuration, whatever the manifest is called. */
	for (size_t i = 0; r == 0 && i < image.manifest.n_layers; i++)
		state_chain(state, image.config.diff_ids[i]);
	if (r == 0)
		state_chain(state, image.manifest.config.digest);
	json_decref(answer);
	if (r < 0)
		return err_wrap(err, "the image '%s'", ref);
	state->epoch = build_time(image.config.created);
	*ret_state = TAKE(state);
	return 0;
}

static int
check_platform(const struct build *b, const struct build_stage *stage, struct err *err)
{
	OWN(freep) char *platform = NULL, *here = str_format("linux/%s", image_architecture());
	int r = stage->platform == NULL ? 0 :
	        build_word_expand(stage->platform, b->plan->escape, &b->globals, NULL, &platform, err);

	if (r < 0 || platform == NULL)
		return r;
	return here != NULL && strcmp(platform, here) == 0 ? 0 :
	       err_set(err, ENOTSUP, "cannot build for '%s': this machine is %s", platform, here);
}

int
build_from(struct build *b, size_t stage, struct state **ret_state, struct err *err)
{
	const struct build_stage *s = &b->plan->stages[stage];
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	OWN(state_freep) struct state *state = NULL;
	OWN(freep) char *base = NULL;
	int earlier, r = check_platform(b, s, err);

	if (r == 0)
		r = build_word_expand(s->base, b->plan->escape, &b->globals, NULL, &base, err);
	if (r < 0)
		return r;
	earlier = build_plan_find(b->plan, base, stage);
	if (strcmp(base, "scratch") == 0)
		state = state_new();
	else if (earlier >= 0)
		state = state_copy(b->states[earlier]);
	else
		r = build_load(b, base, &state, err);
	if (r == 0 && state == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	if (epoch != NULL && epoch[0] != '\0')
		state->epoch = strtoll(epoch, NULL, 10);
	*ret_state = TAKE(state);
	return 0;
}
