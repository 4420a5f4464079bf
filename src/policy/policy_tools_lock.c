/* policy_tools_lock.c - reads tools.lock.yaml, as far as a policy needs it: see policy_tools.h.
 *
 * docs/tools.md explains the file.  The reader is strict: a name that it does not know is an error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_load.h"
#include "policy/policy_tools_parts.h"

struct locking {
	struct policy *p;
	struct policy_tool *tools;      /* room for POLICY_TOOLS_LOCKED_MAX */
	size_t n;
	struct policy_tools_pin *pins;  /* room for POLICY_TOOLS_PINS_MAX */
	size_t n_pins;
	struct err *err;
};

static int
no_memory(struct locking *l)
{
	return err_set(l->err, ENOMEM, "the lock is too large");
}

/* Whether every key of the map NODE is one of NAMES. */
static int
check_keys(const struct node *node, const char *const *names, const char *where, struct err *err)
{
	if (node->kind != NODE_MAP)
		return node_err(err, node, "here stands a map");
	for (size_t i = 0; i < node->n; i++) {
		size_t k = 0;

		while (names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0)
			k++;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, where, err);
	}
	return 0;
}

/* ---- a tool ---- */

static int
read_hints(struct locking *l, const struct node *node, struct policy_tool *tool)
{
	static const char *const names[] = { "title", "read_only", "destructive", "idempotent", "open_world", NULL };
	int r = node != NULL ? check_keys(node, names, "in `annotations`", l->err) : 0;

	/* The protocol's defaults. */
	tool->hints = POLICY_TOOL_DESTRUCTIVE | POLICY_TOOL_OPEN_WORLD;
	for (unsigned i = 0; r == 0 && node != NULL && i < POLICY_TOOL_N_HINTS; i++) {
		const struct node *hint = node_get(node, policy_tool_hints[i]);
		bool truth;

		if (hint == NULL)
			continue;
		if (!node_is_bool(hint, &truth))
			return node_err(l->err, hint, "'%s' is true or false", policy_tool_hints[i]);
		tool->hints = truth ? tool->hints | 1u << i : tool->hints & ~(1u << i);
	}
	return r;
}

static int
check_scope(struct locking *l, const struct node *node)
{
	static const char *const names[] = { "egress", "read", "write", "secrets", "programs", "time", NULL };
	static char egress[] = "egress";
	OWN(buf_free) struct buf unused = BUF(POLICY_FLAT_MAX);
	struct node key = { .kind = NODE_SCALAR, .text = egress, .plain = true, .file = node->file, .line = node->line };
	struct node *items[] = { &key }, *values[1], rules = *node;
	struct policy_draft d = { .p = l->p, .at = node, .err = l->err };
	struct policy_list words;
	uint64_t ms;
	int r = check_keys(node, names, "in `scope`", l->err);

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *name = node->items[i]->text;
		struct node *value = node->values[i];

		if (strcmp(name, "egress") == 0) {
			values[0] = value;
			rules.items = items;
			rules.values = values;
			rules.n = 1;
			r = policy_read_within(&rules, NULL, "a scope", POLICY_TOOLS_SCOPE_MAX, &unused, l->err);
		} else if (strcmp(name, "time") != 0) {
			r = value->kind == NODE_LIST && value->n == 0 ? 0 : policy_read_list(&d, value, "a word", NULL, &words);
		} else if (value->kind != NODE_SCALAR || num_parse_duration(value->text, &ms, NULL) < 0) {
			r = node_err(l->err, value, "`time` is how long a call may take: `time: 30s`");
		}
	}
	return r;
}

static int
read_scope(struct locking *l, const struct node *node, struct policy_tool *tool)
{
	OWN(buf_free) struct buf b = BUF(POLICY_TOOLS_SCOPE_MAX);
	int r = node != NULL ? check_scope(l, node) : 0;

	tool->scope = "";
	if (r < 0 || node == NULL)
		return r;
	policy_flat_put_node(&b, node);
	if (buf_failed(&b))
		return node_err(l->err, node, "a scope is larger than %d KiB", POLICY_TOOLS_SCOPE_MAX / 1024);
	tool->scope = policy_copy(l->p, (const char *)b.data, b.len);
	return tool->scope != NULL ? 0 : no_memory(l);
}

static int
read_tool(struct locking *l, const struct node *server, const struct node *key, const struct node *node)
{
	static const char *const names[] = { "sha256", "title", "description", "input", "output", "annotations", "scope",
	                                     "examples", NULL };
	struct policy_tool *tool = &l->tools[l->n];
	char name[POLICY_TOOLS_NAME_MAX + 1];
	const struct node *hash;
	int r = check_keys(node, names, "of a locked tool", l->err), n;

	if (r < 0)
		return r;
	if (!policy_tools_is_tool(key->text, strlen(key->text)))
		return node_err(l->err, key, "'%.64s' is not the name of a tool", key->text);
	if (l->n == POLICY_TOOLS_LOCKED_MAX)
		return node_err(l->err, key, "a lock has at most %d tools", POLICY_TOOLS_LOCKED_MAX);
	hash = node_get(node, "sha256");
	if (hash == NULL || hash->kind != NODE_SCALAR || !policy_tools_is_hash(hash->text))
		return node_err(l->err, hash != NULL ? hash : key, "a locked tool has its `sha256`: %d digits of 0-9 and a-f",
		                POLICY_TOOLS_HASH);
	n = snprintf(name, sizeof(name), "%s.%s", server->text, key->text);
	tool->name = policy_copy(l->p, name, (size_t)n);
	tool->hash = policy_copy(l->p, hash->text, POLICY_TOOLS_HASH);
	if (tool->name == NULL || tool->hash == NULL)
		return no_memory(l);
	r = read_hints(l, node_get(node, "annotations"), tool);
	r = r == 0 ? read_scope(l, node_get(node, "scope"), tool) : r;
	l->n += r == 0;
	return r;
}

