/* dispatch_root.c - the root file system of a dispatch's cell: the host's, none, an image or a
 * capability. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "image/ref.h"
#include "image/store.h"
#include "policy/policy_images.h"
#include "registry/registry.h"
#include "target/docker_image.h"

#define ANSWER_MAX (4u << 20)           /* of cloister-image */
#define SAID_MAX 65536

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- images ---- */

/* The last line that cloister-image wrote for people is its reason. */
static int
fail_as_said(int said, const char *ref, struct err *err)
{
	OWN(freep) char *text = NULL;
	char *line;
	size_t len = 0;

	if (lseek(said, 0, SEEK_SET) < 0 || read_whole(said, SAID_MAX, &text, &len, NULL) < 0 || len == 0)
		return err_set(err, EIO, "cannot get the image '%.200s'", ref);
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	line = strrchr(text, '\n');
	line = line != NULL ? line + 1 : text;
	if (strncmp(line, "cloister: ", 10) == 0)
		line += 10;
	return err_set(err, EINVAL, "%.400s", line);
}

/* What `cloister-image --resolve` answers: an image that is on this machine, loaded if it was not.  It must meet
 * REQUIRE, of policy_images_text(); "" for anything. */
static int
ask_for_image(const char *ref, const char *require, json_t **ret_image, struct err *err)
{
	OWN(closep) int answer = memfd_create("image", MFD_CLOEXEC), said = memfd_create("said", MFD_CLOEXEC);
	OWN(freep) char *text = NULL, *word = strdup(ref), *required = strdup(require);
	char *plain[] = { (char[]){ "cloister-image" }, (char[]){ "--resolve" }, word, NULL };
	char *strict[] = { plain[0], plain[1], (char[]){ "--require" }, required, word, NULL };
	const struct spawn_fd fds[] = { { SPAWN_NULL, 0 }, { answer, 1 }, { said, 2 } };
	size_t len;
	int status, r;

	if (answer < 0 || said < 0 || word == NULL || required == NULL)
		return err_errno(err, "cannot ask for an image");
	status = spawn_run(&(struct spawn){ .argv = require[0] != '\0' ? strict : plain, .fds = fds,
	                                    .n_fds = ARRAY_LEN(fds), .flags = SPAWN_APART | SPAWN_ONLY }, err);
	if (status < 0)
		return status;
	if (status != 0)
		return fail_as_said(said, ref, err);
	r = read_whole(answer, ANSWER_MAX, &text, &len, err);
	r = r == 0 ? canon_read(text, len, ret_image, err) : r;
	return r < 0 ? err_wrap(err, "the image '%.200s'", ref) : 0;
}

/* The image's own PATH, for commands without a folder. */
static char *
search_of(const json_t *config)
{
	json_t *word;
	size_t i;

	json_array_foreach(json_object_get(config, "Env"), i, word)
		if (json_is_string(word) && strncmp(json_string_value(word), "PATH=", 5) == 0)
			return strdup(json_string_value(word) + 5);
	return NULL;
}

/* An image of the container engine: its id is the digest.  Layers that cannot be seen from here are left out. */
static int
open_engines(const char *ref, struct dispatch_root *root, json_t **ret_named, struct err *err)
{
	OWN(engine_image_free) struct engine_image image = {0};
	OWN(json_decrefp) json_t *config = NULL;
	OWN(freep) char *socket = NULL;
	int r = engine_find(&socket, err);

	if (r == 0)
		r = engine_check_owner(socket, err);
	if (r == 0)
		r = docker_image_get(socket, ref, &image, err);
	if (r < 0)
		return err_wrap(err, "the image '%.200s'", ref);
	root->is_engines = true;
	for (char **layer = image.layers; layer != NULL && *layer != NULL; layer++)
		if (dispatch_root_add(root, *layer, NULL) < 0) {
			dispatch_root_close(root);
			break;
		}
	if (ret_named == NULL)
		return 0;
	config = json_loads(image.config, 0, NULL);
	root->search = search_of(config);
	*ret_named = json_pack("{s:s,s:s}", "digest", image.id, "name", ref);
	return *ret_named == NULL ? out_of_memory(err) : 0;
}

