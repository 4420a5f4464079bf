/* operator_spec.c - see operator.h: what a podTemplate may say.
 *
 * The agent's registration decides what a sandbox has.  What is here can only take away, or say nothing: an unknown member
 * might grant something, so it is refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "fleet/fleet.h"
#include "fleet/kube.h"
#include "proc/fleet/operator.h"

#define OWN_IMAGE "cloister.io/"

static int
refuse(const char *what, const char *why, struct err *err)
{
	char text[128];

	return err_set(err, EPERM, "podTemplate: '%s' %s", fleet_say(text, sizeof(text), what), why);
}

/* Nothing was said. */
static bool
is_empty(const json_t *value)
{
	return value == NULL || json_is_null(value) || json_is_false(value) || (json_is_object(value) && json_object_size(value) == 0) ||
	       (json_is_array(value) && json_array_size(value) == 0);
}

static bool
is_one_of(const char *name, const char *const *names)
{
	while (*names != NULL && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

static const char registered[] = "is refused: the agent's registration decides what a sandbox has";

static int
check_container(json_t *container, const char *agent, struct err *err)
{
	static const char *const plain[] = { "name", "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", NULL };
	const char *name;
	json_t *value;

	json_object_foreach (container, name, value) {
		const char *image = json_string_value(value);

		if (is_empty(value) || is_one_of(name, plain))
			continue;
		if (strcmp(name, "image") != 0)
			return refuse(name, registered, err);
		if (image == NULL || strncmp(image, OWN_IMAGE, strlen(OWN_IMAGE)) != 0 ||
		    (*agent != '\0' && strcmp(image + strlen(OWN_IMAGE), agent) != 0))
			return refuse("image", "is refused: the agent's registration names the image. Write `" OWN_IMAGE "` and the agent's "
			              "name, or leave it out", err);
	}
	return 0;
}

static int
check_pod(json_t *pod, const char *agent, struct err *err)
{
	static const char *const plain[] = { "restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "schedulerName",
		"enableServiceLinks", "containers", "automountServiceAccountToken", NULL };
	const json_t *containers = json_object_get(pod, "containers");
	const char *name;
	json_t *value;

	json_object_foreach (pod, name, value)
		if (!is_empty(value) && !is_one_of(name, plain))
			return refuse(name, registered, err);
	if (json_is_true(json_object_get(pod, "automountServiceAccountToken")))
		return refuse("automountServiceAccountToken", registered, err);
	if (json_array_size(containers) != 1)
		return refuse("containers", "must be one: a sandbox is one cell", err);
	return check_container(json_array_get(containers, 0), agent, err);
}

int
op_spec_check(const json_t *spec, const char *agent, struct err *err)
{
	json_t *pod = (json_t *)(uintptr_t)kube_at(spec, "podTemplate", "spec", NULL);

	if (!is_empty(json_object_get(spec, "volumeClaimTemplates")))
		return refuse("volumeClaimTemplates", registered, err);
	if (!is_empty(json_object_get(spec, "service")))
		return refuse("service", "is refused: nothing of the cluster reaches into a cell", err);
	if (!json_is_object(pod))
		return refuse("spec", "is missing", err);
	return check_pod(pod, agent, err);
}

/* ---- times ---- */

uint64_t
op_time_parse(const char *text)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int hours, minutes;
	time_t at = rest != NULL ? timegm(&tm) : 0;

	if (rest == NULL || at < 0)
		return 0;
	if (*rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d:%2d", &hours, &minutes) == 2)
		at -= (*rest == '+' ? 60 : -60) * (hours * 60 + minutes);
	else if (strcmp(rest, "Z") != 0)
		return 0;
	return at < 0 ? 0 : (uint64_t)at * 1000;
}

void
op_time_put(uint64_t ms, bool micro, char ret_text[40])
{
	const time_t at = (time_t)(ms / 1000);
	struct tm tm;
	size_t n = strftime(ret_text, 40, "%Y-%m-%dT%H:%M:%S", gmtime_r(&at, &tm));

	snprintf(ret_text + n, 40 - n, micro ? ".%06uZ" : "Z", (unsigned)(ms % 1000) * 1000);
}
