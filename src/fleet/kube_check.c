/* kube_check.c - see kube_check.h. */
#include "fleet/kube_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/kube_job.h"
#include "fleet/kube_place.h"

#define MANIFESTS "contrib/kubernetes"

struct checking {
	const struct fleet_plan *plan;
	struct kube_place *at;
	struct fleet_findings *found;
};

/* ---- rights ---- */

static const struct right {
	const char *verb, *group, *resource;
	bool joins;                     /* only for workers that join a service */
} rights[] = {
	{ "create", "batch", "jobs", false }, { "list", "batch", "jobs", false }, { "get", "batch", "jobs", false },
	{ "delete", "batch", "jobs", false }, { "list", "", "pods", false }, { "create", "", "secrets", true },
};

static int
may(struct checking *c, const struct right *right, bool *ret_may, struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL, *asked = json_pack(
		"{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s}}}", "apiVersion", "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview",
		"spec", "resourceAttributes", "namespace", c->at->namespace, "verb", right->verb, "group", right->group, "resource",
		right->resource);
	int r = asked == NULL ? err_set(err, ENOMEM, "out of memory") :
	        kube_ask(&c->at->kube, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked, &answer, err);

	*ret_may = r == 0 && json_is_true(kube_at(answer, "status", "allowed", NULL));
	return r;
}

static int
check_rights(struct checking *c, bool *ret_enough, struct err *err)
{
	char missing[256] = "";
	size_t len = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rights); i++) {
		const struct right *right = &rights[i];
		bool allowed = true;

		if (!right->joins || c->plan->service != NULL)
			r = may(c, right, &allowed, err);
		if (!allowed && len < sizeof(missing))
			len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s %s", len > 0 ? ", " : "", right->verb,
			                        right->resource);
	}
	*ret_enough = len == 0;
	if (r == 0 && len > 0)
		fleet_find(c->found, FLEET_MISSING, "%.200s may not %s in the namespace '%s': bind the role of " MANIFESTS
		           "/rbac.yaml", c->at->kube.access.from, missing, c->at->namespace);
	else if (r == 0)
		fleet_find(c->found, FLEET_GOOD, "the rights in the namespace '%s' suffice", c->at->namespace);
	return r;
}

/* ---- objects ---- */

enum there { THERE, NOT_THERE, NOT_KNOWN };

/* Whether the object at PATH exists: many may not look.  Of a Secret, only what is around its values is asked for. */
static enum there
look_for(struct checking *c, json_t **ret_json, const char *folder, const char *name)
{
	OWN(freep) char *escaped = fleet_http_escape(name), *path = escaped != NULL ? str_format("%s/%s", folder, escaped) : NULL;
	OWN(json_decrefp) json_t *answer = NULL;
	struct err err = {0};
	int r = path == NULL ? -ENOMEM : kube_ask(&c->at->kube, "GET", path, NULL, &answer, &err);

	if (r == 0 && ret_json != NULL)
		*ret_json = TAKE(answer);
	return r == 0 ? THERE : r == -ENOENT ? NOT_THERE : NOT_KNOWN;
}

static bool
is_guarded(const json_t *namespace, char ret_level[32])
{
	fleet_say(ret_level, 32, json_string_value(json_object_get(kube_at(namespace, "metadata", "labels", NULL),
	                                                           "pod-security.kubernetes.io/enforce")) ?: "");
	return strcmp(ret_level, "baseline") == 0 || strcmp(ret_level, "restricted") == 0;
}

/* False: there is no use in asking for more. */
static bool
check_namespace(struct checking *c)
{
	OWN(json_decrefp) json_t *namespace = NULL;
	char level[32];

	if (look_for(c, &namespace, "/api/v1/namespaces", c->at->namespace) == NOT_THERE) {
		fleet_find(c->found, FLEET_MISSING, "there is no namespace '%s': make it, or name another one in the target's "
		           "`kubernetes: {namespace: NAME}`", c->at->namespace);
		return false;
	}
	if (is_guarded(namespace, level))
		fleet_find(c->found, FLEET_MISSING, "the namespace '%s' has the Pod Security level '%s', which refuses what the walls of cells "
		           "need: give it the label pod-security.kubernetes.io/enforce=privileged, and nothing else in it",
		           c->at->namespace, level);
	return true;
}

static void
check_named(struct checking *c, const char *kind, const char *what, const char *name)
{
	char folder[160];

	snprintf(folder, sizeof(folder), "/api/v1/namespaces/%s/%s", c->at->namespace, kind);
	if (look_for(c, NULL, folder, name) == NOT_THERE)
		fleet_find(c->found, FLEET_MISSING, "there is no %s '%.100s' in the namespace '%s', which the target names", what, name,
		           c->at->namespace);
}

/* The API server gives a Secret's values to whoever may get it, so the names of all are enough for us only where it must be. */
static void
check_secrets(struct checking *c)
{
	const json_t *value;
	const char *name;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)c->plan->secrets, name, value) {
		OWN(freep) char *secret = strdup(json_string_value(value));

		if (secret != NULL) {
			secret[strcspn(secret, "/")] = '\0';
			check_named(c, "secrets", "Secret", secret);
		}
	}
	json_array_foreach(json_object_get(c->plan->own, "pullSecrets"), i, value)
		check_named(c, "secrets", "Secret", json_string_value(value));
}

