/* policy_read_rewrite.c - reads and checks a rule's `rewrite`. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "http/json_walk.h"
#include "policy/policy_edit.h"
#include "policy/policy_load.h"

/* Put the place in front of the error. */
static int
place_err(struct policy_draft *d, const struct node *node, const struct err *why)
{
	return node_err(d->err, node, "%s", why->text);
}

static int
add_edit(struct policy_draft *d, struct policy_edits *edits, enum policy_edit_kind kind,
         const struct node *name, const char *value)
{
	char text[POLICY_TEXT_MAX + 1];
	struct err why = {0};

	if (name->kind != NODE_SCALAR || strlen(name->text) > POLICY_TEXT_MAX)
		return node_err(d->err, name, "here stands a name of at most %d bytes", POLICY_TEXT_MAX);
	snprintf(text, sizeof(text), "%s", name->text);
	for (char *c = text; *c != '\0'; c++)
		if ((kind == POLICY_EDIT_HEADER_SET || kind == POLICY_EDIT_HEADER_REMOVE) &&
		    *c >= 'A' && *c <= 'Z')
			*c = (char)(*c | 0x20);
	return policy_edits_add(edits, kind, text, value, &why) < 0 ? place_err(d, name, &why) : 0;
}

/* Append a scalar as JSON. */
static void
put_json(struct buf *b, const struct node *node)
{
	struct json_walk_item item, end;
	struct json_walk w;
	bool truth;

	if (node_is_null(node)) {
		buf_put(b, "null", 4);
	} else if (node_is_bool(node, &truth)) {
		buf_put(b, truth ? "true" : "false", truth ? 4 : 5);
	} else {
		json_walk_begin(&w, (struct http_text){ node->text, strlen(node->text) });
		if (node->plain && json_walk_next(&w, &item) == 1 && item.kind == JSON_WALK_NUMBER &&
		    json_walk_next(&w, &end) == 0) {
			buf_put_text(b, node->text);
		} else {
			buf_put(b, "\"", 1);
			canon_text_put(b, node->text, strlen(node->text), false);
			buf_put(b, "\"", 1);
		}
	}
	buf_put(b, "", 1);
}

static int
read_value(struct policy_draft *d, struct policy_edits *edits, enum policy_edit_kind kind,
           const struct node *name, const struct node *value)
{
	const struct policy_edit edit = { kind, "", "" };
	OWN(buf_free) struct buf json = BUF(2 * POLICY_TEXT_MAX);

	if (value->kind != NODE_SCALAR)
		return node_err(d->err, value, "a value is a word, a number, true, false or null");
	if (policy_edit_part(&edit) != POLICY_PART_BODY)
		return node_is_null(value) ? node_err(d->err, value, "the value is missing here") :
		       add_edit(d, edits, kind, name, value->text);
	put_json(&json, value);
	if (buf_failed(&json))
		return node_err(d->err, value, "the value is longer than %d bytes", POLICY_TEXT_MAX);
	return add_edit(d, edits, kind, name, (const char *)json.data);
}

static int
read_word(struct policy_draft *d, struct policy_edits *edits, const struct policy_edit_word *word,
          const struct node *node)
{
	bool is_list = node->kind == NODE_LIST;
	int r = 0;

	if (word->has_value) {
		if (node->kind != NODE_MAP || node->n == 0)
			return node_err(d->err, node, "`%s` is a map of names and values", word->word);
		for (size_t i = 0; r == 0 && i < node->n; i++)
			r = read_value(d, edits, word->kind, node->items[i], node->values[i]);
		return r;
	}
	if (node->kind == NODE_MAP || (is_list && node->n == 0))
		return node_err(d->err, node, "`%s` is a list of names", word->word);
	for (size_t i = 0; r == 0 && i < (is_list ? node->n : 1); i++)
		r = add_edit(d, edits, word->kind, is_list ? node->items[i] : node, "");
	return r;
}

