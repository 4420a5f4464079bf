/* run_image.c - `cloister run --image`: finds the image in the store, and makes it the root of the cell.
 *
 * If the image is not in the store yet, cloister-image brings it there.  It prints one line of JSON, whose digest
 * names the image. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "image/minimal.h"
#include "image/ref.h"
#include "image/store.h"

#define ANSWER_MAX (8u << 20)           /* bytes */

_Static_assert(CELL_LAYERS_MAX >= IMAGE_LAYERS_MAX && CELL_IMAGE_NAME_MAX >= IMAGE_NAME_MAX, "any image is a cell's");

int
run_set_root(struct run *run, const char *value, struct err *err)
{
	if (value == NULL)
		run->spec.root = true;
	else if (strcmp(value, "none") == 0)
		run->spec.bare = true;
	else if (strcmp(value, "minimal") == 0)
		run->image = RUN_MINIMAL;
	else if (strcmp(value, "host") == 0)
		run->host_root = true;
	else
		return err_set(err, EINVAL, "there is no root '%s': use none, host or minimal, or --image", value);
	return 0;
}

int
run_set_layer(struct run *run, const char *value, struct err *err)
{
	OWN(freep) char *fd = strndup(value, strcspn(value, ":"));
	uint64_t number = 0;
	int r = fd == NULL || strchr(value, ':') == NULL ? -EINVAL : num_parse_count(fd, 3, INT16_MAX, &number, NULL);

	if (r == 0)
		r = num_parse_count(strchr(value, ':') + 1, 0, INT64_MAX, &run->spec.image.epoch, NULL);
	if (r < 0 || fcntl((int)number, F_GETFD) < 0)
		return err_set(err, EINVAL, "'%s' is not an open descriptor and a time in seconds: FD:TIME", value);
	run->layer_fd = fcntl((int)number, F_DUPFD_CLOEXEC, CELL_FDS_END);
	if (run->layer_fd < 0)
		return err_errno(err, "cannot use the descriptor of --layer");
	run->spec.image.build = true;
	/* There is no home of the agent's in it. */
	run->spec.cwd[1] = '\0';
	return 0;
}

/* ---- finding it ---- */

