/* dispatch_confine.c - limits a child dispatch to the rights of its parent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy_boundary.h"
#include "policy/policy_images.h"

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- whether it is permitted at all ---- */

bool
dispatch_may_ask_for(const json_t *agents, const char *name, const char *hash, const char *ref)
{
	size_t len = strlen(name), i;
	json_t *named;

	json_array_foreach(agents, i, named) {
		const char *text = json_is_string(named) ? json_string_value(named) : "";

		if (strncmp(text, name, len) != 0)
			continue;
		if (text[len] == '\0' ? strcmp(ref, name) == 0 :
		    text[len] == '@' && strcmp(text + len + 1, hash) == 0)
			return true;
	}
	return false;
}

/* An agent can pass on only what it has. */
static int
check_envs(const struct dispatch_parent *parent, const struct dispatch_request *request,
           const json_t *resolved, struct err *err)
{
	const json_t *envs = json_object_get(resolved, "envs");
	const json_t *theirs = json_object_get(parent->resolved, "envs");
	size_t n = json_array_size(envs), k;

	for (size_t i = n - (request->n_envs < n ? request->n_envs : n); i < n; i++) {
		json_t *env = json_array_get(envs, i);

		for (k = 0; k < json_array_size(theirs); k++)
			if (strcmp(dispatch_text(json_array_get(theirs, k), "hash"),
			           dispatch_text(env, "hash")) == 0)
				break;
		if (k == json_array_size(theirs))
			return err_set(err, EPERM, "the agent '%s' does not have the env '%s' itself, and cannot "
			               "hand it on", parent->d->agent, dispatch_text(env, "name"));
	}
	return 0;
}

static bool
has_capability(const json_t *resolved, const char *hash)
{
	json_t *own;
	size_t i;

	json_array_foreach(json_object_get(resolved, "capabilities"), i, own)
		if (strcmp(dispatch_text(own, "hash"), hash) == 0)
			return true;
	return false;
}

/* Capabilities for this dispatch only: the requesting agent must have them itself. */
static int
check_granted(const struct dispatch_parent *parent, const json_t *resolved, struct err *err)
{
	const json_t *granted = json_object_get(resolved, "granted");
	json_t *named, *name;
	size_t i, k;

	json_array_foreach(json_object_get(granted, "capabilities"), k, name)
		json_array_foreach(json_object_get(resolved, "capabilities"), i, named)
			if (strcmp(dispatch_text(named, "name"), json_string_value(name)) == 0 &&
			    !has_capability(parent->resolved, dispatch_text(named, "hash")))
				return err_set(err, EPERM, "the agent '%s' does not have the capability '%s' itself, and "
				               "cannot hand it on", parent->d->agent, json_string_value(name));
	return 0;
}

/* The same for secrets, once it is known which ones the parent leaves it. */
static int
check_secrets(const struct dispatch_parent *parent, const json_t *resolved, const json_t *left_out, struct err *err)
{
	json_t *name;
	size_t k;

	json_array_foreach(json_object_get(json_object_get(resolved, "granted"), "secrets"), k, name)
		if (dispatch_gives_secret(json_object_get(left_out, "secrets"), json_string_value(name)))
			return err_set(err, EPERM, "the agent '%s' does not have the secret '%s' itself, and cannot "
			               "hand it on", parent->d->agent, json_string_value(name));
	return 0;
}

/* An agent that does not see the host's files starts none that does. */
static int
check_root(const struct dispatch_parent *parent, const json_t *resolved, struct err *err)
{
	const json_t *outer = json_object_get(parent->resolved, "root");

	if (outer == NULL || strcmp(dispatch_text(parent->resolved, "root"), "host") == 0 ||
	    strcmp(dispatch_text(resolved, "root"), "host") != 0)
		return 0;
	return err_set(err, EPERM, "the agent '%s' has none of the host's files, and cannot dispatch '%s', whose root is "
	               "the host's", parent->d->agent, dispatch_text(json_object_get(resolved, "agent"), "name"));
}

