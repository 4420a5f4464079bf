/* policy_put_keys.c - encodes the keys of a rule, each by its row of policy_table.h.
 *
 * Reading: after the first error, BAD stays set and is checked once. */
#include <math.h>
#include <string.h>

#include "base/own.h"
#include "policy/policy_load.h"

/* Bits for what a rule lets pass. */
#define PASS_SECRETS 1u
#define PASS_PLACEHOLDERS 2u

static void
put_fields(struct buf *b, const struct policy_field *fields, size_t n)
{
	buf_put_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		buf_put_str(b, fields[i].name);
		buf_put_u32(b, fields[i].absent);
		policy_put_list(b, &fields[i].globs);
	}
}

static const struct policy_field *
get_fields(struct policy_getting *g, size_t *ret_n)
{
	size_t n = policy_get_upto(g, POLICY_LIST_MAX);
	struct policy_field *fields;

	*ret_n = 0;
	if (n == 0)
		return NULL;
	fields = policy_get_room(g, n, sizeof(*fields));
	for (size_t i = 0; !g->bad && i < n; i++) {
		fields[i].name = policy_get_text(g, POLICY_TEXT_MAX);
		fields[i].absent = policy_get_bool(g);
		fields[i].globs = policy_get_list(g, POLICY_LIST_MAX);
		g->bad |= *fields[i].name == '\0' || fields[i].absent != (fields[i].globs.n == 0);
	}
	*ret_n = g->bad ? 0 : n;
	return fields;
}

static void
put_scheme(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, rule->schemes);
}

static void
get_scheme(struct policy_getting *g, struct policy_rule *rule)
{
	rule->schemes = policy_get_upto(g, POLICY_SCHEME_PLAIN | POLICY_SCHEME_TLS);
	g->bad |= rule->schemes == 0;
}

static void
put_methods(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->methods);
}

static void
get_methods(struct policy_getting *g, struct policy_rule *rule)
{
	rule->methods = policy_get_list(g, POLICY_LIST_MAX);
}

static void
put_paths(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->paths);
}

static void
get_paths(struct policy_getting *g, struct policy_rule *rule)
{
	rule->paths = policy_get_list(g, POLICY_LIST_MAX);
}

static void
put_query(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, rule->has_query);
	policy_put_list(b, &rule->query);
	put_fields(b, rule->params, rule->n_params);
}

static void
get_query(struct policy_getting *g, struct policy_rule *rule)
{
	rule->has_query = policy_get_bool(g);
	rule->query = policy_get_list(g, POLICY_LIST_MAX);
	rule->params = get_fields(g, &rule->n_params);
	g->bad |= rule->has_query != (rule->query.n > 0);
}

static void
put_headers(struct buf *b, const struct policy_rule *rule)
{
	put_fields(b, rule->headers, rule->n_headers);
}

static void
get_headers(struct policy_getting *g, struct policy_rule *rule)
{
	rule->headers = get_fields(g, &rule->n_headers);
}

static void
put_content_type(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->content_types);
}

static void
get_content_type(struct policy_getting *g, struct policy_rule *rule)
{
	rule->content_types = policy_get_list(g, POLICY_LIST_MAX);
}

static void
put_grpc(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, rule->grpc);
}

static void
get_grpc(struct policy_getting *g, struct policy_rule *rule)
{
	rule->grpc = policy_get_bool(g);
}

static void
put_upgrade(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, rule->upgrade);
}

static void
get_upgrade(struct policy_getting *g, struct policy_rule *rule)
{
	rule->upgrade = policy_get_upto(g, POLICY_UPGRADES - 1);
}

static void
put_git(struct buf *b, const struct policy_rule *rule)
{
	const struct policy_git *git = &rule->git;

	buf_put_u32(b, git->present);
	buf_put_u32(b, git->fetch);
	buf_put_u32(b, git->force);
	buf_put_u32(b, git->delete);
	buf_put_u32(b, git->options);
	policy_put_list(b, &git->push);
	policy_put_list(b, &git->repos);
}

static void
get_git(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_git *git = &rule->git;

	git->present = policy_get_bool(g);
	git->fetch = policy_get_bool(g);
	git->force = policy_get_bool(g);
	git->delete = policy_get_bool(g);
	git->options = policy_get_bool(g);
	git->push = policy_get_list(g, POLICY_LIST_MAX);
	git->repos = policy_get_list(g, POLICY_LIST_MAX);
	g->bad |= !git->present && (git->fetch || git->push.n > 0 || git->repos.n > 0);
}

