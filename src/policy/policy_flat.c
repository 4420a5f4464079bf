/* policy_flat.c - see policy_flat.h. */
#include "policy/policy_flat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy.h"
#include "policy/policy_yaml.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "the policy is too large");
}

void
policy_flat_init(struct policy_flat *f)
{
	*f = (struct policy_flat){0};
	buf_init(&f->rules, POLICY_FLAT_MAX);
	buf_init(&f->seen, POLICY_FLAT_MAX);
}

void
policy_flat_free(struct policy_flat *f)
{
	for (size_t i = 0; i < f->n_parts; i++) {
		free(f->parts[i].key);
		buf_free(&f->parts[i].text);
		buf_free(&f->parts[i].loose);
	}
	f->n_parts = 0;
	buf_free(&f->rules);
	buf_free(&f->seen);
}

/* ---- nodes ---- */

/* Whether the scalar means the same without quotes everywhere. */
static bool
is_bare(const struct node *node)
{
	const char *t = node->text;
	size_t n = strspn(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-~:%");

	return node->plain && t[0] != '\0' && t[n] == '\0' && t[n - 1] != ':' && t[0] != ':' &&
	       t[0] != '%' && strncmp(t, "---", 3) != 0 && strcmp(t, "-") != 0;
}

static void
put_escaped(struct buf *b, const char *text)
{
	buf_put_text(b, "\"");
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			buf_put_text(b, "\\n");
		else if (*text == '\t')
			buf_put_text(b, "\\t");
		else if (*text == '"' || *text == '\\')
			buf_put(b, *text == '"' ? "\\\"" : "\\\\", 2);
		else
			buf_put(b, text, 1);
	}
	buf_put_text(b, "\"");
}

static void
put_scalar(struct buf *b, const struct node *node)
{
	if (node->plain && node->text[0] == '\0')
		buf_put_text(b, "~");
	else if (is_bare(node))
		buf_put_text(b, node->text);
	else if (strpbrk(node->text, "\n\t") != NULL)
		put_escaped(b, node->text);
	else
		node_put_quoted(b, node->text, strlen(node->text));
}

/* Nodes are at most NODE_DEPTH_MAX deep. */
void
policy_flat_put_node(struct buf *b, const struct node *node)
{
	if (node->kind == NODE_SCALAR) {
		put_scalar(b, node);
		return;
	}
	buf_put_text(b, node->kind == NODE_MAP ? "{" : "[");
	for (size_t i = 0; i < node->n; i++) {
		buf_put_text(b, i == 0 ? "" : ", ");
		policy_flat_put_node(b, node->items[i]);
		if (node->kind == NODE_MAP) {
			buf_put_text(b, ": ");
			policy_flat_put_node(b, node->values[i]);
		}
	}
	buf_put_text(b, node->kind == NODE_MAP ? "}" : "]");
}

/* ---- rules ---- */

int
policy_flat_rule(struct policy_flat *f, const struct node *rule, struct err *err)
{
	if (rule->kind != NODE_MAP) {
		buf_put_text(&f->rules, "  - ");
		policy_flat_put_node(&f->rules, rule);
		buf_put_text(&f->rules, "\n");
	}
	for (size_t i = 0; rule->kind == NODE_MAP && i < rule->n; i++) {
		buf_put_text(&f->rules, i == 0 ? "  - " : "    ");
		policy_flat_put_node(&f->rules, rule->items[i]);
		buf_put_text(&f->rules, ": ");
		policy_flat_put_node(&f->rules, rule->values[i]);
		buf_put_text(&f->rules, "\n");
	}
	return buf_failed(&f->rules) ? no_memory(err) : 0;
}

int
policy_flat_line(struct policy_flat *f, const char *line, struct err *err)
{
	buf_put_text(&f->rules, "  - ");
	buf_put_text(&f->rules, line);
	buf_put_text(&f->rules, "\n");
	return buf_failed(&f->rules) ? no_memory(err) : 0;
}

