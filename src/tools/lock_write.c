/* lock_write.c - writes a lock of tools, and explains what changed since the last one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/lines.h"
#include "base/own.h"
#include "canon/canon.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "tools/lock.h"

static const char heading[] =
	"# Written by `cloister tools lock`.  Definitions are pinned by their sha256.  Scopes, annotations and examples are\n"
	"# yours to edit: `cloister tools lock` keeps them, and `cloister tools check` verifies them.\n"
	"version: 1\n";

/* ---- texts ---- */

/* TEXT as a scalar on one line, made safe for people. */
static void
put_text(struct buf *b, const char *text, size_t len, size_t max)
{
	OWN(buf_free) struct buf clean = BUF(4 * max + 16);
	struct node node = { .kind = NODE_SCALAR };

	while (len > max && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	definition_put_clean(&clean, text, len < max ? len : max);
	buf_put_text(&clean, len > max ? "..." : "");
	buf_put(&clean, "", 1);
	b->failed |= buf_failed(&clean);
	node.text = (char *)clean.data;
	if (!buf_failed(&clean))
		policy_flat_put_node(b, &node);
}

/* The shown form of PART: also what is compared with the form in the lock.  False: there is none. */
static bool
put_part(struct buf *b, const struct listed_tool *listed, const char *name)
{
	json_t *value = json_object_get(listed->pinned, name);
	OWN(freep) char *text = NULL;
	size_t len;

	if (value == NULL)
		return false;
	if (json_is_string(value)) {
		put_text(b, json_string_value(value), json_string_length(value), LOCK_DESCRIPTION_MAX);
		return true;
	}
	if (canon_dump(value, DEFINITION_MAX, &text, &len, NULL) < 0)
		return false;
	put_text(b, text, len, LOCK_SCHEMA_MAX);
	return true;
}

static const struct {
	enum lock_part part;
	const char *member, *name, *called;
} parts[] = {
	{ LOCK_TITLE, "title", "title", "its title" },
	{ LOCK_DESCRIPTION, "description", "description", "its description" },
	{ LOCK_INPUT, "inputSchema", "input", "its input schema" },
	{ LOCK_OUTPUT, "outputSchema", "output", "its output schema" },
	{ LOCK_ANNOTATIONS, "annotations", NULL, "its annotations" },
};

/* ---- comparing ---- */

/* The text of a scalar of the lock, as put_part() writes it. */
static bool
has_same(const struct node *tool, const char *name, const struct buf *shown)
{
	const struct node *old = node_get(tool, name);
	OWN(buf_free) struct buf b = BUF(LOCK_MAX);

	if (old == NULL || old->kind != NODE_SCALAR)
		return shown->len == 0 && old == NULL;
	policy_flat_put_node(&b, &(struct node){ .kind = NODE_SCALAR, .text = old->text });
	return b.len == shown->len && memcmp(b.data, shown->data, b.len) == 0;
}

unsigned
lock_compare(const struct node *tool, const struct listed_tool *listed)
{
	unsigned differ = 0;

	if (strcmp(lock_hash(tool), listed->hash) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		OWN(buf_free) struct buf shown = BUF(LOCK_MAX);

		if (parts[i].name == NULL)
			continue;
		(void)put_part(&shown, listed, parts[i].member);
		if (!has_same(tool, parts[i].name, &shown))
			differ |= parts[i].part;
	}
	/* The lock has only their meaning, which a person may have changed. */
	return differ != 0 ? differ : LOCK_ANNOTATIONS;
}

void
lock_put_parts(struct buf *b, unsigned differ)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if ((differ & parts[i].part) == 0)
			continue;
		differ &= ~(unsigned)parts[i].part;
		buf_put_text(b, n++ == 0 ? "" : differ == 0 ? " and " : ", ");
		buf_put_text(b, parts[i].called);
	}
}

/* ---- one tool ---- */

static void
put_name_of(struct buf *b, const char *indent, const char *key, const char *then)
{
	buf_put_text(b, indent);
	policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .plain = true, .text = (char *)(uintptr_t)key });
	buf_put_text(b, then);
}

static void
put_key(struct buf *b, const char *indent, const char *key)
{
	put_name_of(b, indent, key, ": ");
}

/* A person's word counts as long as the definition is the same. */
static struct definition_hints
merge_hints(const struct node *old, const struct listed_tool *listed)
{
	struct definition_hints stated = definition_hints(listed->pinned), kept = {0};
	unsigned winner;

	if (old == NULL)
		return stated;
	kept = lock_hints(old);
	winner = strcmp(lock_hash(old), listed->hash) == 0 ? kept.stated : kept.stated & ~stated.stated;
	return (struct definition_hints){ .stated = kept.stated | stated.stated,
	                                  .values = (kept.values & winner) | (stated.values & ~winner) };
}

