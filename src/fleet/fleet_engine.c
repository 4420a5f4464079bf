/* fleet_engine.c - see fleet_engine.h. */
#include "fleet/fleet_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet_worker.h"
#include "trust/trust.h"

#define API_LEAST 41
#define API_MOST 47
#define LOCAL "unix:///var/run/docker.sock"

const char *
engine_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

int64_t
engine_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* ---- before the lockdown ---- */

static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

static int
read_pem(const char *folder, const char *name, char **ret_text, struct err *err)
{
	OWN(freep) char *path = str_format("%s/%s", folder, name);

	return path == NULL ? err_set(err, ENOMEM, "out of memory") :
	       trust_read(TRUST_SECRET_FILE, path, FLEET_FILE_MAX, ret_text, NULL, err);
}

/* As Docker's own client: DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH. */
static int
choose_server(struct fleet_place *p, struct err *err)
{
	const char *host = fleet_own_text(p->plan, "host"), *folder = variable("DOCKER_CERT_PATH"), *home = variable("HOME");
	OWN(freep) char *ca = NULL, *cert = NULL, *key = NULL, *own = NULL, *url = NULL;
	bool tls;
	int r = 0;

	host = host != NULL ? host : variable("DOCKER_HOST");
	host = host != NULL ? host : LOCAL;
	if (strncmp(host, "unix://", 7) == 0)
		return fleet_http_to(p->http, &(struct fleet_server){ .url = host }, err);
	if (strncmp(host, "tcp://", 6) != 0)
		return err_set(err, EINVAL, "the engine's address '%.200s' is none: write unix:///PATH or tcp://HOST:2376", host);
	tls = variable("DOCKER_TLS_VERIFY") != NULL || folder != NULL;
	if (tls && folder == NULL && home != NULL)
		folder = own = str_format("%s/.docker", home);
	if (tls && folder != NULL) {
		r = read_pem(folder, "ca.pem", &ca, err);
		r = r == 0 ? read_pem(folder, "cert.pem", &cert, err) : r;
		r = r == 0 ? read_pem(folder, "key.pem", &key, err) : r;
	}
	url = str_format("%s://%s", tls ? "https" : "http", host + 6);
	if (r == 0 && url == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? fleet_http_to(p->http, &(struct fleet_server){ .url = url, .ca = ca, .cert = cert, .key = key }, err) : r;
	if (key != NULL)
		explicit_bzero(key, strlen(key));
	return r;
}

int
engine_open(struct fleet_place *p, struct err *err)
{
	const char *seccomp = fleet_own_text(p->plan, "seccomp");
	OWN(freep) struct engine *e = calloc(1, sizeof(*e));
	OWN(json_decrefp) json_t *profile = NULL;
	OWN(freep) char *text = NULL;
	int r = e == NULL ? err_set(err, ENOMEM, "out of memory") : choose_server(p, err);

	if (r == 0 && seccomp != NULL && strcmp(seccomp, "unconfined") != 0) {
		r = trust_read(TRUST_REGISTERED, seccomp, FLEET_FILE_MAX, &text, NULL, err);
		if (r == 0 && (profile = json_loads(text, 0, NULL)) == NULL)
			r = err_set(err, EINVAL, "the seccomp profile '%.200s' is no JSON", seccomp);
		if (r == 0 && (e->seccomp = json_dumps(profile, JSON_COMPACT)) == NULL)
			r = err_set(err, ENOMEM, "out of memory");
	} else if (r == 0 && seccomp != NULL && (e->seccomp = strdup(seccomp)) == NULL) {
		r = err_set(err, ENOMEM, "out of memory");
	}
	if (r < 0)
		return r;
	p->own = TAKE(e);
	return 0;
}

void
engine_close(struct fleet_place *p)
{
	struct engine *e = p->own;

	free(e->seccomp);
	free(e);
	p->own = NULL;
}

/* ---- questions ---- */

static int
fail(const struct fleet_place *p, const char *doing, long status, const json_t *answer, struct err *err)
{
	char text[FLEET_WHY_MAX];

	fleet_say(text, sizeof(text), engine_text(answer, "message"));
	return err_set(err, status == 404 ? ENOENT : status == 409 ? EBUSY : status == 401 || status == 403 ? EACCES : EIO,
	               "the engine at '%.100s' answers %.60s with %ld%s%.300s", fleet_http_where(p->http), doing, status,
	               *text != '\0' ? ": " : "", text);
}

/* The newest version that both know. */
static int
agree(struct fleet_place *p, struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL;
	struct engine *e = p->own;
	unsigned most = 0, least = 0;
	long status = 0;
	int r = fleet_http_ask_json(p->http, "GET", "/version", NULL, &status, &answer, err);

	if (r < 0)
		return r;
	if (status != 200 || sscanf(engine_text(answer, "ApiVersion"), "1.%u", &most) != 1)
		return err_set(err, EPROTO, "what answers at '%.200s' is no container engine", fleet_http_where(p->http));
	(void)sscanf(engine_text(answer, "MinAPIVersion"), "1.%u", &least);
	e->api = most < API_MOST ? most : API_MOST;
	if (e->api >= API_LEAST && e->api >= least)
		return 0;
	e->api = 0;
	return err_set(err, EPROTO, "the engine at '%.200s' has the API 1.%u, and cloister needs 1.%u or newer, which Docker 20.10 "
	               "has", fleet_http_where(p->http), most, API_LEAST);
}

int
fleet_engine_ask(struct fleet_place *p, const char *method, const char *path, json_t *body, json_t **ret_json, struct err *err)
{
	const struct engine *e = p->own;
	OWN(json_decrefp) json_t *answer = NULL;
	OWN(freep) char *whole = NULL;
	char doing[64];
	long status = 0;
	int r = e->api == 0 ? agree(p, err) : 0;

	if (r < 0)
		return r;
	whole = str_format("/v1.%u%s", e->api, path);
	r = whole == NULL ? err_set(err, ENOMEM, "out of memory") :
	    fleet_http_ask_json(p->http, method, whole, body, &status, &answer, err);
	if (r < 0)
		return r;
	snprintf(doing, sizeof(doing), "%s %.*s", method, (int)strcspn(path, "?"), path);
	if (status >= 300)
		return fail(p, doing, status, answer, err);
	if (ret_json != NULL)
		*ret_json = TAKE(answer);
	return 0;
}

/* ---- workers ---- */

static void
put_variable(json_t *list, const char *name, const char *middle, const char *value)
{
	OWN(freep) char *line = str_format("%s%s%s", name, middle, value);

	(void)json_array_append_new(list, json_string(line != NULL ? line : ""));
}

json_t *
engine_env(const struct fleet_plan *plan, const struct fleet_job *job)
{
	OWN(json_decrefp) json_t *env = fleet_job_env(plan, job);
	json_t *list = json_array(), *value;
	const char *name;

	json_object_foreach(env, name, value)
		put_variable(list, name, "=", json_string_value(value));
	json_object_foreach((json_t *)(uintptr_t)plan->secrets, name, value) {
		put_variable(list, name, FLEET_FILE_SUFFIX "=" ENGINE_SECRETS "/", name);
	}
	return list;
}

json_t *
engine_labels(const struct fleet_plan *plan, bool tries)
{
	char tag[FLEET_TAG_LEN + 8];

	snprintf(tag, sizeof(tag), "%s%s", tries ? "probe-" : "", plan->tag);
	return json_pack("{s:s, s:s}", FLEET_LABEL, tag, FLEET_LABEL_TARGET, plan->name);
}

char *
engine_filter(const char *key, const char *name, const char *value)
{
	OWN(json_decrefp) json_t *filters = json_object();
	OWN(freep) char *one = str_format("%s%s%s", name, value != NULL ? "=" : "", value != NULL ? value : "");
	OWN(freep) char *text = NULL, *escaped = NULL;

	if (one == NULL || json_object_set_new(filters, key, json_pack("[s]", one)) < 0)
		return NULL;
	text = json_dumps(filters, JSON_COMPACT);
	escaped = text != NULL ? fleet_http_escape(text) : NULL;
	return escaped != NULL ? str_format("filters=%s", escaped) : NULL;
}

void
engine_last_line(struct fleet_place *p, const char *what, const char *id, char ret_text[FLEET_WHY_MAX])
{
	const struct engine *e = p->own;
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	char path[FLEET_ID_MAX + 128];
	const char *at, *end, *line;

	*ret_text = '\0';
	snprintf(path, sizeof(path), "/v1.%u/%s/%s/logs?stdout=1&stderr=1&tail=1", e->api, what, id);
	if (fleet_http_ask(p->http, &(struct fleet_request){ .method = "GET", .path = path }, &reply, NULL) < 0 ||
	    reply.status != 200 || reply.body.len <= 8)
		return;
	/* Each part has a head of 8 bytes, in which the length is big-endian. */
	at = (const char *)reply.body.data;
	end = at + reply.body.len;
	line = at + 8;
	while (end - at > 8) {
		const unsigned char *head = (const unsigned char *)at;
		size_t size = (size_t)head[4] << 24 | (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];

		line = at + 8;
		if (size > (size_t)(end - line))
			break;
		at = line + size;
	}
	line += strncmp(line, "cloister: ", 10) == 0 ? 10 : 0;
	fleet_say(ret_text, FLEET_WHY_MAX, line);
}

/* ---- what the engine says of itself ---- */

static bool
lists(const json_t *list, const char *text)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one) && strstr(json_string_value(one), text) != NULL)
			return true;
	return false;
}

