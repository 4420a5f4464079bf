/* capture.c - see capture.h. */
#include "sign/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "http/json_walk.h"
#include "sign/capture_parts.h"

#define SHORT_VALUE 8                   /* such a value may occur elsewhere by chance */
#define JSON_NAME_MAX 64                /* for the name of a searched member */

/* ---- results ------------------------------------------------------------------------------- */

int
capture_draft_new(struct capture_drafts *d, struct capture_draft **ret_draft)
{
	if (d->n == CAPTURE_SETS_MAX)
		return err_set(d->err, E2BIG, "the response has over %d sets of credentials",
		               CAPTURE_SETS_MAX);
	*ret_draft = &d->list[d->n++];
	(*ret_draft)->set.n = (*ret_draft)->n_expiries = 0;
	return 0;
}

/* *VALUE is USER:PASSWORD in base64.  It becomes the password, and *ret_user is "USER:". */
static int
split_basic(struct capture_drafts *d, const struct capture_rule *rule, struct http_text *value,
            struct http_text *ret_user)
{
	char *at = (char *)d->values.data + d->values.len, *colon = NULL;
	size_t len = 0;

	if (scheme_decode(SIGN_BASE64, *value, (unsigned char *)at, d->values.max - d->values.len,
	                  &len) == 0)
		colon = memchr(at, ':', len);
	if (colon == NULL || colon + 1 == at + len)
		return err_set(d->err, EBADMSG, "the response's '%s' is no user and password in base64",
		               rule->name);
	d->values.len += len;
	*ret_user = (struct http_text){ at, (size_t)(colon + 1 - at) };
	*value = (struct http_text){ colon + 1, len - ret_user->len };
	return 0;
}

int
capture_draft_add(struct capture_drafts *d, struct capture_draft *draft,
                  const struct capture_rule *rule, struct http_text value,
                  struct http_text spot)
{
	size_t n = draft->set.n;
	int r;

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
	draft->users[n] = (struct http_text){ "", 0 };
	r = rule->basic ? split_basic(d, rule, &value, &draft->users[n]) : 0;
	if (r < 0)
		return r;
	draft->rules[n] = rule;
	draft->spots[n] = spot;
	draft->set.members[n] = (struct capture_member){
		.name = rule->name, .role = rule->role, .value = value,
		.expires_in = -1, .expires_at = -1,
	};
	draft->set.n++;
	return 0;
}

/* For each rule, take the first of its expiries that the set has. */
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

/* ---- JSON ------------------------------------------------------------------------------------ */

static int
malformed(const struct capture_drafts *d, int r, size_t at)
{
	if (r == -E2BIG)
		return err_set(d->err, E2BIG, "the response's JSON is too deep");
	return err_set(d->err, EBADMSG, "the response is not the JSON it should be, at byte %zu", at);
}

/* A longer name is none that is searched for. */
static struct http_text
name_of(const struct json_walk_item *item, char out[JSON_NAME_MAX])
{
	size_t len = 0;

	if (item->name.at == NULL || json_walk_decode(item->name, out, JSON_NAME_MAX, &len) < 0)
		len = 0;
	return (struct http_text){ out, len };
}

/* Whether the object that W, a copy, has just entered has a secret member. */
static bool
has_secrets(const struct capture_kind *kind, struct json_walk w)
{
	size_t depth = w.depth;
	struct json_walk_item item;
	char name[JSON_NAME_MAX];

	while (json_walk_next(&w, &item) == 1 && w.depth >= depth)
		if (item.depth == depth && item.kind != JSON_WALK_CLOSE &&
		    capture_rule_find(kind, name_of(&item, name)) != NULL)
			return true;
	return false;
}

/* Decode to the end of VALUES, which has room for all strings of the body, and for any one of them
 * again. */
static struct http_text
decode(struct capture_drafts *d, struct http_text raw)
{
	char *at = (char *)d->values.data + d->values.len;
	size_t len = 0;

	if (json_walk_decode(raw, at, d->values.max - d->values.len, &len) < 0)
		abort();
	d->values.len += len;
	return (struct http_text){ at, len };
}

