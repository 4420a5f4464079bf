/* object_read.c - the members of each kind of object: one parser for YAML and JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_tools.h"
#include "registry/object_parts.h"

#define TEXT_MAX 4096                   /* bytes of a description or a path */
#define LIST_MAX 64                     /* capabilities, envs, tools, agents */
#define GRANTABLE_MAX 128               /* secrets */
#define COMMAND_MAX 256                 /* words */
#define WORD_MAX (128 * 1024 - 1)       /* bytes of a word, the limit of execve() */
#define VALUES_MAX 1024                 /* of an env */
#define DEPTH_MAX 16                    /* of delegation */
#define FAN_OUT_MAX 1000
#define PORTS_MAX 16                    /* of a sandbox */

/* An object that is being read.  A missing member is passed as NULL. */
struct reading {
	enum registry_kind kind;
	const struct node *root;
	const char *name;               /* given from outside, or NULL */
	json_t *files;                  /* of a capability; NULL: they are collected later */
	json_t *grants;                 /* the result of object_read_grants(), or object_read_target() */
	struct err *err;
};
typedef int read_member(struct reading *o, const struct node *node, json_t **ret_value);

static int
no_memory(struct reading *o)
{
	return err_set(o->err, ENOMEM, "out of memory");
}

static int
give(struct reading *o, json_t *value, json_t **ret_value)
{
	*ret_value = value;
	return value == NULL ? no_memory(o) : 0;
}

/* ---- shared by all members ---- */

static int
read_words(struct reading *o, const struct node *node, const char *what, size_t n_max, size_t max,
           json_t **ret_value)
{
	OWN(json_decrefp) json_t *list = json_array();
	const char *text = NULL;
	int r;

	if (node != NULL && node->kind != NODE_LIST)
		return node_err(o->err, node, "this must be a list: [%s, ...]", what);
	if (node != NULL && node->n > n_max)
		return node_err(o->err, node, "there are more than %zu here", n_max);
	for (size_t i = 0; node != NULL && i < node->n; i++) {
		r = object_read_text(node->items[i], what, max, &text, o->err);
		if (r < 0)
			return r;
		if (json_array_append_new(list, json_string(text)) < 0)
			return no_memory(o);
	}
	return give(o, TAKE(list), ret_value);
}

/* Reports a failed check, at the place of NODE. */
static int
refuse_at(struct reading *o, const struct node *node, const struct err *why)
{
	return node_err(o->err, node, "%s", why->text);
}

static int
check_ref(struct reading *o, const struct node *node)
{
	struct registry_ref ref;
	struct err why = {0};

	return registry_ref_parse(node->text, false, &ref, &why) < 0 ? refuse_at(o, node, &why) : 0;
}

/* References to other objects, resolved at dispatch. */
static int
read_refs(struct reading *o, const struct node *node, const char *what, json_t **ret_value)
{
	int r = read_words(o, node, what, LIST_MAX, REGISTRY_REF_MAX, ret_value);

	for (size_t i = 0; r == 0 && node != NULL && i < node->n; i++) {
		size_t n = strcspn(node->items[i]->text, "@");

		r = check_ref(o, node->items[i]);
		for (size_t k = 0; r == 0 && k < i; k++)
			if (strcspn(node->items[k]->text, "@") == n &&
			    strncmp(node->items[i]->text, node->items[k]->text, n) == 0)
				r = node_err(o->err, node->items[i], "'%.*s' is in the list twice", (int)n,
				             node->items[i]->text);
	}
	if (r < 0)
		json_decref(TAKE(*ret_value));
	return r;
}

static int
read_count(struct reading *o, const struct node *node, const char *what, unsigned max,
           unsigned unsaid, json_t **ret_value)
{
	double number = unsaid;

	if (node != NULL && (!node_is_number(node, &number) || number < 1 || number > max ||
	                     number != (double)(unsigned)number))
		return node_err(o->err, node, "%s is a number from 1 to %u", what, max);
	return give(o, json_integer((json_int_t)number), ret_value);
}

