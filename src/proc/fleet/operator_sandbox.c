/* operator_sandbox.c - see operator.h: a Sandbox, which is one dispatch. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/fleet/operator.h"

#define BEGINS_MS 500                   /* how often one is looked at that begins or ends */
#define RUNS_MS 2000                    /* one that runs */

/* ---- its dispatch ---- */

/* Nobody else has a dispatch with this principal. */
static char *
principal_of(const struct op_object *o)
{
	return str_format("kubernetes:%s:%s", o->key, op_meta(o, "uid"));
}

/* The dispatch in the annotation, if it is that of this Sandbox: users may write there what they like. */
static int
recall(struct op *op, struct op_object *o, struct err *err)
{
	OWN(freep) char *principal = principal_of(o);
	const char *id = op_annotation(o, OP_DISPATCH);
	struct op_dispatch d;
	int r;

	if (o->id[0] != '\0' || *id == '\0')
		return 0;
	r = principal == NULL ? err_set(err, ENOMEM, "out of memory") : op_service_look(op, id, &d, err);
	if (r == 0 && strcmp(d.principal, principal) == 0)
		snprintf(o->id, sizeof(o->id), "%s", id);
	return r == -ENOENT ? 0 : r;
}

static int
dispatch(struct op *op, struct op_object *o, struct err *err)
{
	OWN(freep) char *principal = principal_of(o);

	return principal == NULL ? err_set(err, ENOMEM, "out of memory") :
	       op_service_dispatch(op, op_annotation(o, OP_AGENT), op_meta(o, "uid"), principal, o->id, err);
}

static bool
is_over(const struct op_dispatch *d)
{
	static const char *const over[] = { "finished", "failed", "cancelled", "timed_out" };

	for (size_t i = 0; i < ARRAY_LEN(over); i++)
		if (strcmp(d->state, over[i]) == 0)
			return true;
	return false;
}

/* 1: its dispatch is over, or there is none. */
static int
end(struct op *op, struct op_object *o, struct err *err)
{
	struct op_dispatch d = {0};
	int r;

	if (o->id[0] == '\0')
		return 1;
	r = op_service_look(op, o->id, &d, err);
	if (r == -ENOENT || (r == 0 && is_over(&d))) {
		o->over = true;
		return 1;
	}
	return r < 0 ? r : op_service_cancel(op, o->id, err);
}

/* ---- finalizer ---- */

static bool
has_finalizer(const struct op_object *o)
{
	const json_t *list = kube_at(o->json, "metadata", "finalizers", NULL), *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), OP_FINALIZER) == 0)
			return true;
	return false;
}

static int
put_finalizer(struct op *op, struct op_object *o, bool has, struct err *err)
{
	const json_t *list = kube_at(o->json, "metadata", "finalizers", NULL);
	OWN(json_decrefp) json_t *patch = NULL;
	json_t *made = json_array(), *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), OP_FINALIZER) != 0)
			json_array_append(made, one);
	if (has)
		json_array_append_new(made, json_string(OP_FINALIZER));
	patch = json_pack("{s:{s:o}}", "metadata", "finalizers", made);
	return patch == NULL ? err_set(err, ENOMEM, "out of memory") : op_patch(op, o, "", patch, err);
}

/* Its dispatch may have been made, and the annotation not. */
static int
finalize(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	int r = 0;

	if (!has_finalizer(o)) {
		o->due_ms = OP_NEVER;
		return 0;
	}
	if (o->id[0] == '\0' && o->refused == NULL && *op_annotation(o, OP_AGENT) != '\0')
		r = dispatch(op, o, err);
	/* What the service refuses was never made. */
	if (r == -EINVAL || r == -ENOENT || r == -EEXIST)
		r = 0;
	r = r == 0 ? end(op, o, err) : r;
	if (r <= 0) {
		o->due_ms = now_ms + BEGINS_MS;
		return r;
	}
	o->due_ms = OP_NEVER;
	r = put_finalizer(op, o, false, err);
	return r == -ENOENT ? 0 : r;
}

/* ---- its state ---- */

/* Of one that is not over.  Whoever wants it to be suspended is told that it is not: an agent's clients may not freeze cells. */
static int
put_state(struct op *op, struct op_object *o, const char *ready, const char *reason, const char *message, struct err *err)
{
	bool suspended = strcmp(kube_text(o->json, "spec", "operatingMode", NULL), "Suspended") == 0;
	const struct op_condition all[] = { { "Ready", ready, reason, message },
		{ "Suspended", "False", "NotSupported", "cloister operator cannot suspend a sandbox: it goes on" } };

	return op_set_status(op, o, all, suspended ? 2 : 1, NULL, err);
}

