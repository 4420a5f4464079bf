/* build_state.c - an image in the making. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "proc/build/build.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

struct state *
state_new(void)
{
	struct state *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->config = json_pack("{s:s, s:s, s:{}, s:{s:s, s:[]}, s:[]}", "architecture", image_architecture(), "os", "linux",
	                      "config", "rootfs", "type", "layers", "diff_ids", "history");
	s->layers = json_array();
	if (s->config == NULL || s->layers == NULL) {
		state_free(s);
		return NULL;
	}
	return s;
}

void
state_free(struct state *state)
{
	if (state == NULL)
		return;
	json_decref(state->config);
	json_decref(state->layers);
	build_vars_free(&state->env);
	build_vars_free(&state->args);
	free(state);
}

/* Variables of ARG end with their stage. */
struct state *
state_copy(const struct state *from)
{
	OWN(state_freep) struct state *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->config = json_deep_copy(from->config);
	s->layers = json_deep_copy(from->layers);
	s->epoch = from->epoch;
	memcpy(s->chain, from->chain, HASH_LEN);
	for (size_t i = 0; i < from->env.n; i++)
		if (!build_vars_set(&s->env, from->env.list[i].name, from->env.list[i].value))
			return NULL;
	return s->config == NULL || s->layers == NULL ? NULL : TAKE(s);
}

json_t *
state_config(const struct state *state)
{
	return json_object_get(state->config, "config");
}

int
state_set_text(struct state *state, const char *name, const char *value, struct err *err)
{
	if (value[0] == '\0') {
		(void)json_object_del(state_config(state), name);
		return 0;
	}
	return json_object_set_new(state_config(state), name, json_string(value)) < 0 ? no_memory(err) : 0;
}

const char *
state_text(const struct state *state, const char *name)
{
	const char *value = json_string_value(json_object_get(state_config(state), name));

	return value != NULL ? value : "";
}

void
state_chain(struct state *state, const char *text)
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, state->chain, HASH_LEN);
	hash_add(&h, text, strlen(text) + 1);
	hash_end(&h, state->chain);
}

/* ---- layers and history ---- */

static json_t *
describe_layer(const struct build *b, const struct layer_made *made)
{
	char policy[HASH_NAME + 1] = BUILD_NO_POLICY;
	json_t *layer = json_pack("{s:s, s:s, s:I}", "mediaType", IMAGE_TYPE_OCI_LAYER_GZIP, "digest", made->digest,
	                          "size", (json_int_t)made->size);

	if (b->has_policy)
		hash_name(b->policy, policy);
	if (layer != NULL && made->cell[0] != '\0')
		json_object_set_new(layer, "annotations", json_pack("{s:s, s:s, s:s}", IMAGE_ANNOTATION_CELL, made->cell,
		                    IMAGE_ANNOTATION_POLICY, policy, IMAGE_ANNOTATION_TIMELINE, made->timeline));
	return layer;
}

/* The part of the record that is the same in each build: so is the digest of the configuration. */
static json_t *
describe_step(const struct build *b, const struct state *state, const struct build_step *step, bool empty)
{
	char created[32], policy[HASH_NAME + 1] = BUILD_NO_POLICY;
	OWN(freep) char *comment = NULL;
	json_t *entry;

	build_time_text(state->epoch, created);
	entry = json_pack("{s:s, s:s}", "created", created, "created_by", step->text);
	if (b->has_policy)
		hash_name(b->policy, policy);
	comment = step->kind == BUILD_RUN ? str_format(IMAGE_ANNOTATION_POLICY "=%s", policy) : NULL;
	if (entry != NULL && comment != NULL)
		json_object_set_new(entry, "comment", json_string(comment));
	if (entry != NULL && empty)
		json_object_set_new(entry, "empty_layer", json_true());
	return entry;
}

int
state_add(const struct build *b, struct state *state, const struct build_step *step, const struct layer_made *made,
          struct err *err)
{
	const bool empty = made == NULL || made->empty;
	json_t *diff_ids = json_object_get(json_object_get(state->config, "rootfs"), "diff_ids");

	if (json_array_append_new(json_object_get(state->config, "history"), describe_step(b, state, step, empty)) < 0)
		return err_set(err, EINVAL, "the text of line %u is not UTF-8", step->line);
	if (empty)
		return 0;
	if (json_array_size(state->layers) >= IMAGE_LAYERS_MAX)
		return err_set(err, E2BIG, "an image cannot have over %d layers", IMAGE_LAYERS_MAX);
	if (json_array_append_new(state->layers, describe_layer(b, made)) < 0 ||
	    json_array_append_new(diff_ids, json_string(made->diff_id)) < 0)
		return no_memory(err);
	return 0;
}

/* ---- the store ---- */

static int
put_json(struct store *s, const json_t *value, char ret_digest[HASH_NAME + 1], size_t *ret_size, struct err *err)
{
	OWN(freep) char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);

	if (text == NULL)
		return no_memory(err);
	*ret_size = strlen(text);
	return store_put_blob(s, text, strlen(text), ret_digest, err);
}

static int
set_env(const struct state *state, struct err *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < state->env.n; i++) {
		OWN(freep) char *entry = str_format("%s=%s", state->env.list[i].name, state->env.list[i].value);

		if (entry == NULL || json_array_append_new(list, json_string(entry)) < 0) {
			json_decref(list);
			return err_set(err, EINVAL, "a variable is not UTF-8: %s", state->env.list[i].name);
		}
	}
	if (json_array_size(list) == 0) {
		json_decref(list);
		return json_object_del(state_config(state), "Env"), 0;
	}
	return json_object_set_new(state_config(state), "Env", list) < 0 ? no_memory(err) : 0;
}

int
state_store(struct build *b, const struct state *state, struct image_descriptor *ret_descriptor, struct err *err)
{
	char config[HASH_NAME + 1], created[32];
	size_t config_size, size = 0;
	json_t *manifest = NULL;
	int r = set_env(state, err);

	build_time_text(state->epoch, created);
	if (r == 0 && json_object_set_new(state->config, "created", json_string(created)) < 0)
		r = no_memory(err);
	if (r == 0)
		r = put_json(b->store, state->config, config, &config_size, err);
	if (r < 0)
		return r;
	manifest = json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:O}", "schemaVersion", 2, "mediaType", IMAGE_TYPE_OCI_MANIFEST,
	                     "config", "mediaType", IMAGE_TYPE_OCI_CONFIG, "digest", config, "size",
	                     (json_int_t)config_size, "layers", state->layers);
	*ret_descriptor = (struct image_descriptor){0};
	r = manifest == NULL ? no_memory(err) : put_json(b->store, manifest, ret_descriptor->digest, &size, err);
	json_decref(manifest);
	if (r < 0)
		return r;
	ret_descriptor->size = size;
	memcpy(ret_descriptor->media_type, IMAGE_TYPE_OCI_MANIFEST, sizeof(IMAGE_TYPE_OCI_MANIFEST));
	memcpy(ret_descriptor->os, "linux", 6);
	memcpy(ret_descriptor->architecture, image_architecture(), strlen(image_architecture()) + 1);
	return 0;
}
