/* policy_edits.c - collects the edits of a rewrite, and encodes them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_edit.h"

const struct policy_edit_word policy_edit_words[] = {
	{ "query", "set", POLICY_EDIT_QUERY_SET, true },
	{ "query", "remove", POLICY_EDIT_QUERY_REMOVE, false },
	{ "headers", "set", POLICY_EDIT_HEADER_SET, true },
	{ "headers", "remove", POLICY_EDIT_HEADER_REMOVE, false },
	{ "json", "set", POLICY_EDIT_JSON_SET, true },
	{ "json", "default", POLICY_EDIT_JSON_DEFAULT, true },
	{ "json", "max", POLICY_EDIT_JSON_MAX, true },
	{ "json", "remove", POLICY_EDIT_JSON_REMOVE, false },
};
const size_t policy_n_edit_words = ARRAY_LEN(policy_edit_words);

/* Whether OUTER removes or replaces the field in which INNER puts a value. */
static bool
is_undone(const struct policy_edit *outer, const struct policy_edit *inner)
{
	size_t len = strlen(outer->name);

	if ((outer->kind != POLICY_EDIT_JSON_REMOVE && outer->kind != POLICY_EDIT_JSON_SET) ||
	    policy_edit_part(inner) != POLICY_PART_BODY || inner->kind == POLICY_EDIT_JSON_REMOVE)
		return false;
	return strncmp(inner->name, outer->name, len) == 0 && inner->name[len] == '/';
}

/* Refuse edits of which one would undo the other. */
static int
check_pair(const struct policy_edit *a, const struct policy_edit *b, struct err *err)
{
	const struct policy_edit *outer = is_undone(a, b) ? a : is_undone(b, a) ? b : NULL;

	if (outer == NULL)
		return 0;
	return err_set(err, EINVAL, "'%.64s' is in '%.64s', which this rewrite %s: leave one of them out",
	               outer == a ? b->name : a->name, outer->name,
	               outer->kind == POLICY_EDIT_JSON_REMOVE ? "removes" : "replaces");
}

/* One edit of a thing is enough, but a field may have a default and a most. */
static bool
is_same_thing(const struct policy_edit *a, enum policy_edit_kind kind, const char *name)
{
	const struct policy_edit b = { kind, name, "" };
	bool both = (a->kind == POLICY_EDIT_JSON_DEFAULT && kind == POLICY_EDIT_JSON_MAX) ||
	            (a->kind == POLICY_EDIT_JSON_MAX && kind == POLICY_EDIT_JSON_DEFAULT);
	enum policy_part part = policy_edit_part(&b);

	if (policy_edit_part(a) != part || both)
		return false;
	return part == POLICY_PART_HOST || part == POLICY_PART_PATH || strcmp(a->name, name) == 0;
}

int
policy_edits_add(struct policy_edits *e, enum policy_edit_kind kind, const char *name,
                 const char *value, struct err *err)
{
	struct policy_edit edit = { kind, name, value };
	int r = policy_edit_check(&edit, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < e->n; i++) {
		if (is_same_thing(&e->at[i], kind, name))
			return err_set(err, EINVAL, "'%.64s' is rewritten twice", name);
		r = check_pair(&e->at[i], &edit, err);
		if (r < 0)
			return r;
	}
	if (e->n == POLICY_EDITS_MAX)
		return err_set(err, E2BIG, "a rewrite changes at most %d things", POLICY_EDITS_MAX);
	edit.name = policy_copy(e->p, name, strlen(name));
	edit.value = policy_copy(e->p, value, strlen(value));
	if (edit.name == NULL || edit.value == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	e->at[e->n++] = edit;
	return 0;
}

int
policy_edits_add_host(struct policy_edits *e, const char *text, struct err *err)
{
	char host[HTTP_HOST_MAX + 1], number[8] = "";
	const char *scheme = strstr(text, "://");
	uint16_t port;
	int r;

	if (scheme != NULL)
		return err_set(err, EINVAL, "a host has no scheme and no path: write '%.*s'",
		               (int)strcspn(scheme + 3, "/?#"), scheme + 3);
	r = http_authority_parse((struct http_text){ text, strlen(text) }, host, &port, err);
	if (r < 0)
		return r;
	if (port != 0)
		snprintf(number, sizeof(number), "%u", port);
	return policy_edits_add(e, POLICY_EDIT_HOST, host, number, err);
}

const struct policy_rewrite *
policy_edits_done(struct policy_edits *e)
{
	struct policy_rewrite *rw = policy_alloc(e->p, 1, sizeof(*rw));
	struct policy_edit *edits = policy_alloc(e->p, e->n, sizeof(*edits));

	if (rw == NULL || edits == NULL)
		return NULL;
	for (unsigned kind = 0; kind < POLICY_EDIT_KINDS; kind++)
		for (size_t i = 0; i < e->n; i++)
			if (e->at[i].kind == kind)
				edits[rw->n++] = e->at[i];
	rw->edits = edits;
	return rw;
}

/* ---- encoding ---- */

void
policy_put_rewrite(struct buf *b, const struct policy_rule *rule)
{
	const struct policy_rewrite *rw = rule->rewrite;

	buf_put_u32(b, (uint32_t)rw->n);
	for (size_t i = 0; i < rw->n; i++) {
		buf_put_u32(b, rw->edits[i].kind);
		buf_put_str(b, rw->edits[i].name);
		buf_put_str(b, rw->edits[i].value);
	}
}

void
policy_get_rewrite(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_edits edits = { .p = g->p };
	uint32_t n = policy_get_upto(g, POLICY_EDITS_MAX);
	enum policy_edit_kind last = 0;

	g->bad |= n == 0 || rule->verb == POLICY_VERB_DENY || rule->verb == POLICY_VERB_LOG;
	for (uint32_t i = 0; !g->bad && i < n; i++) {
		enum policy_edit_kind kind = policy_get_upto(g, POLICY_EDIT_KINDS - 1);
		const char *name = policy_get_text(g, POLICY_TEXT_MAX);
		const char *value = policy_get_text(g, POLICY_TEXT_MAX);

		g->bad |= kind < last || policy_edits_add(&edits, kind, name, value, NULL) < 0;
		last = kind;
	}
	rule->rewrite = g->bad ? NULL : policy_edits_done(&edits);
	g->bad |= rule->rewrite == NULL;
}
