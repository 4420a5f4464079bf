/* fleet_kubernetes.c - workers as Jobs of Kubernetes: see fleet.h.
 *
 * The server and the credentials are those of a kubeconfig or of the pod's service account (kube_access.h).  Each worker is
 * a Job of one pod that is not started again: the worker exits by itself.  Jobs that have ended are removed when they are
 * counted, and their pods and Secrets go with them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/fleet.h"
#include "fleet/kube.h"
#include "fleet/kube_check.h"
#include "fleet/kube_job.h"
#include "fleet/kube_place.h"

#define REMOVED_MAX 64                  /* Jobs that one count removes */
#define EXPLAINED_MAX 4                 /* Jobs without a pod, for each of which one count asks for events */

/* ---- before the lockdown ---- */

static int
find_namespace(const struct fleet_plan *plan, struct kube_place *at, struct err *err)
{
	const char *name = fleet_own_text(plan, "namespace");

	name = name != NULL ? name : at->kube.access.namespace != NULL ? at->kube.access.namespace : "default";
	if (strlen(name) > KUBE_NAME_MAX || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) || *name == '\0')
		return err_set(err, EINVAL, "'%.100s' cannot be the name of a namespace", name);
	snprintf(at->namespace, sizeof(at->namespace), "%s", name);
	snprintf(at->jobs, sizeof(at->jobs), "/apis/batch/v1/namespaces/%s/jobs", name);
	snprintf(at->pods, sizeof(at->pods), "/api/v1/namespaces/%s/pods", name);
	return 0;
}

static int
kubernetes_open(struct fleet_place *place, struct err *err)
{
	struct kube_place *at = calloc(1, sizeof(*at));
	int r = at == NULL ? err_set(err, ENOMEM, "out of memory") : kube_job_check(place->plan, err);

	r = r == 0 ? kube_open(place->http, fleet_own_text(place->plan, "context"), &at->kube, err) : r;
	r = r == 0 ? find_namespace(place->plan, at, err) : r;
	if (r < 0) {
		if (at != NULL)
			kube_close(&at->kube);
		free(at);
		return r;
	}
	place->readable[0] = at->kube.access.token_folder;
	place->own = at;
	return 0;
}

static void
kubernetes_close(struct fleet_place *place)
{
	struct kube_place *at = place->own;

	kube_close(&at->kube);
	free(at);
	place->own = NULL;
}

/* ---- start and stop ---- */

static int
kubernetes_stop(struct fleet_place *place, const char *id, struct err *err)
{
	struct kube_place *at = place->own;
	OWN(freep) char *name = fleet_http_escape(id), *path = name != NULL ? str_format("%s/%s", at->jobs, name) : NULL;
	OWN(json_decrefp) json_t *how = json_pack("{s:s, s:s, s:s}", "apiVersion", "v1", "kind", "DeleteOptions",
	                                          "propagationPolicy", "Background");

	return path == NULL || how == NULL ? err_set(err, ENOMEM, "out of memory") :
	       kube_ask(&at->kube, "DELETE", path, how, NULL, err);
}

/* The pod waits for its Secret, which names the Job as its owner, and so goes with it. */
static int
kubernetes_start(struct fleet_place *place, const struct fleet_job *job, char ret_id[FLEET_ID_MAX], struct err *err)
{
	struct kube_place *at = place->own;
	OWN(json_decrefp) json_t *made = kube_job_new(place->plan, job), *answer = NULL, *secret = NULL;
	char path[128];
	int r = made == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&at->kube, "POST", at->jobs, made, &answer, err);

	if (r < 0)
		return r;
	snprintf(ret_id, FLEET_ID_MAX, "%s", job->name);
	if (*job->token == '\0')
		return 0;
	secret = kube_job_secret(place->plan, job, answer);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/secrets", at->namespace);
	r = secret == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&at->kube, "POST", path, secret, NULL, err);
	if (r < 0)
		(void)kubernetes_stop(place, job->name, NULL);
	return r;
}

/* ---- pods ---- */

/* The pods of a Job are known by the label that its controller gives them. */
static const char *
job_of(const json_t *pod)
{
	return kube_text(pod, "metadata", "labels", "job-name");
}

static bool
is_true(const json_t *condition)
{
	return strcmp(kube_text(condition, "status", NULL, NULL), "True") == 0;
}

static const json_t *
container_of(const json_t *pod)
{
	return json_array_get(kube_at(pod, "status", "containerStatuses", NULL), 0);
}