/* REF may be a digest: then the image must be in the store. */
static int
open_image(const char *ref, const char *require, struct dispatch_root *root, json_t **ret_named, struct err *err)
{
	OWN(json_decrefp) json_t *image = NULL;
	json_t *layer;
	size_t i;
	int r = ask_for_image(ref, require, &image, err);

	json_array_foreach(json_object_get(image, "layers"), i, layer)
		if (r == 0)
			r = dispatch_root_add(root, dispatch_text(layer, "path"), err);
	if (r < 0 || ret_named == NULL)
		return r;
	root->search = search_of(json_object_get(image, "config"));
	*ret_named = json_pack("{s:s,s:s}", "digest", dispatch_text(image, "digest"), "name",
	                       dispatch_text(image, "name"));
	return *ret_named == NULL ? out_of_memory(err) : 0;
}

/* ---- resolving ---- */

static bool
is_by_engine(const struct dispatch_request *request)
{
	return request->target != NULL && strcmp(request->target, TARGET_DOCKER) == 0;
}

/* The root that was asked for: the agent's own, unless the request names an image. */
static json_t *
asked_root(const struct dispatch_request *request, const json_t *agent)
{
	json_t *own = json_object_get(agent, "root");

	if (request->image != NULL)
		return request->image[0] == '\0' ? json_string("minimal") : json_pack("{s:s}", "image", request->image);
	/* A container has nothing of the host's. */
	return own == NULL || json_is_null(own) ? json_string(is_by_engine(request) ? "minimal" : "host") : json_incref(own);
}

static int
resolve_capability(struct registry *reg, json_t *asked, struct err *err)
{
	struct registry_version version;
	const char *ref = dispatch_text(asked, "capability");
	int r = registry_resolve(reg, REGISTRY_CAPABILITY, ref, REGISTRY_LIVE, &version, NULL, err);
	json_t *named;

	if (r < 0)
		return err_wrap(err, "the root");
	named = json_pack("{s:s,s:s}", "hash", version.hash, "name", version.name);
	return named == NULL || json_object_set_new(asked, "capability", named) < 0 ? out_of_memory(err) : 0;
}

static bool
is_word(const json_t *root, const char *word)
{
	return json_is_string(root) && strcmp(json_string_value(root), word) == 0;
}

/* Roots whose requirements cloister-image does not check. */
static int
check_kind(const json_t *asked, bool by_engine, const char *require, struct err *err)
{
	const char *ref = dispatch_text(asked, "image");
	struct policy_images images;
	int r = policy_images_parse(require, &images, err);

	if (r == 0 && json_object_get(asked, "capability") != NULL)
		r = policy_images_check_folder(&images, err);
	else if (r == 0 && by_engine && ref[0] != '\0')
		r = policy_images_check_engine(&images, ref, false, err);
	if (r == 0)
		return 0;
	return ref[0] == '\0' ? err_wrap(err, "the root") : err_wrap(err, "the image '%.200s'", ref);
}

