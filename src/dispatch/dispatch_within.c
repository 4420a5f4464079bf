/* dispatch_within.c - limits a child's rules, secrets and servers to those that its parent has too.
 *
 * No rule is changed.  The child's policy is put within its parent's, and that within the parent's
 * own outer policies: each is evaluated, and the strictest verdict counts (policy/policy.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "policy/policy_pairs.h"

#define PAIRS_MAX 2000                  /* recorded; `policy explain` shows all */

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

void
dispatch_within_name(size_t i, const char *agent, char ret_name[DISPATCH_WITHIN_MAX])
{
	snprintf(ret_name, DISPATCH_WITHIN_MAX, "within-%zu-%.63s.json", i + 1, agent);
}

/* ---- secrets ---- */

static bool
is_named(const char *word, const char *name, size_t len)
{
	return strcspn(word, "=:@") == len && strncmp(word, name, len) == 0;
}

bool
dispatch_gives_secret(const json_t *secrets, const char *word)
{
	size_t len = strcspn(word, "=:@"), i;
	const char *name;
	json_t *other;

	json_array_foreach(secrets, i, other)
		if (is_named(json_string_value(other), word, len))
			return true;
	json_object_foreach((json_t *)(uintptr_t)secrets, name, other)
		if (is_named(name, word, len))
			return true;
	return false;
}

