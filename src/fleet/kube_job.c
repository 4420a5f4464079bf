/* kube_job.c - see kube_job.h.
 *
 * docs/store.md lists what the container of a worker needs.  A Job fits a worker, because a worker exits by itself when it
 * has nothing to do: whoever ends one of several by a number, as a Deployment does, may choose one that is busy. */
#include "fleet/kube_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "fleet/fleet_worker.h"

#define TTL_S 3600                      /* of a Job that has ended, if no service removes it before */
#define PROBE_GRACE_S 5
#define RUN "/run/cloister"
#define DATA "/data"
#define UNCONFINED "unconfined"

void
kube_job_tag(const struct fleet_plan *plan, bool tries, char *to)
{
	snprintf(to, FLEET_TAG_LEN + 8, "%s%s", tries ? "probe-" : "", plan->tag);
}

static const char *
own_or(const struct fleet_plan *plan, const char *name, const char *fallback)
{
	const char *text = fleet_own_text(plan, name);

	return text != NULL ? text : fallback;
}

int
kube_job_check(const struct fleet_plan *plan, struct err *err)
{
	const char *grace = own_or(plan, "grace", KUBE_GRACE), *profile = own_or(plan, "seccomp", KUBE_SECCOMP);
	uint64_t ms = 0;

	if (num_parse_duration(grace, &ms, NULL) < 0 || ms < 1000)
		return err_set(err, EINVAL, "`grace` is how long a worker may take to finish what it runs: 1h, not '%.64s'", grace);
	if (*profile == '/' || strstr(profile, "..") != NULL)
		return err_set(err, EINVAL, "`seccomp` is a file below the kubelet's folder `seccomp`: %s, not '%.100s'", KUBE_SECCOMP,
		               profile);
	return 0;
}

/* ---- variables ---- */

/* Kubernetes would put values of other variables in. */
static char *
escape_dollars(const char *text)
{
	char *to = malloc(2 * strlen(text) + 1), *at = to;

	for (; to != NULL && *text != '\0'; *at++ = *text++)
		if (*text == '$')
			*at++ = '$';
	if (to != NULL)
		*at = '\0';
	return to;
}

static void
put_plain(json_t *list, const char *name, const char *value)
{
	OWN(freep) char *escaped = escape_dollars(value);

	(void)json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "value", escaped != NULL ? escaped : ""));
}

static void
put_secret(json_t *list, const char *name, const char *secret, const char *key)
{
	(void)json_array_append_new(list, json_pack("{s:s, s:{s:{s:s, s:s}}}", "name", name, "valueFrom", "secretKeyRef", "name",
	                                            secret, "key", key));
}

/* A secret is NAME, whose key is the variable's name, or NAME/KEY. */
static json_t *
variables(const struct fleet_plan *plan, const struct fleet_job *job)
{
	OWN(json_decrefp) json_t *env = fleet_job_env(plan, job);
	json_t *list = json_array(), *value;
	const char *name;

	/* Volumes belong to root, and what is in them to the worker. */
	put_plain(list, "CLOISTER_DATA_DIR", DATA "/cloister");
	put_plain(list, "CLOISTER_STATE_DIR", DATA "/state");
	put_plain(list, "CLOISTER_RUNTIME_DIR", RUN "/cells");
	json_object_foreach(env, name, value)
		if (strcmp(name, FLEET_JOIN) != 0)
			put_plain(list, name, json_string_value(value));
	json_object_foreach((json_t *)(uintptr_t)plan->secrets, name, value) {
		const char *text = json_string_value(value), *slash = strchr(text, '/');
		OWN(freep) char *secret = strndup(text, slash != NULL ? (size_t)(slash - text) : strlen(text));

		put_secret(list, name, secret != NULL ? secret : "", slash != NULL ? slash + 1 : name);
	}
	if (*job->token != '\0')
		put_secret(list, FLEET_JOIN, job->name, KUBE_TOKEN);
	return list;
}

/* ---- the container ---- */

/* Requests are the limits: a worker's cells take what they may. */
static json_t *
resources(const struct fleet_plan *plan)
{
	json_t *limits = json_object();
	char text[32];

	snprintf(text, sizeof(text), "%llum", (unsigned long long)plan->cpus);
	if (plan->cpus > 0)
		(void)json_object_set_new(limits, "cpu", json_string(text));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)plan->memory);
	if (plan->memory > 0)
		(void)json_object_set_new(limits, "memory", json_string(text));
	return json_pack("{s:O, s:o}", "requests", limits, "limits", limits);
}

/* A cell has a /proc of its own only where the container's is whole: the kernel looks for one. */
static json_t *
container(const struct fleet_plan *plan, const struct fleet_job *job)
{
	bool host_proc = fleet_own_truth(plan, "hostProc");
	json_t *mounts = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "name", "data", "mountPath", DATA, "name", "tmp",
	                           "mountPath", "/tmp", "name", "run", "mountPath", RUN);
	json_t *security = json_pack("{s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", false, "readOnlyRootFilesystem", true,
	                             "capabilities", "drop", "ALL");

	if (host_proc)
		(void)json_array_append_new(mounts, json_pack("{s:s, s:s}", "name", "proc", "mountPath", "/run/proc"));
	else
		(void)json_object_set_new(security, "procMount", json_string("Unmasked"));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "name", KUBE_CONTAINER, "image", plan->image, "args",
	                 fleet_job_word_list(plan, job), "env", variables(plan, job), "volumeMounts", mounts, "securityContext", security,
	                 "resources", resources(plan), "terminationMessagePolicy", "FallbackToLogsOnError");
}

