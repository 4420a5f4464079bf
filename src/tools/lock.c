/* lock.c - reads a lock of tools, and collects what a server lists. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "tools/lock.h"

/* ---- listings ---- */

void
listing_free(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		json_decref(l->tools[i].pinned);
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i].name);
	l->n = l->n_files = 0;
}

const struct listed_file *
listing_file(const struct listing *l, const char *name)
{
	for (size_t i = 0; i < l->n_files; i++)
		if (strcmp(l->files[i].name, name) == 0)
			return &l->files[i];
	return NULL;
}

const char *
listed_name(const struct listed_tool *tool)
{
	return json_string_value(json_object_get(tool->pinned, "name"));
}

const struct listed_tool *
listing_find(const struct listing *l, const char *tool)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(listed_name(&l->tools[i]), tool) == 0)
			return &l->tools[i];
	return NULL;
}

static int
add_tool(struct listing *l, json_t *tool, struct err *err)
{
	struct listed_tool *at = &l->tools[l->n];
	size_t i;
	int r;

	if (l->n == LOCK_LISTED_MAX)
		return err_set(err, E2BIG, "it has over %d tools", LOCK_LISTED_MAX);
	r = definition_hash(tool, at->hash, err);
	if (r < 0)
		return r;
	if (listing_find(l, json_string_value(json_object_get(tool, "name"))) != NULL)
		return err_set(err, EINVAL, "it lists the tool '%s' twice",
		               json_string_value(json_object_get(tool, "name")));
	r = definition_pin(tool, &at->pinned, err);
	if (r < 0)
		return r;
	for (i = l->n++; i > 0 && strcmp(listed_name(&l->tools[i - 1]), listed_name(&l->tools[i])) > 0; i--) {
		struct listed_tool swap = l->tools[i - 1];

		l->tools[i - 1] = l->tools[i];
		l->tools[i] = swap;
	}
	return 0;
}

int
listing_add(struct listing *l, json_t *tools, struct err *err)
{
	json_t *tool;
	size_t i;
	int r = 0;

	if (!json_is_array(tools))
		return err_set(err, EINVAL, "its answer to tools/list has no list of tools");
	json_array_foreach(tools, i, tool) {
		r = add_tool(l, tool, err);
		if (r < 0)
			break;
	}
	return r;
}

void
listing_set_word(char ret_word[LOCK_WORD_MAX + 1], const json_t *text)
{
	const char *from = json_is_string(text) ? json_string_value(text) : "";
	size_t n = 0;

	for (; *from != '\0' && n < LOCK_WORD_MAX; from++)
		ret_word[n++] = *from >= ' ' && *from < 0x7f ? *from : '?';
	ret_word[n] = '\0';
}

/* ---- locks ---- */

void
lock_free(struct lock *lock)
{
	node_free(lock->root);
	lock->root = NULL;
}

static int
check_version(const struct node *root, struct err *err)
{
	const struct node *version = root->kind == NODE_MAP ? node_get(root, "version") : NULL;
	const struct node *servers = root->kind == NODE_MAP ? node_get(root, "servers") : NULL;

	if (version == NULL || version->kind != NODE_SCALAR || strcmp(version->text, "1") != 0)
		return node_err(err, root, "a lock of tools begins with `version: 1`");
	if (servers == NULL || servers->kind != NODE_MAP)
		return node_err(err, root, "a lock of tools has `servers`, a map");
	return 0;
}

int
lock_read(const char *file, const char *text, size_t len, struct lock *ret_lock, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	int r;

	if (len == 0) {
		ret_lock->root = NULL;
		return 0;
	}
	r = node_parse(file, text, len, &root, err);
	r = r == 0 ? check_version(root, err) : r;
	if (r == 0)
		ret_lock->root = TAKE(root);
	return r;
}

static const struct node *
member(const struct node *map, const char *name, enum node_kind kind)
{
	const struct node *value = map != NULL && map->kind == NODE_MAP ? node_get(map, name) : NULL;

	return value != NULL && value->kind == kind ? value : NULL;
}

const struct node *
lock_server(const struct lock *lock, const char *server)
{
	return member(member(lock->root, "servers", NODE_MAP), server, NODE_MAP);
}

const struct node *
lock_files(const struct lock *lock, const char *server)
{
	const struct node *at = lock_server(lock, server), *files = at != NULL ? node_get(at, "files") : NULL;

	return files != NULL && files->kind == NODE_MAP ? files : NULL;
}

const struct node *
lock_tool(const struct lock *lock, const char *server, const char *tool)
{
	return member(member(lock_server(lock, server), "tools", NODE_MAP), tool, NODE_MAP);
}

