/* policy_read_body.c - reads a rule's matchers for bodies. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "policy/policy_load.h"

struct part {
	const char *name;
	int (*read)(struct policy_draft *d, const struct node *value);
};

/* Read each member of the map NODE by the table PARTS, which ends with a NULL name. */
static int
read_parts(struct policy_draft *d, const struct node *node, const struct part *parts,
           const char *where)
{
	const char *names[16] = { NULL };
	size_t k;
	int r = 0;

	for (k = 0; parts[k].name != NULL; k++)
		names[k] = parts[k].name;
	if (node->n == 0)
		return node_err(d->err, node, "there is nothing in this map: leave the key out");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		for (k = 0; names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0; k++)
			;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, where, d->err);
		r = parts[k].read(d, node->values[i]);
	}
	return r;
}

/* ---- json ---- */

int
policy_read_value(struct policy_draft *d, const struct node *node, struct policy_value *value)
{
	bool truth;

	*value = (struct policy_value){ .glob = "" };
	if (node_is_absent(node)) {
		value->kind = POLICY_VALUE_ABSENT;
	} else if (node->kind != NODE_SCALAR) {
		return node_err(d->err, node, "a value is a word, a number, true, false or null");
	} else if (node_is_null(node)) {
		value->kind = POLICY_VALUE_NULL;
	} else if (node_is_bool(node, &truth)) {
		value->kind = POLICY_VALUE_BOOL;
		value->truth = truth;
	} else if (node_is_number(node, &value->number)) {
		value->kind = POLICY_VALUE_NUMBER;
	} else {
		value->kind = POLICY_VALUE_GLOB;
		return policy_read_text(d, node, "a value", &value->glob);
	}
	return 0;
}

int
policy_check_pointer(struct policy_draft *d, const struct node *key)
{
	const char *text = key->text;

	if (*text != '\0' && *text != '/')
		return node_err(d->err, key, "a JSON pointer begins with '/': write /%.64s", text);
	for (; (text = strchr(text, '~')) != NULL; text++)
		if (text[1] != '0' && text[1] != '1')
			return node_err(d->err, key, "in a JSON pointer '~' is written ~0, and '/' ~1");
	return 0;
}

static int
read_pointer(struct policy_draft *d, const struct node *key, const struct node *node,
             struct policy_json *json)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	struct policy_value *values;
	int r = policy_check_pointer(d, key);

	if (r == 0 && (n == 0 || n > POLICY_LIST_MAX))
		r = node_err(d->err, node, "there are from 1 to %d values", POLICY_LIST_MAX);
	if (r < 0)
		return r;
	if (strlen(key->text) > POLICY_TEXT_MAX)
		return node_err(d->err, key, "this pointer is too long");
	values = policy_alloc(d->p, n, sizeof(*values));
	json->pointer = policy_copy(d->p, key->text, strlen(key->text));
	if (values == NULL || json->pointer == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = policy_read_value(d, node->kind == NODE_LIST ? node->items[i] : node, &values[i]);
	json->values = values;
	json->n_values = n;
	return r;
}