static int
check_asking(const struct dispatch_parent *parent, const struct dispatch_request *request,
             const json_t *resolved, struct err *err)
{
	const json_t *delegate = json_object_get(parent->resolved, "delegate");
	const json_t *agent = json_object_get(resolved, "agent");
	const char *name = dispatch_text(agent, "name");
	int r;

	if (!dispatch_may_ask_for(json_object_get(delegate, "agents"), name,
	                          dispatch_text(agent, "hash"), request->agent))
		return err_set(err, EPERM, "the agent '%s' may not dispatch '%s': its `delegate` does not "
		               "name it", parent->d->agent, request->agent);
	if (json_integer_value(json_object_get(delegate, "depth")) < 1)
		return err_set(err, EPERM, "the agent '%s' may not dispatch '%s': that is as deep as agents "
		               "may dispatch one another here", parent->d->agent, name);
	if ((json_int_t)parent->n_children >= json_integer_value(json_object_get(delegate, "fan_out")))
		return err_set(err, EPERM, "the agent '%s' has dispatched %u others, and may not dispatch "
		               "more", parent->d->agent, parent->n_children);
	r = check_envs(parent, request, resolved, err);
	r = r == 0 ? check_granted(parent, resolved, err) : r;
	return r == 0 ? check_root(parent, resolved, err) : r;
}

/* ---- limits ---- */

/* The deadline: the parent's own time, counted from its first attempt. */
static int
narrow_limits(const struct dispatch_parent *parent, json_t *resolved, struct err *err)
{
	const struct dispatch *d = parent->d;
	const json_t *outer = json_object_get(parent->resolved, "limits");
	const json_t *before = json_object_get(parent->resolved, "deadline_ms");
	uint64_t from = d->started_ms != 0 ? d->started_ms : parent->now_ms;
	uint64_t until = from + dispatch_limits_time(outer) * (d->attempts > 1 ? d->attempts : 1);
	json_t *limits = NULL;
	int r;

	if (json_is_integer(before) && (uint64_t)json_integer_value(before) < until)
		until = (uint64_t)json_integer_value(before);
	if (until <= parent->now_ms)
		return err_set(err, EPERM, "there is no time left: that of dispatch %s is over", d->id);
	r = dispatch_limits_narrow(json_object_get(resolved, "limits"), outer, until - parent->now_ms,
	                           &limits, err);
	if (r < 0)
		return r;
	return json_object_set_new(resolved, "limits", limits) < 0 ||
	       json_object_set_new(resolved, "deadline_ms", json_integer((json_int_t)until)) < 0 ?
	       out_of_memory(err) : 0;
}

/* ---- the workspace ---- */

static int
freedom(const char *mode)
{
	return strcmp(mode, "ro") == 0 ? 0 : strcmp(mode, "overlay") == 0 ? 1 : 2;
}

/* Whether PATH is OUTER, or lies in it.  An agent that may write there could at any time put a link
 * to anywhere on the way to a folder further down.  Then only the same folder is safe. */
static bool
lies_in(const char *path, const char *outer, bool writable)
{
	OWN(freep) char *real = realpath(path, NULL), *around = realpath(outer, NULL);
	size_t n = around != NULL ? strlen(around) : 0;

	if (strcmp(path, outer) == 0)
		return true;
	return !writable && real != NULL && around != NULL && strncmp(real, around, n) == 0 &&
	       (real[n] == '/' || real[n] == '\0' || strcmp(around, "/") == 0);
}

static int
narrow_workspace(const struct dispatch_parent *parent, json_t *resolved, json_t *left_out,
                 struct err *err)
{
	json_t *own = json_object_get(resolved, "workspace"), *narrowed;
	const json_t *outer = json_object_get(parent->resolved, "workspace");
	const char *mode = dispatch_text(own, "mode"), *theirs = dispatch_text(outer, "mode");

	if (!json_is_object(own))
		return 0;
	if (!json_is_object(outer) || !lies_in(dispatch_text(own, "path"), dispatch_text(outer, "path"),
	                                       freedom(theirs) == 2))
		return json_object_set(left_out, "workspace", own) < 0 ||
		       json_object_set_new(resolved, "workspace", json_null()) < 0 ? out_of_memory(err) : 0;
	if (freedom(mode) <= freedom(theirs))
		return 0;
	narrowed = json_pack("{s:s,s:s}", "mode", theirs, "path", dispatch_text(own, "path"));
	return narrowed == NULL || json_object_set_new(resolved, "workspace", narrowed) < 0 ?
	       out_of_memory(err) : 0;
}

/* ---- walls ---- */

int
dispatch_put_boundary(json_t *resolved, const struct policy_boundary *b, struct err *err)
{
	char text[POLICY_BOUNDARY_TEXT_MAX + 1];
	json_t *name = b->is_set ? json_string(policy_boundary_text(b, text)) : json_null();
	json_t *runtime = b->runtime[0] != '\0' ? json_string(b->runtime) : json_null();
	int r = json_object_set_new(resolved, "boundary", name);

	return json_object_set_new(resolved, "runtime", runtime) < 0 || r < 0 ? out_of_memory(err) : 0;
}

