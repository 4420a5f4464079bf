/* policy_put.c - encodes a policy as a message, from the process that loads it to the one that
 * decides. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"

/* These numbers change with the format.  Vaults store policies too.  A policy without layers,
 * principals or approvals therefore keeps the oldest encoding. */
#define FORMAT_PLAIN 0x706f6c32u
#define FORMAT 0x706f6c35u
/* Bits for what a rule lets pass. */
#define PASS_SECRETS 1u
#define PASS_PLACEHOLDERS 2u

/* ---- writing ---- */

static void
put_host(struct buf *b, const struct policy_host *host)
{
	uint64_t halves[2];

	memcpy(halves, host->address, sizeof(halves));
	buf_put_u32(b, host->kind);
	buf_put_str(b, host->name);
	buf_put_u64(b, halves[0]);
	buf_put_u64(b, halves[1]);
	buf_put_u32(b, host->bits);
	buf_put_u32(b, host->port);
}

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

static void
put_json(struct buf *b, const struct policy_json *json)
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
put_body(struct buf *b, const struct policy_body *body)
{
	buf_put_u32(b, (uint32_t)body->n_json);
	for (size_t i = 0; i < body->n_json; i++)
		put_json(b, &body->json[i]);
	policy_put_list(b, &body->regex);
	buf_put_u32(b, body->graphql);
	buf_put_u32(b, body->graphql_types);
	policy_put_list(b, &body->graphql_names);
	buf_put_u32(b, body->jsonrpc);
	policy_put_list(b, &body->jsonrpc_methods);
}

static void
put_git(struct buf *b, const struct policy_git *git)
{
	buf_put_u32(b, git->present);
	buf_put_u32(b, git->fetch);
	buf_put_u32(b, git->force);
	buf_put_u32(b, git->delete);
	buf_put_u32(b, git->options);
	policy_put_list(b, &git->push);
	policy_put_list(b, &git->repos);
}

static void
put_rule(struct buf *b, const struct policy_rule *rule, bool plain)
{
	buf_put_u32(b, rule->verb);
	buf_put_u32(b, rule->protocols);
	buf_put_u32(b, (uint32_t)rule->n_hosts);
	for (size_t i = 0; i < rule->n_hosts; i++)
		put_host(b, &rule->hosts[i]);
	buf_put_u32(b, (uint32_t)rule->n_ports);
	for (size_t i = 0; i < rule->n_ports; i++) {
		buf_put_u32(b, rule->ports[i].first);
		buf_put_u32(b, rule->ports[i].last);
	}
	buf_put_u32(b, rule->schemes);
	policy_put_list(b, &rule->methods);
	policy_put_list(b, &rule->paths);
	buf_put_u32(b, rule->has_query);
	policy_put_list(b, &rule->query);
	put_fields(b, rule->params, rule->n_params);
	put_fields(b, rule->headers, rule->n_headers);
	policy_put_list(b, &rule->content_types);
	buf_put_u32(b, rule->grpc);
	buf_put_u32(b, rule->upgrade);
	put_git(b, &rule->git);
	put_body(b, &rule->body);
	buf_put_u64(b, rule->upload_max);
	buf_put_u32(b, rule->upload_said);
	buf_put_u32(b, (rule->secrets ? PASS_SECRETS : 0) | (rule->placeholders ? PASS_PLACEHOLDERS : 0));
	buf_put_u32(b, rule->private);
	if (!plain) {
		policy_put_list(b, &rule->principals);
		policy_put_list(b, &rule->chains);
		buf_put_u32(b, rule->off);
		policy_put_ask(b, rule);
	}
	buf_put_str(b, rule->reason != NULL ? rule->reason : "");
	buf_put_str(b, rule->place);
	buf_put_str(b, rule->text);
}

void
policy_put_meaning(struct buf *b, const struct policy *p, int rule)
{
	struct policy_rule copy = *policy_rule_at(p, (size_t)rule);

	copy.place = copy.text = "";
	copy.off = POLICY_ON;
	put_rule(b, &copy, false);
	buf_put_u64(b, copy.then != NULL ? copy.then->key : 0);
}

static bool
is_plain(const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (p->rules[i].principals.n > 0 || p->rules[i].chains.n > 0 ||
		    !policy_ask_is_default(&p->rules[i]))
			return false;
	return p->within == NULL && !policy_has_budgets(p) && !policy_has_consequences(p);
}

void
policy_put(struct buf *b, const struct policy *p)
{
	bool plain = is_plain(p);
	size_t layers = 0;

	for (const struct policy *at = p; at != NULL; at = at->within)
		layers++;
	buf_put_u32(b, plain ? FORMAT_PLAIN : FORMAT);
	if (!plain)
		buf_put_u32(b, (uint32_t)layers);
	for (; p != NULL; p = p->within) {
		buf_put_u32(b, (uint32_t)p->n_rules);
		for (size_t i = 0; i < p->n_rules; i++)
			put_rule(b, &p->rules[i], plain);
		if (plain)
			continue;
		policy_put_budgets(b, p);
		policy_put_consequences(b, p);
	}
}

