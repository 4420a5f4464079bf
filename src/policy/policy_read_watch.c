/* policy_read_watch.c - reads `watch`: rules over what the processes of a cell do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/call.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_load.h"

/* Words of `exec` that are not programs. */
#define MEMORY "memory"
#define DOWNLOADED "downloaded"
#define REFUSED "refused"

/* ---- patterns ---- */

/* A folder stands for all that is in it, so "x/", "x" and a "**" behind it are the same. */
static void
cut_end(char *text)
{
	size_t len = strlen(text);

	while (len > 1 && (text[len - 1] == '/' || (len > 3 && strcmp(text + len - 3, "/**") == 0))) {
		len -= text[len - 1] == '/' ? 1 : 3;
		text[len] = '\0';
	}
}

static bool
has_dots(const char *text)
{
	for (const char *at = text; at != NULL; at = strchr(at, '/'), at = at != NULL ? at + 1 : NULL) {
		size_t len = strcspn(at, "/");

		if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.') ||
		    (len == 0 && at != text))
			return true;
	}
	return false;
}

/* A pattern without a folder in front fits at any depth. */
static int
read_path(struct policy_draft *d, const struct node *node, const char *text, const char **ret_pattern)
{
	char pattern[POLICY_TEXT_MAX + 8];
	bool rooted = text[0] == '/' || strncmp(text, "~/", 2) == 0 || strcmp(text, "~") == 0 ||
	              strncmp(text, "**/", 3) == 0;

	snprintf(pattern, sizeof(pattern), "%s%s", rooted ? "" : "**/", text);
	cut_end(pattern);
	if (text[0] == '\0' || has_dots(pattern) || strcmp(pattern, "**") == 0 || strcmp(pattern, "/") == 0 ||
	    (text[0] == '~' && !rooted) || strlen(pattern) > POLICY_TEXT_MAX)
		return node_err(d->err, node, "'%.64s' is not a path: write ~/.ssh, /etc/passwd or .git/hooks, without "
		                "'.' and '..'", text);
	*ret_pattern = policy_copy(d->p, pattern, strlen(pattern));
	return *ret_pattern != NULL ? 0 : policy_read_oom(d);
}

static int
read_call(struct policy_draft *d, const struct node *node, const char *text, const char **ret_pattern)
{
	const char *nearest = strchr(text, '*') == NULL ? call_nearest(text) : NULL;

	if (strchr(text, '*') == NULL && !call_is_known(text))
		return node_err(d->err, node, "there is no system call '%.64s'%s%s%s", text,
		                nearest != NULL ? ": did you mean '" : "", nearest != NULL ? nearest : "",
		                nearest != NULL ? "'?" : "");
	*ret_pattern = text;
	return 0;
}

static int
read_net(struct policy_draft *d, const struct node *node, const char *text, struct policy_host *ret_net)
{
	struct err err = {0};

	if (policy_parse_host(d->p, text, ret_net, &err) < 0)
		return node_err(d->err, node, "%s", err.text);
	if (ret_net->kind != POLICY_HOST_NET && ret_net->kind != POLICY_HOST_ANY)
		return node_err(d->err, node, "processes connect to addresses: write one, a range or a socket's path; a "
		                "rule `- log: %.64s` with `then` under `egress` watches a name", text);
	return 0;
}

/* One condition's patterns: words of its kind. */
static int
read_patterns(struct policy_draft *d, struct policy_behaviour *rule, const struct node *node)
{
	struct policy_list words;
	const char **patterns;
	struct policy_host *nets;
	int r = policy_read_list(d, node, "a pattern", NULL, &words);

	if (r < 0)
		return r;
	patterns = policy_alloc(d->p, words.n, sizeof(*patterns));
	nets = rule->kind != POLICY_CONNECT ? NULL : policy_alloc(d->p, words.n, sizeof(*nets));
	if (patterns == NULL || (nets == NULL && rule->kind == POLICY_CONNECT))
		return policy_read_oom(d);
	rule->patterns.at = patterns;
	rule->nets = nets;
	for (size_t i = 0; r == 0 && i < words.n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;
		const char *word = words.at[i];

		if (rule->kind == POLICY_EXEC && strcmp(word, DOWNLOADED) == 0)
			rule->downloaded = true;
		else if (rule->kind == POLICY_EXEC && strcmp(word, MEMORY) == 0)
			rule->memory = true;
		else if (rule->kind == POLICY_EXEC && strcmp(word, REFUSED) == 0)
			rule->refused = true;
		else if (rule->kind == POLICY_REFUSED)
			r = read_call(d, item, word, &patterns[rule->patterns.n++]);
		else if (rule->kind == POLICY_CONNECT && word[0] != '/' && word[0] != '~')
			r = read_net(d, item, word, &nets[rule->n_nets++]);
		else
			r = read_path(d, item, word, &patterns[rule->patterns.n++]);
	}
	return r;
}