/* ---- other parts ---- */

const struct policy_flat_part *
policy_flat_find(const struct policy_flat *f, const char *key)
{
	for (size_t i = 0; i < f->n_parts; i++)
		if (strcmp(f->parts[i].key, key) == 0)
			return &f->parts[i];
	return NULL;
}

static struct policy_flat_part *
add_part(struct policy_flat *f, const char *key, struct err *err)
{
	char *copy = f->n_parts >= POLICY_FLAT_PARTS_MAX ? NULL : strdup(key);
	struct policy_flat_part *part;

	if (copy == NULL) {
		(void)no_memory(err);
		return NULL;
	}
	part = &f->parts[f->n_parts];
	*part = (struct policy_flat_part){ .key = copy };
	buf_init(&part->text, POLICY_FLAT_MAX);
	buf_init(&part->loose, POLICY_FLAT_MAX);
	f->n_parts++;
	return part;
}

/* Whether a nearer file has set NAME of KEY.  It counts as set from now on. */
static bool
is_known(struct policy_flat *f, const char *key, const char *name, size_t len)
{
	size_t from = f->seen.len, n;
	const unsigned char *new;

	buf_put_text(&f->seen, "\n");
	buf_put_text(&f->seen, key);
	buf_put_text(&f->seen, " ");
	buf_put(&f->seen, name, len);
	buf_put_text(&f->seen, "\n");
	n = f->seen.len - from;
	new = f->seen.data + from;
	return !buf_failed(&f->seen) && from > 0 && memmem(f->seen.data, from, new, n) != NULL;
}

/* Whether the courier enforces this member, not the cell's sandbox. */
static bool
is_loose(const char *key, const char *name)
{
	return strcmp(key, "tripwires") == 0 ? strcmp(name, "exfiltration") != 0 :
	       strcmp(key, "limits") == 0 && (strcmp(name, "rate") == 0 || strcmp(name, "bandwidth") == 0);
}

static bool
counts_already(struct policy_flat *f, const char *key, const struct node *item, bool is_list)
{
	/* Budgets of all files count, and a budget is not a name. */
	if (item->kind != NODE_SCALAR)
		return false;
	/* Items of `watch` are presets, with a colon in the name. */
	return is_known(f, key, item->text, is_list && strcmp(key, "watch") != 0 ? strcspn(item->text, "=:@") :
	                strlen(item->text));
}

/* Several files set this part: each name counts once, and the nearest file wins. */
static int
merge(struct policy_flat *f, const struct node *key, const struct node *value, struct err *err)
{
	struct policy_flat_part *part = (struct policy_flat_part *)(uintptr_t)policy_flat_find(f, key->text);
	bool is_list = value->kind == NODE_LIST;
	struct buf *to;

	if (part == NULL) {
		part = add_part(f, key->text, err);
		if (part == NULL)
			return -ENOMEM;
		part->is_list = is_list;
		part->is_map = !is_list;
	}
	/* Nothing may be left out: a person reads and accepts this text. */
	if (part->is_list != is_list)
		return node_err(err, value, "`%s` is a list in one file of the policy and a map in another: write the same in both",
		                key->text);
	for (size_t i = 0; i < value->n; i++) {
		if (counts_already(f, key->text, value->items[i], is_list))
			continue;
		to = !is_list && is_loose(key->text, value->items[i]->text) ? &part->loose : &part->text;
		buf_put_text(to, to->len == 0 ? "" : ", ");
		policy_flat_put_node(to, value->items[i]);
		if (!is_list) {
			buf_put_text(to, ": ");
			policy_flat_put_node(to, value->values[i]);
		}
	}
	return buf_failed(&part->text) || buf_failed(&part->loose) ? no_memory(err) : 0;
}

