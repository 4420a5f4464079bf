/* engine_calls.c - the calls of the Engine API that cloister uses. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/docker/engine.h"

#define GONE_MS 20000
#define GONE_PAUSE_MS 5
#define ESCAPED_MAX (3 * ENGINE_REF_MAX + 1)

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static bool
copy_digest(char to[ENGINE_ID_LEN + 1], const char *text)
{
	size_t len = strlen(text);

	if (len != ENGINE_ID_LEN || strncmp(text, "sha256:", 7) != 0 || strspn(text + 7, "0123456789abcdef") != len - 7)
		return false;
	memcpy(to, text, len + 1);
	return true;
}

/* Podman leaves the algorithm out. */
static bool
copy_id(char to[ENGINE_ID_LEN + 1], const char *text)
{
	char id[ENGINE_ID_LEN + 16];

	snprintf(id, sizeof(id), "%s%s", strncmp(text, "sha256:", 7) == 0 ? "" : "sha256:", text);
	return copy_digest(to, id);
}

static int
parse(const struct engine_answer *a, json_t **ret_json, struct err *err)
{
	json_error_t why;
	json_t *json = json_loadb(a->text, a->len, JSON_REJECT_DUPLICATES, &why);

	if (json == NULL)
		return err_set(err, EBADMSG, "the engine answers with something that is not JSON");
	*ret_json = json;
	return 0;
}

static bool
is_podmans(const struct engine_answer *version)
{
	return strstr(version->text, "Podman Engine") != NULL;
}

bool
engine_is_podman(const char *socket)
{
	OWN(engine_answer_free) struct engine_answer version = {0};

	return engine_ask(socket, &(struct engine_request){ .method = "GET", .path = "/version" }, &version, NULL) == 0 &&
	       is_podmans(&version);
}

int
engine_describe(const char *socket, struct engine_about *ret_about, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer version = {0}, info = {0};
	OWN(json_decrefp) json_t *about = NULL, *details = NULL;
	struct engine_about found = {0};
	json_t *options, *option;
	size_t i;
	int r = engine_ask(socket, &(struct engine_request){ .method = "GET", .path = "/version" }, &version, err);

	if (r == 0 && version.status != 200)
		r = engine_refused("describe itself", &version, err);
	if (r == 0)
		r = engine_ask(socket, &(struct engine_request){ .method = "GET", .path = "/info" }, &info, err);
	if (r == 0)
		r = parse(&version, &about, err);
	if (r == 0)
		r = parse(&info, &details, err);
	if (r < 0)
		return r;
	snprintf(found.version, sizeof(found.version), "%s", text_of(about, "Version"));
	snprintf(found.name, sizeof(found.name), "%s", is_podmans(&version) ? "Podman" : "Docker");
	options = json_object_get(details, "SecurityOptions");
	json_array_foreach(options, i, option)
		if (json_is_string(option) && strstr(json_string_value(option), "name=rootless") != NULL)
			found.rootless = true;
	*ret_about = found;
	return 0;
}

/* ---- containers ---- */

static bool
copy_container(char to[ENGINE_CONTAINER_LEN + 1], const char *id)
{
	if (strlen(id) != ENGINE_CONTAINER_LEN || strspn(id, "0123456789abcdef") != ENGINE_CONTAINER_LEN)
		return false;
	memcpy(to, id, ENGINE_CONTAINER_LEN + 1);
	return true;
}

int
engine_create(const char *socket, const char *name, const char *description, char ret_id[ENGINE_CONTAINER_LEN + 1],
              struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	OWN(json_decrefp) json_t *made = NULL;
	OWN(freep) char *path = str_format("/containers/create?name=%s", name);
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
	        engine_ask(socket, &(struct engine_request){ .method = "POST", .path = path, .json = description }, &a, err);

	if (r == 0 && a.status != 201)
		r = engine_refused("make the container", &a, err);
	if (r == 0)
		r = parse(&a, &made, err);
	if (r < 0)
		return r;
	return copy_container(ret_id, text_of(made, "Id")) ? 0 :
	       err_set(err, EBADMSG, "the engine gives no id of the container");
}

static int
ask_of(const char *socket, const char *method, const char *name, const char *what, struct engine_answer *ret_answer,
       struct err *err)
{
	OWN(freep) char *path = str_format("/containers/%s%s", name, what);

	return path == NULL ? err_set(err, ENOMEM, "out of memory") :
	       engine_ask(socket, &(struct engine_request){ .method = method, .path = path }, ret_answer, err);
}