/* ---- the files of a server ---- */

static int
read_pin(struct locking *l, const struct node *server, const char *file, const struct node *hash)
{
	struct policy_tools_pin *pin = &l->pins[l->n_pins];

	if (hash->kind != NODE_SCALAR || !policy_tools_is_hash(hash->text))
		return node_err(l->err, hash, "here stands the SHA-256 of a file: %d digits of 0-9 and a-f", POLICY_TOOLS_HASH);
	if (l->n_pins == POLICY_TOOLS_PINS_MAX)
		return node_err(l->err, hash, "a lock has at most %d files", POLICY_TOOLS_PINS_MAX);
	pin->server = policy_copy(l->p, server->text, strlen(server->text));
	pin->file = policy_copy(l->p, file, strlen(file));
	pin->hash = policy_copy(l->p, hash->text, POLICY_TOOLS_HASH);
	l->n_pins++;
	return pin->server != NULL && pin->file != NULL && pin->hash != NULL ? 0 : no_memory(l);
}

static int
read_pins(struct locking *l, const struct node *key, const struct node *node)
{
	static const char *const names[] = { "path", "sha256", NULL };
	const struct node *program = node_get(node, "program"), *files = node_get(node, "files"), *hash;
	int r = program != NULL ? check_keys(program, names, "of a locked program", l->err) : 0;

	hash = r == 0 && program != NULL ? node_get(program, "sha256") : NULL;
	if (hash != NULL)
		r = read_pin(l, key, "", hash);
	if (r == 0 && files != NULL && files->kind != NODE_MAP)
		r = node_err(l->err, files, "`files` is a map of files and their SHA-256");
	for (size_t i = 0; r == 0 && files != NULL && i < files->n; i++)
		r = files->items[i]->text[0] == '\0' || strlen(files->items[i]->text) > POLICY_TEXT_MAX ?
		    node_err(l->err, files->items[i], "a file has a name of 1 to %d bytes", POLICY_TEXT_MAX) :
		    read_pin(l, key, files->items[i]->text, files->values[i]);
	return r;
}

/* ---- the file ---- */

static int
read_server(struct locking *l, const struct node *key, const struct node *node)
{
	static const char *const names[] = { "program", "package", "files", "image", "url", "server", "protocol", "tools", NULL };
	const struct node *tools;
	int r = check_keys(node, names, "of a locked server", l->err);

	if (r == 0 && !policy_tools_is_server(key->text, strlen(key->text)))
		r = node_err(l->err, key, "'%.64s' is not the name of a server", key->text);
	r = r < 0 ? r : read_pins(l, key, node);
	if (r < 0)
		return r;
	tools = node_get(node, "tools");
	if (tools == NULL || node_is_null(tools))
		return 0;
	if (tools->kind != NODE_MAP)
		return node_err(l->err, tools, "`tools` is a map of the server's tools");
	for (size_t i = 0; r == 0 && i < tools->n; i++)
		r = read_tool(l, key, tools->items[i], tools->values[i]);
	return r;
}

static int
compare_tools(const void *a, const void *b)
{
	return strcmp(((const struct policy_tool *)a)->name, ((const struct policy_tool *)b)->name);
}

static int
compare_pins(const void *a, const void *b)
{
	return policy_tools_compare_pins(a, b);
}

/* Moves what was read into the policy's memory. */
static int
keep(struct locking *l, struct policy_tools *tools)
{
	struct policy_tool *locked = policy_alloc(l->p, l->n, sizeof(*locked));
	struct policy_tools_pin *pins = policy_alloc(l->p, l->n_pins, sizeof(*pins));

	if (locked == NULL || pins == NULL)
		return no_memory(l);
	memcpy(locked, l->tools, l->n * sizeof(*locked));
	qsort(locked, l->n, sizeof(*locked), compare_tools);
	memcpy(pins, l->pins, l->n_pins * sizeof(*pins));
	qsort(pins, l->n_pins, sizeof(*pins), compare_pins);
	tools->has_lock = true;
	tools->locked = locked;
	tools->n_locked = l->n;
	tools->pins = pins;
	tools->n_pins = l->n_pins;
	return 0;
}

int
policy_tools_read_lock(struct policy *p, const struct node *node, struct policy_tools *tools, struct err *err)
{
	static const char *const names[] = { "version", "servers", NULL };
	OWN(freep) struct policy_tool *room = calloc(POLICY_TOOLS_LOCKED_MAX, sizeof(*room));
	OWN(freep) struct policy_tools_pin *pins = calloc(POLICY_TOOLS_PINS_MAX, sizeof(*pins));
	struct locking l = { .p = p, .tools = room, .pins = pins, .err = err };
	const struct node *version, *servers;
	int r;

	if (room == NULL || pins == NULL)
		return no_memory(&l);
	r = check_keys(node, names, "in a lock of tools", err);
	if (r < 0)
		return r;
	version = node_get(node, "version");
	servers = node_get(node, "servers");
	if (version == NULL || version->kind != NODE_SCALAR || strcmp(version->text, "1") != 0)
		return node_err(err, version != NULL ? version : node, "this is version 1 of locks of tools: it begins with "
		                "`version: 1`");
	if (servers == NULL || servers->kind != NODE_MAP)
		return node_err(err, servers != NULL ? servers : node, "a lock has `servers`, a map: `cloister tools lock` writes it");
	for (size_t i = 0; r == 0 && i < servers->n; i++)
		r = read_server(&l, servers->items[i], servers->values[i]);
	return r < 0 ? r : keep(&l, tools);
}