int
dispatch_root_resolve(struct registry *reg, const struct dispatch_request *request, const json_t *agent,
                      json_t *resolved, struct dispatch_root *ret_root, struct err *err)
{
	OWN(json_decrefp) json_t *shared = asked_root(request, agent), *asked = json_deep_copy(shared);
	OWN(dispatch_root_close) struct dispatch_root root = {0};
	const char *require = dispatch_text(resolved, "images");
	json_t *named = NULL;
	int r = asked == NULL ? out_of_memory(err) : check_kind(asked, is_by_engine(request), require, err);

	if (r == 0 && request->image != NULL && request->by_agent)
		return err_set(err, EPERM, "an agent cannot choose the image of another: leave it out");
	if (r == 0 && is_word(asked, "minimal"))
		r = open_image(DISPATCH_MINIMAL, "", &root, &named, err);
	else if (r == 0 && is_by_engine(request) && json_object_get(asked, "image") == NULL)
		r = err_set(err, EINVAL, "on the target docker, the root of an agent is an image or minimal: register it so, or "
		            "name an image");
	else if (r == 0 && is_by_engine(request))
		r = open_engines(dispatch_text(asked, "image"), &root, &named, err);
	else if (r == 0 && json_object_get(asked, "image") != NULL)
		r = open_image(dispatch_text(asked, "image"), require, &root, &named, err);
	else if (r == 0 && json_object_get(asked, "capability") != NULL)
		r = resolve_capability(reg, asked, err);
	if (r == 0 && named != NULL && json_object_set_new(resolved, "image", named) < 0)
		r = out_of_memory(err);
	if (r == 0 && json_object_set(resolved, "root", asked) < 0)
		r = out_of_memory(err);
	if (r == 0 && named == NULL)
		r = dispatch_root_open(reg, resolved, &root, err);
	if (r < 0)
		return r;
	*ret_root = root;
	root = (struct dispatch_root){0};
	return 0;
}

int
dispatch_root_require(const json_t *resolved, struct err *err)
{
	const json_t *asked = json_object_get(resolved, "root");
	const char *require = dispatch_text(resolved, "images"), *ref = dispatch_text(asked, "image");
	const bool by_engine = dispatch_root_is_engines(resolved);
	OWN(json_decrefp) json_t *image = NULL;
	int r = check_kind(asked, by_engine, require, err);

	if (r < 0 || require[0] == '\0' || ref[0] == '\0' || by_engine)
		return r;
	r = ask_for_image(ref, require, &image, err);
	if (r == 0 && strcmp(dispatch_text(image, "digest"),
	                     dispatch_text(json_object_get(resolved, "image"), "digest")) != 0)
		r = err_set(err, EUCLEAN, "the image '%.200s' has just changed: try again", ref);
	return r;
}

/* ---- again, for an attempt ---- */

bool
dispatch_root_is_engines(const json_t *resolved)
{
	return strcmp(dispatch_text(resolved, "target"), TARGET_DOCKER) == 0 &&
	       !is_word(json_object_get(resolved, "root"), "minimal");
}

/* The folder of the capability that is the root: its bytes are checked. */
static int
open_capability(struct registry *reg, const json_t *named, struct dispatch_root *root, struct err *err)
{
	OWN(freep) char *path = NULL, *ref = str_format("%s@%s", dispatch_text(named, "name"),
	                                                dispatch_text(named, "hash"));
	OWN(json_decrefp) json_t *content = NULL;
	struct registry_version version;
	int r = ref == NULL ? out_of_memory(err) :
	        registry_resolve(reg, REGISTRY_CAPABILITY, ref, REGISTRY_ALL, &version, &content, err);

	r = r == 0 ? registry_tree(reg, &version, content, &path, NULL, err) : r;
	return r == 0 ? dispatch_root_add(root, path, err) : r;
}

/* This machine may be another than that which resolved it, and have made no minimal image yet. */
static int
open_minimal(const char *digest, struct dispatch_root *root, struct err *err)
{
	OWN(json_decrefp) json_t *own = NULL;
	int r;

	if (open_image(digest, "", root, NULL, &(struct err){0}) == 0)
		return 0;
	dispatch_root_close(root);
	r = open_image(DISPATCH_MINIMAL, "", root, &own, err);
	if (r == 0 && strcmp(dispatch_text(own, "digest"), digest) != 0)
		r = err_set(err, EUCLEAN, "the minimal image of this machine is not the one that was resolved (%s): let them have "
		            "the same busybox", digest);
	return r;
}