void
policy_put_json(struct buf *b, const struct policy_json *json)
{
	buf_put_str(b, json->pointer);
	buf_put_u32(b, (uint32_t)json->n_values);
	for (size_t i = 0; i < json->n_values; i++) {
		const struct policy_value *value = &json->values[i];
		uint64_t bits;

		memcpy(&bits, &value->number, sizeof(bits));
		buf_put_u32(b, value->kind);
		buf_put_str(b, value->kind == POLICY_VALUE_GLOB ? value->glob : "");
		buf_put_u64(b, bits);
		buf_put_u32(b, value->truth);
	}
}

static void
put_body(struct buf *b, const struct policy_rule *rule)
{
	const struct policy_body *body = &rule->body;

	buf_put_u32(b, (uint32_t)body->n_json);
	for (size_t i = 0; i < body->n_json; i++)
		policy_put_json(b, &body->json[i]);
	policy_put_list(b, &body->regex);
	buf_put_u32(b, body->graphql);
	buf_put_u32(b, body->graphql_types);
	policy_put_list(b, &body->graphql_names);
	buf_put_u32(b, body->jsonrpc);
	policy_put_list(b, &body->jsonrpc_methods);
	buf_put_u64(b, rule->upload_max);
	buf_put_u32(b, rule->upload_said);
}

static void
get_value(struct policy_getting *g, struct policy_value *value)
{
	uint64_t bits;

	value->kind = policy_get_upto(g, POLICY_VALUES - 1);
	value->glob = policy_get_text(g, POLICY_TEXT_MAX);
	bits = policy_get_u64(g);
	memcpy(&value->number, &bits, sizeof(bits));
	value->truth = policy_get_bool(g);
	g->bad |= !isfinite(value->number) || (value->kind != POLICY_VALUE_GLOB && *value->glob != '\0');
}

void
policy_get_json(struct policy_getting *g, struct policy_json *json)
{
	struct policy_value *values;
	size_t n;

	json->pointer = policy_get_text(g, POLICY_TEXT_MAX);
	n = policy_get_upto(g, POLICY_LIST_MAX);
	values = policy_get_room(g, n, sizeof(*values));
	for (size_t i = 0; !g->bad && i < n; i++)
		get_value(g, &values[i]);
	json->values = values;
	json->n_values = g->bad ? 0 : n;
	g->bad |= *json->pointer != '\0' && *json->pointer != '/';
}

static void
get_some_json(struct policy_getting *g, struct policy_json *json)
{
	policy_get_json(g, json);
	g->bad |= json->n_values == 0;
}

static void
get_body(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_body *body = &rule->body;
	size_t n = policy_get_upto(g, POLICY_LIST_MAX);
	struct policy_json *json = n > 0 ? policy_get_room(g, n, sizeof(*json)) : NULL;

	for (size_t i = 0; !g->bad && i < n; i++)
		get_some_json(g, &json[i]);
	body->json = json;
	body->n_json = g->bad ? 0 : n;
	body->regex = policy_get_list(g, POLICY_LIST_MAX);
	body->graphql = policy_get_bool(g);
	body->graphql_types = policy_get_upto(g, POLICY_GRAPHQL_QUERY | POLICY_GRAPHQL_MUTATION |
	                               POLICY_GRAPHQL_SUBSCRIPTION);
	body->graphql_names = policy_get_list(g, POLICY_LIST_MAX);
	body->jsonrpc = policy_get_bool(g);
	body->jsonrpc_methods = policy_get_list(g, POLICY_LIST_MAX);
	g->bad |= body->graphql != (body->graphql_types != 0);
	g->bad |= body->jsonrpc != (body->jsonrpc_methods.n > 0);
	g->bad |= body->graphql_names.n > 0 && !body->graphql;
	rule->upload_max = policy_get_u64(g);
	rule->upload_said = policy_get_bool(g);
}

static void
put_passes(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, (rule->secrets ? PASS_SECRETS : 0) | (rule->placeholders ? PASS_PLACEHOLDERS : 0));
}

static void
get_passes(struct policy_getting *g, struct policy_rule *rule)
{
	unsigned pass = policy_get_upto(g, PASS_SECRETS | PASS_PLACEHOLDERS);

	rule->secrets = (pass & PASS_SECRETS) != 0;
	rule->placeholders = (pass & PASS_PLACEHOLDERS) != 0;
}

