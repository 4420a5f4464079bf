/* dispatch_resolve.c - resolves a request to versions, policy, limits and secrets. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "registry/object.h"
#include "registry/registry.h"

static_assert(OBJECT_POOL_MAX == TARGET_POOL_NAME_MAX, "a registered target names a pool");

const char *
dispatch_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

bool
dispatch_lists(const json_t *list, const char *name, const char *text)
{
	json_t *object;
	size_t i;

	json_array_foreach(list, i, object)
		if (strcmp(dispatch_text(object, name), text) == 0)
			return true;
	return false;
}

int
dispatch_hash_json(json_t *value, size_t max, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	size_t len;
	int r = canon_dump(value, max, &text, &len, err);

	if (r < 0)
		return r;
	hash_of(text, len, hash);
	hash_name(hash, ret_hash);
	return 0;
}

void
dispatch_plan_free(struct dispatch_plan *plan)
{
	json_decref(plan->resolved);
	free(plan->policy);
	free(plan->programs);
	free(plan->outer);
	*plan = (struct dispatch_plan){0};
}

/* ---- the request by itself ---- */

static int
check_principal(const char *text, struct err *err)
{
	size_t len = strlen(text), step;
	uint32_t code;

	if (len > DISPATCH_PRINCIPAL_MAX)
		return err_set(err, EINVAL, "the principal is over %d bytes long", DISPATCH_PRINCIPAL_MAX);
	for (size_t i = 0; i < len; i += step) {
		step = utf8_next(text + i, len - i, &code);
		if (step == 0 || utf8_is_control(code))
			return err_set(err, EINVAL, "the principal is not plain UTF-8 text");
	}
	return 0;
}

static int
check_key(const char *key, bool by_agent, struct err *err)
{
	size_t len = strlen(key), own = strlen(DISPATCH_AGENT_KEYS);

	for (size_t i = 0; i < len; i++)
		if (key[i] < '!' || key[i] > '~')
			len = 0;
	if (len == 0 || len > DISPATCH_KEY_MAX)
		return err_set(err, EINVAL, "an idempotency key is 1 to %d printable ASCII characters "
		               "without spaces", DISPATCH_KEY_MAX);
	if (!by_agent && strncmp(key, DISPATCH_AGENT_KEYS, own) == 0)
		return err_set(err, EINVAL, "idempotency keys that begin with '" DISPATCH_AGENT_KEYS
		               "' are for agents: choose another one");
	return 0;
}

int
dispatch_check_request(const struct dispatch_request *request, struct err *err)
{
	int r;

	if (request->agent == NULL || request->agent[0] == '\0')
		return err_set(err, EINVAL, "which agent?");
	if (request->n_envs > DISPATCH_ENVS_MAX)
		return err_set(err, E2BIG, "there are over %d envs", DISPATCH_ENVS_MAX);
	if (request->n_capabilities > DISPATCH_CAPABILITIES_MAX)
		return err_set(err, E2BIG, "there are over %d capabilities", DISPATCH_CAPABILITIES_MAX);
	if (request->n_secrets > DISPATCH_SECRETS_MAX)
		return err_set(err, E2BIG, "there are over %d secrets", DISPATCH_SECRETS_MAX);
	if (request->retries > DISPATCH_RETRIES_MAX)
		return err_set(err, EINVAL, "%d retries are the most", DISPATCH_RETRIES_MAX);
	if (request->timeout_ms > DISPATCH_TIMEOUT_MAX)
		return err_set(err, EINVAL, "a time-out is at most 30 days");
	if (request->input_len > DISPATCH_INPUT_MAX)
		return err_set(err, EFBIG, "the input is over %u MiB", DISPATCH_INPUT_MAX >> 20);
	r = dispatch_record_check(request->record, err);
	if (r == 0 && request->principal != NULL)
		r = check_principal(request->principal, err);
	if (r == 0 && request->key != NULL)
		r = check_key(request->key, request->by_agent, err);
	return r;
}

/* ---- objects ---- */