static int
read_json_member(struct capture_drafts *d, struct capture_draft *draft,
                 const struct json_walk_item *item)
{
	char buffer[JSON_NAME_MAX], number[64];
	struct http_text name = name_of(item, buffer), text = { NULL, 0 };
	const struct capture_rule *rule = capture_rule_find(d->kind, name);
	const char *expiry = capture_expiry_find(d->kind, name);

	if (rule == NULL && expiry == NULL)
		return 0;
	if (item->kind == JSON_WALK_STRING)
		text = decode(d, item->raw);
	if (rule != NULL && text.at == NULL && item->kind != JSON_WALK_NULL)
		return err_set(d->err, EBADMSG, "the response's '%s' is no text", rule->name);
	if (rule != NULL)
		return capture_draft_add(d, draft, rule, text, item->raw);
	if (item->kind == JSON_WALK_NUMBER && item->raw.len < sizeof(number)) {
		memcpy(number, item->raw.at, item->raw.len);
		number[item->raw.len] = '\0';
		capture_draft_expiry_number(draft, expiry, strtod(number, NULL));
	} else {
		capture_draft_expiry(draft, expiry, text);
	}
	return 0;
}

static int
read_json(struct capture_drafts *d, struct http_text body)
{
	struct capture_draft *drafts[CAPTURE_DEPTH_MAX + 1] = { NULL };
	struct json_walk_item item;
	struct json_walk w;
	int r = 0, next;

	json_walk_begin(&w, body);
	while (r == 0 && (next = json_walk_next(&w, &item)) == 1) {
		if (item.kind == JSON_WALK_CLOSE)
			continue;
		if (item.depth > 0 && drafts[item.depth - 1] != NULL)
			r = read_json_member(d, drafts[item.depth - 1], &item);
		if (r < 0 || (item.kind != JSON_WALK_OBJECT && item.kind != JSON_WALK_ARRAY))
			continue;
		if (item.depth == CAPTURE_DEPTH_MAX)
			return malformed(d, -E2BIG, 0);
		drafts[item.depth] = NULL;
		if (item.kind == JSON_WALK_OBJECT && has_secrets(d->kind, w))
			r = capture_draft_new(d, &drafts[item.depth]);
	}
	return r < 0 || next == 0 ? r : malformed(d, next, (size_t)(w.at - body.at));
}

static bool
is_spot(const struct capture_drafts *d, struct http_text raw)
{
	for (size_t i = 0; i < d->n; i++)
		for (size_t j = 0; j < d->list[i].set.n; j++)
			if (d->list[i].spots[j].at == raw.at)
				return true;
	return false;
}

static int
check_gone(const struct capture_drafts *d, struct http_text text)
{
	for (size_t i = 0; i < d->n; i++) {
		for (size_t j = 0; j < d->list[i].set.n; j++) {
			const struct capture_member *member = &d->list[i].set.members[j];

			if (member->role == CAPTURE_KEY_ID || member->value.len < SHORT_VALUE)
				continue;
			if (memmem(text.at, text.len, member->value.at, member->value.len) != NULL)
				return err_set(d->err, EBADMSG, "the response has its '%s' in another place, "
				               "too", member->name);
		}
	}
	return 0;
}

/* Check that no token remains, in any escaped form. */
static int
check_json_gone(struct capture_drafts *d, struct http_text body)
{
	struct json_walk_item item;
	struct json_walk w;
	int r = 0;

	json_walk_begin(&w, body);
	while (r == 0 && json_walk_next(&w, &item) == 1) {
		size_t used = d->values.len;

		if (item.name.at != NULL)
			r = check_gone(d, decode(d, item.name));
		d->values.len = used;
		if (r == 0 && item.kind == JSON_WALK_STRING && !is_spot(d, item.raw))
			r = check_gone(d, decode(d, item.raw));
		d->values.len = used;
	}
	return r;
}

struct rewriter {
	capture_replace *replace;
	void *arg;
	struct buf *ret_body;
	size_t *ret_found;
};

/* ---- forms, and all bodies ----------------------------------------------------------------- */

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
read_body(struct capture_drafts *d, struct http_text body, char is)
{
	return is == 'j' ? read_json(d, body) : is == 'x' ? capture_read_xml(d, body)
	                                                  : read_form(d, body);
}