int
engine_check(struct fleet_place *p, json_t **ret_info, struct fleet_findings *f, struct err *err)
{
	const struct engine *e = p->own;
	const char *apparmor = fleet_own_text(p->plan, "apparmor");
	char version[64];
	json_t *rules;
	int r = fleet_engine_ask(p, "GET", "/info", NULL, ret_info, err);

	if (r < 0)
		return r;
	rules = json_object_get(*ret_info, "SecurityOptions");
	fleet_say(version, sizeof(version), engine_text(*ret_info, "ServerVersion"));
	fleet_find(f, FLEET_GOOD, "the engine at '%.200s' answers: version %s, API 1.%u", fleet_http_where(p->http), version,
	           e->api);
	if (e->seccomp == NULL && lists(rules, "name=seccomp,profile=default"))
		fleet_find(f, FLEET_MISSING, "the engine's seccomp profile forbids the namespaces and mounts that cells are made of: "
		           "give it the profile of `make image`, by the target's key `seccomp` or by `seccomp-profile` in daemon.json");
	if (lists(rules, "name=apparmor") && apparmor == NULL)
		fleet_find(f, FLEET_NOTE, "the engine uses AppArmor, whose default profile forbids mounts: add the key `apparmor: "
		           "unconfined` if the probe fails");
	return 0;
}
