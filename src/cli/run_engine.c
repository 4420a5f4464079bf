/* run_engine.c - --boundary docker: finds the container engine, and the image in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/run.h"
#include "image/store.h"
#include "target/docker_image.h"

#define OWN_NAME "cloister.internal/minimal:"
#define TAG_LEN 16                      /* digits of the layer's digest */

/* References of other kinds name files or stores that an engine does not read. */
static int
check_kind(const char *ref, struct err *err)
{
	static const char *const others[] = { "oci:", "oci-archive:", "docker-archive:" };

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strncmp(ref, others[i], strlen(others[i])) == 0)
			return err_set(err, EINVAL, "a container engine does not read '%.*s' itself: `docker load` or `docker import` "
			               "it, and give --image the name; or leave --boundary docker out",
			               (int)strlen(others[i]) - 1, others[i]);
	return 0;
}

static const char *
name_of(const char *ref)
{
	static const char registry[] = "docker://", engine[] = "docker-daemon:";

	return strncmp(ref, registry, strlen(registry)) == 0 ? ref + strlen(registry) :
	       strncmp(ref, engine, strlen(engine)) == 0 ? ref + strlen(engine) : ref;
}

/* Its files follow from the id: the container is made from that, and from no other. */
static int
take_id(struct run *run, const struct engine_image *image, struct err *err)
{
	return hash_parse_name(image->id, run->spec.image.digest) ? 0 :
	       err_set(err, EBADMSG, "the engine gives no id of it");
}

/* ---- cloister's own ---- */

/* Gives the engine the layer of the image in the store, unless it has it. */
static int
load_layer(const struct run *run, const struct store *s, const struct store_image *image,
           struct engine_image *ret_image, struct err *err)
{
	OWN(closep) int blob = -1;
	char name[sizeof(OWN_NAME) + TAG_LEN];
	uint64_t size;
	int r;

	snprintf(name, sizeof(name), OWN_NAME "%.*s", TAG_LEN, image->config.diff_ids[0] + strlen(HASH_PREFIX));
	r = engine_find_image(run->spec.engine, name, ret_image, err);
	if (r != -ENOENT)
		return r;
	blob = store_open_blob(s, image->manifest.layers[0].digest, &size, err);
	r = blob < 0 ? blob : engine_import(run->spec.engine, name, blob, err);
	return r < 0 ? r : engine_find_image(run->spec.engine, name, ret_image, err);
}

static int
take_own(struct run *run, struct err *err)
{
	OWN(engine_image_free) struct engine_image loaded = {0};
	OWN(store_image_free) struct store_image image = {0};
	OWN(store_closep) struct store *s = NULL;
	char digest[HASH_NAME + 1];
	int r = run_find_in_store(run, err);

	if (r != 0)
		return r;
	hash_name(run->spec.image.digest, digest);
	r = store_open(false, &s, err);
	if (r == 0)
		r = store_load(s, digest, &image, err);
	if (r == 0)
		r = load_layer(run, s, &image, &loaded, err);
	if (r < 0)
		return r;
	if (image.config.n_diff_ids != 1 || strcmp(loaded.layer, image.config.diff_ids[0]) != 0)
		return err_set(err, ESTALE, "the engine's '%s' has other files than cloister's: remove it there", loaded.name);
	strv_free(run->spec.image.layers);
	run->spec.image.layers = NULL;
	close_fd(&run->image_fd);
	run->image_fd = -1;
	return take_id(run, &loaded, err);
}

/* ---- the engine's ---- */

/* Whether run->image_digest, of a document, is the id or the digest in its registry. */
static bool
is_wanted(const struct run *run, const struct engine_image *image)
{
	return run->image_digest == NULL || strcmp(run->image_digest, image->id) == 0 ||
	       strcmp(run->image_digest, image->digest) == 0;
}

static int
take_theirs(struct run *run, struct err *err)
{
	OWN(engine_image_free) struct engine_image image = {0};
	const char *ref = name_of(run->image_name != NULL ? run->image_name :
	                          run->image_digest != NULL ? run->image_digest : run->image);
	int r = policy_images_check_engine(&run->images, ref, run->image_digest != NULL, err);

	if (r == 0)
		r = docker_image_get(run->spec.engine, ref, &image, err);
	if (r < 0)
		return r;
	if (!is_wanted(run, &image))
		return err_set(err, ESTALE, "it is %s now, and the document asks for %s", image.id, run->image_digest);
	run->image_config = json_loads(image.config, 0, NULL);
	run->spec.image.name = TAKE(image.name);
	run->engine_layers = TAKE(image.layers);
	if (run->image_config == NULL)
		return err_set(err, EBADMSG, "the engine gives no configuration of it");
	return take_id(run, &image, err);
}

int
run_find_engine(struct run *run, struct err *err)
{
	int r = check_kind(run->image, err);

	r = r == 0 ? engine_find(&run->spec.engine, err) : r;
	return r == 0 ? engine_check_owner(run->spec.engine, err) : r;
}

int
run_finish_engine(struct run *run, struct err *err)
{
	return strcmp(run->image, RUN_MINIMAL) == 0 ? take_own(run, err) : take_theirs(run, err);
}