/* The caller owns *ret_about.  -ENOENT. */
static int
look_at(const char *socket, const char *name, json_t **ret_about, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	int r = ask_of(socket, "GET", name, "/json", &a, err);

	if (r == 0 && a.status != 200)
		r = engine_refused("describe the container", &a, err);
	return r < 0 ? r : parse(&a, ret_about, err);
}

int
engine_check_image(const char *socket, const char *name, const char *image, struct err *err)
{
	OWN(json_decrefp) json_t *about = NULL;
	char id[ENGINE_ID_LEN + 1] = "";
	int r = look_at(socket, name, &about, err);

	if (r < 0)
		return r;
	return copy_id(id, text_of(about, "Image")) && strcmp(id, image) == 0 ? 0 :
	       err_set(err, ESTALE, "the engine made the container from another image, %s", id[0] != '\0' ? id : "of no id");
}

int
engine_find_process(const char *socket, const char *name, char ret_id[ENGINE_CONTAINER_LEN + 1], pid_t *ret_pid,
                    struct err *err)
{
	OWN(json_decrefp) json_t *about = NULL;
	int r = look_at(socket, name, &about, err);

	if (r < 0)
		return r;
	*ret_pid = (pid_t)json_integer_value(json_object_get(json_object_get(about, "State"), "Pid"));
	return copy_container(ret_id, text_of(about, "Id")) && *ret_pid > 0;
}

int
engine_start(const char *socket, const char *name, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	int r = ask_of(socket, "POST", name, "/start", &a, err);

	return r < 0 || a.status == 204 ? r : engine_refused("start the container", &a, err);
}