static int
add_boundary(struct policy_boundary *all, const json_t *resolved, struct err *err)
{
	const char *text = dispatch_text(resolved, "boundary"), *runtime = dispatch_text(resolved, "runtime");
	struct policy_boundary one = {0};
	int r = text[0] == '\0' ? 0 : policy_boundary_parse(text, &one, err);

	r = r == 0 && runtime[0] != '\0' ? policy_boundary_add_runtime(&one, runtime, err) : r;
	return r < 0 ? r : policy_boundary_raise(all, &one, err);
}

static int
raise_boundary(const struct dispatch_parent *parent, json_t *resolved, struct err *err)
{
	struct policy_boundary all = {0}, docker = { .is_set = true, .by_engine = true };
	int r = add_boundary(&all, resolved, err);

	/* A parent that asks for nothing has the default. */
	if (r == 0 && all.by_process && dispatch_text(parent->resolved, "boundary")[0] == '\0')
		all.by_process = false;
	r = r == 0 ? add_boundary(&all, parent->resolved, err) : r;
	/* A container must do for the parent's demand, too. */
	if (r == 0 && strcmp(dispatch_text(resolved, "boundary"), BOUNDARY_DOCKER) == 0)
		return policy_boundary_check(&docker, "the target docker", &all, err);
	return r < 0 ? r : dispatch_put_boundary(resolved, &all, err);
}

/* ---- images ---- */

int
dispatch_put_images(json_t *resolved, const struct policy_images *images, struct err *err)
{
	char text[POLICY_IMAGES_TEXT_MAX + 1];

	return json_object_set_new(resolved, "images", images->is_set ? json_string(policy_images_text(images, text)) :
	                           json_null()) < 0 ? out_of_memory(err) : 0;
}

static int
add_images(const struct dispatch_parent *parent, json_t *resolved, struct err *err)
{
	struct policy_images all, more;
	int r = policy_images_parse(dispatch_text(resolved, "images"), &all, err);

	r = r == 0 ? policy_images_parse(dispatch_text(parent->resolved, "images"), &more, err) : r;
	r = r == 0 ? policy_images_add(&all, &more, err) : r;
	return r < 0 ? r : dispatch_put_images(resolved, &all, err);
}

/* ---- the agents that it may dispatch itself ---- */

static int
narrow_delegate(const struct dispatch_parent *parent, json_t *resolved, struct err *err)
{
	json_t *own = json_object_get(resolved, "delegate"), *copy;
	json_int_t depth = json_integer_value(json_object_get(own, "depth"));
	json_int_t left = json_integer_value(json_object_get(json_object_get(parent->resolved, "delegate"),
	                                                     "depth")) - 1;

	if (!json_is_object(own) || depth <= left)
		return 0;
	copy = json_copy(own);
	return copy == NULL || json_object_set_new(copy, "depth", json_integer(left)) < 0 ||
	       json_object_set_new(resolved, "delegate", copy) < 0 ? out_of_memory(err) : 0;
}

int
dispatch_confine(const struct dispatch_parent *parent, const struct dispatch_request *request,
                 struct dispatch_plan *plan, struct err *err)
{
	OWN(json_decrefp) json_t *confined = json_pack("{s:s,s:s,s:{}}", "agent", parent->d->agent,
	                                               "parent", parent->d->id, "left_out");
	json_t *left_out = json_object_get(confined, "left_out");
	int r = confined == NULL ? out_of_memory(err) : check_asking(parent, request, plan->resolved, err);

	if (r == 0)
		r = dispatch_within(parent, plan, confined, err);
	if (r == 0)
		r = check_secrets(parent, plan->resolved, left_out, err);
	if (r == 0)
		r = raise_boundary(parent, plan->resolved, err);
	if (r == 0)
		r = add_images(parent, plan->resolved, err);
	if (r == 0)
		r = dispatch_record_confine(parent->resolved, plan->resolved, err);
	if (r == 0)
		r = narrow_limits(parent, plan->resolved, err);
	if (r == 0)
		r = narrow_workspace(parent, plan->resolved, left_out, err);
	if (r == 0)
		r = narrow_delegate(parent, plan->resolved, err);
	if (r == 0 && json_object_set(plan->resolved, "confined", confined) < 0)
		r = out_of_memory(err);
	return r;
}