int
policy_flat_part(struct policy_flat *f, const struct node *key, const struct node *value,
                 struct err *err)
{
	static const char *const merged[] = { "budgets", "limits", "prices", "secrets",
	                                      "syscalls", "tripwires", "watch" };
	struct policy_flat_part *part;
	struct node *items[] = { (struct node *)(uintptr_t)value };
	const struct node one = { .kind = NODE_LIST, .items = items, .n = 1 };

	if (strcmp(key->text, "version") == 0)
		return 0;
	/* A preset alone is a list of one: other files may add to it. */
	if (strcmp(key->text, "watch") == 0 && value->kind == NODE_SCALAR && !node_is_null(value))
		value = &one;
	for (size_t i = 0; i < ARRAY_LEN(merged) && value->kind != NODE_SCALAR; i++)
		if (strcmp(key->text, merged[i]) == 0)
			return merge(f, key, value, err);
	/* Nothing, to which another file may add. */
	if (node_is_null(value))
		return 0;
	if (policy_flat_find(f, key->text) != NULL)
		return 0;
	part = add_part(f, key->text, err);
	if (part == NULL)
		return -ENOMEM;
	policy_flat_put_node(&part->text, value);
	return buf_failed(&part->text) ? no_memory(err) : 0;
}

int
policy_flat_take(struct policy_flat *f, const struct policy_flat *from, const char *key,
                 struct err *err)
{
	const struct policy_flat_part *other = policy_flat_find(from, key);
	struct policy_flat_part *part = (struct policy_flat_part *)(uintptr_t)policy_flat_find(f, key);

	if (other == NULL)
		return 0;
	part = part != NULL ? part : add_part(f, key, err);
	if (part == NULL)
		return -ENOMEM;
	buf_reset(&part->text);
	buf_put(&part->text, other->text.data, other->text.len);
	if (part->loose.len == 0)
		buf_put(&part->loose, other->loose.data, other->loose.len);
	part->is_list = other->is_list;
	part->is_map = other->is_map;
	return buf_failed(&part->text) ? no_memory(err) : 0;
}

void
policy_flat_put_part(struct buf *b, const struct policy_flat_part *part)
{
	buf_put_text(b, part->is_list ? "[" : part->is_map ? "{" : "");
	buf_put(b, part->text.data, part->text.len);
	buf_put_text(b, part->text.len > 0 && part->loose.len > 0 ? ", " : "");
	buf_put(b, part->loose.data, part->loose.len);
	buf_put_text(b, part->is_list ? "]\n" : part->is_map ? "}\n" : "\n");
}

void
policy_flat_put(struct buf *b, const struct policy_flat *f)
{
	buf_put_text(b, "version: 1\n");
	if (f->rules.len == 0)
		buf_put_text(b, "egress: []\n");
	else
		buf_put_text(b, "egress:\n");
	buf_put(b, f->rules.data, f->rules.len);
	for (size_t i = 0; i < f->n_parts; i++) {
		buf_put_text(b, f->parts[i].key);
		buf_put_text(b, ": ");
		policy_flat_put_part(b, &f->parts[i]);
	}
	if (buf_failed(&f->rules))
		b->failed = true;
}

/* ---- loading ---- */

static int
take_rule(void *arg, const struct node *rule, struct err *err)
{
	return policy_flat_rule(arg, rule, err);
}

static int
take_part(void *arg, const struct node *key, const struct node *value, struct err *err)
{
	return policy_flat_part(arg, key, value, err);
}

int
policy_flat_load(struct policy_flat *f, const char *name, const char *text, size_t len,
                 struct policy_faults *faults, struct policy **ret_policy, struct err *err)
{
	const struct policy_reader reader = { .rule = take_rule, .part = take_part, .arg = f,
	                                      .hook = policy_any_hook, .may_cover = true };
	OWN(policy_freep) struct policy *p = NULL;
	int r = policy_load_text_all(name, text, len, &reader, &p, faults, err);

	if (r == 0 && ret_policy != NULL)
		*ret_policy = TAKE(p);
	return r;
}
