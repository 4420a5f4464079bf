/* registries.c - see registries.h. */
#include "image/registries.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_yaml.h"

void
registries_free(struct registries *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->rows[i].name);
		for (size_t m = 0; m < r->rows[i].n_mirrors; m++)
			free(r->rows[i].mirrors[m]);
		free(r->rows[i].ca);
		free(r->rows[i].realm);
	}
	free(r->rows);
	*r = (struct registries){0};
}

const struct registries_row *
registries_find(const struct registries *r, const char *host)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->rows[i].name, host) == 0)
			return &r->rows[i];
	return NULL;
}

static bool
is_port(const char *text, size_t len)
{
	char digits[8] = "";
	uint64_t port;

	if (len >= sizeof(digits))
		return false;
	memcpy(digits, text, len);
	return num_parse_count(digits, 1, UINT16_MAX, &port, NULL) == 0;
}

static bool
is_host(const char *text, size_t len)
{
	const char *close = text[0] == '[' ? memchr(text, ']', len) : NULL;
	const char *colon = close != NULL ? (close + 1 < text + len ? close + 1 : NULL) : memchr(text, ':', len);
	size_t n = colon != NULL ? (size_t)(colon - text) : len;

	if (n == 0 || (colon != NULL && (*colon != ':' || !is_port(colon + 1, len - n - 1))))
		return false;
	for (size_t i = close != NULL ? 1 : 0; i < (close != NULL ? n - 1 : n); i++)
		if (!isalnum((unsigned char)text[i]) && strchr(close != NULL ? ":." : "-._", text[i]) == NULL)
			return false;
	return close == NULL || n > 2;
}

bool
registries_is_name(const char *text, bool may_have_path)
{
	size_t host = strcspn(text, "/");
	const char *path = text + host;

	if (strlen(text) > REGISTRIES_NAME_MAX || !is_host(text, host) || (*path != '\0' && !may_have_path))
		return false;
	for (; *path == '/'; path += strcspn(path, "/")) {
		path++;
		if (*path == '\0' || *path == '/' || *path == '.')
			return false;
	}
	for (path = text + host; *path != '\0'; path++)
		if (!islower((unsigned char)*path) && !isdigit((unsigned char)*path) && strchr("/._-", *path) == NULL)
			return false;
	return true;
}

/* ---- one registry ---- */

static int
copy(const char *text, char **ret_copy, struct err *err)
{
	free(*ret_copy);
	*ret_copy = strdup(text);
	return *ret_copy != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static void
lower_host(char *name)
{
	for (; *name != '\0' && *name != '/'; name++)
		*name = (char)tolower((unsigned char)*name);
}

static int
read_mirrors(struct registries_row *row, const struct node *node, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;

	if (n > REGISTRIES_MIRRORS_MAX)
		return node_err(err, node, "a registry has at most %d mirrors", REGISTRIES_MIRRORS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (item->kind != NODE_SCALAR || !registries_is_name(item->text, true))
			return node_err(err, item, "a mirror is host[:port][/path], without https://");
		row->mirrors[row->n_mirrors] = strdup(item->text);
		if (row->mirrors[row->n_mirrors] == NULL)
			return err_set(err, ENOMEM, "out of memory");
		lower_host(row->mirrors[row->n_mirrors++]);
	}
	return 0;
}

static int
read_insecure(struct registries_row *row, const struct node *node, struct err *err)
{
	return node_is_bool(node, &row->insecure) ? 0 : node_err(err, node, "`insecure` is true or false");
}

static int
read_ca(struct registries_row *row, const struct node *node, struct err *err)
{
	if (node->kind != NODE_SCALAR || node->text[0] != '/')
		return node_err(err, node, "`ca` is the absolute path of a file of certificates");
	return copy(node->text, &row->ca, err);
}

static int
read_realm(struct registries_row *row, const struct node *node, struct err *err)
{
	int r;

	if (node->kind != NODE_SCALAR || !registries_is_name(node->text, false) || strchr(node->text, ':') != NULL)
		return node_err(err, node, "`realm` is the name of the host that gives tokens, without a port");
	r = copy(node->text, &row->realm, err);
	if (r == 0)
		lower_host(row->realm);
	return r;
}

static const struct {
	const char *name;
	int (*read)(struct registries_row *row, const struct node *node, struct err *err);
} keys[] = {
	{ "mirrors", read_mirrors }, { "insecure", read_insecure }, { "ca", read_ca }, { "realm", read_realm },
};

static int
read_key(struct registries_row *row, const struct node *key, const struct node *value, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].name, key->text) == 0)
			return keys[i].read(row, value, err);
	return node_err(err, key, "there is no key '%.64s' here: it takes mirrors, insecure, ca and realm", key->text);
}

static int
read_row(struct registries *r, const struct node *name, const struct node *node, struct err *err)
{
	struct registries_row *row = &r->rows[r->n];
	int result;

	if (!registries_is_name(name->text, false))
		return node_err(err, name, "a registry is host[:port], without https://");
	if (node->kind != NODE_MAP)
		return node_err(err, node, "a registry has a map: {mirrors: [host], insecure: true, ca: FILE}");
	/* A partly read row is freed with the others. */
	*row = (struct registries_row){0};
	r->n++;
	result = copy(name->text, &row->name, err);
	if (result == 0)
		lower_host(row->name);
	for (size_t i = 0; result == 0 && i < node->n; i++)
		result = read_key(row, node->items[i], node->values[i], err);
	return result;
}

/* ---- the file ---- */

static int
read_rows(struct registries *r, const struct node *node, struct err *err)
{
	int result = 0;

	if (node->kind != NODE_MAP || node->n > REGISTRIES_MAX)
		return node_err(err, node, "`registries` is a map of at most %d registries", REGISTRIES_MAX);
	r->rows = calloc(node->n + 1, sizeof(*r->rows));
	if (r->rows == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; result == 0 && i < node->n; i++)
		result = read_row(r, node->items[i], node->values[i], err);
	return result;
}

static int
read_limits(struct registries *r, const struct node *node, struct err *err)
{
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`limits` is a map: {blob: 20G, image: 50G}");
	for (size_t i = 0; i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];
		uint64_t *at = strcmp(key->text, "blob") == 0 ? &r->blob_max :
		               strcmp(key->text, "image") == 0 ? &r->image_max : NULL;

		if (at == NULL)
			return node_err(err, key, "there is no limit '%.64s': there are blob and image", key->text);
		if (value->kind != NODE_SCALAR || num_parse_size(value->text, at, NULL) < 0 || *at == 0)
			return node_err(err, value, "a limit is a size such as 20G");
	}
	return 0;
}

int
registries_parse(const char *file, const char *text, size_t len, struct registries *ret_registries,
                 struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(registries_free) struct registries found = {0};
	int r = node_parse(file, text, len, &root, err);

	if (r == 0 && root->kind != NODE_MAP)
		r = node_err(err, root, "the file is a map with `registries` and `limits`");
	for (size_t i = 0; r == 0 && i < root->n; i++) {
		const struct node *key = root->items[i];

		if (strcmp(key->text, "registries") == 0)
			r = read_rows(&found, root->values[i], err);
		else if (strcmp(key->text, "limits") == 0)
			r = read_limits(&found, root->values[i], err);
		else
			r = node_err(err, key, "there is no key '%.64s' here: it takes registries and limits", key->text);
	}
	if (r == 0) {
		*ret_registries = found;
		found = (struct registries){0};
	}
	return r;
}