static void
put_hints(struct buf *b, struct definition_hints h)
{
	const char *comma = "";

	put_key(b, "        ", "annotations");
	buf_put_text(b, "{");
	for (unsigned bit = DEFINITION_READ_ONLY; bit <= DEFINITION_OPEN_WORLD; bit *= 2) {
		if ((h.stated & bit) == 0)
			continue;
		buf_put_text(b, comma);
		buf_put_text(b, definition_hint_name(bit));
		buf_put_text(b, (h.values & bit) != 0 ? ": true" : ": false");
		comma = ", ";
	}
	buf_put_text(b, "}\n");
}

static void
put_kept(struct buf *b, const struct node *old, const char *name)
{
	const struct node *value = old != NULL ? node_get(old, name) : NULL;

	if (value == NULL)
		return;
	put_key(b, "        ", name);
	policy_flat_put_node(b, value);
	buf_put_text(b, "\n");
}

static void
put_tool(struct buf *b, const struct node *old, const struct listed_tool *listed)
{
	put_name_of(b, "      ", listed_name(listed), ":\n");
	put_key(b, "        ", "sha256");
	/* Without quotes, digits alone could be a number. */
	put_text(b, listed->hash, HASH_HEX, HASH_HEX);
	buf_put_text(b, "\n");
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (parts[i].name == NULL || json_object_get(listed->pinned, parts[i].member) == NULL)
			continue;
		put_key(b, "        ", parts[i].name);
		(void)put_part(b, listed, parts[i].member);
		buf_put_text(b, "\n");
	}
	put_hints(b, merge_hints(old, listed));
	put_kept(b, old, "scope");
	put_kept(b, old, "examples");
}

/* ---- servers ---- */

static void
put_word(struct buf *b, const char *key, const char *text)
{
	put_key(b, "", key);
	put_text(b, text, strlen(text), 1024);
}

static void
put_files(struct buf *b, const struct listing *l)
{
	if (l->n_files == 0)
		return;
	put_key(b, "    ", "files");
	for (size_t i = 0; i < l->n_files; i++) {
		buf_put_text(b, i == 0 ? "{" : ", ");
		put_text(b, l->files[i].name, strlen(l->files[i].name), PATH_MAX);
		buf_put_text(b, ": ");
		put_text(b, l->files[i].sha256, HASH_HEX, HASH_HEX);
	}
	buf_put_text(b, "}\n");
}

static void
put_listed(struct buf *b, const struct lock *old, const struct listing *l)
{
	put_name_of(b, "  ", l->server, ":\n");
	if (*l->path != '\0') {
		put_key(b, "    ", "program");
		buf_put_text(b, "{");
		put_word(b, "path", l->path);
		buf_put_text(b, *l->sha256 != '\0' ? ", " : "");
		if (*l->sha256 != '\0')
			put_word(b, "sha256", l->sha256);
		buf_put_text(b, "}\n");
	}
	if (*l->package != '\0') {
		buf_put_text(b, "    ");
		put_word(b, "package", l->package);
		buf_put_text(b, "\n");
	}
	put_files(b, l);
	put_key(b, "    ", "server");
	buf_put_text(b, "{");
	put_word(b, "name", l->name);
	buf_put_text(b, ", ");
	put_word(b, "version", l->version);
	buf_put_text(b, "}\n");
	put_name_of(b, "    ", "tools", l->n == 0 ? ": {}\n" : ":\n");
	for (size_t i = 0; i < l->n; i++)
		put_tool(b, lock_tool(old, l->server, listed_name(&l->tools[i])), &l->tools[i]);
}

/* A map on lines of its own, DEPTH deep; then on one line. */
static void
put_map(struct buf *b, const struct node *map, const char *indent, unsigned depth)
{
	char inner[32];

	snprintf(inner, sizeof(inner), "%s  ", indent);
	for (size_t i = 0; i < map->n; i++) {
		const bool is_open = depth > 0 && map->values[i]->kind == NODE_MAP && map->values[i]->n > 0 &&
		                     (depth != 2 || strcmp(map->items[i]->text, "tools") == 0);

		buf_put_text(b, indent);
		policy_flat_put_node(b, map->items[i]);
		buf_put_text(b, is_open ? ":\n" : ": ");
		if (is_open) {
			put_map(b, map->values[i], inner, depth - 1);
			continue;
		}
		policy_flat_put_node(b, map->values[i]);
		buf_put_text(b, "\n");
	}
}

static const struct listing *
find_listing(const struct listing *const *listings, size_t n, const char *server)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(listings[i]->server, server) == 0)
			return listings[i];
	return NULL;
}