/* The layers of IMAGE, which the store holds for this process now; -ENOENT if one is missing. */
static int
take_layers(const struct store *s, const struct store_image *image, char ***ret_layers, struct err *err)
{
	OWN(strv_freep) char **layers = calloc(image->config.n_diff_ids + 1, sizeof(*layers));

	if (layers == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (image->config.n_diff_ids == 0)
		return err_set(err, EINVAL, "it has no files");
	for (size_t i = 0; i < image->config.n_diff_ids; i++) {
		OWN(freep) char *path = NULL;

		if (!store_has_layer(s, image->config.diff_ids[i]))
			return -ENOENT;
		path = store_layer_path(s, image->config.diff_ids[i]);
		/* Whoever mounts it follows no link. */
		layers[i] = path == NULL ? NULL : realpath(path, NULL);
		if (layers[i] == NULL)
			return err_errno(err, "cannot find the layer %s", image->config.diff_ids[i]);
	}
	*ret_layers = TAKE(layers);
	return 0;
}

/* Makes the image DIGEST the cell's; -ENOENT if it is not there, or not whole. */
static int
take_image(struct run *run, struct store *s, const char *digest, const char *name, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(strv_freep) char **layers = NULL;
	OWN(closep) int use = -1;
	int r = store_load(s, digest, &image, err);

	if (r == 0)
		r = image_config_runs_here(&image.config, err);
	if (r == 0)
		r = store_use(s, digest, &use, err);
	if (r == 0)
		r = take_layers(s, &image, &layers, err);
	if (r < 0)
		return r;
	run->image_config = json_loads(image.config.config, 0, NULL);
	run->spec.image.name = strdup(name);
	if (run->image_config == NULL || run->spec.image.name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (!hash_parse_name(digest, run->spec.image.digest))
		return err_set(err, EINVAL, "the digest %s is malformed", digest);
	run->spec.image.layers = TAKE(layers);
	run->image_fd = TAKE_FD(use);
	return 0;
}

/* In the store as it is. */
static int
look_for(struct run *run, const char *wanted, const char *name, struct err *err)
{
	OWN(store_found_free) struct image_descriptor found = {0};
	OWN(store_closep) struct store *s = NULL;
	int r = store_open(false, &s, err);

	/* An image that is being built is not listed: its build says which one it is. */
	if (r == 0 && run->spec.image.build)
		return take_image(run, s, wanted, name, err);
	if (r == 0)
		r = store_find(s, wanted, &found, err);
	return r < 0 ? r : take_image(run, s, found.digest, name, err);
}

/* Made of the busybox that the machine has now. */
static int
look_for_minimal(struct run *run, struct err *err)
{
	OWN(store_found_free) struct image_descriptor found = {0};
	OWN(store_closep) struct store *s = NULL;
	struct store_key key;
	int r = store_open(false, &s, err);

	if (r == 0)
		r = minimal_find(s, &key, &found);
	return r < 0 ? r : take_image(run, s, found.digest, IMAGE_MINIMAL, err);
}

static int
look_for_image(struct run *run, struct err *err)
{
	OWN(freep) struct image_ref *ref = calloc(1, sizeof(*ref));
	unsigned char digest[HASH_LEN];
	int r;

	if (run->image_digest != NULL)
		return look_for(run, run->image_digest, run->image_name != NULL ? run->image_name : "", err);
	if (hash_parse_name(run->image, digest))
		return look_for(run, run->image, "", err);
	if (run->spec.image.build)
		return err_set(err, EINVAL, "--layer takes an image by its digest");
	if (image_ref_is_digest(run->image))
		return -ENOENT;
	r = ref == NULL ? err_set(err, ENOMEM, "out of memory") : image_ref_parse(run->image, ref, err);
	if (r == 0 && strcmp(ref->name.full, IMAGE_MINIMAL) == 0)
		return look_for_minimal(run, err);
	if (r < 0 || ref->kind != IMAGE_REF_REGISTRY)
		return r < 0 ? r : -ENOENT;
	return look_for(run, ref->name.digest[0] != '\0' ? ref->name.digest : ref->name.full, ref->name.full, err);
}

/* Has cloister-image bring it.  Positive: it has printed why it cannot. */
static int
ask_resolver(const struct run *run, json_t **ret_answer, struct err *err)
{
	char require[POLICY_IMAGES_TEXT_MAX + 1], *image = (char *)(uintptr_t)run->image;
	char *const plain[] = { (char[]){ "cloister-image" }, (char[]){ "--resolve" }, image, NULL };
	char *const strict[] = { plain[0], plain[1], (char[]){ "--require" }, require, image, NULL };
	struct spawn_fd out = { -1, STDOUT_FILENO };
	OWN(freep) char *text = NULL;
	int ends[2], r, status;
	size_t len = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot create a pipe");
	out.fd = ends[1];
	policy_images_text(&run->images, require);
	pid = spawn_start(&(struct spawn){ .argv = run->images.is_set ? strict : plain, .fds = &out, .n_fds = 1,
		.flags = SPAWN_DIES }, NULL, err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : read_open(ends[0], "cloister-image", ANSWER_MAX, &text, &len, err);
	close(ends[0]);
	if (pid < 0)
		return r;
	status = spawn_await(pid, err);
	if (status != 0 || r < 0)
		return status > 0 ? CLI_FAILED : status < 0 ? status : r;
	*ret_answer = json_loadb(text, len, 0, NULL);
	return *ret_answer == NULL ? err_set(err, EPROTO, "cannot read the answer of cloister-image") : 0;
}

static int
bring_image(struct run *run, struct err *err)
{
	OWN(store_closep) struct store *s = NULL;
	OWN(json_decrefp) json_t *answer = NULL;
	const char *digest, *name;
	int r = ask_resolver(run, &answer, err);

	if (r == 0)
		r = store_open(false, &s, err);
	if (r != 0)
		return r;
	digest = json_string_value(json_object_get(answer, "digest"));
	name = json_string_value(json_object_get(answer, "name"));
	if (digest == NULL)
		return err_set(err, EPROTO, "cannot read the answer of cloister-image");
	r = take_image(run, s, digest, name != NULL ? name : "", err);
	return r == -ENOENT ? err_set(err, ENOENT, "it was removed again meanwhile: try again") : r;
}

int
run_take_image(struct run *run, const char *name, const char *digest, struct err *err)
{
	run->image_name = name;
	run->image_digest = digest;
	if (name == NULL || digest == NULL || strchr(name, '@') != NULL)
		run->image_text = strdup(name != NULL ? name : digest);
	else
		run->image_text = strcmp(name, IMAGE_MINIMAL) == 0 ? strdup(RUN_MINIMAL) : str_format("%s@%s", name, digest);
	run->image = run->image_text;
	return run->image == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
check_digest(const struct run *run, struct err *err)
{
	char digest[HASH_NAME + 1];

	hash_name(run->spec.image.digest, digest);
	return run->image_digest == NULL || strcmp(digest, run->image_digest) == 0 ? 0 :
	       err_set(err, ESTALE, "it is %s now, and the document asks for %s", digest, run->image_digest);
}

int
run_find_in_store(struct run *run, struct err *err)
{
	unsigned char digest[HASH_LEN];
	int r;

	/* cloister-image checks what policies require.  A build has it check those that the build begins with. */
	if (run->images.is_set && !run->spec.image.build) {
		r = bring_image(run, err);
		return r == 0 ? check_digest(run, err) : r;
	}
	r = look_for_image(run, err);
	if (r == -ENOENT && hash_parse_name(run->image, digest))
		return err_set(err, ENOENT, "it is not in the store: `cloister image load` or `cloister image pull` it");
	if (r == -ENOENT)
		r = bring_image(run, err);
	return r == 0 ? check_digest(run, err) : r;
}

static int
check_options(const struct run *run, struct err *err)
{
	const int roots = (run->image != NULL) + run->spec.bare + (run->spec.rootfs[0] != '\0');

	if (roots > 1)
		return err_set(err, EINVAL, "a cell has one root: use one of --image, --rootfs and --root");
	if ((run->entrypoint != NULL || run->spec.image.build) && run->image == NULL)
		return err_set(err, EINVAL, "%s needs --image", run->spec.image.build ? "--layer" : "--entrypoint");
	if (run->spec.image.build && (run->print_doc || run->spec.detached || run->spec.n_grants == CELL_GRANTS_MAX ||
	                              (run->spec.boundary[0] != '\0' && strcmp(run->spec.boundary, "namespace") != 0)))
		return err_set(err, EINVAL, "--layer is for cells in the foreground, with --boundary namespace, and not for "
		               "documents");
	return 0;
}

int
run_finish_image(struct run *run, struct err *err)
{
	int r = check_options(run, err);
	const bool by_engine = strcmp(run->spec.boundary, BOUNDARY_DOCKER) == 0;

	if (r == 0 && by_engine && (run->spec.bare || run->host_root || run->spec.rootfs[0] != '\0'))
		r = err_set(err, EINVAL, "a container has an image: use --image, or leave the root out");
	if (r == 0 && run->spec.rootfs[0] != '\0')
		r = policy_images_check_folder(&run->images, err);
	if (run->image == NULL && by_engine)
		run->image = RUN_MINIMAL;
	if (r == 0 && by_engine)
		r = run_find_engine(run, err);
	if (r < 0 || run->image == NULL)
		return r;
	r = by_engine ? run_finish_engine(run, err) : run_find_in_store(run, err);
	if (r == 0)
		r = run_use_config(run, err);
	return r < 0 ? err_wrap(err, "the image '%s'", run->image) : r;
}