/* ---- the pod ---- */

static json_t *
volumes(const struct fleet_plan *plan)
{
	json_t *list = json_pack("[{s:s, s:{}}, {s:s, s:{}}, {s:s, s:{s:s}}]", "name", "data", "emptyDir", "name", "tmp", "emptyDir",
	                         "name", "run", "emptyDir", "medium", "Memory");

	if (fleet_own_truth(plan, "hostProc"))
		(void)json_array_append_new(list, json_pack("{s:s, s:{s:s}}", "name", "proc", "hostPath", "path", "/proc"));
	return list;
}

static json_t *
pod_security(const struct fleet_plan *plan)
{
	const char *profile = own_or(plan, "seccomp", KUBE_SECCOMP);
	json_t *seccomp = strcmp(profile, UNCONFINED) == 0 ? json_pack("{s:s}", "type", "Unconfined") :
	                  json_pack("{s:s, s:s}", "type", "Localhost", "localhostProfile", profile);

	return json_pack("{s:b, s:i, s:i, s:i, s:o}", "runAsNonRoot", true, "runAsUser", KUBE_USER, "runAsGroup", KUBE_USER,
	                 "fsGroup", KUBE_USER, "seccompProfile", seccomp);
}

static uint64_t
grace_of(const struct fleet_plan *plan, bool tries)
{
	uint64_t ms = 0;

	(void)num_parse_duration(own_or(plan, "grace", KUBE_GRACE), &ms, NULL);
	return tries ? PROBE_GRACE_S : ms / 1000;
}

static void
put_optional(const struct fleet_plan *plan, json_t *spec)
{
	const char *account = fleet_own_text(plan, "serviceAccount"), *runtime = fleet_own_text(plan, "runtimeClass");
	json_t *users = json_object_get(plan->own, "hostUsers"), *nodes = json_object_get(plan->own, "nodeSelector"), *name;
	json_t *secrets = json_object_get(plan->own, "pullSecrets"), *list;
	size_t i;

	if (account != NULL)
		(void)json_object_set_new(spec, "serviceAccountName", json_string(account));
	if (runtime != NULL)
		(void)json_object_set_new(spec, "runtimeClassName", json_string(runtime));
	if (users != NULL)
		(void)json_object_set(spec, "hostUsers", users);
	if (nodes != NULL)
		(void)json_object_set(spec, "nodeSelector", nodes);
	if (secrets == NULL)
		return;
	list = json_array();
	json_array_foreach(secrets, i, name)
		(void)json_array_append_new(list, json_pack("{s:O}", "name", name));
	(void)json_object_set_new(spec, "imagePullSecrets", list);
}

static json_t *
labels(const struct fleet_plan *plan, bool tries)
{
	char tag[FLEET_TAG_LEN + 8];

	kube_job_tag(plan, tries, tag);
	return json_pack("{s:s, s:s, s:s}", FLEET_LABEL, tag, "app.kubernetes.io/name", "cloister-worker",
	                 "app.kubernetes.io/managed-by", "cloister");
}

/* AppArmor's usual profile forbids mounts.  A running worker is not moved to another node. */
static json_t *
template(const struct fleet_plan *plan, const struct fleet_job *job)
{
	json_t *spec = json_pack("{s:s, s:b, s:b, s:I, s:o, s:o, s:[o]}", "restartPolicy", "Never", "automountServiceAccountToken",
	                         false, "enableServiceLinks", false, "terminationGracePeriodSeconds",
	                         (json_int_t)grace_of(plan, job->tries), "securityContext", pod_security(plan), "volumes",
	                         volumes(plan), "containers", container(plan, job));

	put_optional(plan, spec);
	return json_pack("{s:{s:o, s:{s:s, s:s}}, s:o}", "metadata", "labels", labels(plan, job->tries), "annotations",
	                 "container.apparmor.security.beta.kubernetes.io/" KUBE_CONTAINER,
	                 own_or(plan, "apparmor", UNCONFINED), "cluster-autoscaler.kubernetes.io/safe-to-evict", "false",
	                 "spec", spec);
}

/* ---- the objects ---- */

json_t *
kube_job_new(const struct fleet_plan *plan, const struct fleet_job *job)
{
	json_t *metadata = json_pack("{s:s, s:o, s:{s:s}}", "name", job->name, "labels", labels(plan, job->tries), "annotations",
	                             FLEET_LABEL_TARGET, plan->name);

	/* A pod that is deleted while it runs has the work until it ends. */
	return json_pack("{s:s, s:s, s:o, s:{s:i, s:i, s:s, s:o}}", "apiVersion", "batch/v1", "kind", "Job", "metadata", metadata,
	                 "spec", "backoffLimit", 0, "ttlSecondsAfterFinished", TTL_S, "podReplacementPolicy", "Failed",
	                 "template", template(plan, job));
}

json_t *
kube_job_secret(const struct fleet_plan *plan, const struct fleet_job *job, const json_t *answer)
{
	const json_t *uid = json_object_get(json_object_get(answer, "metadata"), "uid");
	json_t *owner = json_pack("{s:s, s:s, s:s, s:O}", "apiVersion", "batch/v1", "kind", "Job", "name", job->name, "uid", uid);

	return json_pack("{s:s, s:s, s:{s:s, s:o, s:[o]}, s:b, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Secret", "metadata",
	                 "name", job->name, "labels", labels(plan, job->tries), "ownerReferences", owner, "immutable", true,
	                 "type", "Opaque", "stringData", KUBE_TOKEN, job->token);
}
