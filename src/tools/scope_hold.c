/* scope_hold.c - see scope_hold.h. */
#include "tools/scope_hold.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/words.h"
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

static bool
list_has(const struct node *list, const char *name, size_t len)
{
	for (size_t i = 0; list != NULL && list->kind == NODE_LIST && i < list->n; i++)
		if (list->items[i]->kind == NODE_SCALAR && strlen(list->items[i]->text) == len &&
		    memcmp(list->items[i]->text, name, len) == 0)
			return true;
	return false;
}

/* A rule's own `uses` can only take away secrets of its scope. */
static void
put_uses(struct buf *b, const struct node *uses, const struct node *secrets)
{
	const char *before = "";

	if (uses != NULL && secrets != NULL && secrets->kind == NODE_SCALAR && strcmp(secrets->text, SCOPE_HOLD_OWN_USES) == 0)
		secrets = uses;
	buf_put_text(b, "uses: [");
	for (size_t i = 0; secrets != NULL && secrets->kind == NODE_LIST && i < secrets->n; i++) {
		const struct node *one = secrets->items[i];

		if (one->kind != NODE_SCALAR || (uses != NULL && !list_has(uses, one->text, strlen(one->text))))
			continue;
		buf_put_text(b, before);
		policy_flat_put_node(b, one);
		before = ", ";
	}
	buf_put_text(b, "]");
}

/* A rule that lets requests through lets them use the secrets of its scope, and no others. */
static void
put_rule(struct buf *b, const struct node *rule, const struct node *secrets)
{
	const bool permits = rule->kind == NODE_MAP && (node_get(rule, "allow") != NULL || node_get(rule, "ask") != NULL);

	if (!permits) {
		policy_flat_put_node(b, rule);
		return;
	}
	buf_put_text(b, "{");
	for (size_t i = 0; i < rule->n; i++) {
		if (strcmp(rule->items[i]->text, "uses") == 0)
			continue;
		policy_flat_put_node(b, rule->items[i]);
		buf_put_text(b, ": ");
		policy_flat_put_node(b, rule->values[i]);
		buf_put_text(b, ", ");
	}
	put_uses(b, node_get(rule, "uses"), secrets);
	buf_put_text(b, "}");
}

static int
put_rules(struct buf *b, const struct policy_tool *tool, struct err *err)
{
	OWN(node_freep) struct node *root = NULL, *rules = NULL;
	int r = parse(tool, &root, err);

	r = r < 0 ? r : scope_rules(root, &rules, err);
	for (size_t i = 0; r == 0 && i < rules->n; i++) {
		buf_put_text(b, "  - ");
		put_rule(b, rules->items[i], node_get(root, "secrets"));
		buf_put_text(b, "\n");
	}
	return r;
}

static size_t
n_secrets(const struct policy_tool *tool)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *secrets = parse(tool, &root, NULL) == 0 ? node_get(root, "secrets") : NULL;

	return secrets != NULL && secrets->kind == NODE_LIST ? secrets->n : 0;
}

/* The most secrets that one of TOOLS has, below LIMIT.  False: none has fewer. */
static bool
most_secrets(const struct policy_tool *const *tools, size_t n, size_t limit, size_t *ret_most)
{
	bool any = false;

	*ret_most = 0;
	for (size_t i = 0; i < n; i++) {
		const size_t has = n_secrets(tools[i]);

		if (has >= limit)
			continue;
		any = true;
		*ret_most = has > *ret_most ? has : *ret_most;
	}
	return any;
}