/* ---- consequences ---- */

static int
read_word(struct policy_draft *d, const struct node *node, struct policy_behaviour *rule,
          struct policy_consequence *c)
{
	const struct {
		const char *name;
		bool *is;
	} words[] = { { "notify", &c->notify }, { "ask", &rule->ask }, { "freeze", &c->freeze }, { "kill", &rule->kill } };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (node->kind == NODE_SCALAR && strcmp(node->text, words[i].name) == 0) {
			*words[i].is = true;
			return 0;
		}
	return node_err(d->err, node, "`then` of a `watch` rule is `notify`, `ask`, `freeze` or `kill`, a list of them, or "
	                "a map: {revoke: GITHUB_TOKEN, freeze: true}");
}

/* `kill` and `ask: true` are this kind's own; the rest is as in other rules. */
static int
read_map(struct policy_draft *d, const struct node *node, struct policy_behaviour *rule,
         struct policy_consequence *c)
{
	struct node *keys[8], *values[8], rest = *node;
	bool truth;

	if (node->n > ARRAY_LEN(keys))
		return node_err(d->err, node, "`then` has too many members");
	rest.items = keys;
	rest.values = values;
	rest.n = 0;
	for (size_t i = 0; i < node->n; i++) {
		bool asks = strcmp(node->items[i]->text, "ask") == 0 && node_is_bool(node->values[i], &truth);

		if (asks)
			rule->ask = truth;
		else if (strcmp(node->items[i]->text, "kill") == 0) {
			int r = policy_read_bool(d, node->values[i], "kill", &rule->kill);

			if (r < 0)
				return r;
		} else {
			keys[rest.n] = node->items[i];
			values[rest.n++] = node->values[i];
		}
	}
	return policy_read_consequence(d, &rest, c);
}

static int
read_then(struct policy_draft *d, const struct node *node, struct policy_behaviour *rule)
{
	struct policy_consequence *c = policy_alloc(d->p, 1, sizeof(*c));
	int r = 0;

	if (c == NULL)
		return policy_read_oom(d);
	rule->then = c;
	if (node->kind == NODE_MAP)
		r = read_map(d, node, rule, c);
	else if (node->kind == NODE_SCALAR)
		r = read_word(d, node, rule, c);
	for (size_t i = 0; r == 0 && node->kind == NODE_LIST && i < node->n; i++)
		r = read_word(d, node->items[i], rule, c);
	if (r == 0 && c->narrow_file != NULL)
		return node_err(d->err, c->narrow_file, "`narrow` of a `watch` rule has its rules here: a list, or "
		                "{egress: [...]}");
	if (r == 0 && !policy_behaviour_does(rule))
		return node_err(d->err, node, "this `then` does nothing");
	if (r == 0 && rule->ask && (rule->kill || c->freeze))
		return node_err(d->err, node, "`ask` freezes the cell until there is an answer: leave `%s` out",
		                rule->kill ? "kill" : "freeze");
	rule->stops = rule->ask || rule->kill || c->freeze;
	return r;
}

/* ---- rules ---- */

