/* policy_state.c - see policy_state.h. */
#include "policy/policy_state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_guards.h"
#include "policy/policy_yaml.h"

const char *const policy_state_busy_words[] = { "refuse", "read-only", "branch", NULL };

/* ---- names and paths ---- */

bool
policy_state_name_ok(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t len = strlen(name);

	/* A name that ends so would be a lock of git's. */
	return len > 0 && len <= POLICY_STATE_NAME_MAX && strchr(first, name[0]) != NULL && strspn(name, rest) == len &&
	       strstr(name, "..") == NULL && name[len - 1] != '.' && (len < 5 || strcmp(name + len - 5, ".lock") != 0);
}

/* A path without a '/' in front: no empty part, no '.', no '..', no control character. */
static bool
is_plain(const char *path)
{
	size_t n;

	for (const char *c = path; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	for (;; path += n + 1) {
		n = strcspn(path, "/");
		if (n == 0 || n > NAME_MAX || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (path[n] == '\0')
			return true;
	}
}

bool
policy_state_path_ok(const char *path)
{
	if (strlen(path) > POLICY_STATE_PATH_MAX)
		return false;
	if (strcmp(path, "~") == 0)
		return true;
	return path[0] == '/' ? is_plain(path + 1) : strncmp(path, "~/", 2) == 0 && is_plain(path + 2);
}

bool
policy_state_inner_ok(const char *path)
{
	if (!is_plain(path))
		return false;
	for (size_t n; ; path += n + 1) {
		n = strcspn(path, "/");
		if (n == 4 && strncasecmp(path, ".git", 4) == 0)
			return false;
		if (path[n] == '\0')
			return true;
	}
}

struct policy_state *
policy_states_find(struct policy_states *states, const char *name)
{
	for (size_t i = 0; i < states->n; i++)
		if (strcmp(states->at[i].name, name) == 0)
			return &states->at[i];
	return NULL;
}

int
policy_state_parse(const char *text, struct policy_state *ret_state, struct err *err)
{
	struct policy_state state = {0};
	size_t n = strcspn(text, ":");

	snprintf(state.name, sizeof(state.name), "%.*s", (int)(n < sizeof(state.name) ? n : 0), text);
	if (!policy_state_name_ok(state.name))
		return err_set(err, EINVAL, "'%.80s' cannot be the name of a state: use up to %d letters, digits, '-', "
		               "'_' and '.', with a letter or digit first", text, POLICY_STATE_NAME_MAX);
	if (text[n] == ':') {
		if (!policy_state_path_ok(text + n + 1))
			return err_set(err, EINVAL, "'%.80s' cannot be the place of a state: give an absolute path, or one that "
			               "begins with ~/, without '.', '..' and '//'", text + n + 1);
		snprintf(state.path, sizeof(state.path), "%s", text + n + 1);
	}
	*ret_state = state;
	return 0;
}

int
policy_state_parse_every(const char *text, struct policy_state *state, struct err *err)
{
	uint64_t ms;

	if (strcmp(text, "quiet") == 0) {
		state->quiet = true;
		return 0;
	}
	if (num_parse_duration(text, &ms, NULL) < 0 || ms < POLICY_STATE_EVERY_LEAST || ms > POLICY_STATE_EVERY_MOST)
		return err_set(err, EINVAL, "'%.64s' is not how often a state is committed: write a time from 1m to 30d, or `quiet`",
		               text);
	state->every_ms = ms;
	return 0;
}

/* ---- guards ---- */

static const struct {
	const char *key, *word;         /* in the policy, and as text */
} numbers[] = { { "max_size", "size" }, { "max_files", "files" }, { "max_growth", "growth" } };

bool
policy_state_guards_ok(const char *text)
{
	OWN(policy_guards_free) struct policy_guards guards = {0};

	return policy_guards_read(text, &guards, NULL) == 0;
}

static int
add_guard(struct policy_state *state, const struct node *node, const char *word, const char *value, struct err *err)
{
	size_t used = strlen(state->guards);
	int n = snprintf(state->guards + used, sizeof(state->guards) - used, "%s %s\n", word, value);

	if ((size_t)n < sizeof(state->guards) - used)
		return 0;
	state->guards[used] = '\0';
	return node_err(err, node, "a state's guards are longer than %d bytes in all", POLICY_STATE_GUARDS_MAX);
}

/* A path, or a list of paths. */
static int
read_paths(struct policy_state *state, const struct node *key, const struct node *node, struct err *err)
{
	const size_t n = node->kind == NODE_LIST ? node->n : 1;
	int r = n > 0 ? 0 : node_err(err, node, "`%s` is a path, or a list of paths", key->text);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;
		char path[POLICY_STATE_GUARDS_MAX + 1];
		size_t len = item->kind == NODE_SCALAR ? strlen(item->text) : 0;

		if (len == 0 || len >= sizeof(path))
			return node_err(err, item, "`%s` takes paths in the state, such as CLAUDE.md", key->text);
		snprintf(path, sizeof(path), "%s", item->text);
		if (path[len - 1] == '/')
			path[len - 1] = '\0';
		if (!policy_state_inner_ok(path))
			return node_err(err, item, "'%.64s' is not a path in the state: write it without a '/' in front, '.', '..' "
			                "and '.git'", item->text);
		r = add_guard(state, item, key->text, path, err);
	}
	return r;
}

static int
read_number(struct policy_state *state, size_t which, const struct node *node, struct err *err)
{
	char text[24];
	uint64_t n;
	const bool counts = strcmp(numbers[which].word, "files") == 0;

	if (node->kind != NODE_SCALAR || (counts ? num_parse_count(node->text, 1, INT64_MAX, &n, NULL) :
	                                  num_parse_size(node->text, &n, NULL)) < 0 || n == 0 || n > INT64_MAX)
		return node_err(err, node, counts ? "`%s` is a number of files, such as 10000" : "`%s` is a size, such as 64M",
		                numbers[which].key);
	snprintf(text, sizeof(text), "%" PRIu64, n);
	return add_guard(state, node, numbers[which].word, text, err);
}

/* "ask" is for text that a person can judge. */
static const struct {
	unsigned guards;                /* that it may have */
	const char *words;
} checks[POLICY_CHECKS] = {
	[POLICY_CHECK_SECRETS] = { 1 << POLICY_GUARD_ALLOW | 1 << POLICY_GUARD_FLAG | 1 << POLICY_GUARD_REFUSE,
	                           "`secrets` is refuse, flag or allow" },
	[POLICY_CHECK_INJECTION] = { 1 << POLICY_GUARD_ALLOW | 1 << POLICY_GUARD_FLAG | 1 << POLICY_GUARD_ASK |
	                             1 << POLICY_GUARD_REFUSE, "`injection` is flag, ask, refuse or allow" },
	[POLICY_CHECK_BINARY] = { 1 << POLICY_GUARD_ALLOW | 1 << POLICY_GUARD_FLAG | 1 << POLICY_GUARD_REFUSE,
	                          "`binary` is allow, flag or refuse" },
};

static int
read_check(struct policy_state *state, enum policy_check check, const struct node *node, struct err *err)
{
	for (int i = 0; node->kind == NODE_SCALAR && policy_guard_words[i] != NULL; i++)
		if (strcmp(node->text, policy_guard_words[i]) == 0 && (checks[check].guards & 1u << i) != 0)
			return i == (int)policy_check_default(check) ? 0 :
			       add_guard(state, node, policy_check_words[check], node->text, err);
	return node_err(err, node, "%s", checks[check].words);
}

static int
read_busy(struct policy_state *state, const struct node *node, struct err *err)
{
	for (unsigned i = 0; node->kind == NODE_SCALAR && policy_state_busy_words[i] != NULL; i++)
		if (strcmp(node->text, policy_state_busy_words[i]) == 0) {
			state->on_busy = (enum policy_state_busy)i;
			return 0;
		}
	return node_err(err, node, "`on_busy` is refuse, read-only or branch");
}

/* ---- a state ---- */

static int
read_member(struct policy_state *state, const struct node *key, const struct node *value, struct err *err)
{
	struct err why;

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(key->text, numbers[i].key) == 0)
			return read_number(state, i, value, err);
	if (strcmp(key->text, "protect") == 0 || strcmp(key->text, "ask") == 0)
		return read_paths(state, key, value, err);
	if (strcmp(key->text, "on_busy") == 0)
		return read_busy(state, value, err);
	if (strcmp(key->text, "path") == 0) {
		if (value->kind != NODE_SCALAR || !policy_state_path_ok(value->text))
			return node_err(err, value, "`path` is an absolute path in the cell, or one that begins with ~/, without '.', "
			                "'..' and '//'");
		snprintf(state->path, sizeof(state->path), "%s", value->text);
		return 0;
	}
	if (strcmp(key->text, "every") == 0)
		return value->kind == NODE_SCALAR && policy_state_parse_every(value->text, state, &why) == 0 ? 0 :
		       node_err(err, value, "`every` is a time from 1m to 30d, or `quiet`");
	for (int i = 0; i < POLICY_CHECKS; i++)
		if (strcmp(key->text, policy_check_words[i]) == 0)
			return read_check(state, (enum policy_check)i, value, err);
	return node_err(err, key, "there is no '%.64s' in a state: it takes path, on_busy, every, protect, ask, max_size, max_files, "
	                "max_growth, secrets, injection and binary", key->text);
}

