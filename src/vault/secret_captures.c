/* secret_captures.c - reads which endpoints issue tokens, and where the tokens may be used.
 *
 *   captures: oauth2
 *   captures: {kind: oauth2, at: {paths: [/token]}, for: {hosts: [api.example.com]}}
 *
 * `at` and `for` are scopes like the secret's own, and are read in the same way. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_parts.h"
#include "vault/secret.h"

#define KEYS_MAX 12                     /* of a scope that is built here */
#define PATHS_MAX 6

/* Defaults of services. */
static const struct usual {
	const char *kind;
	const char *paths[PATHS_MAX];   /* of its endpoint */
	const char *scheme;             /* of its tokens */
} usual[] = {
	{ "oauth2", { "/token", "/**/token", "/**/access_token", "/**/oauth.v2.access" }, "swap" },
	{ "sts", { "/" }, "sigv4" },
	{ "s3-session", { "/" }, "sigv4" },
	{ "github-app", { "/app/installations/*/access_tokens",
	                  "/api/v3/app/installations/*/access_tokens" }, "swap" },
	{ "registry", { "/token", "/**/token", "/v2/auth", "/jwt/auth" }, "swap" },
	{ "ecr", { "/", "/service/**" }, "swap" },
};

struct scope {
	struct node map, words[KEYS_MAX], list, paths[PATHS_MAX];
	struct node *items[KEYS_MAX], *values[KEYS_MAX], *path_items[PATHS_MAX];
	size_t n;
};

static struct node
word_at(const struct node *place, const char *text)
{
	return (struct node){ .kind = NODE_SCALAR, .file = place->file, .line = place->line,
	                      .column = place->column, .text = (char *)(uintptr_t)text };
}

static void
add(struct scope *scope, const char *key, const struct node *value)
{
	scope->words[scope->n] = word_at(value, key);
	scope->items[scope->n] = &scope->words[scope->n];
	scope->values[scope->n++] = (struct node *)(uintptr_t)value;
}

static void
add_paths(struct scope *scope, const struct usual *u, const struct node *place)
{
	scope->list = word_at(place, "");
	scope->list.kind = NODE_LIST;
	scope->list.items = scope->path_items;
	for (size_t i = 0; i < PATHS_MAX && u->paths[i] != NULL; i++) {
		scope->paths[i] = word_at(place, u->paths[i]);
		scope->path_items[i] = &scope->paths[i];
		scope->list.n++;
	}
	add(scope, "paths", &scope->list);
}

/* Begin a scope with NODE's members, after checking that each is known. */
static int
begin(struct scope *scope, const struct node *place, const struct node *node,
      const char *const *keys, struct err *err)
{
	scope->map = word_at(place, "");
	scope->map.kind = NODE_MAP;
	if (node == NULL)
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "this is a map: {hosts: api.example.com}");
	for (size_t i = 0; i < node->n; i++) {
		size_t k = 0;

		while (keys[k] != NULL && strcmp(keys[k], node->items[i]->text) != 0)
			k++;
		if (keys[k] == NULL)
			return policy_read_unknown(node->items[i], keys, "in what is captured", err);
		add(scope, keys[k], node->values[i]);
	}
	return 0;
}

/* Fill in the tokens' default destinations and places: wherever the secret may go. */
static int
end(struct scope *scope, const struct secret *s, const struct node *const said[SECRET_SAID],
    const struct node *node, struct secret **ret_secret, struct err *err)
{
	static const char *const keys[SECRET_SAID] = { "hosts", "ports", "plain" };
	struct secret *read = NULL;
	int e;

	for (size_t i = 0; i < SECRET_SAID; i++)
		if (said[i] != NULL && (node == NULL || (node_get(node, "hosts") == NULL &&
		                                         node_get(node, keys[i]) == NULL)))
			add(scope, keys[i], said[i]);
	scope->map.items = scope->items;
	scope->map.values = scope->values;
	scope->map.n = scope->n;
	/* No service has this name, so the catalogue fills nothing in. */
	e = secret_read("token", &scope->map, &read, err);
	if (e < 0)
		return e;
	read->name = policy_copy(read->scope, s->name, strlen(s->name));
	if (read->name == NULL) {
		secret_free(read);
		return err_set(err, ENOMEM, "out of memory");
	}
	*ret_secret = read;
	return 0;
}