static void
put_coded(struct buf *b, char is, struct http_text text)
{
	if (is == 'j')
		canon_text_put(b, text.at, text.len, false);
	else if (is == 'x')
		capture_put_xml(b, text);
	else
		scheme_put_encoded(b, text);
}

/* Write member I of DRAFT as the new body has it. */
static void
put_other(struct buf *b, char is, const struct capture_draft *draft, size_t i)
{
	OWN(buf_free) struct buf plain = {0}, basic = {0};

	if (!draft->rules[i]->basic) {
		put_coded(b, is, draft->set.members[i].with);
		return;
	}
	buf_init_secret(&plain, 2 * CAPTURE_VALUE_MAX);
	buf_init_secret(&basic, 4 * CAPTURE_VALUE_MAX);
	scheme_put(&plain, draft->users[i]);
	scheme_put(&plain, draft->set.members[i].with);
	scheme_put_coded(&basic, SIGN_BASE64, plain.data, plain.len);
	put_coded(b, is, scheme_text_of(&basic));
	b->failed |= buf_failed(&plain) || buf_failed(&basic);
}

static int
rewrite_text(struct capture_drafts *d, struct http_text body, char is,
             const struct rewriter *w)
{
	struct scheme_cut cuts[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX];
	struct buf coded[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX];
	size_t n = 0;
	int r = read_body(d, body, is);

	if (r == 0)
		r = ask_for_others(d, w->replace, w->arg, w->ret_found);
	for (size_t i = 0; r == 0 && i < d->n; i++) {
		for (size_t j = 0; j < d->list[i].set.n; j++, n++) {
			buf_init_secret(&coded[n], 6 * CAPTURE_VALUE_MAX);
			put_other(&coded[n], is, &d->list[i], j);
			cuts[n] = (struct scheme_cut){ d->list[i].spots[j], scheme_text_of(&coded[n]) };
			if (buf_failed(&coded[n]))
				w->ret_body->failed = true;
		}
	}
	if (r == 0 && n > 0) {
		qsort(cuts, n, sizeof(cuts[0]), compare_cuts);
		scheme_splice(w->ret_body, body, cuts, n);
	}
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

/* Whether the body is of a type that is not read, which the agent may have requested: tokens in it
 * would not be found. */
static bool
is_foreign(struct http_text type, struct http_text body)
{
	static const char blanks[] = { '\t', '\r', '\n' };     /* without NUL */

	if (type.len > 0 && !type_has(type, "text/"))
		return true;
	for (size_t i = 0; i < body.len; i++)
		if ((unsigned char)body.at[i] < ' ' && memchr(blanks, body.at[i], sizeof(blanks)) == NULL)
			return true;
	return false;
}

/* The kind of body, by its type, or else by its beginning.  0: there is none; '?': it cannot be
 * read. */
static char
kind_of_body(struct http_text type, struct http_text body)
{
	/* Its JSON variant has no member names. */
	if (type_has(type, "protobuf"))
		return '?';
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
		return body.at[i] == '{' || body.at[i] == '[' ? 'j' : body.at[i] == '<' ? 'x' :
		       is_foreign(type, body) ? '?' : 'f';
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
	buf_init_secret(&d->values, 3 * len + 1);
	if (buf_add(&d->values, 3 * len + 1) == NULL)
		return scheme_failed(err, "read a response");
	d->values.len = 0;
	is = kind_of_body(type, text);
	if (is == '?')
		r = err_set(err, EBADMSG, "the response is no JSON, XML or form: tokens cannot be taken out of it");
	else
		r = is == 0 ? 0 : rewrite_text(d, text, is, &w);
	if (r == 0 && buf_failed(ret_body))
		r = err_set(err, EFBIG, "the response is too long with its new tokens");
	if (r == 0 && found > 0)
		r = check_gone(d, scheme_text_of(ret_body));
	if (r == 0 && found > 0 && is == 'j')
		r = check_json_gone(d, text);
	buf_free(&d->values);
	if (r == 0)
		*ret_found = found;
	return r;
}
