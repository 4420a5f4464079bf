/* secret.c - questions about a secret that was read. */
#include "vault/secret.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "policy/policy_explain.h"
#include "policy/policy_parts.h"
#include "sign/sign_hmac.h"

const char *const secret_field_names[SECRET_FIELDS + 1] = { "id", "secret", "token", NULL };

#define MISFIT_SHOWN 80                 /* bytes of a path */
#define BASIC (SECRET_IN_BASIC_USER | SECRET_IN_BASIC_PASSWORD)

static const struct secret_scheme schemes[] = {
	{ .name = "swap", .places = SECRET_IN_HEADER | BASIC },
	{ .name = "basic", .places = SECRET_IN_BASIC_PASSWORD },
	{ .name = "sigv4", .wants_id = true, .mints_id = true },
	{ .name = "azure-sharedkey", .wants_id = true },
	{ .name = "hmac", .mints_id = true, .has_lines = true },
	{ .name = "jwt", .has_lines = true },
	{ .name = "oauth1", .wants_id = true, .mints_id = true, .pair = true, .has_lines = true },
	{ .name = "message", .has_lines = true },
	{ .name = "mtls", .has_lines = true },
	{ .name = "webhook", .comes_in = true, .has_lines = true },
	{ .name = "postgres", .raw = true },
	{ .name = "redis", .raw = true },
	{ .name = "ssh", .raw = true, .has_lines = true },
};

const struct secret_scheme *
secret_scheme_at(size_t i)
{
	return i < ARRAY_LEN(schemes) ? &schemes[i] : NULL;
}

const struct secret_scheme *
secret_scheme_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (strcmp(schemes[i].name, name) == 0)
			return &schemes[i];
	return NULL;
}

void
secret_free(struct secret *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n_captures; i++) {
		secret_free(s->captures[i].gives);
		secret_free(s->captures[i].renews);
	}
	policy_free(s->scope);
	free(s);
}

bool
secret_name_ok(const char *name)
{
	size_t n = 0;

	if (!isalnum((unsigned char)name[0]) && name[0] != '_')
		return false;
	while (isalnum((unsigned char)name[n]) || (name[n] != '\0' && strchr("_-./", name[n]) != NULL))
		n++;
	return name[n] == '\0' && n <= SECRET_NAME_MAX;
}

/* ---- scope ---- */

bool
secret_in_scope(const struct secret *s, const struct policy_request *req)
{
	struct policy_decision decision;

	policy_decide(s->scope, req, &decision, NULL);
	return decision.verdict == POLICY_ALLOW;
}

/* PATH is in lower case.  Out of memory counts as a match: one too many is better than one too few. */
static bool
has_path_nocase(const struct policy_rule *rule, struct http_text path)
{
	const char *query = memchr(path.at, '?', path.len);
	size_t len = query != NULL ? (size_t)(query - path.at) : path.len;

	for (size_t i = 0; i < rule->paths.n; i++) {
		OWN(freep) char *glob = strdup(rule->paths.at[i]);

		for (char *c = glob; c != NULL && *c != '\0'; c++)
			*c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 0x20) : *c;
		if (glob == NULL || policy_glob_path(glob, path.at, len))
			return true;
	}
	return false;
}

bool
secret_in_scope_nocase(const struct secret *s, const struct policy_request *req)
{
	struct policy_step steps[POLICY_LAYERS_MAX];
	const struct policy *layer = s->scope;

	assert(policy_n_rules(s->scope) <= POLICY_LAYERS_MAX);
	policy_explain(s->scope, req, steps);
	/* A layer of a scope is one rule. */
	for (size_t i = 0; layer != NULL; layer = layer->within, i++)
		if (steps[i].kind != POLICY_STEP_DECIDES &&
		    (steps[i].key == NULL || strcmp(steps[i].key, "paths") != 0 ||
		     !has_path_nocase(&layer->rules[0], req->head->path)))
			return false;
	return true;
}

/* The first layer that does not fit; a layer of a scope is one rule. */
static struct policy_step
find_misfit(const struct policy *scope, const struct policy_request *req)
{
	struct policy_step steps[POLICY_LAYERS_MAX];
	size_t n = policy_n_rules(scope);

	assert(n <= POLICY_LAYERS_MAX);
	policy_explain(scope, req, steps);
	for (size_t i = 0; i < n; i++)
		if (steps[i].kind != POLICY_STEP_DECIDES)
			return steps[i];
	return (struct policy_step){ POLICY_STEP_DECIDES, NULL };
}