static int
read_one_of(struct reading *o, const struct node *node, const char *what, const char *const *names,
            json_t **ret_value)
{
	const char *text = names[0];
	int r = node == NULL ? 0 : object_read_text(node, what, TEXT_MAX, &text, o->err);

	for (size_t i = 0; r == 0 && names[i] != NULL; i++)
		if (strcmp(text, names[i]) == 0)
			return give(o, json_string(text), ret_value);
	if (r < 0)
		return r;
	if (names[1] == NULL)
		return node_err(o->err, node, "%s is '%s'", what, names[0]);
	return node_err(o->err, node, "%s is '%s'%s'%s'%s%s%s", what, names[0],
	                names[2] != NULL ? ", " : " or ", names[1], names[2] != NULL ? " or '" : "",
	                names[2] != NULL ? names[2] : "", names[2] != NULL ? "'" : "");
}

/* ---- members of several kinds ---- */

static int
read_name(struct reading *o, const struct node *node, json_t **ret_value)
{
	const char *name = o->name;
	int r;

	if (node == NULL && name == NULL)
		return node_err(o->err, o->root, "a%s %s has a `name`", o->kind == REGISTRY_AGENT ||
		                o->kind == REGISTRY_ENV ? "n" : "", registry_kinds[o->kind]);
	if (name == NULL) {
		r = object_read_text(node, "a name", TEXT_MAX, &name, o->err);
		if (r < 0)
			return r;
	}
	if (!registry_name_ok(name))
		return node_err(o->err, node != NULL ? node : o->root, "'%.80s' cannot be a name: small "
		                "letters, digits and '._-', at most %d, a letter or digit first", name,
		                REGISTRY_NAME_MAX);
	return give(o, json_string(name), ret_value);
}

static int
read_kind(struct reading *o, const struct node *node, json_t **ret_value)
{
	const char *const names[] = { registry_kinds[o->kind], NULL };

	return read_one_of(o, node, "the kind of what is registered here", names, ret_value);
}

static int
read_version(struct reading *o, const struct node *node, json_t **ret_value)
{
	if (node != NULL && (node->kind != NODE_SCALAR || strcmp(node->text, "1") != 0))
		return node_err(o->err, node, "this is version 1 of what can be registered: write 1");
	return give(o, json_integer(1), ret_value);
}

static int
read_description(struct reading *o, const struct node *node, json_t **ret_value)
{
	const char *text = "";
	int r = node == NULL ? 0 : object_read_text(node, "a description", TEXT_MAX, &text, o->err);

	return r < 0 ? r : give(o, json_string(text), ret_value);
}

/* Rules, secrets and limits were read together, as in a policy. */
static int
read_granted(struct reading *o, const char *key, bool list, json_t **ret_value)
{
	json_t *value = json_object_get(o->grants, key);

	if (value != NULL)
		return give(o, json_incref(value), ret_value);
	return give(o, list ? json_array() : json_object(), ret_value);
}

static int
read_rules(struct reading *o, const struct node *node, json_t **ret_value)
{
	(void)node;
	return read_granted(o, "egress", true, ret_value);
}

static int
read_secrets(struct reading *o, const struct node *node, json_t **ret_value)
{
	(void)node;
	return read_granted(o, "secrets", true, ret_value);
}

static int
read_limits(struct reading *o, const struct node *node, json_t **ret_value)
{
	(void)node;
	return read_granted(o, "limits", false, ret_value);
}

/* ---- capabilities ---- */

static int
read_files(struct reading *o, const struct node *node, json_t **ret_value)
{
	(void)node;
	return give(o, o->files != NULL ? json_incref(o->files) : json_array(), ret_value);
}