/* A node that does not answer any more takes the readiness of its pods, and nobody changes the containers' own state. */
static bool
is_lost(const json_t *pod)
{
	const json_t *ready = kube_condition(pod, "Ready"), *container = container_of(pod);

	return ready != NULL && !is_true(ready) && json_is_true(json_object_get(container, "ready"));
}

/* The last line that is not empty. */
static void
say_last_line(char to[FLEET_WHY_MAX], const char *text)
{
	const char *end = text + strlen(text), *start;
	char line[FLEET_WHY_MAX];

	while (end > text && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
		end--;
	for (start = end; start > text && start[-1] != '\n'; start--)
		;
	start += (size_t)(end - start) > 10 && strncmp(start, "cloister: ", 10) == 0 ? 10 : 0;
	snprintf(line, sizeof(line), "%.*s", (int)(end - start), start);
	fleet_say(to, FLEET_WHY_MAX, line);
}

static void
say(char to[FLEET_WHY_MAX], const char *reason, const char *message)
{
	OWN(freep) char *text = str_format("%s%s%s", reason, *reason != '\0' && *message != '\0' ? ": " : "", message);

	fleet_say(to, FLEET_WHY_MAX, text != NULL ? text : reason);
}

/* Why a pod has ended with an error; *ret_status is that of its worker, -1: not known. */
static void
explain_end(const json_t *pod, int *ret_status, char to[FLEET_WHY_MAX])
{
	const json_t *ended = kube_at(container_of(pod), "state", "terminated", NULL);
	const char *message = kube_text(ended, "message", NULL, NULL), *reason = kube_text(ended, "reason", NULL, NULL);

	*ret_status = ended != NULL ? (int)json_integer_value(json_object_get(ended, "exitCode")) : -1;
	if (*kube_text(pod, "status", "reason", NULL) != '\0')
		say(to, kube_text(pod, "status", "reason", NULL), kube_text(pod, "status", "message", NULL));
	else if (strcmp(reason, "Error") == 0 && *message != '\0')
		say_last_line(to, message);
	else
		say(to, reason, message);
}

/* Why a pod does not run yet; nothing if that is as usual. */
static void
explain_wait(const json_t *pod, char to[FLEET_WHY_MAX])
{
	const json_t *waiting = kube_at(container_of(pod), "state", "waiting", NULL), *placed = kube_condition(pod, "PodScheduled");
	const char *reason = kube_text(waiting, "reason", NULL, NULL);

	if (placed != NULL && !is_true(placed))
		say(to, kube_text(placed, "reason", NULL, NULL), kube_text(placed, "message", NULL, NULL));
	else if (*reason != '\0' && strcmp(reason, "ContainerCreating") != 0 && strcmp(reason, "PodInitializing") != 0)
		say(to, reason, kube_text(waiting, "message", NULL, NULL));
	else if (is_lost(pod))
		say(to, "the node does not answer", kube_text(pod, "spec", "nodeName", NULL));
}

/* Why a Job has no pod is in an event only.  Not everybody may read those. */
static void
explain_absence(struct kube_place *at, const char *job, char to[FLEET_WHY_MAX])
{
	OWN(json_decrefp) json_t *answer = NULL;
	OWN(freep) char *name = fleet_http_escape(job), *path = NULL;
	const json_t *one;
	size_t i;

	if (name != NULL)
		path = str_format("/api/v1/namespaces/%s/events?fieldSelector=involvedObject.kind%%3DJob%%2CinvolvedObject.name%%3D%s"
		                  "&limit=%d", at->namespace, name, KUBE_PAGE);
	if (path == NULL || kube_ask(&at->kube, "GET", path, NULL, &answer, NULL) < 0)
		return;
	json_array_foreach(json_object_get(answer, "items"), i, one)
		if (strcmp(kube_text(one, "type", NULL, NULL), "Warning") == 0)
			say(to, kube_text(one, "reason", NULL, NULL), kube_text(one, "message", NULL, NULL));
}

/* ---- Jobs ---- */

enum job_state { JOB_GOES_ON, JOB_DONE, JOB_FAILED };

static enum job_state
state_of(const json_t *job)
{
	if (is_true(kube_condition(job, "Complete")))
		return JOB_DONE;
	return is_true(kube_condition(job, "Failed")) ? JOB_FAILED : JOB_GOES_ON;
}

/* Whether a worker of the Job works or will; pods that are being deleted finish what they run, and take nothing more. */
static bool
is_alive(struct kube_place *at, const char *name, const json_t *pods, unsigned *explained, char why[FLEET_WHY_MAX])
{
	bool found = false, alive = false;
	const json_t *pod;
	size_t i;

	json_array_foreach(pods, i, pod) {
		if (strcmp(job_of(pod), name) != 0 || json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") != NULL)
			continue;
		found = true;
		explain_wait(pod, why);
		alive = alive || !is_lost(pod);
	}
	if (!found && (*explained)++ < EXPLAINED_MAX)
		explain_absence(at, name, why);
	return alive || !found;
}

static void
explain_failure(const json_t *job, const char *name, const json_t *pods, int *ret_status, char why[FLEET_WHY_MAX])
{
	const json_t *condition = kube_condition(job, "Failed"), *pod;
	size_t i;

	*ret_status = -1;
	say(why, kube_text(condition, "reason", NULL, NULL), kube_text(condition, "message", NULL, NULL));
	json_array_foreach(pods, i, pod)
		if (strcmp(job_of(pod), name) == 0 && strcmp(kube_text(pod, "status", "phase", NULL), "Failed") == 0)
			explain_end(pod, ret_status, why);
}

static int
kubernetes_count(struct fleet_place *place, struct fleet_count *ret_count, struct err *err)
{
	struct kube_place *at = place->own;
	OWN(json_decrefp) json_t *jobs = NULL, *pods = NULL;
	struct fleet_count count = { .why = "" };
	unsigned removed = 0, explained = 0;
	const json_t *job;
	int r, status;
	size_t i;

	r = kube_list(&at->kube, at->jobs, FLEET_LABEL, place->plan->tag, &jobs, err);
	if (r == 0 && json_array_size(jobs) > 0)
		r = kube_list(&at->kube, at->pods, FLEET_LABEL, place->plan->tag, &pods, err);
	if (r < 0)
		return r;
	json_array_foreach(jobs, i, job) {
		const char *name = kube_text(job, "metadata", "name", NULL);
		enum job_state state = state_of(job);

		if (json_object_get(json_object_get(job, "metadata"), "deletionTimestamp") != NULL)
			continue;
		if (state == JOB_GOES_ON) {
			count.alive += is_alive(at, name, pods, &explained, count.why);
			continue;
		}
		/* A failure counts once: when its Job goes. */
		if (removed == REMOVED_MAX || kubernetes_stop(place, name, NULL) < 0)
			continue;
		removed++;
		if (state == JOB_FAILED) {
			count.failed++;
			explain_failure(job, name, pods, &status, count.why);
		}
	}
	*ret_count = count;
	return 0;
}

/* Whether WHY, of explain_wait() or explain_absence(), is not over by waiting: a probe need not wait for it.  The Secret of a
 * worker itself comes a moment after its pod. */
static bool
is_final(const char *why, const char *id)
{
	static const char *const reasons[] = { "CreateContainerError:", "CreateContainerConfigError:", "ErrImagePull:",
		"ImagePullBackOff:", "ErrImageNeverPull:", "InvalidImageName:", "RunContainerError:", "FailedCreate:" };

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (strncmp(why, reasons[i], strlen(reasons[i])) == 0)
			return strstr(why, id) == NULL || strcmp(reasons[i], "CreateContainerConfigError:") != 0;
	return false;
}

static int
kubernetes_look(struct fleet_place *place, const char *id, struct fleet_outcome *o, struct err *err)
{
	struct kube_place *at = place->own;
	OWN(freep) char *name = fleet_http_escape(id), *path = name != NULL ? str_format("%s/%s", at->jobs, name) : NULL;
	OWN(json_decrefp) json_t *job = NULL, *pods = NULL;
	unsigned explained = 0;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&at->kube, "GET", path, NULL, &job, err);

	r = r == 0 ? kube_list(&at->kube, at->pods, "job-name", name, &pods, err) : r;
	if (r < 0)
		return r;
	switch (state_of(job)) {
	case JOB_DONE:
		o->ended = true;
		o->status = 0;
		break;
	case JOB_FAILED:
		o->ended = true;
		explain_failure(job, id, pods, &o->status, o->text);
		break;
	case JOB_GOES_ON:
		(void)is_alive(at, id, pods, &explained, o->text);
		o->ended = is_final(o->text, id);
		break;
	}
	return 0;
}

const struct fleet fleet_kubernetes = {
	.name = "kubernetes",
	.open = kubernetes_open,
	.close = kubernetes_close,
	.check = kube_check,
	.start = kubernetes_start,
	.count = kubernetes_count,
	.look = kubernetes_look,
	.stop = kubernetes_stop,
};
