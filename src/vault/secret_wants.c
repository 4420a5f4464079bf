/* secret_wants.c - see secret_wants.h. */
#include "vault/secret_wants.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "vault/catalogue.h"

void
secret_wants_free(struct secret_wants *w)
{
	while (w->n > 0)
		secret_free(w->at[--w->n].secret);
}

struct secret_want *
secret_wants_find(struct secret_wants *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->at[i].said.name, name) == 0)
			return &w->at[i];
	return NULL;
}

/* The nearer file has defined it first. */
static int
add(struct secret_wants *w, const struct node *node, struct secret_want *want, struct err *err)
{
	if (secret_wants_find(w, want->said.name) != NULL) {
		secret_free(want->secret);
		return 0;
	}
	if (w->n == SECRET_LIST_MAX) {
		secret_free(want->secret);
		return node_err(err, node, "a cell has at most %d secrets", SECRET_LIST_MAX);
	}
	w->at[w->n++] = *want;
	return 0;
}

/* ---- names ---- */

static int
read_name(struct secret_wants *w, const struct node *node, struct err *err)
{
	struct secret_want want = {0};
	struct err why = {0};
	int r;

	if (node->kind != NODE_SCALAR || node_is_null(node))
		return node_err(err, node, "here stands the name of a secret, or NAME=VARIABLE; what it is "
		                "can be said in a map: {NAME: {hosts: api.example.com}}");
	r = secret_short_parse(node->text, &want.said, &why);
	if (r == 0 && want.said.hosts != NULL)
		r = secret_short_define(&want.said, &want.secret, &why);
	if (r < 0)
		return node_err(err, node, "%s", why.text);
	want.said.hosts = NULL;
	return add(w, node, &want, err);
}

static int
read_names(struct secret_wants *w, const struct node *list, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->n; i++) {
		for (size_t k = 0; k < i; k++)
			if (list->items[i]->kind == NODE_SCALAR && list->items[k]->kind == NODE_SCALAR &&
			    strcmp(list->items[i]->text, list->items[k]->text) == 0)
				return node_err(err, list->items[i], "this secret is in the list twice");
		r = read_name(w, list->items[i], err);
	}
	return r;
}

/* ---- definitions ---- */

/* "GITHUB_TOKEN:" alone gives only its name; the catalogue helps if the vault does not have it. */
static int
read_bare(struct secret_want *want, const struct node *key, struct err *err)
{
	want->unless_known = true;
	if (!secret_name_ok(key->text))
		return node_err(err, key, "'%.64s' is not the name of a secret: letters, digits and '_-./', "
		                "at most %d", key->text, SECRET_NAME_MAX);
	if (catalogue_find(key->text) == NULL)
		return 0;
	snprintf(want->said.name, sizeof(want->said.name), "%s", key->text);
	return secret_short_define(&want->said, &want->secret, err);
}

static int
read_definition(struct secret_wants *w, const struct node *key, const struct node *value,
                struct err *err)
{
	struct secret_want want = {0};
	int r = node_is_null(value) ? read_bare(&want, key, err)
	                            : secret_read(key->text, value, &want.secret, err);

	if (r < 0)
		return r;
	if (want.secret != NULL && strncmp(want.secret->from, "cmd:", 4) == 0) {
		secret_free(want.secret);
		return node_err(err, node_get(value, "from"), "a policy starts no program on this machine: "
		                "`cloister secret add %s --from cmd:...`, and name it here", key->text);
	}
	snprintf(want.said.name, sizeof(want.said.name), "%s", key->text);
	return add(w, key, &want, err);
}

int
secret_wants_read(void *wants, const struct node *node, struct err *err)
{
	int r = 0;

	if (node->kind == NODE_LIST)
		return read_names(wants, node, err);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_definition(wants, node->items[i], node->values[i], err);
	return r;
}