static int
read_setup(struct reading *o, const struct node *node, json_t **ret_value)
{
	bool setup = false;

	(void)node;
	for (size_t i = 0; i < json_array_size(o->files); i++) {
		json_t *path = json_object_get(json_array_get(o->files, i), "path");

		setup = setup || object_is_setup(json_string_value(path));
	}
	return give(o, json_boolean(setup), ret_value);
}

static int
read_tools(struct reading *o, const struct node *node, json_t **ret_value)
{
	int r = read_words(o, node, "the name of a tool", LIST_MAX, 128, ret_value);

	for (size_t i = 0; r == 0 && node != NULL && i < node->n; i++)
		if (*node->items[i]->text == '\0')
			r = node_err(o->err, node->items[i], "the name of a tool is missing here");
	if (r < 0)
		json_decref(TAKE(*ret_value));
	return r;
}

/* A WASI module: OBJECT_MODULE, with OBJECT_MODULE.json if that is there.  Nothing of it is for the agent's cell. */
static int
read_type(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const types[] = { "files", "wasm", NULL };
	const struct node *name = node_get(o->root, "name"), *tools = node_get(o->root, "tools");
	OWN(json_decrefp) json_t *type = NULL;
	const char *own = o->name != NULL ? o->name : name != NULL && name->kind == NODE_SCALAR ? name->text : "";
	bool found = o->files == NULL;
	int r = read_one_of(o, node, "`type`", types, &type);

	/* Content of before has no type. */
	if (r < 0 || strcmp(json_string_value(type), "wasm") != 0)
		return r;
	for (size_t i = 0; i < json_array_size(o->files); i++) {
		const char *path = json_string_value(json_object_get(json_array_get(o->files, i), "path"));

		found = found || strcmp(path, OBJECT_MODULE) == 0;
		if (object_is_setup(path))
			return node_err(o->err, node, "a capability of type `wasm` has no '%s': nothing of it is in the agent's cell",
			                path);
	}
	if (!found)
		return node_err(o->err, node, "a capability of type `wasm` has a file '" OBJECT_MODULE "'");
	if (tools != NULL && tools->n > 0)
		return node_err(o->err, tools, "a WASI module needs no programs: leave `tools` out");
	if (!policy_tools_is_server(own, strlen(own)))
		return node_err(o->err, node, "'%.64s' cannot be the name of a server of tools: up to %d of a-z, 0-9, '_' and '-'",
		                own, POLICY_TOOLS_SERVER_MAX);
	return give(o, TAKE(type), ret_value);
}

/* ---- agents ---- */

static int
read_command(struct reading *o, const struct node *node, json_t **ret_value)
{
	/* Without a command, the agent ends after its set-up. */
	if (node == NULL)
		return give(o, json_array(), ret_value);
	if (node->kind == NODE_LIST && node->n > 0 && node->items[0]->kind == NODE_SCALAR &&
	    *node->items[0]->text == '\0')
		return node_err(o->err, node->items[0], "the name of a program is missing here");
	return read_words(o, node, "a word of the command", COMMAND_MAX, WORD_MAX, ret_value);
}

static int
read_boundary(struct reading *o, const struct node *node, json_t **ret_value)
{
	char text[POLICY_BOUNDARY_TEXT_MAX + 1];
	struct policy_boundary b;
	int r = node == NULL || node_is_null(node) ? 0 : policy_boundary_read(node, &b, o->err);

	if (r < 0)
		return r;
	return give(o, node == NULL || node_is_null(node) ? json_null() : json_string(policy_boundary_text(&b, text)),
	            ret_value);
}

static int
read_runtime(struct reading *o, const struct node *node, json_t **ret_value)
{
	const struct node *walls = node_get(o->root, "boundary");
	struct policy_boundary b = {0};
	int r = 0;

	if (node == NULL || node_is_null(node))
		return give(o, json_null(), ret_value);
	if (walls != NULL && !node_is_null(walls))
		r = policy_boundary_read(walls, &b, o->err);
	r = r == 0 ? policy_boundary_read_runtime(node, &b, o->err) : r;
	return r < 0 ? r : give(o, json_string(b.runtime), ret_value);
}

