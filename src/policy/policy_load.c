/* policy_load.c - loads policies from files, and the files that these name. */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_load.h"
#include "policy/policy_loading.h"

static int load_source(struct policy_loading *l, const struct policy_load_source *source);

static int
out_of_memory(struct policy_loading *l)
{
	return err_set(l->err, ENOMEM, "the policy is too large");
}

/* NODE names the file; NULL: the command line does. */
static int
load_path(struct policy_loading *l, struct policy_load_source *source, const struct node *node)
{
	OWN(freep) char *text = NULL;
	int r = policy_load_read(l, source, POLICY_FILE_MAX, &text);

	if (r < 0 && node != NULL)
		return err_wrap(l->err, "%s:%zu:%zu", node->file, node->line, node->column);
	return r < 0 ? r : load_source(l, source);
}

/* ---- files named in a file ---- */

static bool
is_file_name(const char *word)
{
	size_t len = strlen(word);

	return strchr(word, '/') != NULL || (len > 5 && strcmp(word + len - 5, ".yaml") == 0) ||
	       (len > 4 && strcmp(word + len - 4, ".yml") == 0);
}

static int
load_preset(struct policy_loading *l, const struct policy_load_source *from, const struct node *node,
            const char *word)
{
	struct policy_load_source source = { .from = from, .depth = from->depth + 1 };
	const struct policy_preset *preset = policy_find_preset(word);
	char name[64];

	if (preset == NULL)
		return policy_no_preset(node, word, l->err);
	snprintf(name, sizeof(name), "preset:%s", preset->name);
	source.name = source.shown = policy_copy(l->p, name, strlen(name));
	if (source.name == NULL)
		return out_of_memory(l);
	source.text = preset->text;
	source.len = strlen(preset->text);
	return load_source(l, &source);
}

static int
load_word(struct policy_loading *l, const struct policy_load_source *from, const struct node *node)
{
	struct policy_load_source source = { .from = from, .depth = from->depth + 1 };
	const char *word = node->text;
	int r;

	if (node->kind != NODE_SCALAR || node_is_null(node))
		return node_err(l->err, node, "here stands the name of a file or a preset");
	if (from->depth == POLICY_EXTENDS_MAX)
		return node_err(l->err, node, "files are nested too deeply here");
	if (strncmp(word, "preset:", 7) == 0)
		return load_preset(l, from, node, word + 7);
	if (!is_file_name(word))
		return load_preset(l, from, node, word);
	if (l->dirfd == -1)
		return node_err(l->err, node, "a file cannot be read from here");
	source.name = policy_load_beside(l, from->name, word);
	source.shown = word[0] == '/' ? policy_load_last_part(word) : policy_load_beside(l, from->shown, word);
	if (source.name == NULL || source.shown == NULL)
		return out_of_memory(l);
	r = policy_load_may_read(l, node, source.name);
	return r < 0 ? r : load_path(l, &source, node);
}

static int
load_words(struct policy_loading *l, const struct policy_load_source *from, const struct node *node)
{
	int r = 0;

	if (node->kind != NODE_LIST)
		return load_word(l, from, node);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = policy_note_fault(l, load_word(l, from, node->items[i]));
	return r;
}

/* ---- contents of a file ---- */

/* The rules of a narrowing, for a reader that writes them out. */
struct narrow_rules {
	const struct policy_reader *outer;      /* or NULL */
	struct buf text;
};

static int
narrow_file(void *arg, const struct node *node, const char *path, struct err *err)
{
	const struct policy_reader *outer = ((struct narrow_rules *)arg)->outer;

	return outer != NULL && outer->file != NULL ? outer->file(outer->arg, node, path, err) : 0;
}

static int
narrow_rule(void *arg, const struct node *rule, struct err *err)
{
	struct narrow_rules *rules = arg;

	buf_put(&rules->text, rules->text.len == 0 ? "{egress: [" : ", ", rules->text.len == 0 ? 10 : 2);
	policy_flat_put_node(&rules->text, rule);
	return buf_failed(&rules->text) ? err_set(err, ENOMEM, "the policy is too large") : 0;
}