int
scope_hold_put(struct buf *b, const struct policy_tool *const *tools, size_t n, struct err *err)
{
	size_t has = SIZE_MAX;
	int r = 0;

	buf_put_text(b, "version: 1\negress:\n");
	/* The first rule that fits a request decides which secrets it may use.  So scopes with more secrets come first:
	 * otherwise a call without secrets would take them from those beside it. */
	while (r == 0 && most_secrets(tools, n, has, &has))
		for (size_t i = 0; r == 0 && i < n; i++)
			r = n_secrets(tools[i]) == has ? put_rules(b, tools[i], err) : 0;
	buf_put_text(b, "  - {deny: [" EVERYTHING "], reason: '" SCOPE_HOLD_BROKEN);
	buf_put_text(b, n == 0 ? SCOPE_HOLD_NO_TOOL : tools[0]->name);
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

/* ---- programs, secrets ---- */

/* Whether the scope of one of them names the secret. */
static bool
names_secret(const struct scope_hold *hold, const char *name, size_t len)
{
	bool named = false;

	for (size_t i = 0; i < hold->n && !named; i++) {
		OWN(node_freep) struct node *root = NULL;

		named = parse(hold->tools[i], &root, NULL) == 0 && list_has(node_get(root, "secrets"), name, len);
	}
	return named;
}

/* Whether each of them has a scope. */
static bool
is_bounded(const struct scope_hold *hold)
{
	for (size_t i = 0; i < hold->n; i++)
		if (hold->tools[i]->scope[0] == '\0')
			return false;
	return hold->n > 0;
}

/* Whether each scope lists programs: then a call executes no others.  *RET_LISTED: whether any does. */
static bool
lists_programs(const struct scope_hold *hold, bool *ret_listed)
{
	size_t n = 0;

	for (size_t i = 0; i < hold->n; i++) {
		OWN(node_freep) struct node *root = NULL;
		const struct node *programs = parse(hold->tools[i], &root, NULL) == 0 ? node_get(root, "programs") : NULL;

		n += programs != NULL && programs->kind == NODE_LIST;
	}
	*ret_listed = n > 0;
	return n > 0 && n == hold->n;
}

/* Whether scopes list other programs than each other. */
static bool
differ(const struct scope_hold *hold)
{
	OWN(buf_free) struct buf first = BUF(SCOPE_HOLD_MAX);

	for (size_t i = 0; i < hold->n; i++) {
		OWN(buf_free) struct buf one = BUF(SCOPE_HOLD_MAX);
		OWN(node_freep) struct node *root = NULL;
		const struct node *list = parse(hold->tools[i], &root, NULL) == 0 ? node_get(root, "programs") : NULL;
		struct buf *b = i == 0 ? &first : &one;

		if (list != NULL && list->n > 0)
			policy_flat_put_node(b, list);
		if (i > 0 && (one.len != first.len || (one.len > 0 && memcmp(one.data, first.data, one.len) != 0)))
			return true;
	}
	return false;
}

enum scope_hold_programs
scope_hold_programs(const struct scope_hold *hold)
{
	bool listed;

	if (!lists_programs(hold, &listed))
		return listed ? SCOPE_HOLD_PROGRAMS_ANY : SCOPE_HOLD_PROGRAMS_HELD;
	return differ(hold) ? SCOPE_HOLD_PROGRAMS_SHARED : SCOPE_HOLD_PROGRAMS_HELD;
}

static bool
has_word(const struct words *words, const char *word)
{
	for (size_t i = 0; i < words->n; i++)
		if (strcmp(words->list[i], word) == 0)
			return true;
	return false;
}

/* The programs of all scopes, each once. */
int
scope_hold_put_programs(struct buf *b, const struct scope_hold *hold, struct err *err)
{
	OWN(words_free) struct words all = {0};
	bool listed;

	if (!lists_programs(hold, &listed))
		return 0;
	for (size_t i = 0; i < hold->n; i++) {
		OWN(node_freep) struct node *root = NULL;
		const struct node *programs = parse(hold->tools[i], &root, NULL) == 0 ? node_get(root, "programs") : NULL;

		for (size_t k = 0; programs != NULL && k < programs->n; k++)
			if (programs->items[k]->kind == NODE_SCALAR && !has_word(&all, programs->items[k]->text))
				words_add(&all, strdup(programs->items[k]->text));
	}
	buf_put_text(b, "programs: [");
	for (size_t i = 0; i < all.n; i++) {
		buf_put_text(b, i > 0 ? ", " : "");
		policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .text = all.list[i] });
	}
	buf_put_text(b, "]\n");
	return all.failed || buf_failed(b) ? err_set(err, EFBIG, "the scopes list too many programs") : 0;
}