struct resolving {
	struct registry *reg;
	const struct dispatch_request *request;
	json_t *agent;                  /* contents */
	json_t *capabilities[DISPATCH_CAPABILITIES_MAX];
	size_t n_capabilities;
	json_t *policy;                 /* the agent's own, or NULL */
	char *search;                   /* PATH of its envs, or NULL */
	json_t *resolved;
	char target[DISPATCH_TARGET_MAX];
	struct err *err;
};

static void
resolving_free(struct resolving *v)
{
	json_decref(v->agent);
	for (size_t i = 0; i < v->n_capabilities; i++)
		json_decref(v->capabilities[i]);
	json_decref(v->policy);
	free(v->search);
	json_decref(v->resolved);
}

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static int
put(struct resolving *v, const char *name, json_t *value)
{
	return json_object_set_new(v->resolved, name, value) < 0 ? out_of_memory(v->err) : 0;
}

/* The version of REF, as {"hash","name"} in *ret_named. */
static int
look_up(struct resolving *v, enum registry_kind kind, const char *ref, json_t **ret_named,
        json_t **ret_content)
{
	struct registry_version version;
	int r = registry_resolve(v->reg, kind, ref, REGISTRY_LIVE, &version, ret_content, v->err);

	if (r < 0)
		return r;
	*ret_named = json_pack("{s:s,s:s}", "hash", version.hash, "name", version.name);
	return *ret_named != NULL ? 0 : out_of_memory(v->err);
}

static int
find_agent(struct resolving *v)
{
	json_t *named = NULL;
	int r = look_up(v, REGISTRY_AGENT, v->request->agent, &named, &v->agent);

	if (r < 0)
		return r;
	return put(v, "agent", named);
}

static int
check_sandbox(struct resolving *v)
{
	if (!v->request->sandbox || json_is_true(json_object_get(v->agent, "sandbox")))
		return 0;
	return err_set(v->err, EPERM, "the agent '%s' is no sandbox: register it with `sandbox: true`", dispatch_text(v->agent, "name"));
}

/* The pool of a target that is registered. */
static int
find_registered_target(struct resolving *v, const char *name)
{
	OWN(json_decrefp) json_t *content = NULL;
	struct registry_version version;
	int r = registry_resolve(v->reg, REGISTRY_TARGET, name, REGISTRY_LIVE, &version, &content, v->err);

	if (r == 0)
		snprintf(v->target, sizeof(v->target), TARGET_POOL "%s", dispatch_text(content, "pool"));
	return r;
}

/* The request's, else the agent's.  Other machines cost money and have other owners: where an agent runs is for the operator
 * to say, and not for agents that dispatch it. */
static int
find_target(struct resolving *v)
{
	const char *own = dispatch_text(v->agent, "target"), *asked = v->request->target;
	const char *usual = own[0] != '\0' ? own : DISPATCH_TARGET, *name = asked != NULL ? asked : usual;
	const struct target *target;
	int r;

	if ((v->request->by_agent || v->request->parent != NULL) && strcmp(name, usual) != 0)
		return err_set(v->err, EPERM, "agents dispatch others to the targets that these have: the agent '%s' has '%s', not '%s'",
		               dispatch_text(v->agent, "name"), usual, name);
	r = target_find(name, &target, v->err);
	if (r == 0)
		snprintf(v->target, sizeof(v->target), "%s", name);
	else if (registry_name_ok(name))
		r = find_registered_target(v, name);
	if (r == -ENOENT)
		r = err_set(v->err, EINVAL, "there is no target '%s': there is local, docker, " TARGET_POOL "NAME for workers, and "
		            "what `cloister target list` shows", name);
	if (r == 0 && target_pool(v->target) != NULL && registry_store() == NULL)
		r = err_set(v->err, EINVAL, "the target '%s' needs a registry that workers can reach: start the service "
		            "with --store, and set " REGISTRY_STORE, name);
	return r < 0 && asked == NULL ? err_wrap(v->err, "the agent '%s'", dispatch_text(v->agent, "name")) : r;
}