/* Nothing: as the policy says, or acts.  Then there is no such member, so older agents keep their hashes. */
static int
read_record(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const names[] = { "off", "acts", "full", NULL };

	return node == NULL || node_is_null(node) ? 0 : read_one_of(o, node, "`record`", names, ret_value);
}

/* Whether there is one of that name is known where it is dispatched. */
static int
read_target(struct reading *o, const struct node *node, json_t **ret_value)
{
	const char *text;
	int r;

	if (node == NULL || node_is_null(node))
		return 0;
	r = object_read_text(node, "`target`", OBJECT_TARGET_MAX, &text, o->err);
	return r < 0 ? r : give(o, json_string(text), ret_value);
}

static int
read_state(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const names[] = { "none", "keep", NULL };

	return read_one_of(o, node, "`state`", names, ret_value);
}

static int
read_capabilities(struct reading *o, const struct node *node, json_t **ret_value)
{
	return read_refs(o, node, "the name of a capability", ret_value);
}

static int
read_envs(struct reading *o, const struct node *node, json_t **ret_value)
{
	return read_refs(o, node, "the name of an env", ret_value);
}

static int
read_policy_ref(struct reading *o, const struct node *node, json_t **ret_value)
{
	const char *text = NULL;
	int r;

	if (node == NULL || node_is_null(node))
		return give(o, json_null(), ret_value);
	r = object_read_text(node, "the name of a policy", REGISTRY_REF_MAX, &text, o->err);
	r = r == 0 ? check_ref(o, node) : r;
	return r < 0 ? r : give(o, json_string(text), ret_value);
}

static int
check_keys(struct reading *o, const struct node *node, const char *const *names, const char *where)
{
	size_t k;

	for (size_t i = 0; i < node->n; i++) {
		for (k = 0; names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0; k++)
			;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, where, o->err);
	}
	return 0;
}

static int
read_delegate(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const names[] = { "agents", "depth", "fan_out", NULL };
	OWN(json_decrefp) json_t *agents = NULL, *depth = NULL, *fan_out = NULL;
	int r;

	if (node == NULL || node_is_null(node))
		return give(o, json_null(), ret_value);
	if (node->kind != NODE_MAP)
		return node_err(o->err, node, "`delegate` is a map: {agents: [reviewer], depth: 1, fan_out: 8}");
	r = check_keys(o, node, names, "in `delegate`");
	r = r == 0 ? read_refs(o, node_get(node, "agents"), "the name of an agent", &agents) : r;
	r = r == 0 ? read_count(o, node_get(node, "depth"), "`depth`", DEPTH_MAX, 1, &depth) : r;
	r = r == 0 ? read_count(o, node_get(node, "fan_out"), "`fan_out`", FAN_OUT_MAX, 8, &fan_out) : r;
	if (r == 0 && json_array_size(agents) == 0)
		r = node_err(o->err, node, "`delegate` says to which `agents`");
	return r < 0 ? r : give(o, json_pack("{s:O,s:O,s:O}", "agents", agents, "depth", depth, "fan_out",
	                                     fan_out), ret_value);
}

/* What a dispatch may add to the agent's own grants. */
static int
read_grantable(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const names[] = { "capabilities", "secrets", NULL };
	OWN(json_decrefp) json_t *capabilities = NULL, *secrets = NULL;
	int r;

	if (node == NULL || node_is_null(node))
		return give(o, json_null(), ret_value);
	if (node->kind != NODE_MAP)
		return node_err(o->err, node, "`grantable` is a map: {capabilities: [web-search], secrets: [SEARCH_KEY]}");
	r = check_keys(o, node, names, "in `grantable`");
	r = r == 0 ? read_refs(o, node_get(node, "capabilities"), "the name of a capability", &capabilities) : r;
	r = r == 0 ? read_words(o, node_get(node, "secrets"), "the name of a secret", GRANTABLE_MAX, TEXT_MAX,
	                        &secrets) : r;
	return r < 0 ? r : give(o, json_pack("{s:O,s:O}", "capabilities", capabilities, "secrets", secrets), ret_value);
}

