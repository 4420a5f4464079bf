/* object_policy.c - makes policies self-contained: replaces references to files by their content. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy.h"
#include "policy/policy_budget.h"
#include "registry/object_parts.h"
#include "vault/secret_wants.h"

struct flat {
	json_t *document;
	struct secret_wants wants;
};

static void
flat_free(struct flat *f)
{
	json_decref(f->document);
	secret_wants_free(&f->wants);
}

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- callbacks of the loader ---- */

static int
take_secrets(void *arg, const struct node *node, struct err *err)
{
	struct flat *f = arg;

	return secret_wants_read(&f->wants, node, err);
}

static int
take_rule(void *arg, const struct node *node, struct err *err)
{
	struct flat *f = arg;
	json_t *rule = NULL;
	int r = object_from_node(node, &rule, err);

	if (r == 0 && json_array_append_new(json_object_get(f->document, "egress"), rule) < 0)
		r = no_memory(err);
	return r;
}

/* KEY of the document, of this type, created if it is missing. */
static json_t *
part_of(struct flat *f, const char *key, bool list)
{
	json_t *part = json_object_get(f->document, key);

	if (part == NULL && json_object_set_new(f->document, key,
	                                        list ? json_array() : json_object()) == 0)
		part = json_object_get(f->document, key);
	return part;
}

static int
merge_limits(struct flat *f, const struct node *node, struct err *err)
{
	json_t *limits = part_of(f, "limits", false);

	for (size_t i = 0; i < node->n; i++)
		if (json_object_get(limits, node->items[i]->text) == NULL &&
		    json_object_set_new(limits, node->items[i]->text,
		                        json_string(node->values[i]->text)) < 0)
			return no_memory(err);
	return 0;
}

static bool
same_secret(const char *a, const char *b)
{
	size_t n = strcspn(a, "=:@");

	return n == strcspn(b, "=:@") && strncmp(a, b, n) == 0;
}

static int
merge_names(json_t *names, const struct node *node, struct err *err)
{
	for (size_t i = 0; i < node->n; i++) {
		const char *text = node->items[i]->text;
		size_t k;

		for (k = 0; k < json_array_size(names); k++)
			if (same_secret(text, json_string_value(json_array_get(names, k))))
				break;
		if (k == json_array_size(names) && json_array_append_new(names, json_string(text)) < 0)
			return no_memory(err);
	}
	return 0;
}

static int
merge_definitions(json_t *secrets, const struct node *node, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		json_t *value = NULL;

		if (json_object_get(secrets, node->items[i]->text) != NULL)
			continue;
		r = object_from_node(node->values[i], &value, err);
		if (r == 0 && json_object_set_new(secrets, node->items[i]->text, value) < 0)
			r = no_memory(err);
	}
	return r;
}

static int
merge_secrets(struct flat *f, const struct node *node, struct err *err)
{
	bool list = node->kind == NODE_LIST;
	json_t *secrets;

	if (node_is_null(node))
		return 0;
	secrets = part_of(f, "secrets", list);
	if (list != json_is_array(secrets))
		return node_err(err, node, "one file has a list of secrets and another a map: write them "
		                "the same way, so that they can be kept as one policy");
	return list ? merge_names(secrets, node, err) : merge_definitions(secrets, node, err);
}

/* The budgets of all files count. */
static int
merge_budgets(struct flat *f, const struct node *node, struct err *err)
{
	json_t *budgets = part_of(f, "budgets", true);
	int r = 0;

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		json_t *value = NULL;

		r = object_from_node(node->items[i], &value, err);
		if (r == 0 && json_array_append_new(budgets, value) < 0)
			r = no_memory(err);
	}
	return r;
}