/* A copy of MAP with VALUE as the value of KEY; VALUES is memory for it. */
static struct node
replaced(const struct node *map, const char *key, struct node *value, struct node **values)
{
	struct node copy = *map;

	for (size_t i = 0; i < map->n; i++)
		values[i] = strcmp(map->items[i]->text, key) == 0 ? value : map->values[i];
	copy.values = values;
	return copy;
}

/* Give the reader the rule at AT, with the narrowing's rules in place of its file's name. */
static int
tell_narrow(struct policy_loading *l, const struct node *at, struct buf *text)
{
	OWN(node_freep) struct node *narrow = NULL;
	struct node *of_then[8], *of_rule[POLICY_KEYS], then, rule;
	int r;

	buf_put(text, text->len == 0 ? "{egress: []}" : "]}", text->len == 0 ? 12 : 2);
	r = buf_failed(text) ? out_of_memory(l) :
	    node_parse("narrow", (const char *)text->data, text->len, &narrow, l->err);
	if (r < 0)
		return r;
	then = replaced(node_get(at, "then"), "narrow", narrow, of_then);
	rule = replaced(at, "then", &then, of_rule);
	return l->reader->rule(l->reader->arg, &rule, l->err);
}

/* Load the narrowing of the last rule, the one at AT, from its file.  The reader gets it too. */
static int
load_narrow(struct policy_loading *l, const struct policy_load_source *source, const struct node *at)
{
	OWN(policy_freep) struct policy *narrow = policy_new_empty();
	const struct policy_rule *rule = &l->p->rules[l->p->n_rules - 1];
	const struct node *node = rule->then->narrow_file;
	struct narrow_rules rules = { .outer = l->reader };
	const struct policy_reader reader = { .arg = &rules, .file = narrow_file, .rule = narrow_rule };
	struct policy_loading inner = *l;
	int r;

	if (narrow == NULL)
		return out_of_memory(l);
	narrow->is_narrow = true;
	inner.p = narrow;
	inner.reader = &reader;
	buf_init(&rules.text, POLICY_FILE_MAX);
	r = load_word(&inner, source, node);
	l->n_files = inner.n_files;
	if (r == 0 && l->reader != NULL && l->reader->rule != NULL)
		r = tell_narrow(l, at, &rules.text);
	buf_free(&rules.text);
	r = r == 0 ? policy_finish_narrow(narrow, l->p, true, l->err) : r;
	r = r == 0 ? policy_set_narrow(l->p, rule->then, node, narrow, l->err) : r;
	rule->then->narrow_file = NULL;
	if (r == 0)
		rule->then->key = policy_consequence_hash(rule->text, rule->then);
	return r;
}

/* In a secret's scope, which is read as a rule, `ports` may be the default of its kind. */
static int
check_ports(const struct policy_loading *l, const struct node *node)
{
	const struct policy_rule *rule = &l->p->rules[l->p->n_rules - 1];
	const struct node *ports = node_get(node, "ports");
	size_t i = 0;

	while (i < rule->n_hosts && rule->hosts[i].port != 0)
		i++;
	return ports == NULL || i < rule->n_hosts ? 0 :
	       node_err(l->err, ports, "each host here has a port of its own: leave `ports` out");
}

/* A hook runs with the operator's rights, so each caller decides which hooks it accepts. */
static int
check_hook(const struct policy_loading *l, const struct node *node)
{
	const struct policy_hook *hook = l->p->rules[l->p->n_rules - 1].hook;
	const struct node *at = node_get(node, "hook");

	if (hook == NULL)
		return 0;
	if (l->reader == NULL || l->reader->hook == NULL)
		return node_err(l->err, at, "a hook is the operator's own program: only a policy that is given "
		                "with -p or --within can have one");
	return l->reader->hook(l->reader->arg, at, hook, l->err);
}