/* HOSTS, as behind NAME@, as the definition in a map. */
static json_t *
define_hosts(const char *hosts)
{
	json_t *list = json_array();

	for (size_t len; *hosts != '\0'; hosts += len + (hosts[len] == ',')) {
		len = strcspn(hosts, ",");
		if (json_array_append_new(list, json_stringn(hosts, len)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "hosts", list);
}

/* Puts the secret NAME into SECRETS, in place of what is there; HOSTS may be NULL. */
static int
put_secret(json_t *secrets, const char *name, const char *hosts, struct err *err)
{
	OWN(freep) char *word = hosts != NULL ? str_format("%s@%s", name, hosts) : strdup(name);
	json_t *other;
	size_t i;

	if (word == NULL)
		return out_of_memory(err);
	if (json_is_object(secrets))
		return json_object_set_new(secrets, name, hosts != NULL ? define_hosts(hosts) : json_null()) < 0 ?
		       out_of_memory(err) : 0;
	json_array_foreach(secrets, i, other)
		if (is_named(json_string_value(other), name, strlen(name)))
			return json_array_set_new(secrets, i, json_string(word)) < 0 ? out_of_memory(err) : 0;
	return json_array_append_new(secrets, json_string(word)) < 0 ? out_of_memory(err) : 0;
}

/* Adds the agent's secrets from outside its policy to DOCUMENT.  As in its cell, hosts that the agent's definition
 * names replace the policy's. */
static int
add_secrets(json_t *document, const json_t *words, struct err *err)
{
	json_t *secrets = json_object_get(document, "secrets"), *word;
	size_t i;
	int r = 0;

	if (!json_is_array(secrets) && !json_is_object(secrets)) {
		secrets = json_array();
		if (json_object_set_new(document, "secrets", secrets) < 0)
			return out_of_memory(err);
	}
	json_array_foreach(words, i, word) {
		const char *text = json_string_value(word), *at = strchr(text, '@');
		OWN(freep) char *name = strndup(text, strcspn(text, "=:@"));

		if (r == 0 && (at != NULL || !dispatch_gives_secret(secrets, text)))
			r = name == NULL ? out_of_memory(err) : put_secret(secrets, name, at != NULL ? at + 1 : NULL, err);
	}
	return r;
}

/* Keeps those SECRETS that OUTER gives too; the rest goes to LEFT_OUT. */
static int
keep_given(json_t *secrets, const json_t *outer, json_t *left_out, struct err *err)
{
	const char *name;
	json_t *other;
	void *next;

	for (size_t i = json_array_size(secrets); i > 0; i--) {
		name = json_string_value(json_array_get(secrets, i - 1));
		if (dispatch_gives_secret(outer, name))
			continue;
		if (json_array_append(left_out, json_array_get(secrets, i - 1)) < 0 ||
		    json_array_remove(secrets, i - 1) < 0)
			return out_of_memory(err);
	}
	json_object_foreach_safe(secrets, next, name, other)
		if (!dispatch_gives_secret(outer, name) && (json_array_append_new(left_out, json_string(name)) < 0 ||
		                            json_object_del(secrets, name) < 0))
			return out_of_memory(err);
	return 0;
}

/* ---- documents ---- */

static int
dump(json_t *document, char **ret_text, size_t *ret_len, char ret_hash[HASH_NAME + 1],
     struct err *err)
{
	unsigned char hash[HASH_LEN];
	int r = canon_dump(document, POLICY_FILE_MAX, ret_text, ret_len, err);

	if (r < 0)
		return r;
	hash_of(*ret_text, *ret_len, hash);
	hash_name(hash, ret_hash);
	return 0;
}

/* The policy that the parent is held to, with all secrets that it has.  Its limits are the
 * dispatch's, which are handled separately. */
static int
make_outer(const struct dispatch_parent *parent, struct dispatch_plan *plan, json_t **ret_document, json_t **ret_tools,
           char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(json_decrefp) json_t *document = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = parent->read(parent->arg, parent->d->policy_hash, &text, &len, err);

	r = r == 0 ? canon_read(text, len, &document, err) : r;
	if (r < 0)
		return err_wrap(err, "the policy of dispatch %s", parent->d->id);
	(void)json_object_del(document, "limits");
	/* The parent's tools are its own. */
	*ret_tools = json_incref(json_object_get(document, "tools"));
	(void)json_object_del(document, "tools");
	r = add_secrets(document, json_object_get(parent->resolved, "secrets"), err);
	r = r == 0 ? dump(document, &plan->outer, &plan->outer_len, ret_hash, err) : r;
	if (r == 0)
		*ret_document = TAKE(document);
	return r;
}

/* ---- tools ---- */

/* A module that computes, and has neither requests nor secrets nor files. */
static bool
is_harmless(json_t *server)
{
	static const char *const harmless[] = { "wasm", "per", "idle", "timeout", "result" };
	const char *key;
	json_t *value;

	if (!json_is_string(json_object_get(server, "wasm")))
		return false;
	json_object_foreach(server, key, value) {
		bool is_one = false;

		for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
			is_one |= strcmp(key, harmless[i]) == 0;
		if (!is_one)
			return false;
	}
	return true;
}

/* Whether the rest of `tools`, such as the lock and `results: ask`, is the same. */
static bool
is_same_beside(const json_t *tools, const json_t *parents)
{
	OWN(json_decrefp) json_t *one = json_copy((json_t *)(uintptr_t)tools), *other = json_copy((json_t *)(uintptr_t)parents);

	(void)json_object_del(one, "servers");
	(void)json_object_del(other, "servers");
	return one != NULL && other != NULL && json_equal(one, other) == 1;
}

/* No policy lies around the cells of servers, so a server with rights is left out unless the parent has the very same.
 * Others go to LEFT_OUT. */
static int
keep_servers(json_t *document, const json_t *parents, json_t *left_out, struct err *err)
{
	json_t *tools = json_object_get(document, "tools"), *servers = json_object_get(tools, "servers"), *server;
	const bool is_same = is_same_beside(tools, parents);
	const char *name;
	void *next;

	json_object_foreach_safe(servers, next, name, server) {
		if (is_harmless(server) || (is_same && json_equal(server, json_object_get(json_object_get(parents, "servers"), name)) == 1))
			continue;
		if (json_array_append_new(left_out, json_string(name)) < 0 || json_object_del(servers, name) < 0)
			return out_of_memory(err);
	}
	if (json_object_size(servers) == 0)
		(void)json_object_del(document, "tools");
	return 0;
}

/* ---- the child's policy ---- */

/* Without the secrets and servers that it does not get. */
static int
narrow_policy(const json_t *outer, const json_t *parents_tools, struct dispatch_plan *plan, json_t *left_out,
              json_t *left_servers, struct err *err)
{
	json_t *policy = json_object_get(plan->resolved, "policy"), *secrets;
	size_t before = json_array_size(left_out);
	OWN(json_decrefp) json_t *document = NULL;
	OWN(freep) char *text = NULL;
	char hash[HASH_NAME + 1];
	size_t len;
	int r = canon_read(plan->policy, plan->policy_len, &document, err);

	if (r < 0)
		return r;
	secrets = json_object_get(document, "secrets");
	r = keep_given(secrets, json_object_get(outer, "secrets"), left_out, err);
	r = r < 0 ? r : keep_servers(document, parents_tools, left_servers, err);
	if (r < 0 || (json_array_size(left_out) == before && json_array_size(left_servers) == 0))
		return r;
	r = dump(document, &text, &len, hash, err);
	if (r < 0)
		return r;
	free(plan->policy);
	plan->policy = TAKE(text);
	plan->policy_len = len;
	return json_object_set_new(policy, "hash", json_string(hash)) < 0 ? out_of_memory(err) : 0;
}

/* ---- rule by rule, for people ---- */

struct pairing {
	const struct policy *p;
	json_t *rules;
	int rule;
	size_t n;
	bool failed;
};

static void
add_pair(void *arg, const struct policy_pair *pair)
{
	static const char *const verdicts[] = { "deny", "allow", "ask" };
	struct pairing *a = arg;
	json_t *one, *within;

	if (a->n++ >= PAIRS_MAX)
		return;
	if (pair->rule != a->rule)
		json_array_append_new(a->rules, json_pack("{s:s,s:s,s:[]}",
		                      "rule", policy_rule_place(a->p, pair->rule),
		                      "text", policy_rule_text(a->p, pair->rule), "within"));
	a->rule = pair->rule;
	within = json_object_get(json_array_get(a->rules, json_array_size(a->rules) - 1), "within");
	one = json_pack("{s:i,s:s}", "layer", (int)pair->layer, "verdict", verdicts[pair->verdict]);
	if (pair->outer >= 0)
		json_object_update_new(one, json_pack("{s:s,s:s}",
		                       "rule", policy_rule_place(a->p, pair->outer),
		                       "text", policy_rule_text(a->p, pair->outer)));
	a->failed |= json_array_append_new(within, one) < 0;
}

static int
load(const char *shown, const char *text, size_t len, const char *principal, const char *chain,
     size_t layer, struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	char before[POLICY_CHAIN_MAX + 1];
	int r = dispatch_policy_load(shown, text, len, &p, NULL, err);

	policy_chain_before(chain, layer, before);
	r = r == 0 ? policy_bind(p, principal, before, err) : r;
	if (r == 0)
		*ret_policy = TAKE(p);
	return r;
}

/* This is also the last check that all layers can be combined in the cell. */
static int
pair_rules(const struct dispatch_parent *parent, const struct dispatch_plan *plan,
           json_t *confined, struct err *err)
{
	const char *principal = dispatch_text(plan->resolved, "principal");
	json_t *list = json_object_get(plan->resolved, "within"), *named;
	OWN(policy_freep) struct policy *p = NULL;
	struct pairing pairing = { .rule = -1, .rules = json_array() };
	size_t i;
	int r = json_object_set_new(confined, "rules", pairing.rules) < 0 ? out_of_memory(err) : 0;

	r = r == 0 ? load(DISPATCH_POLICY_FILE, plan->policy, plan->policy_len, principal, parent->chain,
	                  0, &p, err) : r;
	json_array_foreach(list, i, named) {
		OWN(policy_freep) struct policy *outer = NULL;
		OWN(freep) char *text = NULL;
		char name[DISPATCH_WITHIN_MAX];
		size_t len = plan->outer_len;

		dispatch_within_name(i, dispatch_text(named, "agent"), name);
		if (r == 0 && i > 0)
			r = parent->read(parent->arg, dispatch_text(named, "hash"), &text, &len, err);
		r = r == 0 ? load(name, i > 0 ? text : plan->outer, len, principal, parent->chain, i + 1,
		                  &outer, err) : r;
		r = r == 0 ? policy_within(p, &outer, err) : r;
	}
	if (r < 0)
		return r;
	pairing.p = p;
	policy_each_pair(p, add_pair, &pairing);
	if (pairing.n > PAIRS_MAX)
		json_object_set_new(confined, "more_rules", json_true());
	return pairing.failed ? out_of_memory(err) : 0;
}

/* ---- all of it ---- */

/* A parent without a policy has no network, and neither has its child. */
static int
take_all(struct dispatch_plan *plan, json_t *confined, json_t *left_out, struct err *err)
{
	int r = keep_given(json_object_get(plan->resolved, "secrets"), NULL, left_out, err);

	if (plan->policy != NULL)
		json_object_set_new(json_object_get(confined, "left_out"), "policy", json_true());
	free(TAKE(plan->policy));
	plan->policy_len = 0;
	return r < 0 ? r : json_object_set_new(plan->resolved, "policy", json_null()) < 0 ?
	       out_of_memory(err) : 0;
}

int
dispatch_within(const struct dispatch_parent *parent, struct dispatch_plan *plan, json_t *confined,
                struct err *err)
{
	OWN(json_decrefp) json_t *outer = NULL, *left_out = json_array(), *within = json_array();
	OWN(json_decrefp) json_t *tools = NULL, *left_servers = json_array();
	json_t *further = json_object_get(parent->resolved, "within");
	char hash[HASH_NAME + 1];
	int r = 0;

	if (parent->d->policy_hash[0] == '\0')
		r = take_all(plan, confined, left_out, err);
	else if (plan->policy != NULL) {
		r = make_outer(parent, plan, &outer, &tools, hash, err);
		r = r == 0 ? keep_given(json_object_get(plan->resolved, "secrets"),
		                        json_object_get(outer, "secrets"), left_out, err) : r;
		r = r == 0 ? narrow_policy(outer, tools, plan, left_out, left_servers, err) : r;
		if (r == 0 && (json_array_append_new(within, json_pack("{s:s,s:s}", "agent", parent->d->agent,
		                                                      "hash", hash)) < 0 ||
		               (json_is_array(further) && json_array_extend(within, further) < 0) ||
		               json_object_set(plan->resolved, "within", within) < 0))
			r = out_of_memory(err);
		if (r == 0 && json_array_size(within) >= POLICY_GIVEN_MAX)
			r = err_set(err, EPERM, "agents dispatch one another %d deep at most",
			            POLICY_GIVEN_MAX - 1);
		r = r == 0 ? pair_rules(parent, plan, confined, err) : r;
	}
	if (r == 0 && json_array_size(left_out) > 0 &&
	    json_object_set(json_object_get(confined, "left_out"), "secrets", left_out) < 0)
		r = out_of_memory(err);
	if (r == 0 && json_array_size(left_servers) > 0 &&
	    json_object_set(json_object_get(confined, "left_out"), "servers", left_servers) < 0)
		r = out_of_memory(err);
	return r;
}