/* ---- reading: after the first error, BAD stays set and is checked once ---- */

static bool
get_bool(struct policy_getting *g)
{
	return policy_get_upto(g, 1) != 0;
}

uint64_t
policy_get_u64(struct policy_getting *g)
{
	uint64_t v = 0;

	if (g->bad || buf_get_u64(g->b, &v) < 0)
		g->bad = true;
	return v;
}

static void *
get_room(struct policy_getting *g, size_t n, size_t size)
{
	void *room = g->bad ? NULL : policy_alloc(g->p, n, size);

	g->bad |= room == NULL;
	return room;
}

static bool
is_name(const char *name)
{
	return *name != '\0' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(name);
}

static void
get_host(struct policy_getting *g, struct policy_host *host)
{
	uint64_t halves[2];

	host->kind = policy_get_upto(g, POLICY_HOST_KINDS - 1);
	host->name = policy_get_text(g, HTTP_HOST_MAX);
	halves[0] = policy_get_u64(g);
	halves[1] = policy_get_u64(g);
	memcpy(host->address, halves, sizeof(host->address));
	host->bits = (uint8_t)policy_get_upto(g, 128);
	host->port = (uint16_t)policy_get_upto(g, UINT16_MAX);
	if (host->kind == POLICY_HOST_ANY || host->kind == POLICY_HOST_NET)
		g->bad |= *host->name != '\0';
	else
		g->bad |= !is_name(host->name);
}

static const struct policy_field *
get_fields(struct policy_getting *g, size_t *ret_n)
{
	size_t n = policy_get_upto(g, POLICY_LIST_MAX);
	struct policy_field *fields;

	*ret_n = 0;
	if (n == 0)
		return NULL;
	fields = get_room(g, n, sizeof(*fields));
	for (size_t i = 0; !g->bad && i < n; i++) {
		fields[i].name = policy_get_text(g, POLICY_TEXT_MAX);
		fields[i].absent = get_bool(g);
		fields[i].globs = policy_get_list(g, POLICY_LIST_MAX);
		g->bad |= *fields[i].name == '\0' || fields[i].absent != (fields[i].globs.n == 0);
	}
	*ret_n = g->bad ? 0 : n;
	return fields;
}

static void
get_value(struct policy_getting *g, struct policy_value *value)
{
	uint64_t bits;

	value->kind = policy_get_upto(g, POLICY_VALUES - 1);
	value->glob = policy_get_text(g, POLICY_TEXT_MAX);
	bits = policy_get_u64(g);
	memcpy(&value->number, &bits, sizeof(bits));
	value->truth = get_bool(g);
	g->bad |= !isfinite(value->number) || (value->kind != POLICY_VALUE_GLOB && *value->glob != '\0');
}

static void
get_json(struct policy_getting *g, struct policy_json *json)
{
	struct policy_value *values;
	size_t n;

	json->pointer = policy_get_text(g, POLICY_TEXT_MAX);
	n = policy_get_upto(g, POLICY_LIST_MAX);
	values = get_room(g, n, sizeof(*values));
	for (size_t i = 0; !g->bad && i < n; i++)
		get_value(g, &values[i]);
	json->values = values;
	json->n_values = g->bad ? 0 : n;
	g->bad |= n == 0 || (*json->pointer != '\0' && *json->pointer != '/');
}

static void
get_body(struct policy_getting *g, struct policy_body *body)
{
	size_t n = policy_get_upto(g, POLICY_LIST_MAX);
	struct policy_json *json = n > 0 ? get_room(g, n, sizeof(*json)) : NULL;

	for (size_t i = 0; !g->bad && i < n; i++)
		get_json(g, &json[i]);
	body->json = json;
	body->n_json = g->bad ? 0 : n;
	body->regex = policy_get_list(g, POLICY_LIST_MAX);
	body->graphql = get_bool(g);
	body->graphql_types = policy_get_upto(g, POLICY_GRAPHQL_QUERY | POLICY_GRAPHQL_MUTATION |
	                               POLICY_GRAPHQL_SUBSCRIPTION);
	body->graphql_names = policy_get_list(g, POLICY_LIST_MAX);
	body->jsonrpc = get_bool(g);
	body->jsonrpc_methods = policy_get_list(g, POLICY_LIST_MAX);
	g->bad |= body->graphql != (body->graphql_types != 0);
	g->bad |= body->jsonrpc != (body->jsonrpc_methods.n > 0);
	g->bad |= body->graphql_names.n > 0 && !body->graphql;
}

static void
get_git(struct policy_getting *g, struct policy_git *git)
{
	git->present = get_bool(g);
	git->fetch = get_bool(g);
	git->force = get_bool(g);
	git->delete = get_bool(g);
	git->options = get_bool(g);
	git->push = policy_get_list(g, POLICY_LIST_MAX);
	git->repos = policy_get_list(g, POLICY_LIST_MAX);
	g->bad |= !git->present && (git->fetch || git->push.n > 0 || git->repos.n > 0);
}