static int
load_rule(struct policy_loading *l, const struct policy_load_source *source, const struct node *node)
{
	int r = policy_read_rule(l->p, node, source->shown, l->err);

	r = r == 0 ? check_ports(l, node) : r;
	r = r == 0 ? check_hook(l, node) : r;
	if (r == 0 && l->p->rules[l->p->n_rules - 1].then != NULL &&
	    l->p->rules[l->p->n_rules - 1].then->narrow_file != NULL)
		return load_narrow(l, source, node);
	if (r == 0 && l->reader != NULL && l->reader->rule != NULL)
		r = l->reader->rule(l->reader->arg, node, l->err);
	return r;
}

static int
load_egress(struct policy_loading *l, const struct policy_load_source *source, const struct node *node)
{
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_LIST)
		return node_err(l->err, node, "`egress` is a list of rules: `- allow: api.example.com`");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *item = node->items[i], *include = node_get(item, "include");

		if (include == NULL)
			r = load_rule(l, source, item);
		else if (item->n > 1)
			r = node_err(l->err, item, "`include` stands alone: what it names cannot be narrowed");
		else
			r = load_words(l, source, include);
		r = policy_note_fault(l, r);
	}
	return r;
}

static int
load_secrets(struct policy_loading *l, const struct node *node)
{
	bool wrong = false;
	size_t n;
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind == NODE_SCALAR)
		return node_err(l->err, node, "`secrets` are a list of names, or a map of definitions: "
		                "[GITHUB_TOKEN]");
	if (l->reader == NULL || l->reader->secrets == NULL)
		return 0;
	/* When errors are collected, read the items one by one so that each error is found. */
	for (size_t i = 0; r == 0 && l->faults != NULL && i < node->n; i++) {
		struct node one = *node;

		one.n = 1;
		one.items += i;
		if (node->kind == NODE_MAP)
			one.values += i;
		n = l->faults->n;
		r = policy_note_fault(l, l->reader->secrets(l->reader->arg, &one, l->err));
		wrong = wrong || l->faults->n > n;
	}
	return r < 0 || wrong ? r : l->reader->secrets(l->reader->arg, node, l->err);
}

static int
check_top(struct policy_loading *l, const struct node *root)
{
	static const char *const names[] = { "version", "egress", "secrets",
		"exfiltration", "limits", "audit", "extends", "budgets", "prices", "tripwires", "boundary", "runtime",
		"images", "run", "record", "watch", "syscalls", "programs", "tools", "state", "volumes", "cache", NULL };
	const struct node *version;
	size_t k;
	int r;

	if (root->kind != NODE_MAP)
		return node_err(l->err, root, "a policy is a map that begins with `version: 1`");
	for (size_t i = 0; i < root->n; i++) {
		const char *key = root->items[i]->text;

		for (k = 0; names[k] != NULL && strcmp(names[k], key) != 0; k++)
			;
		if (names[k] != NULL && (!l->p->is_narrow || strcmp(key, "version") == 0 ||
		                         strcmp(key, "egress") == 0 || strcmp(key, "extends") == 0))
			continue;
		if (names[k] != NULL)
			r = node_err(l->err, root->items[i], "a policy that `narrow` names has rules only: '%s' "
			             "belongs into the one that names it", key);
		else if (strcmp(key, "include") == 0)
			r = node_err(l->err, root->items[i], "`include` is an item of `egress`; to put "
			             "rules behind yours write `extends`");
		else if (strcmp(key, "name") == 0)
			r = node_err(l->err, root->items[i], "a policy's file says no name: `cloister policy register` "
			             "takes that of the file, or -n NAME");
		else
			r = policy_read_unknown(root->items[i], names, "in a policy", l->err);
		r = policy_note_fault(l, r);
		if (r < 0)
			return r;
	}
	version = node_get(root, "version");
	if (version == NULL)
		return node_err(l->err, root, "a policy needs its version: add the line `version: 1` at the top");
	if (version->kind != NODE_SCALAR || strcmp(version->text, "1") != 0)
		return node_err(l->err, version, "this is cloister's version 1 of policies: write 1");
	return 0;
}

/* WALLED: a nearer file has set the boundary, so this one's runtime does not count.  Its `tools` are
 * told by policy_load_tools(). */
