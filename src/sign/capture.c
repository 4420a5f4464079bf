/* capture.c - see capture.h. */
#include "sign/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/crypto.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/capture_parts.h"

#define SHORT_VALUE 8                   /* may stand elsewhere by chance */
/* ---- what was found ------------------------------------------------------------------------ */

int
capture_draft_new(struct capture_drafts *d, struct capture_draft **ret_draft)
{
	if (d->n == CAPTURE_SETS_MAX)
		return err_set(d->err, E2BIG, "the response has over %d sets of credentials",
		               CAPTURE_SETS_MAX);
	*ret_draft = &d->list[d->n++];
	(*ret_draft)->set.n = (*ret_draft)->n_expiries = 0;
	(*ret_draft)->owner = NULL;
	return 0;
}

int
capture_draft_add(struct capture_drafts *d, struct capture_draft *draft,
                  const struct capture_rule *rule, struct http_text value,
                  struct http_text spot)
{
	size_t n = draft->set.n;

	if (value.len == 0)
		return 0;
	if (value.len > CAPTURE_VALUE_MAX)
		return err_set(d->err, EFBIG, "the response's '%s' is over %d KiB", rule->name,
		               CAPTURE_VALUE_MAX / 1024);
	for (size_t i = 0; i < n; i++)
		if (draft->rules[i] == rule)
			return err_set(d->err, EBADMSG, "the response has '%s' twice", rule->name);
	if (n == CAPTURE_MEMBERS_MAX)
		return err_set(d->err, E2BIG, "the response has too many tokens");
	draft->rules[n] = rule;
	draft->spots[n] = spot;
	draft->set.members[n] = (struct capture_member){
		.name = rule->name, .role = rule->role, .value = value,
		.expires_in = -1, .expires_at = -1,
	};
	draft->set.n++;
	return 0;
}

/* The first expiry of each rule that the set has. */
static void
resolve_expiries(struct capture_draft *draft)
{
	for (size_t i = 0; i < draft->set.n; i++) {
		struct capture_member *member = &draft->set.members[i];

		for (size_t j = 0; j < ARRAY_LEN(draft->rules[i]->expiries); j++) {
			const char *name = draft->rules[i]->expiries[j];

			for (size_t k = 0; name != NULL && k < draft->n_expiries; k++) {
				if (strcmp(draft->expiries[k].name, name) != 0 ||
				    member->expires_in >= 0 || member->expires_at >= 0)
					continue;
				member->expires_in = draft->expiries[k].in;
				member->expires_at = draft->expiries[k].at;
			}
		}
	}
}

static bool
is_complete(const struct capture_drafts *d, const struct capture_draft *draft)
{
	bool has_secret = !d->kind->whole_key;

	for (size_t i = 0; i < draft->set.n; i++)
		has_secret = has_secret || draft->set.members[i].role == CAPTURE_SECRET_KEY;
	return has_secret && draft->set.n > 0;
}

static int
ask_for_others(struct capture_drafts *d, capture_replace *replace, void *arg,
               size_t *ret_found)
{
	size_t found = 0;

	for (size_t i = 0; i < d->n; i++) {
		struct capture_draft *draft = &d->list[i];
		int r;

		if (!is_complete(d, draft)) {
			draft->set.n = 0;
			continue;
		}
		resolve_expiries(draft);
		r = replace(arg, &draft->set, d->err);
		if (r < 0)
			return r;
		for (size_t j = 0; j < draft->set.n; j++)
			if (draft->set.members[j].with.len == 0)
				return err_set(d->err, EINVAL, "there is nothing to put in place of the "
				               "response's '%s'", draft->set.members[j].name);
		found += draft->set.n;
	}
	*ret_found = found;
	return 0;
}