static int
read_truth(struct reading *o, const struct node *node, const char *name, bool *ret_yes)
{
	bool is_plain = node != NULL && node->kind == NODE_SCALAR && node->plain;

	*ret_yes = is_plain && strcmp(node->text, "true") == 0;
	if (node != NULL && !node_is_null(node) && !*ret_yes && !(is_plain && strcmp(node->text, "false") == 0))
		return node_err(o->err, node, "`%s` is true or false", name);
	return 0;
}

/* Whether clients of the service may use its cell. */
static int
read_sandbox(struct reading *o, const struct node *node, json_t **ret_value)
{
	bool yes;
	int r = read_truth(o, node, "sandbox", &yes);

	return r < 0 ? r : give(o, json_boolean(yes), ret_value);
}

/* The ports of a sandbox that have names.  Without any there is no such member, so older agents keep their hashes. */
static int
read_ports(struct reading *o, const struct node *node, json_t **ret_value)
{
	OWN(json_decrefp) json_t *ports = json_array();
	const struct node *is_sandbox = node_get(o->root, "sandbox");
	uint64_t port;

	if (node == NULL || node_is_null(node))
		return 0;
	if (node->kind != NODE_LIST || node->n == 0 || node->n > PORTS_MAX)
		return node_err(o->err, node, "`ports` is a list of 1 to %d ports of the sandbox: [8000]", PORTS_MAX);
	if (is_sandbox == NULL || is_sandbox->kind != NODE_SCALAR || strcmp(is_sandbox->text, "true") != 0)
		return node_err(o->err, node, "`ports` are those of a sandbox: add `sandbox: true`");
	for (size_t i = 0; i < node->n; i++) {
		const struct node *item = node->items[i];

		if (item->kind != NODE_SCALAR || !item->plain || num_parse_count(item->text, 1, UINT16_MAX, &port, NULL) < 0)
			return node_err(o->err, item, "a port is a number from 1 to 65535");
		json_array_append_new(ports, json_integer((json_int_t)port));
	}
	return give(o, json_incref(ports), ret_value);
}

/* Whether its command has a terminal.  Without one there is no such member, so older agents keep their hashes. */
static int
read_terminal(struct reading *o, const struct node *node, json_t **ret_value)
{
	const struct node *command = node_get(o->root, "command");
	bool yes;
	int r = read_truth(o, node, "terminal", &yes);

	if (r < 0 || !yes)
		return r;
	if (command == NULL || node_is_null(command))
		return node_err(o->err, node, "an agent with a `terminal` needs a `command`, such as [bash]");
	return give(o, json_true(), ret_value);
}

static int
read_root(struct reading *o, const struct node *node, json_t **ret_value)
{
	return object_read_root(node, ret_value, o->err);
}

/* Absolute, and unambiguous. */
static bool
is_clear_path(const char *path)
{
	size_t n;

	if (*path != '/' || strcmp(path, "/") == 0)
		return false;
	for (; *path != '\0'; path += n) {
		n = strcspn(++path, "/");
		if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
	}
	return true;
}