static int
tell_parts(struct policy_loading *l, const struct node *root, bool walled)
{
	int r = 0;

	if (l->reader == NULL || l->reader->part == NULL || l->p->is_narrow)
		return 0;
	for (size_t i = 0; r == 0 && i < root->n; i++)
		if (strcmp(root->items[i]->text, "egress") != 0 && strcmp(root->items[i]->text, "extends") != 0 &&
		    strcmp(root->items[i]->text, "tools") != 0 && (strcmp(root->items[i]->text, "runtime") != 0 || !walled))
			r = l->reader->part(l->reader->arg, root->items[i], root->values[i], l->err);
	return r;
}

static int
load_root(struct policy_loading *l, const struct policy_load_source *source, const struct node *root)
{
	enum policy_exfiltration exfiltration = l->limits.exfiltration;
	const bool walled = l->limits.boundary.is_set;
	const struct node *part;
	int r = policy_note_fault(l, check_top(l, root));

	if (r == 0 && (part = node_get(root, "limits")) != NULL)
		r = policy_note_fault(l, policy_load_limits(l, part));
	if (r == 0 && (part = node_get(root, "exfiltration")) != NULL)
		r = policy_note_fault(l, policy_load_exfiltration(l, part));
	if (r == 0)
		r = policy_note_fault(l, policy_load_boundary(l, node_get(root, "boundary"), node_get(root, "runtime")));
	if (r == 0 && (part = node_get(root, "images")) != NULL)
		r = policy_note_fault(l, policy_load_images(l, part));
	if (r == 0 && (part = node_get(root, "state")) != NULL)
		r = policy_note_fault(l, policy_load_states(l, part));
	if (r == 0 && (part = node_get(root, "volumes")) != NULL)
		r = policy_note_fault(l, policy_load_volumes(l, part));
	if (r == 0 && (part = node_get(root, "cache")) != NULL)
		r = policy_note_fault(l, policy_load_caches(l, part));
	if (r == 0 && (part = node_get(root, "run")) != NULL)
		r = policy_note_fault(l, policy_load_run(l, part));
	if (r == 0 && (part = node_get(root, "audit")) != NULL)
		r = policy_note_fault(l, policy_load_audit(l, part));
	if (r == 0 && (part = node_get(root, "record")) != NULL)
		r = policy_note_fault(l, policy_load_record(l, part));
	if (r == 0 && (part = node_get(root, "secrets")) != NULL)
		r = policy_note_fault(l, load_secrets(l, part));
	if (r == 0 && (part = node_get(root, "budgets")) != NULL)
		r = policy_note_fault(l, policy_read_budgets(l->p, part, source->shown, l->err));
	if (r == 0 && (part = node_get(root, "tripwires")) != NULL)
		r = policy_note_fault(l, policy_load_tripwires(l, part, exfiltration));
	if (r == 0 && (part = node_get(root, "watch")) != NULL)
		r = policy_note_fault(l, policy_read_watch(l->p, part, source->shown, l->err));
	if (r == 0 && (part = node_get(root, "syscalls")) != NULL)
		r = policy_note_fault(l, policy_read_syscalls(l->p, part, l->err));
	if (r == 0 && (part = node_get(root, "programs")) != NULL)
		r = policy_note_fault(l, policy_read_programs(l->p, part, l->err));
	if (r == 0 && (part = node_get(root, "prices")) != NULL)
		r = policy_note_fault(l, policy_read_prices(l->p, part, l->err));
	r = r == 0 ? tell_parts(l, root, walled) : r;
	if (r == 0 && (part = node_get(root, "tools")) != NULL)
		r = policy_note_fault(l, policy_load_tools(l, source, part));
	if (r == 0 && (part = node_get(root, "egress")) != NULL)
		r = policy_note_fault(l, load_egress(l, source, part));
	if (r == 0 && (part = node_get(root, "extends")) != NULL)
		r = policy_note_fault(l, load_words(l, source, part));
	return r;
}