static int
read_json(struct policy_draft *d, const struct node *node)
{
	struct policy_json *json;
	int r = 0;

	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`json` is a map of pointers: {/model: claude-*}");
	if (node->n > POLICY_LIST_MAX)
		return node_err(d->err, node, "a rule takes at most %d of these", POLICY_LIST_MAX);
	json = policy_alloc(d->p, node->n, sizeof(*json));
	if (json == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_pointer(d, node->items[i], node->values[i], &json[i]);
	d->rule.body.json = json;
	d->rule.body.n_json = node->n;
	return r;
}

/* ---- regex ---- */

/* The expression runs in another process; compile it here to find errors early. */
int
policy_check_regex(struct policy_draft *d, const struct node *node, const char *text)
{
	PCRE2_UCHAR message[128];
	PCRE2_SIZE at;
	pcre2_code *code;
	int number;

	code = pcre2_compile((PCRE2_SPTR)text, strlen(text), PCRE2_NEVER_UTF | PCRE2_NEVER_UCP,
	                     &number, &at, NULL);
	if (code == NULL) {
		pcre2_get_error_message(number, message, sizeof(message));
		return node_err(d->err, node, "this regular expression breaks off at character %zu: %s",
		                (size_t)at + 1, (const char *)message);
	}
	pcre2_code_free(code);
	return 0;
}

static int
fix_regex(struct policy_draft *d, const struct node *node, char *text)
{
	return policy_check_regex(d, node, text);
}

static int
read_regex(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a regular expression", fix_regex, &d->rule.body.regex);
}

/* ---- graphql and jsonrpc ---- */

static int
read_operations(struct policy_draft *d, const struct node *node)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	struct policy_list list;
	int r = policy_read_list(d, node, "an operation", NULL, &list);
	size_t t;

	if (r < 0)
		return r;
	d->rule.body.graphql_types = 0;
	for (size_t i = 0; i < list.n; i++) {
		for (t = 0; t < 3 && strcmp(types[t], list.at[i]) != 0; t++)
			;
		if (t == 3)
			return node_err(d->err, node->kind == NODE_LIST ? node->items[i] : node,
			                "'%.32s' is not query, mutation or subscription", list.at[i]);
		d->rule.body.graphql_types |= 1u << t;
	}
	return 0;
}

static int
read_names(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a name", NULL, &d->rule.body.graphql_names);
}

static int
read_graphql(struct policy_draft *d, const struct node *node)
{
	static const struct part parts[] = {
		{ "operations", read_operations },
		{ "names", read_names },
		{0}
	};

	d->rule.body.graphql = true;
	d->rule.body.graphql_types = POLICY_GRAPHQL_QUERY | POLICY_GRAPHQL_MUTATION |
	                             POLICY_GRAPHQL_SUBSCRIPTION;
	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "`graphql` is a map: {operations: [query]}");
	return read_parts(d, node, parts, "in `graphql`");
}

static int
read_jsonrpc_methods(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a method", NULL, &d->rule.body.jsonrpc_methods);
}

static int
read_jsonrpc(struct policy_draft *d, const struct node *node)
{
	static const struct part parts[] = { { "methods", read_jsonrpc_methods }, {0} };

	d->rule.body.jsonrpc = true;
	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "`jsonrpc` is a map: {methods: [eth_call]}");
	return read_parts(d, node, parts, "in `jsonrpc`");
}

/* ---- body ---- */

static int
read_max(struct policy_draft *d, const struct node *node)
{
	const char *text;
	struct err err = {0};
	int r = policy_read_text(d, node, "a size", &text);

	if (r == 0 && num_parse_size(text, &d->rule.upload_max, &err) < 0)
		r = node_err(d->err, node, "%s", err.text);
	d->rule.upload_said = true;
	return r;
}

int
policy_read_body(struct policy_draft *d, const struct node *node)
{
	static const struct part parts[] = {
		{ "max", read_max },
		{ "json", read_json },
		{ "regex", read_regex },
		{ "graphql", read_graphql },
		{ "jsonrpc", read_jsonrpc },
		{0}
	};
	struct policy_rule *rule = &d->rule;
	int r;

	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "`body` is a map: {max: 5M}");
	r = read_parts(d, node, parts, "in `body`");
	if (r < 0)
		return r;
	if (policy_rule_wants_body(rule) && !rule->git.present && rule->upload_said &&
	    rule->upload_max > POLICY_INSPECTED_MAX)
		return node_err(d->err, node, "a body that is looked into is held in memory: its `max` "
		                "is at most %dM", POLICY_INSPECTED_MAX >> 20);
	if (rule->body.graphql && rule->body.jsonrpc)
		return node_err(d->err, node, "a body is GraphQL or JSON-RPC, never both");
	if ((rule->verb == POLICY_VERB_DENY || rule->verb == POLICY_VERB_LOG) && rule->upload_said &&
	    !policy_rule_wants_body(rule))
		return node_err(d->err, node, "`max` limits what may go: put an allow rule with it "
		                "in front");
	return 0;
}