/* The nearer file takes precedence. */
static int
take_part(void *arg, const struct node *key, const struct node *value, struct err *err)
{
	struct flat *f = arg;
	json_t *part = NULL;
	int r;

	if (strcmp(key->text, "limits") == 0)
		return merge_limits(f, value, err);
	if (strcmp(key->text, "secrets") == 0)
		return merge_secrets(f, value, err);
	if (strcmp(key->text, "budgets") == 0)
		return merge_budgets(f, value, err);
	if (strcmp(key->text, "tripwires") == 0)
		return merge_definitions(part_of(f, "tripwires", false), value, err);
	if (strcmp(key->text, "prices") == 0)
		return merge_definitions(part_of(f, "prices", false), value, err);
	if (json_object_get(f->document, key->text) != NULL)
		return 0;
	r = object_from_node(value, &part, err);
	if (r == 0 && json_object_set_new(f->document, key->text, part) < 0)
		r = no_memory(err);
	return r;
}

/* ---- whole policies ---- */

/* The document, read again, must have the same meaning. */
static int
check_document(json_t *document, const struct policy *meant, struct err *err)
{
	OWN(policy_freep) struct policy *again = NULL;
	OWN(node_freep) struct node *root = NULL;
	int r = object_to_nodes(document, &root, err);

	r = r == 0 ? policy_load_node(root, NULL, &again, NULL, err) : r;
	if (r < 0)
		return err_wrap(err, "as one document it cannot be read again");
	if (policy_n_budgets(again) != policy_n_budgets(meant))
		return err_set(err, EINVAL, "as one document it would have other budgets");
	for (size_t i = 0; i < policy_n_rules(meant); i++)
		if (policy_n_rules(again) != policy_n_rules(meant) ||
		    strcmp(policy_rule_text(again, (int)i), policy_rule_text(meant, (int)i)) != 0)
			return err_set(err, EINVAL, "%s: as one document this rule would be another: put its "
			               "texts in quotes", policy_rule_place(meant, (int)i));
	return 0;
}

static int
flatten(const char *path, const struct node *node, json_t **ret_document, struct err *err)
{
	OWN(flat_free) struct flat f = { .document = json_pack("{s:i,s:[]}", "version", 1, "egress") };
	const struct policy_reader reader = { .secrets = take_secrets, .arg = &f, .rule = take_rule,
	                                      .part = take_part };
	OWN(policy_freep) struct policy *p = NULL;
	int r;

	if (f.document == NULL)
		return no_memory(err);
	r = node != NULL ? policy_load_node(node, &reader, &p, NULL, err) :
	                   policy_load_file(AT_FDCWD, path, &reader, &p, NULL, err);
	r = r == 0 ? check_document(f.document, p, err) : r;
	if (r < 0)
		return r;
	*ret_document = TAKE(f.document);
	return 0;
}

int
object_read_policy(const char *path, const struct node *node, json_t **ret_document,
                   struct err *err)
{
	return flatten(path, node, ret_document, err);
}

/* ---- parts of other objects ---- */

int
object_read_grants(const struct node *at, const struct node *rules, const struct node *secrets,
                   const struct node *limits, json_t **ret_document, struct err *err)
{
	static const char *const names[] = { "version", "egress", "secrets", "limits" };
	const struct node *given[] = { at, rules, secrets, limits };
	struct node keys[ARRAY_LEN(names)], one = { .kind = NODE_SCALAR, .plain = true };
	struct node *items[ARRAY_LEN(names)], *values[ARRAY_LEN(names)];
	struct node root = { .kind = NODE_MAP, .file = at->file, .line = at->line,
		.column = at->column, .items = items, .values = values };
	char version[] = "1", text[ARRAY_LEN(names)][16];

	if (secrets != NULL && secrets->kind != NODE_LIST && !node_is_null(secrets))
		return node_err(err, secrets, "`secrets` is a list of names: [GITHUB_TOKEN, prod=DATABASE_URL]");
	one.text = version;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (given[i] == NULL || (i > 0 && node_is_null(given[i])))
			continue;
		snprintf(text[i], sizeof(text[i]), "%s", names[i]);
		keys[i] = (struct node){ .kind = NODE_SCALAR, .text = text[i], .file = at->file,
			.line = given[i]->line, .column = given[i]->column };
		items[root.n] = &keys[i];
		/* The parser changes nothing. */
		values[root.n++] = i == 0 ? &one : (struct node *)(uintptr_t)given[i];
	}
	return flatten(NULL, &root, ret_document, err);
}
