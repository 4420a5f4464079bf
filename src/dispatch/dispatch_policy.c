/* dispatch_policy.c - the policy in force: the agent's, plus the rules of its capabilities. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "policy/policy_yaml.h"

#define SHOWN DISPATCH_POLICY_FILE

int
dispatch_policy_load(const char *name, const char *text, size_t len, struct policy **ret_policy,
                     struct policy_limits *ret_limits, struct err *err)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse(name, text, len, &root, err);

	return r < 0 ? r : policy_load_node(root, &reader, ret_policy, ret_limits, err);
}

static int
try_load(json_t *document, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = canon_dump(document, POLICY_FILE_MAX, &text, &len, err);

	return r < 0 ? r : dispatch_policy_load(SHOWN, text, len, &p, NULL, err);
}

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* One by one: a rule that earlier ones make unreachable has no effect, and is left out, because a
 * policy that contains it would be refused. */
static int
add_reached(json_t *document, json_t *egress, json_t *const *rules, size_t n, struct err *err)
{
	struct err ignored = {0};
	json_t *rule;
	size_t i;

	for (size_t k = 0; k < n; k++)
		json_array_foreach(rules[k], i, rule) {
			OWN(json_decrefp) json_t *alone = json_pack("{s:i,s:[O]}", "version", 1, "egress", rule);

			if (alone == NULL || json_array_append(egress, rule) < 0)
				return out_of_memory(err);
			if (try_load(document, &ignored) == 0)
				continue;
			if (try_load(alone, err) < 0)
				return -EINVAL;
			(void)json_array_remove(egress, json_array_size(egress) - 1);
		}
	return 0;
}

int
dispatch_policy_front(const json_t *document, json_t *rule, json_t **ret_policy, struct err *err)
{
	OWN(json_decrefp) json_t *own = json_incref(json_object_get(document, "egress"));
	OWN(json_decrefp) json_t *front = document != NULL ? json_deep_copy(document) :
	                                  json_pack("{s:i}", "version", 1);
	json_t *egress = json_pack("[O]", rule);
	struct err ignored = {0};
	int r = 0;

	if (front == NULL || json_object_set_new(front, "egress", egress) < 0 ||
	    (own != NULL && json_array_extend(egress, own) < 0))
		return out_of_memory(err);
	if (try_load(front, &ignored) < 0) {
		while (json_array_size(egress) > 1)
			(void)json_array_remove(egress, json_array_size(egress) - 1);
		r = try_load(front, err);
		r = r == 0 ? add_reached(front, egress, &own, 1, err) : r;
	}
	if (r == 0)
		*ret_policy = TAKE(front);
	return r;
}

int
dispatch_policy_merge(const json_t *document, json_t *const *rules, size_t n,
                      json_t **ret_policy, struct err *err)
{
	OWN(json_decrefp) json_t *merged = document != NULL ? json_deep_copy(document) :
	                                   json_pack("{s:i}", "version", 1);
	json_t *egress;
	struct err ignored = {0};
	size_t wanted = 0, own;
	int r;

	for (size_t k = 0; k < n; k++)
		wanted += json_array_size(rules[k]);
	if (document == NULL && wanted == 0) {
		*ret_policy = NULL;
		return 0;
	}
	egress = json_object_get(merged, "egress");
	if (!json_is_array(egress)) {
		egress = json_array();
		if (merged == NULL || json_object_set_new(merged, "egress", egress) < 0)
			return out_of_memory(err);
	}
	own = json_array_size(egress);
	for (size_t k = 0; k < n; k++)
		if (json_array_extend(egress, rules[k]) < 0)
			return out_of_memory(err);
	/* Nearly always the whole is valid as it is. */
	if (try_load(merged, &ignored) < 0) {
		while (json_array_size(egress) > own)
			(void)json_array_remove(egress, json_array_size(egress) - 1);
		r = try_load(merged, err);
		if (r == 0)
			r = add_reached(merged, egress, rules, n, err);
		if (r < 0)
			return err_wrap(err, "the agent's policy with the rules of its capabilities");
	}
	*ret_policy = TAKE(merged);
	return 0;
}