static int
load_source(struct policy_loading *l, const struct policy_load_source *source)
{
	OWN(node_freep) struct node *root = NULL;
	int r;

	if (source->root != NULL)
		return load_root(l, source, source->root);
	if (source->from == NULL && l->reader != NULL && l->reader->text != NULL) {
		r = l->reader->text(l->reader->arg, source->text, source->len, l->err);
		if (r < 0)
			return r;
	}
	r = node_parse(source->name, source->text, source->len, &root, l->err);
	return r < 0 ? r : load_root(l, source, root);
}

/* ---- public functions ---- */

static int
load(struct policy_loading *l, struct policy_load_source *source, struct policy **ret_policy,
     struct policy_limits *ret_limits)
{
	OWN(policy_freep) struct policy *p = policy_new_empty();
	int r;

	if (p == NULL)
		return err_set(l->err, ENOMEM, "out of memory");
	l->p = p;
	r = source->text != NULL || source->root != NULL ? load_source(l, source) : load_path(l, source, NULL);
	r = policy_note_fault(l, r);
	/* An error of `tools` or their lock is enough. */
	if (r == 0 && (l->faults == NULL || l->faults->n == 0))
		r = policy_note_fault(l, policy_settle_annotations(p, l->err));
	r = r == 0 ? policy_add_uncalled(p, l->err) : r;
	for (size_t i = 0; r == 0 && i < p->n_rules && (l->reader == NULL || !l->reader->may_cover); i++)
		r = policy_note_fault(l, policy_check_reach(p, i, source->name, source->shown, l->err));
	if (l->faults != NULL && l->faults->n > 0) {
		if (l->err != NULL)
			*l->err = l->faults->list[0];
		return r < 0 ? r : -EINVAL;
	}
	r = r == 0 ? policy_seal(p, l->err) : r;
	if (r < 0)
		return r;
	if (ret_limits != NULL)
		*ret_limits = l->limits;
	*ret_policy = TAKE(p);
	return 0;
}

int
policy_load_file(int dirfd, const char *path, const struct policy_reader *reader,
                 struct policy **ret_policy, struct policy_limits *ret_limits, struct err *err)
{
	struct policy_loading l = { .dirfd = dirfd, .reader = reader, .err = err };
	struct policy_load_source source = { .name = path, .shown = policy_load_last_part(path) };

	return load(&l, &source, ret_policy, ret_limits);
}

int
policy_load_file_all(int dirfd, const char *path, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_faults *faults, struct err *err)
{
	struct policy_loading l = { .dirfd = dirfd, .reader = reader, .faults = faults, .err = err };
	struct policy_load_source source = { .name = path, .shown = policy_load_last_part(path) };

	return load(&l, &source, ret_policy, NULL);
}

int
policy_load_text(const char *name, const char *text, size_t len, struct policy **ret_policy,
                 struct policy_limits *ret_limits, struct err *err)
{
	struct policy_loading l = { .dirfd = -1, .err = err };
	struct policy_load_source source = { .name = name, .shown = name, .text = text, .len = len };

	return load(&l, &source, ret_policy, ret_limits);
}

int
policy_load_text_all(const char *name, const char *text, size_t len,
                     const struct policy_reader *reader, struct policy **ret_policy,
                     struct policy_faults *faults, struct err *err)
{
	struct policy_loading l = { .dirfd = -1, .reader = reader, .faults = faults, .err = err };
	struct policy_load_source source = { .name = name, .shown = name, .text = text, .len = len };

	return load(&l, &source, ret_policy, NULL);
}

int
policy_load_node(const struct node *root, const struct policy_reader *reader,
                 struct policy **ret_policy, struct policy_limits *ret_limits, struct err *err)
{
	struct policy_loading l = { .dirfd = -1, .reader = reader, .err = err };
	struct policy_load_source source = { .name = root->file, .shown = policy_load_last_part(root->file), .root = root };

	return load(&l, &source, ret_policy, ret_limits);
}

int
policy_load_preset(struct policy *p, const char *name, struct err *err)
{
	struct policy_loading l = { .p = p, .dirfd = -1, .err = err };
	const struct policy_load_source nowhere = { .name = "", .shown = "" };
	const struct node node = { .file = "", .line = 1, .column = 1 };

	return load_preset(&l, &nowhere, &node, name);
}