static int
read_gives(const struct secret *s, const struct usual *u, const struct node *place,
           const struct node *node, const struct node *const said[SECRET_SAID],
           struct secret **ret_secret, struct err *err)
{
	static const char *const keys[] = { "hosts", "ports", "methods", "paths", "in", "plain",
	                                    "shape", NULL };
	struct node scheme = word_at(place, u->scheme);
	struct scope scope = {0};
	int e = begin(&scope, place, node, keys, err);

	if (e == 0)
		add(&scope, "scheme", &scheme);
	return e == 0 ? end(&scope, s, said, node, ret_secret, err) : e;
}

/* The endpoint, to which a refresh token goes in the body. */
static int
read_renews(const struct secret *s, const struct usual *u, const struct node *place,
            const struct node *node, const struct node *const said[SECRET_SAID],
            struct secret **ret_secret, struct err *err)
{
	static const char *const keys[] = { "hosts", "ports", "methods", "paths", "plain", NULL };
	struct node in = word_at(place, "body");
	struct scope scope = {0};
	int e = begin(&scope, place, node, keys, err);

	if (e < 0)
		return e;
	add(&scope, "in", &in);
	if (node == NULL || node_get(node, "paths") == NULL)
		add_paths(&scope, u, place);
	return end(&scope, s, said, node, ret_secret, err);
}

static const struct usual *
find_usual(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (strcmp(usual[i].kind, kind) == 0)
			return &usual[i];
	return NULL;
}

/* NODE: "oauth2", or a map. */
static int
read_one(struct secret *s, const struct node *node, const struct node *const said[SECRET_SAID],
         struct err *err)
{
	static const char *const keys[] = { "kind", "at", "for", NULL };
	const struct node *kind = node->kind == NODE_MAP ? node_get(node, "kind") : node;
	struct secret_capture *c = &s->captures[s->n_captures];
	const struct usual *u;
	int e;

	for (size_t i = 0; node->kind == NODE_MAP && i < node->n; i++)
		if (strcmp(node->items[i]->text, "kind") != 0 && strcmp(node->items[i]->text, "at") != 0 &&
		    strcmp(node->items[i]->text, "for") != 0)
			return policy_read_unknown(node->items[i], keys, "in `captures`", err);
	u = kind != NULL && kind->kind == NODE_SCALAR ? find_usual(kind->text) : NULL;
	if (u == NULL)
		return node_err(err, kind != NULL ? kind : node, "say what kind of tokens come back: oauth2, "
		                "sts, s3-session, github-app, registry or ecr");
	if (s->scheme->raw)
		return node_err(err, node, "'%s' is not over HTTP: nothing is captured", s->scheme->name);
	c->kind = u->kind;
	s->n_captures++;
	e = read_gives(s, u, node, node->kind == NODE_MAP ? node_get(node, "for") : NULL, said,
	               &c->gives, err);
	return e == 0 ? read_renews(s, u, node, node->kind == NODE_MAP ? node_get(node, "at") : NULL,
	                            said, &c->renews, err) : e;
}

int
secret_read_captures(struct secret *s, const struct node *node,
                     const struct node *const said[SECRET_SAID], struct err *err)
{
	int e = 0;

	if (node->kind != NODE_LIST)
		return read_one(s, node, said, err);
	if (node->n > SECRET_CAPTURES_MAX)
		return node_err(err, node, "a secret captures at most %d kinds of tokens",
		                SECRET_CAPTURES_MAX);
	for (size_t i = 0; e == 0 && i < node->n; i++)
		e = read_one(s, node->items[i], said, err);
	return e;
}