/* At most so many dispatches of the registered target NAME run at a time. */
static int
count_slots(struct resolving *v, const char *name, uint64_t *ret_slots)
{
	OWN(json_decrefp) json_t *content = NULL;
	struct registry_version version;
	int r = registry_resolve(v->reg, REGISTRY_TARGET, name, REGISTRY_LIVE, &version, &content, v->err);

	if (r == 0)
		*ret_slots = (uint64_t)json_integer_value(json_object_get(json_object_get(content, "workers"), "max")) *
		             (uint64_t)json_integer_value(json_object_get(content, "slots"));
	return r;
}

int
dispatch_find_place(struct registry *reg, const char *agent, char ret_target[DISPATCH_TARGET_MAX], uint64_t *ret_slots,
                    struct err *err)
{
	const struct dispatch_request request = { .agent = agent, .sandbox = true };
	OWN(resolving_free) struct resolving v = { .reg = reg, .request = &request, .err = err, .resolved = json_object() };
	const struct target *known;
	const char *own;
	int r = find_agent(&v);

	r = r == 0 ? check_sandbox(&v) : r;
	r = r == 0 ? find_target(&v) : r;
	if (r < 0)
		return r;
	snprintf(ret_target, DISPATCH_TARGET_MAX, "%s", v.target);
	own = dispatch_text(v.agent, "target");
	*ret_slots = DISPATCH_OPEN_MAX;
	return *own == '\0' || target_find(own, &known, NULL) == 0 ? 0 : count_slots(&v, own, ret_slots);
}

static int
add_capability(struct resolving *v, json_t *list, const char *ref)
{
	json_t *named = NULL, *content = NULL;
	int r = look_up(v, REGISTRY_CAPABILITY, ref, &named, &content);

	if (r < 0)
		return r;
	if (v->n_capabilities == DISPATCH_CAPABILITIES_MAX || dispatch_lists(list, "name", dispatch_text(named, "name")))
		r = v->n_capabilities == DISPATCH_CAPABILITIES_MAX ?
		    err_set(v->err, E2BIG, "it has over %d capabilities", DISPATCH_CAPABILITIES_MAX) :
		    err_set(v->err, EEXIST, "it has the capability '%s' twice", dispatch_text(named, "name"));
	else
		v->capabilities[v->n_capabilities++] = json_incref(content);
	if (json_object_set(named, "setup", json_object_get(content, "setup")) < 0 ||
	    json_object_set(named, "tools", json_object_get(content, "tools")) < 0 ||
	    (dispatch_is_module(content) && json_object_set(named, "type", json_object_get(content, "type")) < 0) ||
	    json_array_append(list, named) < 0)
		r = out_of_memory(v->err);
	json_decref(content);
	json_decref(named);
	return r;
}

static int
find_capabilities(struct resolving *v)
{
	json_t *refs = json_object_get(v->agent, "capabilities"), *list = json_array(), *ref;
	size_t i;
	int r = put(v, "capabilities", list);

	json_array_foreach(refs, i, ref)
		if (r == 0)
			r = add_capability(v, list, json_string_value(ref));
	return r < 0 ? err_wrap(v->err, "the agent '%s'", dispatch_text(v->agent, "name")) : 0;
}

/* ---- grants for this dispatch only ---- */

static int
refuse_grant(struct resolving *v, const char *what, const char *name)
{
	return err_set(v->err, EPERM, "the %s '%.80s' cannot be granted to the agent '%s': its `grantable` does not "
	               "name it", what, name, dispatch_text(v->agent, "name"));
}

/* The capability REF, unless the agent has that version anyway. */
static int
grant_capability(struct resolving *v, const char *ref, json_t *granted)
{
	json_t *list = json_object_get(v->resolved, "capabilities"), *other;
	json_t *may = json_object_get(json_object_get(v->agent, "grantable"), "capabilities");
	struct registry_version version;
	size_t i;
	int r = registry_resolve(v->reg, REGISTRY_CAPABILITY, ref, REGISTRY_LIVE, &version, NULL, v->err);

	if (r < 0)
		return r;
	json_array_foreach(list, i, other)
		if (strcmp(dispatch_text(other, "hash"), version.hash) == 0)
			return 0;
	if (!dispatch_may_ask_for(may, version.name, version.hash, ref))
		return refuse_grant(v, "capability", ref);
	r = add_capability(v, list, ref);
	return r == 0 && json_array_append_new(granted, json_string(version.name)) < 0 ? out_of_memory(v->err) : r;
}

