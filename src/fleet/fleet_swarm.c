/* fleet_swarm.c - the engine `swarm`: Docker's swarm mode.  A worker is a service with one task, which is not started again.
 *
 * So a worker ends when it wants to, and scaling down never ends one that runs something.  The swarm places the task; one
 * whose node is lost is not placed again, since the autoscaler starts another worker if one is needed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet_engine.h"

#define GRACE_NS (600 * 1000000000ll)
#define REMOVED_MAX 64                  /* in one count */
#define SWARM_ID_MAX 64
#define PRIVILEGES_API 44               /* from here on a service has rules of its own */

/* It becomes a part of a path. */
static bool
is_id(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	return len > 0 && len <= SWARM_ID_MAX && id[len] == '\0';
}

/* ---- start ---- */

/* The id of the secret NAME; -ENOENT. */
static int
find_secret(struct fleet_place *p, const char *name, char ret_id[SWARM_ID_MAX + 1], struct err *err)
{
	OWN(freep) char *filter = engine_filter("name", name, NULL), *path = filter != NULL ? str_format("/secrets?%s", filter) : NULL;
	OWN(json_decrefp) json_t *list = NULL;
	json_t *one;
	size_t i;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_engine_ask(p, "GET", path, NULL, &list, err);

	/* The filter takes the beginning of a name, too. */
	json_array_foreach(list, i, one)
		if (strcmp(engine_text(json_object_get(one, "Spec"), "Name"), name) == 0 && is_id(engine_text(one, "ID"))) {
			snprintf(ret_id, SWARM_ID_MAX + 1, "%s", engine_text(one, "ID"));
			return 0;
		}
	return r < 0 ? r : err_set(err, ENOENT, "the swarm has no secret '%.100s': docker secret create %.100s -", name, name);
}

static int
make_secrets(struct fleet_place *p, json_t **ret_list, struct err *err)
{
	char id[SWARM_ID_MAX + 1];
	const char *name;
	json_t *value;
	int r = 0;

	*ret_list = json_array();
	json_object_foreach((json_t *)(uintptr_t)p->plan->secrets, name, value) {
		r = find_secret(p, json_string_value(value), id, err);
		if (r < 0)
			return r;
		(void)json_array_append_new(*ret_list, json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:i}}", "SecretID", id, "SecretName",
		                            json_string_value(value), "File", "Name", name, "UID", ENGINE_USER, "GID", ENGINE_USER,
		                            "Mode", 0400));
	}
	return r;
}

static json_t *
make_privileges(const struct fleet_place *p)
{
	const struct engine *e = p->own;
	const char *apparmor = fleet_own_text(p->plan, "apparmor");
	json_t *rules = json_pack("{s:b}", "NoNewPrivileges", 1);
	OWN(freep) char *encoded = NULL;

	if (e->seccomp != NULL && strcmp(e->seccomp, "unconfined") == 0)
		(void)json_object_set_new(rules, "Seccomp", json_pack("{s:s}", "Mode", "unconfined"));
	else if (e->seccomp != NULL && (encoded = malloc(CODEC_BASE64_LEN(strlen(e->seccomp)) + 1)) != NULL) {
		(void)codec_base64(CODEC_BASE64, e->seccomp, strlen(e->seccomp), encoded);
		(void)json_object_set_new(rules, "Seccomp", json_pack("{s:s, s:s}", "Mode", "custom", "Profile", encoded));
	}
	if (apparmor != NULL && strcmp(apparmor, "unconfined") == 0)
		(void)json_object_set_new(rules, "AppArmor", json_pack("{s:s}", "Mode", "disabled"));
	return rules;
}

static int
make_container(struct fleet_place *p, const struct fleet_job *job, json_t **ret_spec, struct err *err)
{
	const struct engine *e = p->own;
	const struct fleet_plan *plan = p->plan;
	json_t *secrets = NULL, *mounts = json_pack("[{s:s, s:s}]", "Type", "volume", "Target", "/data");
	int r = make_secrets(p, &secrets, err);

	/* A cell may have a /proc of its own where a whole one is to be seen. */
	if (fleet_own_truth(plan, "hostProc"))
		(void)json_array_append_new(mounts, json_pack("{s:s, s:s, s:s}", "Type", "bind", "Source", "/proc", "Target",
		                            "/run/host-proc"));
	*ret_spec = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:[s], s:I}", "Image", plan->image, "Args", fleet_job_word_list(plan, job),
	                      "Env", engine_env(plan, job), "Labels", engine_labels(plan, job->tries), "Mounts", mounts, "Secrets",
	                      secrets, "CapabilityDrop", "ALL", "StopGracePeriod", (json_int_t)GRACE_NS);
	if (r == 0 && *ret_spec == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0 && e->api >= PRIVILEGES_API)
		(void)json_object_set_new(*ret_spec, "Privileges", make_privileges(p));
	return r;
}