static int
add_state(struct policy_states *states, const struct node *node, const char *text, const struct node *settings,
          struct err *err)
{
	struct policy_state state;
	struct err why = {0};
	int r = 0;

	if (states->n == POLICY_STATES_MAX)
		return node_err(err, node, "a cell has at most %d states", POLICY_STATES_MAX);
	if (policy_state_parse(text, &state, &why) < 0)
		return node_err(err, node, "%s", why.text);
	if (policy_states_find(states, state.name) != NULL)
		return node_err(err, node, "the state '%s' is there twice", state.name);
	for (size_t i = 0; r == 0 && settings != NULL && i < settings->n; i++)
		r = read_member(&state, settings->items[i], settings->values[i], err);
	if (r == 0)
		states->at[states->n++] = state;
	return r;
}

int
policy_states_read(const struct node *node, struct policy_states *ret_states, struct err *err)
{
	static const char form[] = "`state` is a name, a list of names, or a map: {brain: {path: ~/memory}}";
	OWN(freep) struct policy_states *found = calloc(1, sizeof(*found));
	const size_t n = node->kind == NODE_SCALAR ? 1 : node->n;
	int r = n > 0 ? 0 : node_err(err, node, form);

	if (found == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_SCALAR ? node : node->items[i];
		const struct node *settings = node->kind == NODE_MAP ? node->values[i] : NULL;

		if (settings != NULL && node_is_null(settings))
			settings = NULL;
		if (item->kind != NODE_SCALAR || (settings != NULL && settings->kind != NODE_MAP) ||
		    (node->kind == NODE_MAP && strchr(item->text, ':') != NULL))
			return node_err(err, item, form);
		r = add_state(found, item, item->text, settings, err);
	}
	if (r == 0)
		*ret_states = *found;
	return r;
}
