/* secret_put.c - a secret's definition as a message, from its reader to its user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "credential/shape.h"
#include "policy/policy_parts.h"
#include "sign/capture.h"
#include "sign/sign_options.h"
#include "vault/placeholder.h"
#include "vault/secret.h"

#define FORMAT 0x73656332u              /* changes with the format */

/* ---- writing ---- */

void
secret_put(struct buf *b, const struct secret *s)
{
	buf_put_u32(b, FORMAT);
	policy_put(b, s->scope);
	buf_put_str(b, s->name);
	buf_put_str(b, s->scheme->name);
	buf_put_str(b, s->like);
	buf_put_str(b, s->env);
	policy_put_list(b, &s->files);
	buf_put_str(b, s->id);
	buf_put_str(b, s->from);
	buf_put_u32(b, s->expires);
	buf_put_str(b, s->expires_member);
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		policy_put_list(b, &s->shapes[i]);
		buf_put_str(b, s->members[i]);
	}
	buf_put_u32(b, s->places);
	policy_put_list(b, &s->headers);
	policy_put_list(b, &s->params);
	policy_put_list(b, &s->with);
	policy_put_list(b, &s->with_values);
	buf_put_u32(b, (uint32_t)s->n_captures);
	for (size_t i = 0; i < s->n_captures; i++) {
		buf_put_str(b, s->captures[i].kind);
		secret_put(b, s->captures[i].gives);
		secret_put(b, s->captures[i].renews);
	}
}

/* ---- reading ---- */

static void
get_shapes(struct policy_getting *g, struct policy_list *list)
{
	struct shape shape;

	*list = policy_get_list(g, SECRET_LIST_MAX);
	for (size_t i = 0; i < list->n; i++)
		g->bad |= shape_parse(list->at[i], &shape, NULL) < 0;
}

static bool
options_ok(const struct secret *s)
{
	OWN(freep) struct sign_options *options = malloc(sizeof(*options));
	size_t which;

	return options != NULL && sign_options_read(s->scheme->name, s->with.at, s->with_values.at,
	                                            s->with.n, options, &which, NULL) == 0;
}

static bool
scope_ok(const struct policy *scope)
{
	while (scope != NULL && policy_n_own(scope) == 1 &&
	       policy_rule_at(scope, 0)->verb == POLICY_VERB_ALLOW)
		scope = policy_outer(scope);
	return scope == NULL;
}

static void
get_rest(struct policy_getting *g, struct secret *s)
{
	s->name = policy_get_text(g, POLICY_TEXT_MAX);
	s->scheme = secret_scheme_find(policy_get_text(g, POLICY_TEXT_MAX));
	s->like = policy_get_text(g, POLICY_TEXT_MAX);
	s->env = policy_get_text(g, POLICY_TEXT_MAX);
	s->files = policy_get_list(g, SECRET_LIST_MAX);
	s->id = policy_get_text(g, POLICY_TEXT_MAX);
	s->from = policy_get_text(g, POLICY_TEXT_MAX);
	s->expires = policy_get_upto(g, SECRET_EXPIRES_MAX);
	s->expires_member = policy_get_text(g, POLICY_TEXT_MAX);
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		get_shapes(g, &s->shapes[i]);
		s->members[i] = policy_get_text(g, POLICY_TEXT_MAX);
	}
	s->places = policy_get_upto(g, SECRET_IN_ALL);
	s->headers = policy_get_list(g, SECRET_LIST_MAX);
	s->params = policy_get_list(g, SECRET_LIST_MAX);
	s->with = policy_get_list(g, SECRET_LIST_MAX);
	s->with_values = policy_get_list(g, SECRET_LIST_MAX);
	for (size_t i = 0; i < s->files.n; i++)
		g->bad |= placeholder_file_find(s->files.at[i]) == NULL;
	g->bad |= s->scheme == NULL || !secret_name_ok(s->name) || s->with.n != s->with_values.n ||
	          !scope_ok(s->scope);
	g->bad = g->bad || !options_ok(s);
}

static int get(struct buf *b, bool inner, struct secret **ret_secret, struct err *err);

/* Tokens issue no tokens: INNER has none. */
static void
get_captures(struct policy_getting *g, struct secret *s, bool inner)
{
	size_t n = policy_get_upto(g, inner ? 0 : SECRET_CAPTURES_MAX);

	while (!g->bad && s->n_captures < n) {
		struct secret_capture *c = &s->captures[s->n_captures++];

		c->kind = policy_get_text(g, POLICY_TEXT_MAX);
		g->bad |= capture_kind_find(c->kind) == NULL || get(g->b, true, &c->gives, NULL) < 0 ||
		          get(g->b, true, &c->renews, NULL) < 0;
	}
}

static int
get(struct buf *b, bool inner, struct secret **ret_secret, struct err *err)
{
	OWN(secret_freep) struct secret *s = calloc(1, sizeof(*s));
	struct policy_getting g = { .b = b };

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	g.bad = policy_get_upto(&g, FORMAT) != FORMAT;
	if (g.bad || policy_get(b, &s->scope, NULL) < 0)
		return err_set(err, EBADMSG, "the secret is not as this version writes it");
	g.p = s->scope;
	get_rest(&g, s);
	get_captures(&g, s, inner);
	if (g.bad)
		return err_set(err, EBADMSG, "the secret is not as this version writes it");
	*ret_secret = TAKE(s);
	return 0;
}

int
secret_get(struct buf *b, struct secret **ret_secret, struct err *err)
{
	return get(b, false, ret_secret, err);
}