static int
grant_capabilities(struct resolving *v)
{
	json_t *granted = json_array();
	int r = 0;

	if (v->request->n_capabilities + v->request->n_secrets == 0) {
		json_decref(granted);
		return 0;
	}
	if (v->request->by_agent && v->request->parent == NULL) {
		json_decref(granted);
		return err_set(v->err, EPERM, "only an operator grants more than an agent has: leave the capabilities and "
		               "secrets out");
	}
	r = put(v, "granted", json_pack("{s:o,s:[]}", "capabilities", granted, "secrets"));
	for (size_t i = 0; r == 0 && i < v->request->n_capabilities; i++)
		r = grant_capability(v, v->request->capabilities[i], granted);
	return r;
}

/* The agent's first, then the requested ones: later ones win. */
static int
find_envs(struct resolving *v)
{
	json_t *own = json_object_get(v->agent, "env"), *list = json_array(), *named = NULL;
	size_t n = json_array_size(own);
	int r = put(v, "envs", list);

	if (r == 0 && n + v->request->n_envs > DISPATCH_ENVS_MAX)
		r = err_set(v->err, E2BIG, "there are over %d envs", DISPATCH_ENVS_MAX);
	for (size_t i = 0; r == 0 && i < n + v->request->n_envs; i++) {
		const char *ref = i < n ? json_string_value(json_array_get(own, i)) :
		                          v->request->envs[i - n];
		OWN(json_decrefp) json_t *content = NULL;
		json_t *search;

		r = look_up(v, REGISTRY_ENV, ref, &named, &content);
		search = json_object_get(json_object_get(content, "values"), "PATH");
		if (r == 0 && json_is_string(search)) {
			free(v->search);
			v->search = strdup(json_string_value(search));
		}
		if (r == 0 && json_array_append_new(list, named) < 0)
			r = out_of_memory(v->err);
	}
	return r;
}

/* ---- secrets ---- */

/* The word of LIST for the secret of WORD, or NULL. */
static const char *
find_secret(const json_t *list, const char *word)
{
	size_t len = strcspn(word, "=:@"), i;
	json_t *other;

	json_array_foreach(list, i, other) {
		const char *text = json_string_value(other);

		if (strcspn(text, "=:@") == len && strncmp(text, word, len) == 0)
			return text;
	}
	return NULL;
}

/* `grantable` decides about the hosts, too: a request gives the name alone, or the same word. */
static int
check_same(struct resolving *v, const char *word, const char *may)
{
	if (word[strcspn(word, "=:@")] == '\0' || strcmp(word, may) == 0)
		return 0;
	return err_set(v->err, EPERM, "the secret '%.80s' cannot be granted to the agent '%s': its `grantable` has it as "
	               "'%.200s'", word, dispatch_text(v->agent, "name"), may);
}

/* Those for this dispatch only; one that the agent has anyway is as it has it. */
static int
grant_secrets(struct resolving *v, json_t *list)
{
	json_t *granted = json_object_get(json_object_get(v->resolved, "granted"), "secrets");
	json_t *may = json_object_get(json_object_get(v->agent, "grantable"), "secrets");

	for (size_t i = 0; i < v->request->n_secrets; i++) {
		const char *word = v->request->secrets[i], *granted_word = find_secret(may, word);
		int r;

		if (find_secret(list, word) != NULL)
			continue;
		r = granted_word == NULL ? refuse_grant(v, "secret", word) : check_same(v, word, granted_word);
		if (r < 0)
			return r;
		if (json_array_append_new(list, json_string(granted_word)) < 0 ||
		    json_array_append_new(granted, json_stringn(word, strcspn(word, "=:@"))) < 0)
			return out_of_memory(v->err);
	}
	return 0;
}