static int
read_workspace(struct reading *o, const struct node *node, json_t **ret_value)
{
	static const char *const names[] = { "mode", "path", NULL };
	static const char *const modes[] = { "overlay", "ro", "rw", NULL };
	OWN(json_decrefp) json_t *mode = NULL;
	const struct node *place;
	const char *path = NULL;
	int r;

	if (node == NULL || node_is_null(node))
		return give(o, json_null(), ret_value);
	if (node->kind != NODE_MAP)
		return node_err(o->err, node, "`workspace` is a map: {path: /srv/project, mode: overlay}");
	r = check_keys(o, node, names, "in `workspace`");
	if (r < 0)
		return r;
	place = node_get(node, "path");
	if (place == NULL)
		return node_err(o->err, node, "`workspace` has a `path`");
	r = object_read_text(place, "a path", TEXT_MAX - 1, &path, o->err);
	if (r == 0 && !is_clear_path(path))
		r = node_err(o->err, place, "a path begins with '/', and has no '.', '..' or '//' in it");
	r = r == 0 ? read_one_of(o, node_get(node, "mode"), "`mode`", modes, &mode) : r;
	return r < 0 ? r : give(o, json_pack("{s:O,s:s}", "mode", mode, "path", path), ret_value);
}

/* ---- targets ---- */

/* Those that are built in have names, too. */
static int
read_target_name(struct reading *o, const struct node *node, json_t **ret_value)
{
	int r = read_name(o, node, ret_value);

	if (r == 0 && (strcmp(json_string_value(*ret_value), "local") == 0 || strcmp(json_string_value(*ret_value), "docker") == 0)) {
		json_decref(TAKE(*ret_value));
		r = node_err(o->err, node != NULL ? node : o->root, "the targets 'local' and 'docker' are built in: choose another name");
	}
	return r;
}

/* ---- envs and policies ---- */

static bool
is_variable(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	size_t n = strspn(name, letters);

	return n > 0 && n <= 256 && name[n] == '\0' && (name[0] < '0' || name[0] > '9');
}

static int
read_values(struct reading *o, const struct node *node, json_t **ret_value)
{
	OWN(json_decrefp) json_t *values = json_object();
	const char *text = NULL;
	int r;

	if (node == NULL || node->kind != NODE_MAP)
		return node_err(o->err, node != NULL ? node : o->root, "an env has `values`, a map: "
		                "{LANG: C.UTF-8}");
	if (node->n > VALUES_MAX)
		return node_err(o->err, node, "an env has at most %d values", VALUES_MAX);
	for (size_t i = 0; i < node->n; i++) {
		if (!is_variable(node->items[i]->text))
			return node_err(o->err, node->items[i], "'%.64s' cannot be the name of a variable: "
			                "letters, digits and '_', no digit first", node->items[i]->text);
		r = object_read_text(node->values[i], "a value", WORD_MAX - 257, &text, o->err);
		if (r < 0)
			return r;
		if (json_object_set_new(values, node->items[i]->text, json_string(text)) < 0)
			return no_memory(o);
	}
	return give(o, TAKE(values), ret_value);
}

static int
read_document(struct reading *o, const struct node *node, json_t **ret_value)
{
	if (node == NULL)
		return node_err(o->err, o->root, "a policy has a `document`: the policy itself");
	return object_read_policy(NULL, node, ret_value, o->err);
}

/* ---- kinds ---- */

#define MEMBERS_MAX 24                  /* and the end of the table */

