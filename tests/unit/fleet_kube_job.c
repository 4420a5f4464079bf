/* fleet_kube_job.c - tests of a worker's Job. */
#include "fleet/kube_job.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/kube.h"
#include "test.h"

#define TAG "0123456789abcdef"
#define TARGET(more) "{\"name\":\"Big one\",\"engine\":\"kubernetes\",\"pool\":\"p\",\"image\":\"i:1\",\"workers\":{\"min\":0,\"max\":2}," \
	"\"slots\":3,\"once\":false,\"idle\":\"5m\",\"secrets\":{\"A\":\"s\",\"B\":\"s/b\"},\"env\":{\"C\":\"$(A) $$\"}," more "}"

static const json_t *
pod_of(const json_t *job)
{
	return kube_at(job, "spec", "template", "spec");
}

static const json_t *
variable_of(const json_t *job, const char *name)
{
	const json_t *env = json_object_get(json_array_get(json_object_get(pod_of(job), "containers"), 0), "env"), *one;
	size_t i;

	json_array_foreach(env, i, one)
		if (strcmp(kube_text(one, "name", NULL, NULL), name) == 0)
			return one;
	return NULL;
}

static json_t *
job_for(const char *text, const struct fleet_job *job, struct fleet_plan *plan)
{
	CHECK_OK(fleet_plan_read(text, strlen(text), TAG, plan, NULL));
	CHECK_OK(kube_job_check(plan, NULL));
	return kube_job_new(plan, job);
}

TEST(kube_job_new)
{
	OWN(fleet_plan_free) struct fleet_plan plan = {0};
	const struct fleet_job job = { .token = "secret token", .name = "cloister-big-one-1" };
	OWN(json_decrefp) json_t *made = job_for(TARGET("\"cpus\":\"1.5\",\"memory\":\"1G\",\"kubernetes\":{}"), &job, &plan);
	OWN(json_decrefp) json_t *answer = json_pack("{s:{s:s}}", "metadata", "uid", "u-1"), *secret = kube_job_secret(&plan, &job, answer);
	OWN(freep) char *text = json_dumps(made, 0);
	const json_t *pod = pod_of(made), *container = json_array_get(json_object_get(pod, "containers"), 0);

	CHECK(made != NULL && text != NULL && secret != NULL);
	/* Whoever may read Jobs may not read the token. */
	CHECK(strstr(text, "secret token") == NULL);
	CHECK_STR(kube_text(json_object_get(variable_of(made, "CLOISTER_JOIN"), "valueFrom"), "secretKeyRef", "name", NULL), job.name);
	CHECK_STR(kube_text(secret, "stringData", "token", NULL), "secret token");
	CHECK_STR(kube_text(json_array_get(kube_at(secret, "metadata", "ownerReferences", NULL), 0), "uid", NULL, NULL), "u-1");
	/* A secret's key is the variable's name, or named. */
	CHECK_STR(kube_text(json_object_get(variable_of(made, "A"), "valueFrom"), "secretKeyRef", "key", NULL), "A");
	CHECK_STR(kube_text(json_object_get(variable_of(made, "B"), "valueFrom"), "secretKeyRef", "name", NULL), "s");
	CHECK_STR(kube_text(json_object_get(variable_of(made, "B"), "valueFrom"), "secretKeyRef", "key", NULL), "b");
	/* Kubernetes makes $(A) $$ of it again. */
	CHECK_STR(kube_text(variable_of(made, "C"), "value", NULL, NULL), "$$(A) $$$$");
	CHECK_STR(kube_text(container, "resources", "limits", "cpu"), "1500m");
	CHECK_STR(kube_text(container, "securityContext", "procMount", NULL), "Unmasked");
	CHECK_STR(kube_text(pod, "securityContext", "seccompProfile", "type"), "Localhost");
	CHECK_U64((uint64_t)json_integer_value(json_object_get(pod, "terminationGracePeriodSeconds")), 3600);
	CHECK(json_is_false(json_object_get(pod, "automountServiceAccountToken")));
	CHECK(json_object_get(pod, "runtimeClassName") == NULL && json_object_get(pod, "hostUsers") == NULL);
	CHECK_STR(kube_text(made, "metadata", "labels", FLEET_LABEL), TAG);
}

TEST(kube_job_own_keys)
{
	OWN(fleet_plan_free) struct fleet_plan plan = {0};
	const struct fleet_job job = { .tries = true, .name = "j" };
	OWN(json_decrefp) json_t *made = job_for(
		TARGET("\"kubernetes\":{\"runtimeClass\":\"kata\",\"hostUsers\":false,\"serviceAccount\":\"sa\",\"seccomp\":\"unconfined\","
		       "\"hostProc\":true,\"nodeSelector\":{\"a\":\"b\"},\"pullSecrets\":[\"r\"],\"grace\":\"90s\"}"), &job, &plan);
	const json_t *pod = pod_of(made), *container = json_array_get(json_object_get(pod, "containers"), 0);

	CHECK_STR(kube_text(pod, "runtimeClassName", NULL, NULL), "kata");
	CHECK(json_is_false(json_object_get(pod, "hostUsers")));
	CHECK_STR(kube_text(pod, "serviceAccountName", NULL, NULL), "sa");
	CHECK_STR(kube_text(pod, "securityContext", "seccompProfile", "type"), "Unconfined");
	CHECK_STR(kube_text(pod, "nodeSelector", "a", NULL), "b");
	CHECK_STR(kube_text(json_array_get(json_object_get(pod, "imagePullSecrets"), 0), "name", NULL, NULL), "r");
	CHECK_STR(kube_text(container, "securityContext", "procMount", NULL), "");
	/* A probe is not counted, has no token, and does not take long to end. */
	CHECK_STR(kube_text(made, "metadata", "labels", FLEET_LABEL), "probe-" TAG);
	CHECK(variable_of(made, "CLOISTER_JOIN") == NULL);
	CHECK_U64((uint64_t)json_integer_value(json_object_get(pod, "terminationGracePeriodSeconds")), 5);
}

TEST(kube_job_check_refuses)
{
	static const char *const own[] = { "\"grace\":\"soon\"", "\"grace\":\"1ms\"", "\"seccomp\":\"/etc/passwd\"", "\"seccomp\":\"../x\"" };

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		OWN(fleet_plan_free) struct fleet_plan plan = {0};
		OWN(freep) char *text = str_format(TARGET("\"kubernetes\":{%s}"), own[i]);

		CHECK_OK(fleet_plan_read(text, strlen(text), TAG, &plan, NULL));
		CHECK(kube_job_check(&plan, NULL) == -EINVAL);
	}
}