static int
make_service(struct fleet_place *p, const struct fleet_job *job, json_t **ret_body, struct err *err)
{
	const struct fleet_plan *plan = p->plan;
	const char *network = fleet_own_text(plan, "network");
	json_t *constraints = json_object_get(plan->own, "constraints"), *spec = NULL, *task;
	int r = make_container(p, job, &spec, err);

	if (r < 0) {
		json_decref(spec);
		return r;
	}
	task = json_pack("{s:o, s:{s:s}, s:{s:O*}, s:{s:{s:I, s:I, s:i}}}", "ContainerSpec", spec, "RestartPolicy", "Condition",
	                 "none", "Placement", "Constraints", constraints, "Resources", "Limits", "NanoCPUs",
	                 (json_int_t)plan->cpus * 1000000, "MemoryBytes", (json_int_t)plan->memory, "Pids", ENGINE_PIDS);
	if (task != NULL && network != NULL)
		(void)json_object_set_new(task, "Networks", json_pack("[{s:s}]", "Target", network));
	/* Nobody connects to a worker, so it needs no address of the swarm's. */
	*ret_body = json_pack("{s:s, s:o, s:o, s:{s:{s:i}}, s:{s:s}}", "Name", job->name, "Labels",
	                      engine_labels(plan, job->tries), "TaskTemplate", task, "Mode", "Replicated", "Replicas", 1,
	                      "EndpointSpec", "Mode", "dnsrr");
	return *ret_body != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
swarm_start(struct fleet_place *p, const struct fleet_job *job, char ret_id[FLEET_ID_MAX], struct err *err)
{
	OWN(json_decrefp) json_t *body = NULL, *answer = NULL;
	int r = make_service(p, job, &body, err);

	r = r == 0 ? fleet_engine_ask(p, "POST", "/services/create", body, &answer, err) : r;
	if (r == 0 && !is_id(engine_text(answer, "ID")))
		r = err_set(err, EPROTO, "the swarm at '%.200s' names no service", fleet_http_where(p->http));
	if (r == 0)
		snprintf(ret_id, FLEET_ID_MAX, "%s", engine_text(answer, "ID"));
	return r;
}

static int
swarm_stop(struct fleet_place *p, const char *id, struct err *err)
{
	char path[SWARM_ID_MAX + 64];

	if (!is_id(id))
		return err_set(err, EINVAL, "'%.80s' is no service", id);
	snprintf(path, sizeof(path), "/services/%s", id);
	return fleet_engine_ask(p, "DELETE", path, NULL, NULL, err);
}

/* ---- look ---- */

/* What a task's state means for its worker: a swarm has no other one for a task of a node that is lost than its wish. */
static void
judge(const json_t *task, struct fleet_outcome *o)
{
	static const char *const over[] = { "complete", "failed", "rejected", "shutdown", "remove", "orphaned" };
	const json_t *status = json_object_get(task, "Status");
	const char *state = engine_text(status, "State"), *wish = engine_text(task, "DesiredState");

	for (size_t i = 0; i < ARRAY_LEN(over); i++)
		o->ended = o->ended || strcmp(state, over[i]) == 0;
	o->status = (int)engine_number(json_object_get(status, "ContainerStatus"), "ExitCode");
	if (o->ended && strcmp(state, "complete") != 0 && o->status == 0)
		o->status = -1;
	fleet_say(o->text, sizeof(o->text), engine_text(status, "Err"));
	if (!o->ended && (strcmp(wish, "shutdown") == 0 || strcmp(wish, "remove") == 0)) {
		o->ended = true;
		o->status = -1;
		snprintf(o->text, sizeof(o->text), "the node that had a worker was lost");
	}
}

static int
list_tasks(struct fleet_place *p, const char *key, const char *name, const char *value, json_t **ret_list, struct err *err)
{
	OWN(freep) char *filter = engine_filter(key, name, value), *path = filter != NULL ? str_format("/tasks?%s", filter) : NULL;

	return path == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_engine_ask(p, "GET", path, NULL, ret_list, err);
}

/* The newest task of the service in LIST; NULL: it has none. */
static const json_t *
task_of(const json_t *list, const char *service)
{
	const json_t *found = NULL, *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (strcmp(engine_text(one, "ServiceID"), service) == 0 &&
		    (found == NULL || strcmp(engine_text(one, "CreatedAt"), engine_text(found, "CreatedAt")) > 0))
			found = one;
	return found;
}

static int
swarm_look(struct fleet_place *p, const char *id, struct fleet_outcome *ret_outcome, struct err *err)
{
	OWN(json_decrefp) json_t *list = NULL;
	char line[FLEET_WHY_MAX];
	const json_t *task;
	int r = is_id(id) ? list_tasks(p, "service", id, NULL, &list, err) : err_set(err, EINVAL, "'%.80s' is no service", id);

	task = r == 0 ? task_of(list, id) : NULL;
	if (task == NULL)
		return r;
	judge(task, ret_outcome);
	/* It says more than the exit status does. */
	if (ret_outcome->ended && ret_outcome->status >= 0) {
		engine_last_line(p, "services", id, line);
		if (*line != '\0')
			snprintf(ret_outcome->text, sizeof(ret_outcome->text), "%s", line);
	}
	return 0;
}

/* One that has ended: why, and then it is removed. */
static int
bury(struct fleet_place *p, const char *id, const struct fleet_outcome *o, struct fleet_count *count, struct err *err)
{
	struct fleet_outcome more = { .status = -1 };
	int r;

	if (o->status != 0) {
		count->failed++;
		if (swarm_look(p, id, &more, NULL) < 0 || *more.text == '\0')
			more = *o;
		if (*more.text != '\0')
			snprintf(count->why, sizeof(count->why), "%s", more.text);
		else
			snprintf(count->why, sizeof(count->why), "a worker ended with status %d", o->status);
	}
	r = swarm_stop(p, id, err);
	return r == -ENOENT ? 0 : r;
}

static int
swarm_count(struct fleet_place *p, struct fleet_count *ret_count, struct err *err)
{
	OWN(freep) char *filter = engine_filter("label", FLEET_LABEL, p->plan->tag);
	OWN(freep) char *path = filter != NULL ? str_format("/services?%s", filter) : NULL;
	OWN(json_decrefp) json_t *services = NULL, *tasks = NULL;
	unsigned removed = 0;
	json_t *one;
	size_t i;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_engine_ask(p, "GET", path, NULL, &services, err);

	r = r == 0 ? list_tasks(p, "label", FLEET_LABEL, p->plan->tag, &tasks, err) : r;
	json_array_foreach(services, i, one) {
		const char *id = engine_text(one, "ID");
		struct fleet_outcome o = { .status = -1 };
		const json_t *task = task_of(tasks, id);

		if (r < 0 || !is_id(id))
			continue;
		if (task != NULL)
			judge(task, &o);
		if (o.ended) {
			r = removed++ < REMOVED_MAX ? bury(p, id, &o, ret_count, err) : 0;
			continue;
		}
		ret_count->alive++;
		/* One that waits for a node says why. */
		if (*o.text != '\0' && ret_count->failed == 0)
			snprintf(ret_count->why, sizeof(ret_count->why), "%s", o.text);
	}
	return r;
}

/* ---- check ---- */

static int
check_network(struct fleet_place *p, const char *network, struct fleet_findings *f, struct err *err)
{
	OWN(freep) char *name = fleet_http_escape(network), *path = name != NULL ? str_format("/networks/%s", name) : NULL;
	OWN(json_decrefp) json_t *answer = NULL;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_engine_ask(p, "GET", path, NULL, &answer, err);

	if (r == -ENOENT)
		fleet_find(f, FLEET_MISSING, "it has no network '%.100s'", network);
	return r == -ENOENT ? 0 : r;
}

static int
check_secrets(struct fleet_place *p, struct fleet_findings *f, struct err *err)
{
	char id[SWARM_ID_MAX + 1];
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach((json_t *)(uintptr_t)p->plan->secrets, name, value) {
		r = find_secret(p, json_string_value(value), id, err);
		if (r < 0 && r != -ENOENT)
			return r;
		if (r == 0)
			fleet_find(f, FLEET_GOOD, "it has the secret '%.100s'", json_string_value(value));
		else
			fleet_find(f, FLEET_MISSING, "%s", err->text);
	}
	return 0;
}

static int
swarm_check(struct fleet_place *p, struct fleet_findings *f, struct err *err)
{
	const struct engine *e = p->own;
	const char *network = fleet_own_text(p->plan, "network");
	OWN(json_decrefp) json_t *info = NULL;
	const json_t *swarm;
	int r = engine_check(p, &info, f, err);

	if (r < 0)
		return r;
	swarm = json_object_get(info, "Swarm");
	if (!json_is_true(json_object_get(swarm, "ControlAvailable")))
		return err_set(err, ENOTSUP, "the engine at '%.200s' is no manager of a swarm: `docker swarm init` makes it one, or name a "
		               "manager as `host`", fleet_http_where(p->http));
	fleet_find(f, FLEET_GOOD, "it is a manager of a swarm of %lld nodes", (long long)engine_number(swarm, "Nodes"));
	if (e->api < PRIVILEGES_API && (e->seccomp != NULL || fleet_own_text(p->plan, "apparmor") != NULL))
		fleet_find(f, FLEET_MISSING, "its API is older than 1.%u, so a service cannot have a seccomp or AppArmor profile of its own: "
		           "set `seccomp-profile` in daemon.json of each node, and leave `seccomp` and `apparmor` out", PRIVILEGES_API);
	if (!fleet_own_truth(p->plan, "hostProc"))
		fleet_find(f, FLEET_NOTE, "a swarm hides parts of /proc from containers, so cells cannot have one of their own: `hostProc: "
		           "true` shows workers that of the node");
	r = network != NULL ? check_network(p, network, f, err) : 0;
	return r == 0 ? check_secrets(p, f, err) : r;
}

const struct fleet fleet_swarm = {
	.name = "swarm",
	.open = engine_open,
	.close = engine_close,
	.check = swarm_check,
	.start = swarm_start,
	.count = swarm_count,
	.look = swarm_look,
	.stop = swarm_stop,
};
