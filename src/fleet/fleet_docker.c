/* fleet_docker.c - the engine `docker`: one Docker Engine, on this machine or another.  A worker is a container. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet_engine.h"

#define PULL_MS 50000
#define CREATED_S 60                    /* a container that is not started for so long will not be */
#define REMOVED_MAX 64                  /* in one count */
#define DOCKER_ID_LEN 64

/* It becomes a part of a path. */
static bool
is_id(const char *id)
{
	size_t len = strspn(id, "0123456789abcdef");

	return len > 0 && len <= DOCKER_ID_LEN && id[len] == '\0';
}

/* ---- start ---- */

static json_t *
security(const struct fleet_place *p)
{
	const struct engine *e = p->own;
	const char *apparmor = fleet_own_text(p->plan, "apparmor");
	json_t *list = json_pack("[s]", "no-new-privileges");

	if (e->seccomp != NULL)
		(void)json_array_append_new(list, json_sprintf("seccomp=%s", e->seccomp));
	if (apparmor != NULL)
		(void)json_array_append_new(list, json_sprintf("apparmor=%s", apparmor));
	return list;
}

/* A secret is a file of the engine's machine. */
static int
make_mounts(const struct fleet_place *p, json_t **ret_mounts, struct err *err)
{
	json_t *value;
	const char *name;

	*ret_mounts = json_pack("[{s:s, s:s}]", "Type", "volume", "Target", "/data");
	json_object_foreach((json_t *)(uintptr_t)p->plan->secrets, name, value) {
		char to[320];

		if (*json_string_value(value) != '/')
			return err_set(err, EINVAL, "the secret for %s is '%.100s': with the engine docker it is the path of a file on the "
			               "engine's machine", name, json_string_value(value));
		snprintf(to, sizeof(to), ENGINE_SECRETS "/%.256s", name);
		(void)json_array_append_new(*ret_mounts, json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind", "Source",
		                            json_string_value(value), "Target", to, "ReadOnly", 1));
	}
	return 0;
}