/* "NAME", "NAME=VARIABLE", "NAME@host"; or a map whose key is the name. */
static const char *
name_of_secret(const struct node *node, size_t *ret_len)
{
	const struct node *name = node->kind == NODE_MAP && node->n > 0 ? node->items[0] : node;

	*ret_len = name->kind == NODE_SCALAR ? strcspn(name->text, "=:@") : 0;
	return name->kind == NODE_SCALAR ? name->text : "";
}

static void
put_secrets(struct buf *b, const struct scope_hold *hold, const struct node *secrets)
{
	const bool is_map = secrets->kind == NODE_MAP;
	const char *before = "";

	buf_put_text(b, is_map ? "{" : "[");
	for (size_t i = 0; i < secrets->n; i++) {
		size_t len;
		const char *name = name_of_secret(secrets->items[i], &len);

		if (is_bounded(hold) && !names_secret(hold, name, len))
			continue;
		buf_put_text(b, before);
		policy_flat_put_node(b, secrets->items[i]);
		if (is_map) {
			buf_put_text(b, ": ");
			policy_flat_put_node(b, secrets->values[i]);
		}
		before = ", ";
	}
	buf_put_text(b, is_map ? "}" : "]");
}

int
scope_hold_put_secrets(struct buf *b, const struct scope_hold *hold, const char *policy, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *secrets;
	int r = node_parse("policy", policy, strlen(policy), &root, err);

	secrets = r < 0 ? NULL : node_get(root, "secrets");
	if (secrets != NULL && (secrets->kind == NODE_LIST || secrets->kind == NODE_MAP)) {
		buf_put_text(b, "secrets: ");
		put_secrets(b, hold, secrets);
		buf_put_text(b, "\n");
	}
	return r == 0 && buf_failed(b) ? err_set(err, EFBIG, "the policy is too long") : r;
}

int
scope_hold_put_policy(struct buf *b, const struct scope_hold *hold, const char *policy, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse("policy", policy, strlen(policy), &root, err);

	if (r < 0)
		return r;
	buf_put_text(b, "{");
	for (size_t i = 0; i < root->n; i++) {
		const struct node *key = root->items[i], *value = root->values[i];

		buf_put_text(b, i > 0 ? ", " : "");
		policy_flat_put_node(b, key);
		buf_put_text(b, ": ");
		if (strcmp(key->text, "secrets") == 0 && (value->kind == NODE_LIST || value->kind == NODE_MAP))
			put_secrets(b, hold, value);
		else
			policy_flat_put_node(b, value);
	}
	buf_put_text(b, "}");
	return buf_failed(b) ? err_set(err, EFBIG, "the policy is too long") : 0;
}

/* ---- what is watched ---- */

static int
put_writes(struct buf *b, const struct scope_hold *hold, const struct policy_tools_server *server, size_t *n, struct err *err)
{
	char path[PATH_MAX];
	const size_t first = *n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < server->write.n; i++) {
		r = policy_tools_path(server->write.at[i], hold->folder, hold->home, path, sizeof(path), err);
		if (r < 0 || scope_hold_writes(hold, path) != SCOPE_HOLD_NONE)
			continue;
		buf_put_text(b, *n == first ? "watch:\n  - write: [" : ", ");
		policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .text = path });
		(*n)++;
	}
	if (*n > first)
		buf_put_text(b, "]\n    then: freeze\n    reason: '" SCOPE_HOLD_BROKEN "all tools'\n");
	return r;
}

int
scope_hold_put_watch(struct buf *b, const struct scope_hold *hold, const struct policy_tools_server *server,
                     struct err *err)
{
	size_t n = 0;
	bool listed;
	int r = server != NULL ? put_writes(b, hold, server, &n, err) : 0;

	/* Landlock does not see a file in memory, nor what a loader is told to load. */
	if (r == 0 && lists_programs(hold, &listed)) {
		buf_put_text(b, n == 0 ? "watch:\n" : "");
		buf_put_text(b, "  - exec: [refused, memory, 'ld-linux*', 'ld-musl-*', 'ld-2*.so']\n    then: notify\n    reason: '"
		             SCOPE_HOLD_BROKEN);
		buf_put_text(b, server != NULL ? "all tools" : hold->tools[0]->name);
		buf_put_text(b, "'\n");
	}
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