/* One condition, its patterns, and what it leads to. */
static int
read_keys(struct policy_draft *d, struct policy_behaviour *rule, const struct node **ret_then)
{
	static const char *const names[] = { "exec", "write", "read", "connect", "refused", "then", "reason", NULL };
	const struct node *condition = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->at->n; i++) {
		const struct node *key = d->at->items[i], *value = d->at->values[i];
		unsigned k = 0;

		while (k < POLICY_BEHAVIOURS && strcmp(key->text, names[k]) != 0)
			k++;
		if (k < POLICY_BEHAVIOURS && condition != NULL)
			return node_err(d->err, key, "a rule has one condition: '%s' is already there", condition->text);
		if (k < POLICY_BEHAVIOURS) {
			condition = key;
			rule->kind = k;
			r = read_patterns(d, rule, value);
		} else if (strcmp(key->text, "then") == 0)
			*ret_then = value;
		else if (strcmp(key->text, "reason") == 0)
			r = policy_read_text(d, value, "a reason", &rule->reason);
		else
			r = policy_read_unknown(key, names, "in a rule of `watch`", d->err);
	}
	if (r == 0 && condition == NULL)
		r = node_err(d->err, d->at, "a rule of `watch` has a condition: `- write: ~/.ssh`");
	if (r == 0 && *ret_then == NULL)
		r = node_err(d->err, d->at, "a rule of `watch` leads to something: `then: freeze`");
	return r;
}

static int
read_rule(struct policy *p, const struct node *node, const char *shown, struct err *err)
{
	struct policy_draft d = { .p = p, .at = node, .shown = shown, .err = err };
	struct policy_behaviour rule = {0}, *added;
	const struct node *then = NULL;
	char place[POLICY_PLACE_MAX];
	int n = snprintf(place, sizeof(place), "%s:%zu:%zu", shown, node->line, node->column), r;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "a rule of `watch` is a map: `- write: ~/.ssh` and under it `then: freeze`");
	r = read_keys(&d, &rule, &then);
	r = r == 0 ? read_then(&d, then, &rule) : r;
	if (r < 0)
		return r;
	rule.place = n > 0 && (size_t)n < sizeof(place) ? policy_copy(p, place, (size_t)n) : NULL;
	rule.text = policy_text_of_behaviour(p, &rule);
	if (rule.place == NULL || rule.text == NULL)
		return policy_read_oom(&d);
	rule.key = policy_behaviour_hash(&rule);
	((struct policy_consequence *)(uintptr_t)rule.then)->key = rule.key;
	/* The same rule of another file counts once. */
	for (size_t i = 0; i < p->n_behaviours; i++)
		if (p->behaviours[i].key == rule.key)
			return 0;
	added = policy_add_behaviour(p);
	if (added == NULL)
		return node_err(err, node, "a policy has at most %d rules of `watch`", POLICY_BEHAVIOURS_MAX);
	*added = rule;
	return 0;
}

static int
read_preset(struct policy *p, const struct node *node, struct err *err)
{
	const char *name = strncmp(node->text, "preset:", 7) == 0 ? node->text + 7 : node->text;
	const struct policy_preset *preset = policy_find_preset(name);
	OWN(node_freep) struct node *root = NULL;
	const struct node *watch;
	char shown[64];
	int r;

	if (preset == NULL)
		return policy_no_preset(node, name, err);
	snprintf(shown, sizeof(shown), "preset:%s", preset->name);
	r = node_parse(shown, preset->text, strlen(preset->text), &root, err);
	if (r < 0)
		return r;
	watch = node_get(root, "watch");
	if (watch == NULL)
		return node_err(err, node, "the preset '%s' has no rules of `watch`: `coding` has", preset->name);
	for (size_t i = 0; r == 0 && i < watch->n; i++)
		r = read_rule(p, watch->items[i], shown, err);
	return r;
}

static int
check_size(const struct policy *p, const struct node *node, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_MATCHERS_MAX);

	policy_put_matchers(&b, p);
	return buf_failed(&b) ? node_err(err, node, "the patterns of `watch` are larger than %d KiB in all",
	                                 POLICY_MATCHERS_MAX / 1024) : 0;
}

int
policy_read_watch(struct policy *p, const struct node *node, const char *shown, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind == NODE_MAP)
		return node_err(err, node, "`watch` is a list of rules, or a preset: `watch: preset:coding`");
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		r = item->kind == NODE_SCALAR ? read_preset(p, item, err) : read_rule(p, item, shown, err);
	}
	return r == 0 ? check_size(p, node, err) : r;
}