int
engine_has(const char *socket, const char *name, struct err *err)
{
	OWN(json_decrefp) json_t *about = NULL;
	int r = look_at(socket, name, &about, err);

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* A container that removes itself at its end may do so meanwhile: the engine refuses a second removal. */
int
engine_remove(const char *socket, const char *name, struct err *err)
{
	const struct timespec pause = { .tv_nsec = GONE_PAUSE_MS * 1000000L };
	const int64_t deadline = io_now_ms() + GONE_MS;
	int r;

	do {
		OWN(engine_answer_free) struct engine_answer a = {0};

		r = ask_of(socket, "DELETE", name, "?force=true&v=true", &a, err);
		if (r < 0 || a.status == 404)
			return r;
		r = engine_has(socket, name, err);
		if (r == 0)
			return 0;
		/* In the middle of it, Podman fails to describe the container. */
		(void)nanosleep(&pause, NULL);
	} while (io_now_ms() < deadline);
	return r < 0 ? r : err_set(err, EBUSY, "the engine does not remove the container %s", name);
}

int
engine_list(const char *socket, const char *key, const struct engine_label *with,
            void (*each)(void *arg, const char *value, int64_t created_s), void *arg, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	OWN(json_decrefp) json_t *list = NULL;
	OWN(freep) char *path = str_format("/containers/json?all=true&filters=%%7B%%22label%%22%%3A%%5B%%22%s%%22%%5D%%7D",
	                                   key);
	json_t *one;
	size_t i;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
	        engine_ask(socket, &(struct engine_request){ .method = "GET", .path = path }, &a, err);

	if (r == 0 && a.status != 200)
		r = engine_refused("list its containers", &a, err);
	if (r == 0)
		r = parse(&a, &list, err);
	if (r < 0)
		return r;
	json_array_foreach(list, i, one) {
		const json_t *labels = json_object_get(one, "Labels");

		if (strcmp(text_of(labels, with->key), with->value) == 0)
			each(arg, text_of(labels, key), (int64_t)json_integer_value(json_object_get(one, "Created")));
	}
	return 0;
}

/* ---- images ---- */

void
engine_image_free(struct engine_image *image)
{
	free(image->name);
	free(image->config);
	strv_free(image->layers);
	*image = (struct engine_image){0};
}

/* For a path or a query; slashes stay. */
static int
escape(const char *text, char ret_text[ESCAPED_MAX], struct err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	size_t n = 0;

	if (text[0] == '\0' || strlen(text) > ENGINE_REF_MAX)
		return err_set(err, EINVAL, "'%.64s' is no name of an image", text);
	for (; *text != '\0'; text++)
		n += (size_t)(strchr(plain, *text) != NULL ? snprintf(ret_text + n, 2, "%c", *text) :
		              snprintf(ret_text + n, 4, "%%%02X", (unsigned char)*text));
	return 0;
}

/* The digest of the repository that the operator named; else of any. */
static void
find_digest(const json_t *about, const char *ref, char ret_digest[ENGINE_ID_LEN + 1])
{
	json_t *digests = json_object_get(about, "RepoDigests"), *one;
	size_t i;

	json_array_foreach(digests, i, one) {
		const char *text = json_is_string(one) ? json_string_value(one) : "", *at = strchr(text, '@');

		if (at != NULL && (ret_digest[0] == '\0' || strncmp(text, ref, (size_t)(at - text)) == 0))
			(void)copy_digest(ret_digest, at + 1);
	}
}

/* The drivers `overlay` of Podman and `overlay2` of Docker: UpperDir is the topmost, and LowerDir has the others, the
 * highest first. */
static char **
find_layers(const json_t *about)
{
	const json_t *driver = json_object_get(about, "GraphDriver"), *data = json_object_get(driver, "Data");
	OWN(strv_freep) char **layers = calloc(ENGINE_LAYERS_MAX + 1, sizeof(*layers));
	OWN(freep) char *all = str_format("%s:%s", text_of(data, "UpperDir"), text_of(data, "LowerDir"));
	char *at = all, *one, *name;
	size_t n = 0;

	if (layers == NULL || all == NULL || strncmp(text_of(driver, "Name"), "overlay", 7) != 0)
		return NULL;
	while ((one = strsep(&at, ":")) != NULL)
		if (one[0] != '\0' && (one[0] != '/' || n == ENGINE_LAYERS_MAX || (layers[n++] = strdup(one)) == NULL))
			return NULL;
	for (size_t i = 0; i < n / 2; i++) {
		name = layers[i];
		layers[i] = layers[n - 1 - i];
		layers[n - 1 - i] = name;
	}
	return n > 0 ? TAKE(layers) : NULL;
}

static int
take_image(const struct engine_answer *a, const char *ref, struct engine_image *ret_image, struct err *err)
{
	OWN(json_decrefp) json_t *about = NULL;
	struct engine_image image = {0};
	json_t *config, *layers;
	int r = parse(a, &about, err);

	if (r < 0)
		return r;
	if (!copy_id(image.id, text_of(about, "Id")))
		return err_set(err, EBADMSG, "the engine gives no id of the image '%s'", ref);
	find_digest(about, ref, image.digest);
	layers = json_object_get(json_object_get(about, "RootFS"), "Layers");
	if (json_array_size(layers) == 1 && json_is_string(json_array_get(layers, 0)))
		(void)copy_digest(image.layer, json_string_value(json_array_get(layers, 0)));
	config = json_object_get(about, "Config");
	image.layers = find_layers(about);
	image.name = strdup(ref);
	image.config = json_is_object(config) ? json_dumps(config, JSON_COMPACT) : strdup("{}");
	if (image.name == NULL || image.config == NULL) {
		engine_image_free(&image);
		return err_set(err, ENOMEM, "out of memory");
	}
	*ret_image = image;
	return 0;
}

int
engine_find_image(const char *socket, const char *ref, struct engine_image *ret_image, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	OWN(freep) char *path = NULL;
	char escaped[ESCAPED_MAX];
	int r = escape(ref, escaped, err);

	path = r < 0 ? NULL : str_format("/images/%s/json", escaped);
	if (r == 0)
		r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
		    engine_ask(socket, &(struct engine_request){ .method = "GET", .path = path }, &a, err);
	if (r == 0 && a.status != 200)
		r = engine_refused("find the image", &a, err);
	return r < 0 ? r : take_image(&a, ref, ret_image, err);
}

/* Whether the last part of REF has a tag or a digest: without one, some engines fetch every tag. */
static bool
is_tagged(const char *ref)
{
	const char *slash = strrchr(ref, '/');

	return strpbrk(slash != NULL ? slash : ref, ":@") != NULL;
}

/* Both engines answer with 200 as soon as they begin. */
int
engine_pull(const char *socket, const char *ref, const char *login, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	OWN(freep) char *path = NULL;
	char escaped[ESCAPED_MAX];
	int r = escape(ref, escaped, err);

	path = r < 0 ? NULL : str_format("/images/create?fromImage=%s%s", escaped, is_tagged(ref) ? "" : "&tag=latest");
	if (r == 0)
		r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
		    engine_ask(socket, &(struct engine_request){ .method = "POST", .path = path, .login = login,
		                                                 .ms = ENGINE_PULL_MS }, &a, err);
	return r < 0 || (a.status == 200 && strstr(a.text, ENGINE_ERROR) == NULL) ? r :
	       engine_refused("fetch the image", &a, err);
}

int
engine_import(const char *socket, const char *name, int file, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer a = {0};
	OWN(freep) char *path = str_format("/images/create?fromSrc=-&repo=%s", name);
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
	        engine_ask(socket, &(struct engine_request){ .method = "POST", .path = path, .file = file }, &a, err);

	return r < 0 || a.status == 200 ? r : engine_refused("take the image", &a, err);
}