/* The agent's own definition has the best names for variables. */
static int
find_secrets(struct resolving *v)
{
	json_t *list = json_array(), *word;
	size_t i;
	int r = put(v, "secrets", list);

	for (size_t k = 0; r == 0 && k <= v->n_capabilities; k++) {
		json_t *from = json_object_get(k == 0 ? v->agent : v->capabilities[k - 1], "secrets");

		if (k > 0 && dispatch_is_module(v->capabilities[k - 1]))
			continue;
		json_array_foreach(from, i, word)
			if (find_secret(list, json_string_value(word)) == NULL && json_array_append(list, word) < 0)
				return out_of_memory(v->err);
	}
	r = r == 0 ? grant_secrets(v, list) : r;
	if (r == 0 && json_array_size(list) > DISPATCH_SECRETS_MAX)
		r = err_set(v->err, E2BIG, "there are over %d secrets", DISPATCH_SECRETS_MAX);
	return r;
}

/* ---- policy and limits ---- */

static int
find_policy(struct resolving *v, struct dispatch_plan *plan)
{
	const char *ref = json_string_value(json_object_get(v->agent, "policy"));
	json_t *rules[DISPATCH_CAPABILITIES_MAX];
	OWN(json_decrefp) json_t *merged = NULL, *owned = json_array();
	json_t *named = NULL;
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	int r = ref == NULL ? 0 : look_up(v, REGISTRY_POLICY, ref, &named, &v->policy);

	for (size_t i = 0; i < v->n_capabilities; i++)
		rules[i] = dispatch_is_module(v->capabilities[i]) ? dispatch_module_rules(v->capabilities[i], owned) :
		           json_object_get(v->capabilities[i], "rules");
	if (r == 0)
		r = dispatch_policy_merge(json_object_get(v->policy, "document"), rules,
		                          v->n_capabilities, &merged, v->err);
	if (r == 0 && merged != NULL)
		r = dispatch_module_servers(v->capabilities, json_object_get(v->resolved, "capabilities"), merged, v->err);
	if (r == 0 && merged != NULL)
		r = canon_dump(merged, POLICY_FILE_MAX, &plan->policy, &plan->policy_len, v->err);
	if (r < 0 || merged == NULL) {
		json_decref(named);
		return r < 0 ? r : put(v, "policy", json_null());
	}
	hash_of(plan->policy, plan->policy_len, hash);
	hash_name(hash, name);
	return put(v, "policy", json_pack("{s:s,s:o*}", "hash", name, "from", named));
}

static int
find_limits(struct resolving *v)
{
	const json_t *wanted[DISPATCH_CAPABILITIES_MAX];
	const json_t *document = json_object_get(v->policy, "document");
	json_t *limits = NULL;
	int r;

	for (size_t i = 0; i < v->n_capabilities; i++)
		wanted[i] = dispatch_is_module(v->capabilities[i]) ? NULL : json_object_get(v->capabilities[i], "limits");
	r = dispatch_limits_merge(json_object_get(v->agent, "limits"),
	                          json_object_get(document, "limits"), wanted, v->n_capabilities,
	                          v->request->timeout_ms, &limits, v->err);
	/* A sandbox that nobody ends would stay for a day. */
	if (r == 0 && json_is_true(json_object_get(v->agent, "sandbox")) && json_object_get(limits, "time") == NULL &&
	    json_object_set_new(limits, "time", json_string(DISPATCH_SANDBOX_TIME)) < 0)
		r = out_of_memory(v->err);
	return r < 0 ? r : put(v, "limits", limits);
}

/* ---- boundary ---- */

/* The limits of the policy in force, if it has the part NAME. */
static int
load_limits(struct resolving *v, const struct dispatch_plan *plan, const char *name, struct policy_limits *ret_limits)
{
	OWN(policy_freep) struct policy *p = NULL;

	*ret_limits = (struct policy_limits){0};
	return json_object_get(json_object_get(v->policy, "document"), name) == NULL ? 0 :
	       dispatch_policy_load(DISPATCH_POLICY_FILE, plan->policy, plan->policy_len, &p, ret_limits, v->err);
}

/* What the policy in force demands. */
static int
find_demand(struct resolving *v, const struct dispatch_plan *plan, struct policy_boundary *ret_demand)
{
	struct policy_limits limits;
	int r = load_limits(v, plan, "boundary", &limits);

	*ret_demand = limits.boundary;
	return r;
}