int
lock_write(struct buf *b, const struct lock *old, const struct listing *const *listings, size_t n, struct err *err)
{
	const struct node *servers = old->root != NULL ? node_get(old->root, "servers") : NULL;

	buf_put_text(b, heading);
	buf_put_text(b, n == 0 && (servers == NULL || servers->n == 0) ? "servers: {}\n" : "servers:\n");
	for (size_t i = 0; servers != NULL && i < servers->n; i++) {
		struct node one = { .kind = NODE_MAP, .items = &servers->items[i], .values = &servers->values[i], .n = 1 };
		const struct listing *l = find_listing(listings, n, servers->items[i]->text);

		if (l != NULL)
			put_listed(b, old, l);
		else
			put_map(b, &one, "  ", 3);
	}
	for (size_t i = 0; i < n; i++)
		if (lock_server(old, listings[i]->server) == NULL)
			put_listed(b, old, listings[i]);
	return buf_failed(b) ? err_set(err, E2BIG, "the lock would be over %u MiB", LOCK_MAX >> 20) : 0;
}

/* ---- changes ---- */

static void
put_name(struct buf *b, const char *sign, const struct listing *l, const char *tool)
{
	buf_put_text(b, sign);
	buf_put_text(b, l->server);
	buf_put_text(b, ".");
	buf_put_text(b, tool);
}

static void
put_difference(struct buf *b, const struct node *old, const struct listed_tool *listed)
{
	const struct node *was = node_get(old, "description");
	const json_t *is = json_object_get(listed->pinned, "description");
	OWN(buf_free) struct buf clean = BUF(DEFINITION_MAX), lines = BUF(DEFINITION_MAX);
	const char *at, *end;

	definition_put_clean(&clean, json_is_string(is) ? json_string_value(is) : "", json_string_length(is));
	lines_diff(&lines, was != NULL && was->kind == NODE_SCALAR ? was->text : "",
	           was != NULL && was->kind == NODE_SCALAR ? strlen(was->text) : 0, (const char *)clean.data, clean.len);
	if (buf_failed(&lines) || lines.len == 0)
		return;
	for (at = (const char *)lines.data; at < (const char *)lines.data + lines.len; at = end + 1) {
		end = memchr(at, '\n', (size_t)((const char *)lines.data + lines.len - at));
		end = end != NULL ? end : (const char *)lines.data + lines.len;
		if (at[0] == '@')
			continue;
		buf_put_text(b, "    ");
		buf_put(b, at, (size_t)(end - at));
		buf_put_text(b, "\n");
	}
}

/* Files of the server's command. */
static size_t
put_changed_files(struct buf *b, const struct lock *old, const struct listing *l)
{
	const struct node *files = lock_files(old, l->server);
	size_t n = 0;

	for (size_t i = 0; files != NULL && i < files->n; i++) {
		const struct listed_file *is = listing_file(l, files->items[i]->text);

		if (is != NULL && files->values[i]->kind == NODE_SCALAR && strcmp(is->sha256, files->values[i]->text) == 0)
			continue;
		n++;
		buf_put_text(b, is == NULL ? "- " : "~ ");
		buf_put_text(b, l->server);
		buf_put_text(b, ": ");
		buf_put_text(b, files->items[i]->text);
		buf_put_text(b, is == NULL ? " is gone\n" : " changed\n");
	}
	return n;
}

size_t
lock_put_changes(struct buf *b, const struct lock *old, const struct listing *l)
{
	const struct node *server = lock_server(old, l->server);
	const struct node *tools = server != NULL ? node_get(server, "tools") : NULL;
	size_t n = put_changed_files(b, old, l);

	for (size_t i = 0; i < l->n; i++) {
		const struct node *was = lock_tool(old, l->server, listed_name(&l->tools[i]));
		unsigned differ;

		if (was != NULL && strcmp(lock_hash(was), l->tools[i].hash) == 0)
			continue;
		n++;
		put_name(b, was == NULL ? "+ " : "~ ", l, listed_name(&l->tools[i]));
		buf_put_text(b, was == NULL ? " is new\n" : ": ");
		if (was == NULL)
			continue;
		differ = lock_compare(was, &l->tools[i]);
		lock_put_parts(b, differ);
		buf_put_text(b, " changed\n");
		if ((differ & LOCK_DESCRIPTION) != 0)
			put_difference(b, was, &l->tools[i]);
	}
	for (size_t i = 0; tools != NULL && tools->kind == NODE_MAP && i < tools->n; i++)
		if (listing_find(l, tools->items[i]->text) == NULL) {
			put_name(b, "- ", l, tools->items[i]->text);
			buf_put_text(b, " is gone\n");
			n++;
		}
	return n;
}