static void
get_where(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_host *hosts;
	struct policy_ports *ports;

	rule->n_hosts = policy_get_upto(g, POLICY_LIST_MAX);
	rule->hosts = hosts = get_room(g, rule->n_hosts, sizeof(*hosts));
	for (size_t i = 0; !g->bad && i < rule->n_hosts; i++)
		get_host(g, &hosts[i]);
	rule->n_ports = policy_get_upto(g, POLICY_LIST_MAX);
	rule->ports = ports = get_room(g, rule->n_ports, sizeof(*ports));
	for (size_t i = 0; !g->bad && i < rule->n_ports; i++) {
		ports[i].first = (uint16_t)policy_get_upto(g, UINT16_MAX);
		ports[i].last = (uint16_t)policy_get_upto(g, UINT16_MAX);
		g->bad |= ports[i].first == 0 || ports[i].first > ports[i].last;
	}
	g->bad |= rule->n_hosts == 0;
}

static void
get_rule(struct policy_getting *g, struct policy_rule *rule, bool plain)
{
	unsigned pass;

	rule->verb = policy_get_upto(g, POLICY_VERBS - 1);
	rule->protocols = policy_get_upto(g, POLICY_ANY_PROTOCOL);
	get_where(g, rule);
	rule->schemes = policy_get_upto(g, POLICY_SCHEME_PLAIN | POLICY_SCHEME_TLS);
	rule->methods = policy_get_list(g, POLICY_LIST_MAX);
	rule->paths = policy_get_list(g, POLICY_LIST_MAX);
	rule->has_query = get_bool(g);
	rule->query = policy_get_list(g, POLICY_LIST_MAX);
	rule->params = get_fields(g, &rule->n_params);
	rule->headers = get_fields(g, &rule->n_headers);
	rule->content_types = policy_get_list(g, POLICY_LIST_MAX);
	rule->grpc = get_bool(g);
	rule->upgrade = policy_get_upto(g, POLICY_UPGRADES - 1);
	get_git(g, &rule->git);
	get_body(g, &rule->body);
	rule->upload_max = policy_get_u64(g);
	rule->upload_said = get_bool(g);
	pass = policy_get_upto(g, PASS_SECRETS | PASS_PLACEHOLDERS);
	rule->secrets = (pass & PASS_SECRETS) != 0;
	rule->placeholders = (pass & PASS_PLACEHOLDERS) != 0;
	rule->private = get_bool(g);
	if (!plain) {
		rule->principals = policy_get_list(g, POLICY_LIST_MAX);
		rule->chains = policy_get_list(g, POLICY_LIST_MAX);
		rule->off = policy_get_upto(g, POLICY_OFFS - 1);
		policy_get_ask(g, rule);
	}
	policy_ask_default(rule);
	rule->reason = policy_get_text(g, POLICY_TEXT_MAX);
	rule->reason = *rule->reason != '\0' ? rule->reason : NULL;
	rule->place = policy_get_text(g, POLICY_PLACE_MAX);
	rule->text = policy_get_text(g, POLICY_RULE_TEXT_MAX);
	g->bad |= (rule->off == POLICY_OFF_PRINCIPAL && rule->principals.n == 0) ||
	          (rule->off == POLICY_OFF_CHAIN && rule->chains.n == 0);
	g->bad |= rule->protocols == 0 || rule->schemes == 0 ||
	          rule->has_query != (rule->query.n > 0);
}

static int
get_layer(struct buf *b, bool plain, struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = policy_new_empty();
	struct policy_getting g = { .b = b, .p = p };
	struct policy_rule *rule;
	uint32_t n;
	int r;

	if (p == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = policy_get_upto(&g, POLICY_RULES_MAX);
	for (uint32_t i = 0; !g.bad && i < n; i++) {
		rule = policy_add_rule(p);
		if (rule == NULL)
			return err_set(err, ENOMEM, "out of memory");
		get_rule(&g, rule, plain);
	}
	if (!plain) {
		policy_get_budgets(&g);
		policy_get_consequences(&g);
	}
	if (g.bad)
		return err_set(err, EBADMSG, "the policy is not as this version writes it");
	r = policy_seal(p, err);
	if (r == 0)
		*ret_policy = TAKE(p);
	return r;
}

int
policy_get(struct buf *b, struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	struct policy **last = &p;
	struct policy_getting g = { .b = b };
	uint32_t format = policy_get_upto(&g, UINT32_MAX), layers;
	bool plain = format == FORMAT_PLAIN;
	int r = 0;

	g.bad |= !plain && format != FORMAT;
	layers = plain ? 1 : policy_get_upto(&g, POLICY_LAYERS_MAX);
	for (uint32_t i = 0; r == 0 && !g.bad && i < layers; i++) {
		r = get_layer(b, plain, last, err);
		last = r == 0 ? &(*last)->within : last;
	}
	if (r < 0)
		return r;
	if (g.bad || p == NULL || plain != is_plain(p))
		return err_set(err, EBADMSG, "the policy is not as this version writes it");
	*ret_policy = TAKE(p);
	return 0;
}