static void
put_private(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, rule->private);
}

static void
get_private(struct policy_getting *g, struct policy_rule *rule)
{
	rule->private = policy_get_bool(g);
}

static void
put_principal(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->principals);
}

static void
get_principal(struct policy_getting *g, struct policy_rule *rule)
{
	rule->principals = policy_get_list(g, POLICY_LIST_MAX);
}

static void
put_chain(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->chains);
}

static void
get_chain(struct policy_getting *g, struct policy_rule *rule)
{
	rule->chains = policy_get_list(g, POLICY_LIST_MAX);
}

static bool
has_cookies(const struct policy_rule *rule)
{
	return rule->n_cookies > 0;
}

static void
put_cookies(struct buf *b, const struct policy_rule *rule)
{
	put_fields(b, rule->cookies, rule->n_cookies);
}

static void
get_cookies(struct policy_getting *g, struct policy_rule *rule)
{
	rule->cookies = get_fields(g, &rule->n_cookies);
}

static bool
has_rewrite(const struct policy_rule *rule)
{
	return rule->rewrite != NULL;
}

static bool
has_hook(const struct policy_rule *rule)
{
	return rule->hook != NULL;
}

static bool
has_uses(const struct policy_rule *rule)
{
	return rule->bounds_uses;
}

static void
put_uses(struct buf *b, const struct policy_rule *rule)
{
	policy_put_list(b, &rule->uses);
}

static void
get_uses(struct policy_getting *g, struct policy_rule *rule)
{
	rule->uses = policy_get_list(g, POLICY_LIST_MAX);
	rule->bounds_uses = true;
}

static bool
has_call(const struct policy_rule *rule)
{
	return rule->call.present;
}

/* ---- the table ---- */

static const struct {
	const char *name;
	unsigned flags;
	void (*put)(struct buf *b, const struct policy_rule *rule);
	void (*get)(struct policy_getting *g, struct policy_rule *rule);
	bool (*has)(const struct policy_rule *rule);
} keys[] = {
#define CONDITION(id, name, flags, read, fits, covers, print, put, get, has, ...) \
	{ name, flags, put, get, has },
#define SETTING(id, name, flags, read, print, put, get, has, ...) { name, flags, put, get, has },
#include "policy/policy_table.h"
};

static bool
is_fixed(size_t k, bool plain)
{
	return keys[k].put != NULL && keys[k].has == NULL &&
	       (!plain || (keys[k].flags & POLICY_KEY_OF_CELL) == 0);
}

void
policy_put_keys(struct buf *b, const struct policy_rule *rule, bool plain)
{
	for (size_t k = 0; k < ARRAY_LEN(keys); k++)
		if (is_fixed(k, plain))
			keys[k].put(b, rule);
}

void
policy_get_keys(struct policy_getting *g, struct policy_rule *rule, bool plain)
{
	for (size_t k = 0; k < ARRAY_LEN(keys); k++)
		if (is_fixed(k, plain))
			keys[k].get(g, rule);
}

uint32_t
policy_n_added(const struct policy_rule *rule)
{
	uint32_t n = 0;

	for (size_t k = 0; k < ARRAY_LEN(keys); k++)
		n += keys[k].has != NULL && keys[k].has(rule);
	return n;
}

void
policy_put_added(struct buf *b, const struct policy_rule *rule)
{
	buf_put_u32(b, policy_n_added(rule));
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		if (keys[k].has == NULL || !keys[k].has(rule))
			continue;
		buf_put_str(b, keys[k].name);
		keys[k].put(b, rule);
	}
}

void
policy_get_added(struct policy_getting *g, struct policy_rule *rule)
{
	uint32_t n = policy_get_upto(g, ARRAY_LEN(keys));
	size_t k = 0;

	/* In the order of the table, so that each policy has one encoding. */
	for (uint32_t i = 0; !g->bad && i < n; i++, k++) {
		const char *name = policy_get_text(g, POLICY_TEXT_MAX);

		while (k < ARRAY_LEN(keys) && (keys[k].has == NULL || strcmp(keys[k].name, name) != 0))
			k++;
		g->bad |= k == ARRAY_LEN(keys);
		if (g->bad)
			return;
		keys[k].get(g, rule);
		g->bad |= !keys[k].has(rule);
	}
}