bool
secret_is_for_host(const struct secret *s, const struct policy_request *req)
{
	struct policy_step steps[POLICY_LAYERS_MAX];
	size_t n = policy_n_rules(s->scope);

	assert(n <= POLICY_LAYERS_MAX);
	policy_explain(s->scope, req, steps);
	for (size_t i = 0; i < n; i++)
		if (steps[i].kind != POLICY_STEP_DECIDES && steps[i].kind != POLICY_STEP_KEY)
			return false;
	return true;
}

static int
cut(struct http_text text)
{
	return (int)(text.len < MISFIT_SHOWN ? text.len : MISFIT_SHOWN);
}

void
secret_misfit_text(const struct secret *s, const struct policy_request *req, char *text,
                   size_t size)
{
	struct policy_step step = find_misfit(s->scope, req);
	const char *key = step.key != NULL ? step.key : "";
	struct http_text method = req->head->method, path = req->head->path;
	const char *query = memchr(path.at, '?', path.len);

	if (query != NULL)
		path.len = (size_t)(query - path.at);
	if (step.kind == POLICY_STEP_HOST)
		snprintf(text, size, "'%.100s' is not among its hosts", req->host);
	else if (step.kind == POLICY_STEP_PORT)
		snprintf(text, size, "port %u is not among its ports", req->port);
	else if (step.kind == POLICY_STEP_PROTOCOL)
		snprintf(text, size, "it is not for HTTP");
	else if (strcmp(key, "scheme") == 0)
		snprintf(text, size, "it goes over TLS only, unless it was added with `cloister secret add --plain`");
	else if (strcmp(key, "methods") == 0)
		snprintf(text, size, "%.*s is not among its methods", cut(method), method.at);
	else if (strcmp(key, "paths") == 0)
		snprintf(text, size, "'%.*s'%s is not among its paths", cut(path), path.at,
		         path.len > MISFIT_SHOWN ? "..." : "");
	else
		snprintf(text, size, "its scope does not have this request");
}

static bool
is_in(const struct policy_list *list, const char *name, size_t len)
{
	for (size_t i = 0; i < list->n; i++)
		if (strlen(list->at[i]) == len && memcmp(list->at[i], name, len) == 0)
			return true;
	return list->n == 0;
}

bool
secret_in_header(const struct secret *s, const char *name, size_t len)
{
	return (s->places & SECRET_IN_HEADER) != 0 && is_in(&s->headers, name, len);
}

bool
secret_in_param(const struct secret *s, const char *name, size_t len)
{
	return (s->places & SECRET_IN_QUERY) != 0 && is_in(&s->params, name, len);
}

const char *
secret_with(const struct secret *s, const char *name)
{
	for (size_t i = 0; i < s->with.n; i++)
		if (strcmp(s->with.at[i], name) == 0)
			return s->with_values.at[i];
	return NULL;
}

bool
secret_wants_id(const struct secret *s)
{
	const char *name = secret_with(s, "template");
	const struct sign_hmac_template *t = name != NULL ? sign_hmac_row(name) : NULL;

	if (strcmp(s->scheme->name, "hmac") != 0)
		return s->scheme->wants_id;
	return t != NULL ? t->id != NULL : secret_with(s, "id") != NULL;
}

/* ---- for people ---- */

const char *
secret_scope_text(const struct secret *s)
{
	const char *text = policy_rule_text(s->scope, 0);

	return strncmp(text, "allow ", 6) == 0 ? text + 6 : text;
}

static void
add(char *text, size_t size, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, size - len, fmt, args);
	va_end(args);
}

void
secret_places_text(const struct secret *s, char *text, size_t size)
{
	static const char *const names[] = { "header", "basic-user", "basic-password", "query", "path",
		"body", "websocket" };

	text[0] = '\0';
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		const struct policy_list *list = 1u << i == SECRET_IN_HEADER ? &s->headers :
		                                 1u << i == SECRET_IN_QUERY ? &s->params : NULL;

		if ((s->places >> i & 1) == 0)
			continue;
		if (list == NULL || list->n == 0)
			add(text, size, "%s%s", *text != '\0' ? ", " : "", names[i]);
		for (size_t k = 0; list != NULL && k < list->n; k++)
			add(text, size, "%s%s:%s", *text != '\0' ? ", " : "", names[i], list->at[k]);
	}
}