static int
make_container(const struct fleet_place *p, const struct fleet_job *job, json_t **ret_body, struct err *err)
{
	const struct fleet_plan *plan = p->plan;
	const char *network = fleet_own_text(plan, "network"), *runtime = fleet_own_text(plan, "runtime");
	json_t *mounts = NULL, *host;
	int r = make_mounts(p, &mounts, err);

	if (r < 0) {
		json_decref(mounts);
		return r;
	}
	/* What docs/store.md lists, and no more. */
	host = json_pack("{s:[s], s:o, s:b, s:[], s:[], s:i, s:{s:s, s:s}, s:o, s:I, s:I, s:{s:s}}", "CapDrop", "ALL",
	                 "SecurityOpt", security(p), "ReadonlyRootfs", 1, "MaskedPaths", "ReadonlyPaths", "PidsLimit", ENGINE_PIDS,
	                 "Tmpfs", "/tmp", "", "/run/cloister", "mode=0700,uid=" ENGINE_USER, "Mounts", mounts, "NanoCpus",
	                 (json_int_t)plan->cpus * 1000000, "Memory", (json_int_t)plan->memory, "RestartPolicy", "Name", "no");
	if (host != NULL && network != NULL)
		(void)json_object_set_new(host, "NetworkMode", json_string(network));
	if (host != NULL && runtime != NULL)
		(void)json_object_set_new(host, "Runtime", json_string(runtime));
	*ret_body = json_pack("{s:s, s:o, s:o, s:o, s:o}", "Image", plan->image, "Cmd", fleet_job_word_list(plan, job), "Env",
	                      engine_env(plan, job), "Labels", engine_labels(plan, job->tries), "HostConfig", host);
	return *ret_body != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* The engine's own login counts for nothing here: a registry that wants one has to be logged in to on the engine. */
static int
pull(struct fleet_place *p, struct err *err)
{
	const struct engine *e = p->own;
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	OWN(freep) char *image = fleet_http_escape(p->plan->image);
	char path[FLEET_PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "/v1.%u/images/create?fromImage=%s%s", e->api, image != NULL ? image : "",
	         strrchr(p->plan->image, ':') > strrchr(p->plan->image, '/') || strchr(p->plan->image, '@') != NULL ? "" :
	         "&tag=latest");
	r = fleet_http_ask(p->http, &(struct fleet_request){ .method = "POST", .path = path, .ms = PULL_MS }, &reply, err);
	/* It answers 200 at once, and reports a failure later. */
	if (r == 0 && (reply.status != 200 || strstr((char *)reply.body.data, "\"error\"") != NULL))
		r = err_set(err, ENOENT, "the engine at '%.200s' has no image '%.200s' and cannot pull it", fleet_http_where(p->http),
		            p->plan->image);
	return r;
}

static int
docker_stop(struct fleet_place *p, const char *id, struct err *err)
{
	char path[DOCKER_ID_LEN + 64];

	if (!is_id(id))
		return err_set(err, EINVAL, "'%.80s' is no container", id);
	snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", id);
	return fleet_engine_ask(p, "DELETE", path, NULL, NULL, err);
}

static int
docker_start(struct fleet_place *p, const struct fleet_job *job, char ret_id[FLEET_ID_MAX], struct err *err)
{
	OWN(json_decrefp) json_t *body = NULL, *answer = NULL;
	char path[128 + sizeof(job->name)];
	int r = make_container(p, job, &body, err);

	snprintf(path, sizeof(path), "/containers/create?name=%s", job->name);
	r = r == 0 ? fleet_engine_ask(p, "POST", path, body, &answer, err) : r;
	if (r == -ENOENT && pull(p, err) == 0)
		r = fleet_engine_ask(p, "POST", path, body, &answer, err);
	if (r < 0)
		return r;
	if (!is_id(engine_text(answer, "Id")))
		return err_set(err, EPROTO, "the engine at '%.200s' names no container", fleet_http_where(p->http));
	snprintf(ret_id, FLEET_ID_MAX, "%s", engine_text(answer, "Id"));
	snprintf(path, sizeof(path), "/containers/%s/start", ret_id);
	r = fleet_engine_ask(p, "POST", path, NULL, NULL, err);
	if (r < 0)
		(void)docker_stop(p, ret_id, NULL);
	return r;
}

/* ---- look ---- */

static int
docker_look(struct fleet_place *p, const char *id, struct fleet_outcome *ret_outcome, struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL;
	char path[DOCKER_ID_LEN + 64];
	const json_t *state;
	int r;

	if (!is_id(id))
		return err_set(err, EINVAL, "'%.80s' is no container", id);
	snprintf(path, sizeof(path), "/containers/%s/json", id);
	r = fleet_engine_ask(p, "GET", path, NULL, &answer, err);
	if (r < 0)
		return r;
	state = json_object_get(answer, "State");
	ret_outcome->ended = strcmp(engine_text(state, "Status"), "exited") == 0 || strcmp(engine_text(state, "Status"), "dead") == 0;
	ret_outcome->status = (int)engine_number(state, "ExitCode");
	if (*engine_text(state, "Error") != '\0')
		fleet_say(ret_outcome->text, sizeof(ret_outcome->text), engine_text(state, "Error"));
	else if (ret_outcome->ended)
		engine_last_line(p, "containers", id, ret_outcome->text);
	return 0;
}

/* One that has ended: why, and then it is removed. */
static int
bury(struct fleet_place *p, const char *id, struct fleet_count *count, struct err *err)
{
	struct fleet_outcome o = { .status = -1 };
	int r = docker_look(p, id, &o, err);

	if (r == 0 && o.status != 0) {
		count->failed++;
		if (*o.text != '\0')
			snprintf(count->why, sizeof(count->why), "%s", o.text);
		else
			snprintf(count->why, sizeof(count->why), "a worker ended with status %d", o.status);
	}
	r = r == 0 ? docker_stop(p, id, err) : r;
	return r == -ENOENT || r == -EBUSY ? 0 : r;
}

static int
docker_count(struct fleet_place *p, struct fleet_count *ret_count, struct err *err)
{
	OWN(freep) char *filter = engine_filter("label", FLEET_LABEL, p->plan->tag);
	OWN(freep) char *path = filter != NULL ? str_format("/containers/json?all=1&%s", filter) : NULL;
	OWN(json_decrefp) json_t *list = NULL;
	unsigned removed = 0;
	json_t *one;
	size_t i;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_engine_ask(p, "GET", path, NULL, &list, err);

	json_array_foreach(list, i, one) {
		const char *state = engine_text(one, "State"), *id = engine_text(one, "Id");
		bool ended = strcmp(state, "exited") == 0 || strcmp(state, "dead") == 0 ||
		             (strcmp(state, "created") == 0 && time(NULL) - engine_number(one, "Created") > CREATED_S);

		if (!ended)
			ret_count->alive++;
		else if (r == 0 && removed++ < REMOVED_MAX && is_id(id))
			r = bury(p, id, ret_count, err);
	}
	return r;
}

/* ---- check ---- */

static int
check_named(struct fleet_place *p, const char *kind, const char *what, const char *name, struct fleet_findings *f,
            struct err *err)
{
	OWN(freep) char *escaped = fleet_http_escape(name), *path = escaped != NULL ? str_format("/%s/%s", kind, escaped) : NULL;
	OWN(freep) char *whole = path != NULL && strcmp(kind, "images") == 0 ? str_format("%s/json", path) : NULL;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") :
	        fleet_engine_ask(p, "GET", whole != NULL ? whole : path, NULL, NULL, err);

	if (r == 0)
		fleet_find(f, FLEET_GOOD, "it has the %s '%.200s'", what, name);
	else if (r == -ENOENT && whole != NULL)
		fleet_find(f, FLEET_NOTE, "it does not have the image '%.200s' yet: the first worker pulls it, without a login", name);
	else if (r == -ENOENT)
		fleet_find(f, FLEET_MISSING, "it has no %s '%.200s'", what, name);
	return r == -ENOENT ? 0 : r;
}

static int
docker_check(struct fleet_place *p, struct fleet_findings *f, struct err *err)
{
	const char *network = fleet_own_text(p->plan, "network"), *runtime = fleet_own_text(p->plan, "runtime");
	OWN(json_decrefp) json_t *info = NULL, *mounts = NULL;
	int r = engine_check(p, &info, f, err);

	r = r == 0 ? check_named(p, "images", "image", p->plan->image, f, err) : r;
	if (r == 0 && network != NULL && strcmp(network, "host") != 0 && strcmp(network, "none") != 0)
		r = check_named(p, "networks", "network", network, f, err);
	if (r == 0 && runtime != NULL && json_object_get(json_object_get(info, "Runtimes"), runtime) == NULL)
		fleet_find(f, FLEET_MISSING, "it has no runtime '%.100s'", runtime);
	return r == 0 ? make_mounts(p, &mounts, err) : r;
}

const struct fleet fleet_docker = {
	.name = "docker",
	.open = engine_open,
	.close = engine_close,
	.check = docker_check,
	.start = docker_start,
	.count = docker_count,
	.look = docker_look,
	.stop = docker_stop,
};