/* Both what is asked for and what the policy demands, because a child may lose its policy. */
static int
find_boundary(struct resolving *v, const struct dispatch_plan *plan)
{
	const char *own = json_string_value(json_object_get(v->agent, "boundary"));
	const char *text = own != NULL ? own : getenv("CLOISTER_BOUNDARY");
	const char *runtime = json_string_value(json_object_get(v->agent, "runtime"));
	OWN(freep) char *by = own == NULL ? strdup("CLOISTER_BOUNDARY") :
	                      str_format("the agent '%s'", dispatch_text(v->agent, "name"));
	struct policy_boundary asked = {0}, demanded;
	int r = by == NULL ? out_of_memory(v->err) : 0;

	if (r == 0 && text != NULL && (r = policy_boundary_parse(text, &asked, v->err)) < 0)
		return err_wrap(v->err, "%s", by);
	if (r == 0 && runtime != NULL)
		r = policy_boundary_add_runtime(&asked, runtime, v->err);
	r = r == 0 ? find_demand(v, plan, &demanded) : r;
	r = r == 0 ? policy_boundary_check(&asked, by, &demanded, v->err) : r;
	r = r == 0 ? policy_boundary_raise(&asked, &demanded, v->err) : r;
	if (r == 0 && strcmp(v->target, TARGET_DOCKER) == 0) {
		/* Its walls are a container, and that must do for the agent and the policy. */
		demanded = asked;
		r = policy_boundary_parse(BOUNDARY_DOCKER, &asked, v->err);
		r = r == 0 ? policy_boundary_check(&asked, "the target docker", &demanded, v->err) : r;
	}
	if (r < 0)
		return r;
	return dispatch_put_boundary(v->resolved, &asked, v->err);
}

/* ---- images ---- */

/* Apart from the policy, because a child may lose that. */
static int
find_images(struct resolving *v, const struct dispatch_plan *plan)
{
	struct policy_limits limits;
	int r = load_limits(v, plan, "images", &limits);

	return r < 0 ? r : dispatch_put_images(v->resolved, &limits.images, v->err);
}

/* ---- the record ---- */

static int
find_record(struct resolving *v, const struct dispatch_plan *plan)
{
	struct policy_limits limits;
	int r = load_limits(v, plan, "record", &limits);

	return r < 0 ? r : dispatch_record_resolve(v->agent, &limits, v->request->record, v->resolved, v->err);
}

/* ---- the root, and its programs ---- */

static int
find_root(struct resolving *v, struct dispatch_plan *plan)
{
	OWN(dispatch_root_close) struct dispatch_root root = {0};
	struct dispatch_asked asked = { v->capabilities, v->n_capabilities, json_object_get(v->agent, "command"),
	                                v->search };
	struct dispatch_programs programs;
	int r = dispatch_root_resolve(v->reg, v->request, v->agent, v->resolved, &root, v->err);

	r = r == 0 ? dispatch_programs_find(v->reg, &root, &asked, &programs, v->err) : r;
	if (r < 0)
		return r;
	plan->programs = programs.text;
	r = put(v, "programs", programs.list);
	return r < 0 ? (json_decref(programs.starts), r) : put(v, "starts", programs.starts);
}

/* ---- all of it ---- */

static int
copy_agent(struct resolving *v)
{
	static const char *const names[] = { "command", "delegate", "sandbox", "state", "workspace" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++) {
		json_t *value = json_object_get(v->agent, names[i]);

		r = put(v, names[i], value != NULL ? json_incref(value) : json_null());
	}
	if (r == 0 && json_object_get(v->agent, "ports") != NULL)
		r = put(v, "ports", json_incref(json_object_get(v->agent, "ports")));
	if (r == 0 && json_is_true(json_object_get(v->agent, "terminal")))
		r = v->request->input == NULL ? put(v, "terminal", json_true()) :
		    err_set(v->err, EINVAL, "the agent '%s' has a terminal, and takes no input: attach to it instead",
		            dispatch_text(v->agent, "name"));
	return r;
}