static int
check_gone(const struct capture_drafts *d, const struct buf *body)
{
	for (size_t i = 0; i < d->n; i++) {
		for (size_t j = 0; j < d->list[i].set.n; j++) {
			const struct capture_member *member = &d->list[i].set.members[j];

			if (member->role == CAPTURE_KEY_ID || member->value.len < SHORT_VALUE)
				continue;
			if (memmem(body->data, body->len, member->value.at, member->value.len) != NULL)
				return err_set(d->err, EBADMSG, "the response has its '%s' in another place, "
				               "too", member->name);
		}
	}
	return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int
read_json_member(struct capture_drafts *d, struct capture_draft *draft, const char *key,
                 const json_t *value)
{
	struct http_text name = scheme_text(key), text = { NULL, 0 };
	const struct capture_rule *rule = capture_rule_find(d->kind, name);
	const char *expiry = capture_expiry_find(d->kind, name);

	if (json_is_string(value))
		text = (struct http_text){ json_string_value(value), json_string_length(value) };
	if (rule != NULL && text.at == NULL && !json_is_null(value))
		return err_set(d->err, EBADMSG, "the response's '%s' is no text", rule->name);
	if (rule != NULL)
		return capture_draft_add(d, draft, rule, text, (struct http_text){ NULL, 0 });
	if (expiry != NULL && json_is_number(value))
		capture_draft_expiry_number(draft, expiry, json_number_value(value));
	else if (expiry != NULL)
		capture_draft_expiry(draft, expiry, text);
	return 0;
}

static bool
has_secrets(const struct capture_kind *kind, json_t *object)
{
	for (const struct capture_rule *rule = kind->rules; rule->name != NULL; rule++)
		if (json_object_get(object, rule->name) != NULL)
			return true;
	return false;
}

static int
read_json(struct capture_drafts *d, json_t *json, int depth)
{
	struct capture_draft *draft = NULL;
	const char *key;
	json_t *value;
	size_t i;
	int r = 0;

	if (depth > CAPTURE_DEPTH_MAX)
		return err_set(d->err, E2BIG, "the response's JSON is too deep");
	if (json_is_object(json) && has_secrets(d->kind, json)) {
		r = capture_draft_new(d, &draft);
		if (r < 0)
			return r;
		draft->owner = json;
	}
	json_object_foreach(json, key, value) {
		if (json_is_object(value) || json_is_array(value)) {
			r = capture_rule_find(d->kind, scheme_text(key)) != NULL
			    ? err_set(d->err, EBADMSG, "the response's '%s' is no text", key)
			    : read_json(d, value, depth + 1);
		} else if (draft != NULL) {
			r = read_json_member(d, draft, key, value);
		}
		if (r < 0)
			return r;
	}
	json_array_foreach(json, i, value) {
		r = json_is_object(value) || json_is_array(value) ? read_json(d, value, depth + 1) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int
put_json(struct capture_drafts *d, json_t *root, struct buf *ret_body)
{
	OWN(freep) char *text = NULL;

	for (size_t i = 0; i < d->n; i++) {
		for (size_t j = 0; j < d->list[i].set.n; j++) {
			struct capture_member *member = &d->list[i].set.members[j];
			json_t *with = json_stringn(member->with.at, member->with.len);
			size_t at = d->values.len;

			/* Kept for the last look, then wiped with the others. */
			scheme_put(&d->values, member->value);
			OPENSSL_cleanse((char *)(uintptr_t)member->value.at, member->value.len);
			member->value.at = (char *)d->values.data + at;
			if (buf_failed(&d->values) || with == NULL ||
			    json_object_set_new(d->list[i].owner, member->name, with) < 0)
				return scheme_failed(d->err, "write a response");
		}
	}
	text = json_dumps(root, JSON_COMPACT);
	if (text == NULL)
		return scheme_failed(d->err, "write a response");
	scheme_put_str(ret_body, text);
	return 0;
}

/* What the parser made of them does not stay behind. */
static void
wipe_json(json_t **root)
{
	json_t *json = *root, *value;
	const char *key;
	size_t i;

	json_object_foreach(json, key, value)
		if (!json_is_string(value))
			wipe_json(&value);
	json_array_foreach(json, i, value)
		wipe_json(&value);
	json_object_foreach(json, key, value)
		if (json_is_string(value))
			OPENSSL_cleanse((char *)(uintptr_t)json_string_value(value),
			                json_string_length(value));
}

static void
drop_json(json_t **root)
{
	if (*root != NULL)
		wipe_json(root);
	json_decref(*root);
}

struct rewriter {
	capture_replace *replace;
	void *arg;
	struct buf *ret_body;
	size_t *ret_found;
};

static int
rewrite_json(struct capture_drafts *d, struct http_text body, const struct rewriter *w)
{
	OWN(drop_json) json_t *root = NULL;
	json_error_t why;
	int r;

	root = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, &why);
	if (root == NULL)
		return err_set(d->err, EBADMSG, "the response is not the JSON it should be, at byte %d",
		               why.position);
	r = read_json(d, root, 1);
	if (r == 0)
		r = ask_for_others(d, w->replace, w->arg, w->ret_found);
	if (r == 0 && *w->ret_found > 0)
		r = put_json(d, root, w->ret_body);
	return r;
}

/* ---- XML and forms ---------------------------------------------------------------------------- */

static int
read_form(struct capture_drafts *d, struct http_text body)
{
	struct capture_draft *draft = NULL;
	struct scheme_param param;
	int r = capture_draft_new(d, &draft);

	while (r == 0 && scheme_param_next(&body, &param)) {
		struct http_text name = { (char *)d->values.data + d->values.len, 0 }, value;
		const struct capture_rule *rule;
		const char *expiry;

		scheme_put_decoded(&d->values, param.name, true);
		name.len = (size_t)((char *)d->values.data + d->values.len - name.at);
		value = (struct http_text){ name.at + name.len, 0 };
		scheme_put_decoded(&d->values, param.value, true);
		value.len = (size_t)((char *)d->values.data + d->values.len - value.at);
		rule = capture_rule_find(d->kind, name);
		expiry = capture_expiry_find(d->kind, name);
		if (rule != NULL)
			r = capture_draft_add(d, draft, rule, value, param.value);
		else if (expiry != NULL)
			capture_draft_expiry(draft, expiry, value);
	}
	return r;
}

static int
compare_cuts(const void *a, const void *b)
{
	const struct scheme_cut *x = a, *y = b;

	return x->at.at < y->at.at ? -1 : x->at.at > y->at.at;
}

static int
rewrite_text(struct capture_drafts *d, struct http_text body, bool xml,
             const struct rewriter *w)
{
	struct scheme_cut cuts[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX];
	struct buf coded[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX];
	size_t n = 0;
	int r = xml ? capture_read_xml(d, body) : read_form(d, body);

	if (r == 0)
		r = ask_for_others(d, w->replace, w->arg, w->ret_found);
	for (size_t i = 0; r == 0 && i < d->n; i++) {
		for (size_t j = 0; j < d->list[i].set.n; j++, n++) {
			buf_init(&coded[n], 6 * CAPTURE_VALUE_MAX);
			if (xml)
				capture_put_xml(&coded[n], d->list[i].set.members[j].with);
			else
				scheme_put_encoded(&coded[n], d->list[i].set.members[j].with);
			cuts[n] = (struct scheme_cut){ d->list[i].spots[j], scheme_text_of(&coded[n]) };
			if (buf_failed(&coded[n]))
				w->ret_body->failed = true;
		}
	}
	qsort(cuts, n, sizeof(cuts[0]), compare_cuts);
	if (r == 0 && n > 0)
		scheme_splice(w->ret_body, body, cuts, n);
	while (n > 0)
		buf_free(&coded[--n]);
	return r;
}

static bool
type_has(struct http_text type, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= type.len && type.at[i] != ';'; i++)
		if (http_text_is_nocase((struct http_text){ type.at + i, len }, word))
			return true;
	return false;
}

/* By what the type says, or else by how it begins. */
static char
kind_of_body(struct http_text type, struct http_text body)
{
	if (type_has(type, "json"))
		return 'j';
	if (type_has(type, "xml"))
		return 'x';
	if (type_has(type, "x-www-form-urlencoded"))
		return 'f';
	for (size_t i = 0; i < body.len; i++) {
		if (body.at[i] == ' ' || body.at[i] == '\t' || body.at[i] == '\r' ||
		    body.at[i] == '\n')
			continue;
		return body.at[i] == '{' || body.at[i] == '[' ? 'j' : body.at[i] == '<' ? 'x' : 'f';
	}
	return 0;
}

int
capture_rewrite(const struct capture_kind *kind, struct http_text type,
                const void *body, size_t len, capture_replace *replace, void *arg,
                struct buf *ret_body, size_t *ret_found, struct err *err)
{
	struct http_text text = { body, len };
	OWN(freep) struct capture_drafts *d = NULL;
	size_t found = 0;
	struct rewriter w = { replace, arg, ret_body, &found };
	char is;
	int r;

	if (len > CAPTURE_BODY_MAX)
		return err_set(err, EFBIG, "the response, which has tokens in it, is over %d KiB",
		               CAPTURE_BODY_MAX / 1024);
	d = malloc(sizeof(*d));
	if (d == NULL)
		return scheme_failed(err, "read a response");
	d->kind = kind;
	d->n = 0;
	d->err = err;
	buf_init(&d->values, len + 1);
	if (buf_add(&d->values, len + 1) == NULL)
		return scheme_failed(err, "read a response");
	d->values.len = 0;
	is = kind_of_body(type, text);
	if (is == 'j')
		r = rewrite_json(d, text, &w);
	else
		r = is == 0 ? 0 : rewrite_text(d, text, is == 'x', &w);
	if (r == 0 && buf_failed(ret_body))
		r = err_set(err, EFBIG, "the response is too long with its new tokens");
	if (r == 0 && found > 0)
		r = check_gone(d, ret_body);
	scheme_buf_wipe(&d->values);
	if (r == 0)
		*ret_found = found;
	return r;
}