static void
check_runtime(struct checking *c)
{
	const char *name = fleet_own_text(c->plan, "runtimeClass");

	if (name != NULL && look_for(c, NULL, "/apis/node.k8s.io/v1/runtimeclasses", name) == NOT_THERE)
		fleet_find(c->found, FLEET_MISSING, "there is no RuntimeClass '%.100s', which the target names", name);
}

static void
check_one_quota(struct checking *c, const json_t *quota)
{
	static const char *const counted[] = { "pods", "count/jobs.batch", "count/pods" };
	static const struct { const char *key, *member; } limits[] = {
		{ "limits.cpu", "cpus" }, { "requests.cpu", "cpus" }, { "limits.memory", "memory" }, { "requests.memory", "memory" },
	};
	const char *name = kube_text(quota, "metadata", "name", NULL), *hard, *used;

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		hard = kube_text(quota, "status", "hard", counted[i]);
		used = kube_text(quota, "status", "used", counted[i]);
		if (*hard != '\0' && strcmp(hard, used) == 0)
			fleet_find(c->found, FLEET_MISSING, "the quota '%.63s' of the namespace '%s' has no more room: %.20s of %.20s %s", name,
			           c->at->namespace, used, hard, counted[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (*kube_text(quota, "status", "hard", limits[i].key) != '\0' &&
		    (limits[i].member[0] == 'c' ? c->plan->cpus : c->plan->memory) == 0) {
			fleet_find(c->found, FLEET_MISSING, "the quota '%.63s' of the namespace '%s' counts %s: give the target `%s`", name,
			           c->at->namespace, limits[i].key, limits[i].member);
			return;
		}
}

static void
check_quota(struct checking *c)
{
	OWN(json_decrefp) json_t *quotas = NULL;
	const json_t *quota;
	char folder[128];
	size_t i;

	snprintf(folder, sizeof(folder), "/api/v1/namespaces/%s", c->at->namespace);
	if (look_for(c, &quotas, folder, "resourcequotas") == THERE)
		json_array_foreach(json_object_get(quotas, "items"), i, quota)
			check_one_quota(c, quota);
}

/* ---- a worker that is not started ---- */

/* The server leaves out what it does not know. */
static void
check_kept(struct checking *c, const json_t *answer)
{
	const json_t *pod = kube_at(answer, "spec", "template", "spec");
	const json_t *container = json_array_get(json_object_get(pod, "containers"), 0);

	if (!fleet_own_truth(c->plan, "hostProc") && *kube_text(container, "securityContext", "procMount", NULL) == '\0')
		fleet_find(c->found, FLEET_MISSING, "this Kubernetes leaves out `procMount: Unmasked`, without which a cell has no /proc: turn "
		           "its feature ProcMountType on, or give the target `kubernetes: {hostProc: true}`");
	if (json_object_get(c->plan->own, "hostUsers") != NULL && json_object_get(pod, "hostUsers") == NULL)
		fleet_find(c->found, FLEET_MISSING, "this Kubernetes leaves out `hostUsers`: turn its feature UserNamespacesSupport on, or "
		           "remove the key from the target");
}

static int
check_job(struct checking *c)
{
	struct fleet_job job = { .tries = true, .name = "cloister-check" };
	OWN(json_decrefp) json_t *made = kube_job_new(c->plan, &job), *answer = NULL;
	OWN(freep) char *path = str_format("%s?dryRun=All", c->at->jobs);
	struct err err = {0};
	int r = made == NULL || path == NULL ? -ENOMEM : kube_ask(&c->at->kube, "POST", path, made, &answer, &err);

	if (r == 0)
		check_kept(c, answer);
	else
		fleet_find(c->found, FLEET_MISSING, "no Job can be made: %.400s", err.text);
	return 0;
}

int
kube_check(struct fleet_place *place, struct fleet_findings *findings, struct err *err)
{
	struct checking c = { .plan = place->plan, .at = place->own, .found = findings };
	const char *account = fleet_own_text(place->plan, "serviceAccount");
	OWN(json_decrefp) json_t *version = NULL;
	bool enough = false;
	char text[64];
	int r = kube_ask(&c.at->kube, "GET", "/version", NULL, &version, err);

	if (r < 0)
		return r;
	fleet_say(text, sizeof(text), kube_text(version, "gitVersion", NULL, NULL));
	fleet_find(findings, FLEET_GOOD, "Kubernetes at '%.200s' answers: version %s", fleet_http_where(c.at->kube.http), text);
	if (!check_namespace(&c))
		return 0;
	r = check_rights(&c, &enough, err);
	if (r < 0)
		return r;
	check_runtime(&c);
	if (account != NULL)
		check_named(&c, "serviceaccounts", "ServiceAccount", account);
	check_secrets(&c);
	check_quota(&c);
	return enough ? check_job(&c) : 0;
}