/* What another machine cannot give it. */
static int
check_pool(const struct resolving *v)
{
	const char *name = dispatch_text(v->agent, "name");

	if (json_is_object(json_object_get(v->resolved, "workspace")))
		return err_set(v->err, EINVAL, "the agent '%s' works in a folder of this machine, which no worker has: "
		               "use the target local", name);
	if (!json_is_null(json_object_get(v->resolved, "delegate")))
		return err_set(v->err, EINVAL, "the agent '%s' dispatches others, which a worker cannot do for it: use "
		               "the target local", name);
	if (json_object_get(json_object_get(v->policy, "document"), "state") != NULL)
		return err_set(v->err, EINVAL, "the policy of the agent '%s' has a state, which is on this machine and on no "
		               "worker: use the target local", name);
	if (json_object_get(json_object_get(v->policy, "document"), "volumes") != NULL)
		return err_set(v->err, EINVAL, "the policy of the agent '%s' has volumes, which are on this machine and on no "
		               "worker: use the target local", name);
	if (json_object_get(json_object_get(v->policy, "document"), "cache") != NULL)
		return err_set(v->err, EINVAL, "the policy of the agent '%s' has caches, which are on this machine and on no "
		               "worker: use the target local", name);
	return 0;
}

static int
find_rest(struct resolving *v)
{
	const struct dispatch_request *request = v->request;
	char name[HASH_NAME + 1];
	unsigned char hash[HASH_LEN];
	int r = dispatch_build_hash(name, v->err);

	if (r == 0)
		r = put(v, "build", json_string(name));
	if (r == 0 && request->input == NULL)
		r = put(v, "input", json_null());
	if (r == 0 && request->input != NULL) {
		hash_of(request->input, request->input_len, hash);
		hash_name(hash, name);
		r = put(v, "input", json_pack("{s:s,s:I}", "hash", name, "size",
		                              (json_int_t)request->input_len));
	}
	if (r == 0)
		r = put(v, "principal", json_string(request->principal != NULL ? request->principal : ""));
	r = r == 0 ? put(v, "target", json_string(v->target)) : r;
	return r == 0 && target_pool(v->target) != NULL ? check_pool(v) : r;
}

int
dispatch_plan_make(struct registry *reg, const struct dispatch_request *request,
                   struct dispatch_plan *ret_plan, struct err *err)
{
	OWN(resolving_free) struct resolving v = { .reg = reg, .request = request, .err = err,
	                                           .resolved = json_object() };
	OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
	int r = dispatch_check_request(request, err);

	if (r == 0)
		r = find_agent(&v);
	if (r == 0)
		r = check_sandbox(&v);
	if (r == 0)
		r = find_target(&v);
	if (r == 0)
		r = find_capabilities(&v);
	if (r == 0)
		r = grant_capabilities(&v);
	if (r == 0)
		r = find_envs(&v);
	if (r == 0)
		r = find_secrets(&v);
	if (r == 0)
		r = find_policy(&v, &plan);
	if (r == 0)
		r = find_boundary(&v, &plan);
	if (r == 0)
		r = find_images(&v, &plan);
	if (r == 0)
		r = find_record(&v, &plan);
	if (r == 0)
		r = find_root(&v, &plan);
	if (r == 0)
		r = find_limits(&v);
	if (r == 0)
		r = copy_agent(&v);
	if (r == 0)
		r = find_rest(&v);
	if (r == 0 && json_array_size(json_object_get(v.resolved, "secrets")) > 0 && plan.policy == NULL)
		r = err_set(err, EINVAL, "the agent '%s' has secrets, and no rule that lets them go "
		            "anywhere: give it a policy", dispatch_text(v.agent, "name"));
	if (r < 0)
		return r;
	plan.resolved = TAKE(v.resolved);
	*ret_plan = plan;
	plan = (struct dispatch_plan){0};
	return 0;
}

int
dispatch_resolve(struct registry *reg, const struct dispatch_request *request,
                 json_t **ret_resolved, struct err *err)
{
	OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
	OWN(dispatch_descent_free) struct dispatch_descent descent = {0};
	int r = dispatch_plan_make(reg, request, &plan, err);

	if (r == 0)
		r = dispatch_descend(reg, request, &plan, &descent, err);
	if (r == 0)
		*ret_resolved = TAKE(plan.resolved);
	return r;
}
