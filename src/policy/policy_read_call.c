/* policy_read_call.c - reads a rule for calls of MCP tools: see policy_rule.h. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_tools.h"

static int
kind_of(const char *text)
{
	for (int k = 0; k < POLICY_CALL_KINDS; k++)
		if (strncmp(text, policy_call_kinds[k], strlen(policy_call_kinds[k])) == 0)
			return k;
	return -1;
}

bool
policy_is_call(const char *text)
{
	return kind_of(text) >= 0;
}

/* ---- patterns ---- */

static bool
is_server_glob(const char *text, size_t len)
{
	char name[POLICY_TEXT_MAX + 1];

	if (len == 0 || len > POLICY_TEXT_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		name[i] = text[i] == '*' ? 'a' : text[i];
	return policy_tools_is_server(name, len);
}

/* "server.tool", in which "*" stands for no dot; "**" is any tool of any server. */
static int
check_name(struct policy_draft *d, const struct node *node, const char *kind, const char *glob)
{
	size_t n = strcspn(glob, ".");
	char name[POLICY_TEXT_MAX + 1];

	if (strcmp(glob, "**") == 0)
		return 0;
	if (glob[n] == '\0')
		return node_err(d->err, node, "a server stands in front: write %sSERVER.%s, or %s** for all", kind,
		                *glob != '\0' ? glob : "NAME", kind);
	if (!is_server_glob(glob, n))
		return node_err(d->err, node, "'%.*s' is not the name of a server", (int)(n < 64 ? n : 64), glob);
	snprintf(name, sizeof(name), "%s", glob + n + 1);
	for (char *c = name; *c != '\0'; c++)
		*c = *c == '*' ? 'a' : *c;
	return policy_tools_is_tool(name, strlen(name)) ? 0 :
	       node_err(d->err, node, "'%.64s' is not the name of a tool", glob + n + 1);
}

/* "server/URI", as a path. */
static int
check_resource(struct policy_draft *d, const struct node *node, const char *glob)
{
	size_t n = strcspn(glob, "/");

	if (strcmp(glob, "**") == 0)
		return 0;
	return glob[n] == '/' && glob[n + 1] != '\0' && is_server_glob(glob, n) ? 0 :
	       node_err(d->err, node, "a server stands in front of a resource: write resource:SERVER/%s, or resource:** for all",
	                glob[n] == '\0' && n > 0 ? glob : "URI");
}

int
policy_read_calls(struct policy_draft *d, const struct node *node)
{
	static const char *const methods[] = { "POST" }, *const paths[] = { POLICY_TOOLS_PATH };
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	struct policy_pattern *at = policy_alloc(d->p, n, sizeof(*at));
	struct policy_host *host = policy_alloc(d->p, 1, sizeof(*host));
	int r = 0;

	if (at == NULL || host == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;
		int kind = kind_of(item->text);

		if (kind < 0)
			return node_err(d->err, item, "a rule is about hosts or about tools: write two");
		at[i].kind = (enum policy_call_kind)kind;
		at[i].glob = policy_copy(d->p, item->text + strlen(policy_call_kinds[kind]),
		                         strlen(item->text) - strlen(policy_call_kinds[kind]));
		if (at[i].glob == NULL)
			return policy_read_oom(d);
		r = kind == POLICY_CALL_RESOURCE ? check_resource(d, item, at[i].glob) :
		    check_name(d, item, policy_call_kinds[kind], at[i].glob);
	}
	*host = (struct policy_host){ .kind = POLICY_HOST_NAME, .name = POLICY_TOOLS_HOST, .port = POLICY_TOOLS_PORT };
	d->rule.hosts = host;
	d->rule.n_hosts = 1;
	d->rule.protocols = 1u << POLICY_HTTP;
	d->rule.schemes = POLICY_SCHEME_PLAIN;
	d->rule.methods = (struct policy_list){ methods, 1 };
	d->rule.paths = (struct policy_list){ paths, 1 };
	d->rule.upload_max = POLICY_CALL_MAX;
	d->rule.call = (struct policy_call){ .present = true, .at = at, .n = n };
	return r;
}

/* ---- arguments ---- */

static int
read_range(struct policy_draft *d, const struct node *node, struct policy_arg *arg)
{
	static const char *const names[] = { "min", "max", NULL };

	for (size_t i = 0; i < node->n; i++) {
		bool is_min = strcmp(node->items[i]->text, "min") == 0;

		if (!is_min && strcmp(node->items[i]->text, "max") != 0)
			return policy_read_unknown(node->items[i], names, "of a range", d->err);
		if (!node_is_number(node->values[i], is_min ? &arg->min : &arg->max))
			return node_err(d->err, node->values[i], "the end of a range is a number");
		*(is_min ? &arg->has_min : &arg->has_max) = true;
	}
	return arg->has_min && arg->has_max && arg->min > arg->max ? node_err(d->err, node, "a range goes upwards") : 0;
}

static int
read_condition(struct policy_draft *d, const struct node *node, struct policy_arg *arg)
{
	static const char *const names[] = { "min", "max", "pattern", "schema", NULL };
	const char *key = node->n > 0 ? node->items[0]->text : "";
	int r;

	if (strcmp(key, "min") == 0 || strcmp(key, "max") == 0)
		return read_range(d, node, arg);
	if (node->n != 1)
		return node_err(d->err, node, "an argument has a value, or one condition: {min: 1, max: 10}, {pattern: '^x'} or {schema: "
		                "{...}}");
	if (strcmp(key, "schema") == 0)
		return policy_read_schema(d, node->values[0], &arg->schema);
	if (strcmp(key, "pattern") != 0)
		return policy_read_unknown(node->items[0], names, "in a condition", d->err);
	r = policy_read_text(d, node->values[0], "a regular expression", &arg->pattern);
	r = r == 0 && *arg->pattern == '\0' ? node_err(d->err, node->values[0], "an empty expression matches everything") : r;
	return r == 0 ? policy_check_regex(d, node->values[0], arg->pattern) : r;
}

static int
read_arg(struct policy_draft *d, const struct node *key, const struct node *node, struct policy_arg *arg)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	struct policy_value *values;
	int r = policy_check_pointer(d, key);

	*arg = (struct policy_arg){ .pattern = "", .schema = "" };
	if (r < 0)
		return r;
	if (strlen(key->text) > POLICY_TEXT_MAX)
		return node_err(d->err, key, "this pointer is too long");
	arg->json.pointer = policy_copy(d->p, key->text, strlen(key->text));
	if (arg->json.pointer == NULL)
		return policy_read_oom(d);
	if (node->kind == NODE_MAP && !node_is_absent(node))
		return read_condition(d, node, arg);
	if (n == 0 || n > POLICY_LIST_MAX)
		return node_err(d->err, node, "there are from 1 to %d values", POLICY_LIST_MAX);
	values = policy_alloc(d->p, n, sizeof(*values));
	if (values == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = policy_read_value(d, node->kind == NODE_LIST ? node->items[i] : node, &values[i]);
	arg->json.values = values;
	arg->json.n_values = n;
	return r;
}

int
policy_read_args(struct policy_draft *d, const struct node *node)
{
	struct policy_arg *args;
	int r = 0;

	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`args` is a map of JSON pointers into the call's arguments: {/title: 'x*'}");
	if (node->n > POLICY_LIST_MAX)
		return node_err(d->err, node, "a rule takes at most %d of these", POLICY_LIST_MAX);
	args = policy_alloc(d->p, node->n, sizeof(*args));
	if (args == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_arg(d, node->items[i], node->values[i], &args[i]);
	d->rule.call.args = args;
	d->rule.call.n_args = node->n;
	return r;
}

int
policy_read_annotations(struct policy_draft *d, const struct node *node)
{
	const char *names[POLICY_TOOL_N_HINTS + 1] = { NULL };
	struct policy_call *call = &d->rule.call;

	memcpy(names, policy_tool_hints, sizeof(policy_tool_hints));
	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`annotations` is a map: {read_only: true}");
	for (size_t i = 0; i < node->n; i++) {
		unsigned k = 0;
		bool truth;

		while (names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0)
			k++;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, "in `annotations`", d->err);
		if (!node_is_bool(node->values[i], &truth))
			return node_err(d->err, node->values[i], "'%s' is true or false", names[k]);
		*(truth ? &call->hints : &call->no_hints) |= 1u << k;
	}
	return 0;
}

/* ---- checks ---- */

int
policy_check_call(const struct policy_draft *d)
{
	const struct policy_call *call = &d->rule.call;
	const struct node *key = policy_draft_key(d, call->present && call->n > 0 && call->at != NULL ? POLICY_KEY_NOT_CALL :
	                                             POLICY_KEY_OF_CALL);

	if (key != NULL && call->at == NULL)
		return node_err(d->err, key, "'%s' is about calls: it belongs into a rule such as `allow: tool:github.get_*`",
		                key->text);
	if (key != NULL)
		return node_err(d->err, key, "'%s' is about requests to hosts: a rule for tools takes `args` and `annotations`",
		                key->text);
	for (size_t i = 0; i < call->n; i++)
		if (call->at[i].kind != POLICY_CALL_TOOL && (call->hints | call->no_hints) != 0)
			return node_err(d->err, d->keys[POLICY_KEY_ANNOTATIONS], "only tools have annotations");
	for (size_t i = 0; i < call->n; i++)
		if (call->at[i].kind == POLICY_CALL_RESOURCE && call->n_args > 0)
			return node_err(d->err, d->keys[POLICY_KEY_ARGS], "resources are read without arguments");
	return 0;
}