/* `query`, `headers` or `json`. */
static int
read_part(struct policy_draft *d, struct policy_edits *edits, const char *part,
          const struct node *node)
{
	const char *names[POLICY_EDIT_KINDS + 1];
	char where[32];
	size_t n = 0, k;
	int r = 0;

	for (k = 0; k < policy_n_edit_words; k++)
		if (strcmp(policy_edit_words[k].part, part) == 0)
			names[n++] = policy_edit_words[k].word;
	names[n] = NULL;
	snprintf(where, sizeof(where), "in `%s`", part);
	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`%s` in `rewrite` is a map: {set: {NAME: VALUE}, remove: "
		                "[NAME]}", part);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		for (k = 0; k < policy_n_edit_words; k++)
			if (strcmp(policy_edit_words[k].part, part) == 0 &&
			    strcmp(policy_edit_words[k].word, node->items[i]->text) == 0)
				break;
		r = k == policy_n_edit_words ? policy_read_unknown(node->items[i], names, where, d->err) :
		    read_word(d, edits, &policy_edit_words[k], node->values[i]);
	}
	return r;
}

static int
read_host(struct policy_draft *d, struct policy_edits *edits, const struct node *node)
{
	struct err why = {0};
	const char *text;
	int r = policy_read_text(d, node, "a host", &text);

	if (r < 0)
		return r;
	return policy_edits_add_host(edits, text, &why) < 0 ? place_err(d, node, &why) : 0;
}

static int
read_path(struct policy_draft *d, struct policy_edits *edits, const struct node *node)
{
	static const char *const names[] = { "from", "to", NULL };
	const struct node *from = node_get(node, "from"), *to = node_get(node, "to");
	struct err why = {0};
	const char *old, *new;
	int r;

	for (size_t i = 0; node->kind == NODE_MAP && i < node->n; i++)
		if (node->values[i] != from && node->values[i] != to)
			return policy_read_unknown(node->items[i], names, "in `path`", d->err);
	if (node->kind != NODE_MAP || node->n != 2 || from == NULL || to == NULL)
		return node_err(d->err, node, "`path` in `rewrite` replaces a prefix: {from: /v1/, to: "
		                "/openai/v1/}");
	r = policy_read_text(d, from, "a prefix", &old);
	r = r == 0 ? policy_read_text(d, to, "a prefix", &new) : r;
	if (r < 0)
		return r;
	return policy_edits_add(edits, POLICY_EDIT_PATH, old, new, &why) < 0 ? place_err(d, node, &why) : 0;
}

int
policy_read_rewrite(struct policy_draft *d, const struct node *node)
{
	static const char *const names[] = { "host", "path", "query", "headers", "json", NULL };
	struct policy_edits edits = { .p = d->p };
	int r = 0;

	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`rewrite` is a map: {headers: {remove: [x-debug]}}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *key = node->items[i]->text;
		const struct node *value = node->values[i];
		size_t k = 0;

		while (names[k] != NULL && strcmp(names[k], key) != 0)
			k++;
		r = names[k] == NULL ? policy_read_unknown(node->items[i], names, "in `rewrite`", d->err) :
		    k == 0 ? read_host(d, &edits, value) :
		    k == 1 ? read_path(d, &edits, value) : read_part(d, &edits, key, value);
	}
	if (r < 0)
		return r;
	d->rule.rewrite = policy_edits_done(&edits);
	return d->rule.rewrite != NULL ? 0 : policy_read_oom(d);
}

/* ---- checking ---- */

static int
check_prefix(const struct policy_draft *d, const struct policy_edit *edit)
{
	const struct policy_list *paths = &d->rule.paths;

	for (size_t i = 0; i < paths->n; i++)
		if (strncmp(paths->at[i], edit->name, strlen(edit->name)) != 0)
			return node_err(d->err, d->values[POLICY_KEY_REWRITE], "the rule's path %.64s does not begin "
			                "with '%.64s', which is rewritten", paths->at[i], edit->name);
	return 0;
}

int
policy_check_rewrite(const struct policy_draft *d)
{
	const struct policy_rewrite *rw = d->rule.rewrite;
	int r = 0;

	for (size_t i = 0; rw != NULL && r == 0 && i < rw->n; i++) {
		const struct policy_edit *edit = &rw->edits[i];

		if (edit->kind == POLICY_EDIT_PATH)
			r = check_prefix(d, edit);
		if (policy_edit_part(edit) == POLICY_PART_BODY && (d->rule.git.present || d->rule.grpc))
			r = node_err(d->err, d->values[POLICY_KEY_REWRITE], "requests of `%s` have no JSON to rewrite",
			             d->rule.grpc ? "grpc" : "git");
	}
	return r;
}
