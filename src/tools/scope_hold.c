/* scope_hold.c - see scope_hold.h. */
#include "tools/scope_hold.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "tools/scope.h"

/* Names, this machine, and addresses: '*' stands for names only. */
#define EVERYTHING "'*', host.cloister.internal, '0.0.0.0/0', '::/0'"

static int
parse(const struct policy_tool *tool, struct node **ret_root, struct err *err)
{
	if (tool->scope[0] == '\0')
		return err_set(err, ENOENT, "the tool '%s' has no scope", tool->name);
	return node_parse("scope", tool->scope, strlen(tool->scope), ret_root, err);
}

static int
put_rules(struct buf *b, const struct policy_tool *tool, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *rules;
	int r = parse(tool, &root, err);

	rules = r < 0 ? NULL : node_get(root, "egress");
	for (size_t i = 0; rules != NULL && i < rules->n; i++) {
		buf_put_text(b, "  - ");
		policy_flat_put_node(b, rules->items[i]);
		buf_put_text(b, "\n");
	}
	return r;
}

int
scope_hold_put(struct buf *b, const struct policy_tool *const *tools, size_t n, struct err *err)
{
	int r = 0;

	buf_put_text(b, "version: 1\negress:\n");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_rules(b, tools[i], err);
	buf_put_text(b, "  - {deny: [" EVERYTHING "], reason: '" SCOPE_HOLD_BROKEN);
	buf_put_text(b, n == 0 ? "any call" : tools[0]->name);
	buf_put_text(b, n > 1 ? " and others" : "");
	buf_put_text(b, "'}\n");
	return r == 0 && buf_failed(b) ? err_set(err, EFBIG, "the scopes are too long") : r;
}

/* ---- paths ---- */

/* Whether PATH is FOLDER, or beneath it. */
static bool
is_under(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/' || strcmp(folder, "/") == 0);
}

/* ABSENT: if the scope does not have the key. */
static enum scope_hold_cover
cover_of(const struct scope_hold *hold, const struct policy_tool *tool, const char *key, const char *path,
         enum scope_hold_cover absent)
{
	OWN(node_freep) struct node *root = NULL;
	enum scope_hold_cover cover = SCOPE_HOLD_NONE;
	const struct node *paths;
	char named[PATH_MAX];

	if (parse(tool, &root, NULL) < 0)
		return SCOPE_HOLD_ALL;
	paths = node_get(root, key);
	if (paths == NULL || paths->kind != NODE_LIST)
		return absent;
	for (size_t i = 0; i < paths->n; i++) {
		if (policy_tools_path(paths->items[i]->text, hold->folder, hold->home, named, sizeof(named), NULL) < 0)
			continue;
		if (is_under(path, named))
			return SCOPE_HOLD_ALL;
		if (is_under(named, path))
			cover = SCOPE_HOLD_PART;
	}
	return cover;
}

static enum scope_hold_cover
cover(const struct scope_hold *hold, const char *key, const char *path, enum scope_hold_cover absent)
{
	enum scope_hold_cover widest = SCOPE_HOLD_NONE;

	for (size_t i = 0; i < hold->n && widest != SCOPE_HOLD_ALL; i++) {
		enum scope_hold_cover one = cover_of(hold, hold->tools[i], key, path, absent);

		widest = one < widest ? one : widest;
	}
	return widest;
}

enum scope_hold_cover
scope_hold_reads(const struct scope_hold *hold, const char *path)
{
	return cover(hold, "read", path, SCOPE_HOLD_ALL);
}

enum scope_hold_cover
scope_hold_writes(const struct scope_hold *hold, const char *path)
{
	return cover(hold, "write", path, SCOPE_HOLD_NONE);
}

int
scope_hold_put_watch(struct buf *b, const struct scope_hold *hold, const struct policy_tools_server *server,
                     struct err *err)
{
	char path[PATH_MAX];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < server->write.n; i++) {
		r = policy_tools_path(server->write.at[i], hold->folder, hold->home, path, sizeof(path), err);
		if (r < 0 || scope_hold_writes(hold, path) != SCOPE_HOLD_NONE)
			continue;
		buf_put_text(b, n++ == 0 ? "watch:\n  - write: [" : ", ");
		policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .text = path });
	}
	if (n > 0)
		buf_put_text(b, "]\n    then: freeze\n    reason: '" SCOPE_HOLD_BROKEN "all tools'\n");
	return r == 0 && buf_failed(b) ? err_set(err, EFBIG, "the scopes are too long") : r;
}

/* ---- time, tools ---- */

uint64_t
scope_hold_time(const struct policy_tool *tool)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *time;
	uint64_t ms;

	if (parse(tool, &root, NULL) < 0)
		return 0;
	time = node_get(root, "time");
	return time != NULL && time->kind == NODE_SCALAR && num_parse_duration(time->text, &ms, NULL) == 0 ? ms :
	       SCOPE_TIME_MS;
}

size_t
scope_hold_tools_of(const struct policy_tools *tools, const char *server,
                    const struct policy_tool *ret_tools[POLICY_TOOLS_LOCKED_MAX])
{
	size_t len = strlen(server), n = 0;

	for (size_t i = 0; i < tools->n_locked && n < POLICY_TOOLS_LOCKED_MAX; i++)
		if (strncmp(tools->locked[i].name, server, len) == 0 && tools->locked[i].name[len] == '.')
			ret_tools[n++] = &tools->locked[i];
	return n;
}
