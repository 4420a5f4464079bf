/* operator_claim.c - see operator.h: a SandboxClaim, which has one Sandbox of its own name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/fleet/operator.h"

#define FINISHED "Finished"

static int
put(struct op *op, struct op_object *o, const char *reason, const char *message, struct err *err)
{
	return op_set_status(op, o, &(struct op_condition){ "Ready", "False", reason, message }, 1, NULL, err);
}

static bool
owns(const struct op_object *claim, const struct op_object *sandbox)
{
	const json_t *list = kube_at(sandbox->json, "metadata", "ownerReferences", NULL), *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (strcmp(kube_text(one, "uid", NULL, NULL), op_meta(claim, "uid")) == 0)
			return true;
	return false;
}

/* ---- its Sandbox ---- */

/* What is asked for beside the template. */
static const char *
find_excess(const struct op_object *claim)
{
	const json_t *spec = json_object_get(claim->json, "spec");

	if (json_array_size(json_object_get(spec, "env")) > 0)
		return "spec.env is refused: variables are registered with the agent";
	if (json_array_size(json_object_get(spec, "volumeClaimTemplates")) > 0)
		return "spec.volumeClaimTemplates is refused: the agent's registration decides what a sandbox has";
	return NULL;
}

/* The template as it is now: its podTemplate is not kept here.  *RET_WHY: why there is no Sandbox. */
static int
read_template(struct op *op, const struct op_object *template, json_t **ret_spec, char **ret_agent, struct err *err)
{
	OWN(freep) char *path = op_path(op, OP_TEMPLATE, op_meta(template, "namespace"), op_meta(template, "name"), "");
	OWN(json_decrefp) json_t *whole = NULL;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&op->kube, "GET", path, NULL, &whole, err);
	const json_t *spec = json_object_get(whole, "spec");
	const char *agent = r == 0 ? kube_text(whole, "metadata", "annotations", OP_AGENT) : "";

	r = r == 0 ? op_spec_check(spec, agent, err) : r;
	if (r == 0 && *agent == '\0')
		r = err_set(err, EPERM, "the annotation '" OP_AGENT "' of the template names a registered agent, and is missing");
	if (r < 0)
		return r;
	*ret_spec = json_pack("{s:O, s:s}", "podTemplate", json_object_get(spec, "podTemplate"), "operatingMode", "Running");
	*ret_agent = strdup(agent);
	return *ret_spec == NULL || *ret_agent == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
make(struct op *op, struct op_object *o, const struct op_object *template, struct err *err)
{
	OWN(freep) char *agent = NULL, *path = op_path(op, OP_SANDBOX, op_meta(o, "namespace"), "", "");
	OWN(json_decrefp) json_t *spec = NULL, *sandbox = NULL, *answer = NULL;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : read_template(op, template, &spec, &agent, err);

	if (r < 0)
		return r;
	sandbox = json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s}, s:[{s:s, s:s, s:s, s:s, s:b, s:b}]}, s:O}",
		"apiVersion", OP_GROUP "/" OP_VERSION, "kind", "Sandbox", "metadata", "name", op_meta(o, "name"), "namespace",
		op_meta(o, "namespace"), "labels", "agents.x-k8s.io/claim-uid", op_meta(o, "uid"), "annotations", OP_AGENT, agent,
		"ownerReferences", "apiVersion", OP_EXTENSIONS "/" OP_VERSION, "kind", "SandboxClaim", "name", op_meta(o, "name"),
		"uid", op_meta(o, "uid"), "controller", 1, "blockOwnerDeletion", 1, "spec", spec);
	r = sandbox == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&op->kube, "POST", path, sandbox, &answer, err);
	if (r == 0)
		op_take(op, OP_SANDBOX, answer);
	/* Its event comes. */
	return r == -EEXIST ? 0 : r;
}