/* The members of a kind.  SAID: may be written; the others are computed.  Without READ, it was read with the grants. */
static const struct member {
	const char *name;
	read_member *read;
	bool said;
} members[REGISTRY_KINDS][MEMBERS_MAX] = {
	[REGISTRY_CAPABILITY] = {
		{ "kind", read_kind, true }, { "version", read_version, true },
		{ "name", read_name, true }, { "description", read_description, true },
		{ "rules", read_rules, true }, { "secrets", read_secrets, true },
		{ "limits", read_limits, true }, { "tools", read_tools, true },
		{ "files", read_files, false }, { "setup", read_setup, false },
		{ "type", read_type, true },
	},
	[REGISTRY_AGENT] = {
		{ "kind", read_kind, true }, { "version", read_version, true },
		{ "name", read_name, true }, { "description", read_description, true },
		{ "command", read_command, true }, { "capabilities", read_capabilities, true },
		{ "env", read_envs, true }, { "policy", read_policy_ref, true },
		{ "secrets", read_secrets, true }, { "limits", read_limits, true },
		{ "boundary", read_boundary, true }, { "runtime", read_runtime, true },
		{ "record", read_record, true }, { "workspace", read_workspace, true },
		{ "state", read_state, true }, { "delegate", read_delegate, true },
		{ "root", read_root, true }, { "grantable", read_grantable, true },
		{ "sandbox", read_sandbox, true }, { "terminal", read_terminal, true },
		{ "ports", read_ports, true },
		{ "target", read_target, true },
	},
	[REGISTRY_ENV] = {
		{ "kind", read_kind, true }, { "version", read_version, true },
		{ "name", read_name, true }, { "values", read_values, true },
	},
	[REGISTRY_POLICY] = {
		{ "kind", read_kind, true }, { "version", read_version, true },
		{ "name", read_name, true }, { "document", read_document, true },
	},
	[REGISTRY_TARGET] = {
		{ "kind", read_kind, true }, { "version", read_version, true },
		{ "name", read_target_name, true }, { "description", read_description, true },
		{ "engine", NULL, true }, { "pool", NULL, true }, { "workers", NULL, true }, { "slots", NULL, true },
		{ "boundary", NULL, true }, { "once", NULL, true }, { "idle", NULL, true }, { "image", NULL, true }, { "service", NULL, true },
		{ "cpus", NULL, true }, { "memory", NULL, true }, { "env", NULL, true }, { "secrets", NULL, true },
		{ "docker", NULL, true }, { "swarm", NULL, true }, { "kubernetes", NULL, true }, { "ecs", NULL, true },
	},
};

static int
check_members(struct reading *o)
{
	static const char *const where[REGISTRY_KINDS] = { "in a capability", "in an agent", "in an env",
		"in a registered policy", "in a target" };
	const char *names[MEMBERS_MAX + 1];
	size_t n = 0;

	if (o->root->kind != NODE_MAP)
		return node_err(o->err, o->root, "this is a map that begins with `name`");
	for (const struct member *m = members[o->kind]; m->name != NULL; m++)
		if (m->said)
			names[n++] = m->name;
	names[n] = NULL;
	return check_keys(o, o->root, names, where[o->kind]);
}

static int
read_grants(struct reading *o)
{
	if (o->kind == REGISTRY_TARGET)
		return object_read_target(o->root, o->name, &o->grants, o->err);
	if (o->kind != REGISTRY_CAPABILITY && o->kind != REGISTRY_AGENT)
		return 0;
	return object_read_grants(o->root, node_get(o->root, "rules"), node_get(o->root, "secrets"),
	                          node_get(o->root, "limits"), &o->grants, o->err);
}

static int
read_members(struct reading *o, json_t *content)
{
	int r = 0;

	for (const struct member *m = members[o->kind]; r == 0 && m->name != NULL; m++) {
		json_t *value = NULL;

		if (m->read == NULL)
			value = json_incref(json_object_get(o->grants, m->name));
		else
			r = m->read(o, node_get(o->root, m->name), &value);
		if (r == 0 && value != NULL && json_object_set_new(content, m->name, value) < 0)
			r = no_memory(o);
	}
	return r;
}

int
object_read_node(enum registry_kind kind, const struct node *node, const char *name, json_t *files,
                 struct object **ret_object, struct err *err)
{
	struct reading o = { .kind = kind, .root = node, .name = name, .files = files, .err = err };
	OWN(json_decrefp) json_t *content = json_object();
	int r = content == NULL ? no_memory(&o) : check_members(&o);

	r = r == 0 ? read_grants(&o) : r;
	r = r == 0 ? read_members(&o, content) : r;
	json_decref(o.grants);
	return r < 0 ? r : object_new(kind, TAKE(content), ret_object, err);
}