int
dispatch_root_open(struct registry *reg, const json_t *resolved, struct dispatch_root *ret_root, struct err *err)
{
	OWN(dispatch_root_close) struct dispatch_root root = {0};
	const json_t *asked = json_object_get(resolved, "root"), *image = json_object_get(resolved, "image");
	int r = 0;

	root.is_host = asked == NULL || is_word(asked, "host");
	if (root.is_host)
		r = dispatch_root_add(&root, "/", err);
	else if (json_is_object(image) && dispatch_root_is_engines(resolved))
		r = open_engines(dispatch_text(image, "digest"), &root, NULL, err);
	else if (json_is_object(image) && is_word(asked, "minimal"))
		r = open_minimal(dispatch_text(image, "digest"), &root, err);
	else if (json_is_object(image))
		r = open_image(dispatch_text(image, "digest"), "", &root, NULL, err);
	else if (json_object_get(asked, "capability") != NULL)
		r = open_capability(reg, json_object_get(asked, "capability"), &root, err);
	if (r < 0)
		return r;
	*ret_root = root;
	root = (struct dispatch_root){0};
	return 0;
}

/* ---- on another machine than the one that resolved it ---- */

/* The image that a worker needs in its store; NULL: it needs none. */
static const char *
needed_image(const json_t *resolved)
{
	const json_t *image = json_object_get(resolved, "image");

	return !json_is_object(image) || is_word(json_object_get(resolved, "root"), "minimal") ||
	       dispatch_root_is_engines(resolved) ? NULL : dispatch_text(image, "digest");
}

bool
dispatch_root_lacks(const json_t *resolved)
{
	const char *digest = needed_image(resolved);
	OWN(store_closep) struct store *s = NULL;

	return digest != NULL && (store_open(false, &s, NULL) < 0 || !store_has_blob(s, digest));
}

int
dispatch_root_bring(const json_t *resolved, struct err *err)
{
	const json_t *image = json_object_get(resolved, "image");
	const char *digest = needed_image(resolved), *name = dispatch_text(image, "name");
	OWN(json_decrefp) json_t *brought = NULL;
	OWN(freep) char *ref = NULL;
	struct image_ref parsed;
	int r;

	if (!dispatch_root_lacks(resolved))
		return 0;
	if (*name == '\0' || image_ref_is_digest(name) || image_ref_parse(name, &parsed, NULL) < 0 ||
	    parsed.kind != IMAGE_REF_REGISTRY)
		return err_set(err, ENOENT, "the image '%.200s' is not on this worker, and no registry is known that has it: load it "
		               "here with `cloister image load`, or push it to a registry and name it so", *name != '\0' ? name : digest);
	ref = parsed.name.digest[0] != '\0' ? strdup(parsed.name.full) : str_format("%s@%s", parsed.name.full, digest);
	r = ref == NULL ? out_of_memory(err) : ask_for_image(ref, "", &brought, err);
	if (r == 0 && strcmp(dispatch_text(brought, "digest"), digest) != 0)
		r = err_set(err, EUCLEAN, "the image '%.200s' is %s for this worker, and the dispatch was resolved to %s: let "
		            "worker and service have the same architecture", name, dispatch_text(brought, "digest"), digest);
	return r < 0 ? err_wrap(err, "this worker does not have the image") : 0;
}

int
dispatch_root_describe(const struct dispatch_root *root, const json_t *resolved, json_t *doc, struct err *err)
{
	const json_t *asked = json_object_get(resolved, "root");
	json_t *image = json_object_get(resolved, "image");
	const char *name = dispatch_text(image, "name");
	unsigned char digest[HASH_LEN];
	int r = 0;

	/* An agent that names its image by the digest alone gives it no other name. */
	if (json_is_object(image))
		r = json_object_set_new(doc, "image", name[0] != '\0' && !hash_parse_name(name, digest) ? json_incref(image) :
		                        json_pack("{s:s}", "digest", dispatch_text(image, "digest")));
	else if (json_object_get(asked, "capability") != NULL)
		r = json_object_set_new(doc, "rootfs", json_string(root->paths[0]));
	else if (is_word(asked, "none"))
		r = json_object_set_new(doc, "root", json_string("none"));
	return r < 0 ? out_of_memory(err) : 0;
}