static int
put_waits(struct op *op, struct op_object *o, const char *message, struct err *err)
{
	return put_state(op, o, "False", "DependenciesNotReady", message, err);
}

static int
put_error(struct op *op, struct op_object *o, const char *message, struct err *err)
{
	return op_set_status(op, o, &(struct op_condition){ "Ready", "False", "ReconcilerError", message }, 1, NULL, err);
}

static int
put_finished(struct op *op, struct op_object *o, const struct op_dispatch *d, struct err *err)
{
	bool good = strcmp(d->state, "finished") == 0 && d->exit_code == 0;
	const char *reason = good ? "PodSucceeded" : "PodFailed";
	OWN(freep) char *text = str_format("the sandbox is over: it is %s%s%s", d->state, *d->reason != '\0' ? ": " : "", d->reason);
	const struct op_condition all[] = { { "Ready", "False", reason, text }, { "Finished", "True", reason, text } };

	return text == NULL ? err_set(err, ENOMEM, "out of memory") : op_set_status(op, o, all, ARRAY_LEN(all), NULL, err);
}

static int
put_ready(struct op *op, struct op_object *o, struct err *err)
{
	return put_state(op, o, "True", "DependenciesReady", "the sandbox can be used", err);
}

static int
follow(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	struct op_dispatch d = {0};
	int r = op_service_look(op, o->id, &d, err);

	if (r == -ENOENT)
		snprintf(d.state, sizeof(d.state), "failed");
	else if (r < 0)
		return r;
	if (r == -ENOENT || is_over(&d)) {
		o->over = true;
		r = put_finished(op, o, &d, err);
		o->due_ms = OP_NEVER;
		return r;
	}
	r = o->started || strcmp(d.state, "running") != 0 ? 0 : op_service_has_started(op, o->id, &o->started, err);
	if (r == 0)
		r = o->started ? put_ready(op, o, err) : put_waits(op, o, strcmp(d.state, "queued") == 0 ?
		    "the sandbox waits for a worker" : "the sandbox begins", err);
	o->due_ms = now_ms + (o->started ? RUNS_MS : BEGINS_MS);
	return r;
}

static int
begin(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	OWN(json_decrefp) json_t *patch = NULL;
	struct err why = {0};
	int r;

	o->due_ms = OP_NEVER;
	if (o->refused != NULL)
		return put_error(op, o, o->refused, err);
	if (*op_annotation(o, OP_AGENT) == '\0')
		return put_error(op, o, "the annotation '" OP_AGENT "' names the registered agent of a sandbox, and is missing", err);
	if (!has_finalizer(o) && (r = put_finalizer(op, o, true, err)) < 0)
		return r;
	r = dispatch(op, o, &why);
	if (r < 0) {
		/* An agent may be registered later. */
		o->due_ms = now_ms + RUNS_MS;
		return put_error(op, o, why.text, err);
	}
	fprintf(stderr, "cloister: Sandbox %s is dispatch %s\n", o->key, o->id);
	o->due_ms = 0;
	patch = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", OP_DISPATCH, o->id);
	return patch == NULL ? err_set(err, ENOMEM, "out of memory") : op_patch(op, o, "", patch, err);
}

/* ---- the end of its time ---- */

static int
expire(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	int r = end(op, o, err);

	o->due_ms = r == 1 ? OP_NEVER : now_ms + BEGINS_MS;
	if (r < 0)
		return r;
	if (r == 1 && strcmp(kube_text(o->json, "spec", "shutdownPolicy", NULL), "Delete") == 0)
		return op_delete(op, OP_SANDBOX, op_meta(o, "namespace"), op_meta(o, "name"), op_meta(o, "uid"), "Background", err);
	return op_set_status(op, o, &(struct op_condition){ "Ready", "False", "SandboxExpired", "its shutdownTime is over" }, 1, NULL,
	                     err);
}

int
op_sandbox_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	const uint64_t until = op_time_parse(kube_text(o->json, "spec", "shutdownTime", NULL)), now = (uint64_t)time(NULL) * 1000;
	int r = recall(op, o, err);

	if (r < 0)
		return r;
	if (op_is_deleted(o))
		return finalize(op, o, now_ms, err);
	if (until != 0 && now >= until)
		return expire(op, o, now_ms, err);
	r = o->id[0] == '\0' ? begin(op, o, now_ms, err) : follow(op, o, now_ms, err);
	if (until != 0 && o->due_ms > now_ms + (until - now))
		o->due_ms = now_ms + (until - now);
	return r;
}