const char *
lock_hash(const struct node *tool)
{
	const struct node *hash = member(tool, "sha256", NODE_SCALAR);

	return hash != NULL ? hash->text : "";
}

struct definition_hints
lock_hints(const struct node *tool)
{
	static const unsigned bits[] = { DEFINITION_READ_ONLY, DEFINITION_DESTRUCTIVE, DEFINITION_IDEMPOTENT,
	                                 DEFINITION_OPEN_WORLD };
	const struct node *annotations = member(tool, "annotations", NODE_MAP);
	struct definition_hints h = {0};

	for (size_t i = 0; annotations != NULL && i < ARRAY_LEN(bits); i++) {
		const struct node *value = node_get(annotations, definition_hint_name(bits[i]));
		bool truth;

		if (value == NULL || !node_is_bool(value, &truth))
			continue;
		h.stated |= bits[i];
		h.values |= truth ? bits[i] : 0;
	}
	return h;
}

const struct node *
lock_scope(const struct node *tool)
{
	return member(tool, "scope", NODE_MAP);
}

const struct node *
lock_example(const struct node *tool, size_t i)
{
	const struct node *examples = member(tool, "examples", NODE_LIST);

	return examples != NULL && i < examples->n && i < LOCK_EXAMPLES_MAX ? examples->items[i] : NULL;
}

size_t
lock_line(const struct lock *lock, const char *server, const char *tool)
{
	const struct node *servers = member(lock->root, "servers", NODE_MAP);
	const struct node *tools = member(lock_server(lock, server), "tools", NODE_MAP);

	for (size_t i = 0; tools != NULL && i < tools->n; i++)
		if (strcmp(tools->items[i]->text, tool) == 0)
			return tools->items[i]->line;
	for (size_t i = 0; servers != NULL && i < servers->n; i++)
		if (strcmp(servers->items[i]->text, server) == 0)
			return servers->items[i]->line;
	return 1;
}

/* The nodes of the new member belong to the lock from now on. */
static void
join(struct node *root, struct node *more)
{
	while (root->next != NULL)
		root = root->next;
	root->next = more;
}

static int
add_member(struct node *map, struct node *key, struct node *value)
{
	struct node **items = realloc(map->items, (map->n + 1) * sizeof(*items)), **values;

	if (items == NULL)
		return -ENOMEM;
	map->items = items;
	values = realloc(map->values, (map->n + 1) * sizeof(*values));
	if (values == NULL)
		return -ENOMEM;
	map->values = values;
	items[map->n] = key;
	values[map->n++] = value;
	return 0;
}

int
lock_set(struct lock *lock, const char *server, const char *tool, const char *name, const char *text, size_t len,
         struct err *err)
{
	struct node *entry = (struct node *)(uintptr_t)lock_tool(lock, server, tool), *key, *value;
	OWN(buf_free) struct buf b = BUF(LOCK_MAX);
	struct node *root = NULL;
	int r;

	if (entry == NULL)
		return err_set(err, ENOENT, "the lock has no tool '%s' of '%s'", tool, server);
	buf_put_text(&b, name);
	buf_put_text(&b, ": ");
	buf_put(&b, text, len);
	r = buf_failed(&b) ? err_set(err, E2BIG, "the lock would be too large") :
	    node_parse(entry->file, (const char *)b.data, b.len, &root, err);
	if (r < 0)
		return r;
	key = root->items[0];
	value = root->values[0];
	join(lock->root, root);
	for (size_t i = 0; i < entry->n; i++)
		if (strcmp(entry->items[i]->text, name) == 0) {
			entry->values[i] = value;
			return 0;
		}
	return add_member(entry, key, value) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* ---- values ---- */

static json_t *
scalar_json(const struct node *node)
{
	double number;
	bool truth;

	if (node_is_null(node))
		return json_null();
	if (node_is_bool(node, &truth))
		return json_boolean(truth);
	if (!node_is_number(node, &number))
		return json_string(node->text);
	return number == (double)(long long)number ? json_integer((long long)number) : json_real(number);
}

json_t *
lock_node_json(const struct node *node)
{
	json_t *value;

	if (node->kind == NODE_SCALAR)
		return scalar_json(node);
	value = node->kind == NODE_MAP ? json_object() : json_array();
	for (size_t i = 0; value != NULL && i < node->n; i++) {
		int r = node->kind == NODE_MAP ?
		        json_object_set_new(value, node->items[i]->text, lock_node_json(node->values[i])) :
		        json_array_append_new(value, lock_node_json(node->items[i]));

		if (r < 0) {
			json_decref(value);
			return NULL;
		}
	}
	return value;
}
