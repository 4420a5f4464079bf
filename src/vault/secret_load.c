/* secret_load.c - reads files and maps of secrets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "vault/secret.h"

void
secret_list_free(struct secret_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		secret_free(list->at[i]);
	free(list->at);
	*list = (struct secret_list){0};
}

static int
secret_read_map(const struct node *map, struct secret_list *ret_list, struct err *err)
{
	OWN(secret_list_free) struct secret_list list = {0};
	int e = 0;

	if (map->kind != NODE_MAP)
		return node_err(err, map, "secrets are a map: {NAME: {hosts: api.example.com}}");
	if (map->n > SECRET_LIST_MAX)
		return node_err(err, map, "there are at most %d secrets", SECRET_LIST_MAX);
	list.at = calloc(map->n + 1, sizeof(struct secret *));
	if (list.at == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; e == 0 && i < map->n; i++) {
		/* "GITHUB_TOKEN:" alone: the catalogue has the rest. */
		const struct node *key = map->items[i];
		const struct node empty = { .kind = NODE_MAP, .file = key->file, .line = key->line,
		                            .column = key->column, .text = (char[]){ "" } };

		e = secret_read(key->text, node_is_null(map->values[i]) ? &empty :
		                map->values[i], &list.at[list.n], err);
		list.n += e == 0;
	}
	if (e < 0)
		return e;
	*ret_list = list;
	list = (struct secret_list){0};
	return 0;
}

int
secret_load_text(const char *file, const char *text, size_t len, struct secret_list *ret_list,
                 struct err *err)
{
	static const char *const names[] = { "version", "secrets", NULL };
	OWN(node_freep) struct node *root = NULL;
	const struct node *version, *secrets;
	int e = node_parse(file, text, len, &root, err);

	if (e < 0)
		return e;
	if (root->kind != NODE_MAP)
		return node_err(err, root, "a file of secrets is a map: {version: 1, secrets: {...}}");
	for (size_t i = 0; i < root->n; i++)
		if (strcmp(root->items[i]->text, names[0]) != 0 &&
		    strcmp(root->items[i]->text, names[1]) != 0)
			return policy_read_unknown(root->items[i], names, "in a file of secrets", err);
	version = node_get(root, "version");
	secrets = node_get(root, "secrets");
	if (version == NULL || version->kind != NODE_SCALAR || strcmp(version->text, "1") != 0)
		return node_err(err, version != NULL ? version : root, "a file begins with `version: 1`");
	if (secrets == NULL)
		return node_err(err, root, "there are no `secrets:` in it");
	return secret_read_map(secrets, ret_list, err);
}