static int
begin(struct op *op, struct op_object *o, struct err *err)
{
	const char *namespace = op_meta(o, "namespace"), *pool_name = kube_text(o->json, "spec", "warmPoolRef", "name");
	const struct op_object *pool = op_find(op, OP_POOL, namespace, pool_name);
	const char *name = pool != NULL ? kube_text(pool->json, "spec", "sandboxTemplateRef", "name") : "";
	const struct op_object *template = op_find(op, OP_TEMPLATE, namespace, name);
	const char *excess = find_excess(o);
	OWN(freep) char *text = NULL;
	struct err why = {0};
	int r;

	if (pool == NULL) {
		text = str_format("SandboxWarmPool \"%s\" not found", pool_name);
		return put(op, o, "WarmPoolNotFound", text != NULL ? text : "", err);
	}
	if (template == NULL) {
		text = str_format("SandboxTemplate \"%s\" not found", name);
		return put(op, o, "TemplateNotFound", text != NULL ? text : "", err);
	}
	if (excess != NULL)
		return put(op, o, strncmp(excess, "spec.env", 8) == 0 ? "EnvVarsInjectionRejected" : "VolumeClaimTemplatesError", excess, err);
	r = make(op, o, template, &why);
	if (r == -EPERM || r == -EINVAL)
		return put(op, o, "ReconcilerError", why.text, err);
	return r < 0 ? err_set(err, -r, "%s", why.text) : 0;
}

/* ---- its state ---- */

static int
mirror(struct op *op, struct op_object *o, const struct op_object *sandbox, struct err *err)
{
	static const char *const types[] = { "Ready", FINISHED };
	struct op_condition all[ARRAY_LEN(types)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const json_t *has = kube_condition(sandbox->json, types[i]);

		if (has != NULL)
			all[n++] = (struct op_condition){ types[i], kube_text(has, "status", NULL, NULL),
				kube_text(has, "reason", NULL, NULL), kube_text(has, "message", NULL, NULL) };
	}
	if (n == 0)
		all[n++] = (struct op_condition){ "Ready", "False", "SandboxNotReady", "the Sandbox is new" };
	return op_set_status(op, o, all, n, op_meta(sandbox, "name"), err);
}

/* ---- its end ---- */

/* When it expires; 0: never. */
static uint64_t
end_of(const struct op_object *o)
{
	const json_t *lifecycle = kube_at(o->json, "spec", "lifecycle", NULL), *ttl, *finished = kube_condition(o->json, FINISHED);
	uint64_t until = op_time_parse(kube_text(lifecycle, "shutdownTime", NULL, NULL)), then = 0;

	ttl = json_object_get(lifecycle, "ttlSecondsAfterFinished");
	if (json_is_integer(ttl) && json_integer_value(ttl) >= 0 && strcmp(kube_text(finished, "status", NULL, NULL), "True") == 0)
		then = op_time_parse(kube_text(finished, "lastTransitionTime", NULL, NULL));
	if (then != 0)
		then += (uint64_t)json_integer_value(ttl) * 1000;
	return until == 0 || (then != 0 && then < until) ? then : until;
}

static int
expire(struct op *op, struct op_object *o, const struct op_object *sandbox, struct err *err)
{
	const char *policy = kube_text(o->json, "spec", "lifecycle", "shutdownPolicy"), *namespace = op_meta(o, "namespace");
	int r = 0;

	if (strncmp(policy, "Delete", 6) == 0)
		return op_delete(op, OP_CLAIM, namespace, op_meta(o, "name"), op_meta(o, "uid"),
		                 strcmp(policy, "DeleteForeground") == 0 ? "Foreground" : "Background", err);
	if (sandbox != NULL && owns(o, sandbox) && !op_is_deleted(sandbox))
		r = op_delete(op, OP_SANDBOX, namespace, op_meta(sandbox, "name"), op_meta(sandbox, "uid"), "Background", err);
	return r < 0 ? r : put(op, o, "ClaimExpired", "the claim has expired", err);
}

int
op_claim_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	const struct op_object *sandbox = op_find(op, OP_SANDBOX, op_meta(o, "namespace"), op_meta(o, "name"));
	const uint64_t until = end_of(o), now = (uint64_t)time(NULL) * 1000;

	o->due_ms = until != 0 && until > now ? now_ms + (until - now) : OP_NEVER;
	/* Its Sandbox goes with it. */
	if (op_is_deleted(o))
		return 0;
	if (until != 0 && now >= until)
		return expire(op, o, sandbox, err);
	if (sandbox == NULL)
		return begin(op, o, err);
	if (!owns(o, sandbox))
		return put(op, o, "AdoptionConflict", "there is a Sandbox of that name, which is not of this claim", err);
	return mirror(op, o, sandbox, err);
}
