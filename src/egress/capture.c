/* capture.c - captures tokens in responses: holds the whole response, keeps the tokens, and
 * sends placeholders in their place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"
#include "vault/placeholder.h"

#define CAPTURED_MAX (4 * CAPTURE_BODY_MAX)     /* a body with placeholders in it */
#define TOKENS_AT_ONCE (CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX)
#define PLAIN_PATH_MAX 2048             /* a longer path is no token endpoint */
#define TOKEN_LIFE_MAX_S (10u * 366 * 86400)    /* a longer lifetime is cut to this */

/* ---- endpoints ---- */

static bool
has_label(const char *host, const char *word)
{
	size_t len = strlen(word);

	for (; host != NULL; host = strchr(host, '.'), host = host == NULL ? NULL : host + 1)
		if (strncmp(host, word, len) == 0 && (host[len] == '.' || host[len] == '-'))
			return true;
	return false;
}

static bool
is_named(const struct policy *scope, const char *host)
{
	const struct policy_rule *rule = policy_rule_at(scope, 0);

	for (size_t i = 0; i < rule->n_hosts; i++)
		if (rule->hosts[i].kind == POLICY_HOST_NAME && strcmp(rule->hosts[i].name, host) == 0)
			return true;
	return false;
}

static bool
has(struct http_text text, const char *word)
{
	return text.len > 0 && memmem(text.at, text.len, word, strlen(word)) != NULL;
}

/* Other responses of that service contain no tokens, and are large. */
static bool
is_for_ecr(const struct http_head *head)
{
	static const char *const act = "getauthorizationtoken";

	for (size_t i = 0; i < head->n_fields; i++)
		if (http_text_is(head->fields[i].name, "x-amz-target") &&
		    http_text_has_nocase(head->fields[i].value, act))
			return true;
	return http_text_has_nocase(head->path, act);
}

/* AWS has everything at "/", and responses of other services may be large.  So the request must
 * show that it asks for credentials. */
static bool
is_of_kind(const struct exchange *ex, const struct secret_capture *c, const struct http_head *head)
{
	struct http_text query = scheme_query_of(head);
	struct scheme_param session;

	if (strcmp(c->kind, "s3-session") == 0)
		return query.len > 0 && scheme_param_find(query, "session", &session);
	if (strcmp(c->kind, "ecr") == 0)
		return is_for_ecr(head);
	if (strcmp(c->kind, "sts") != 0)
		return true;
	return has_label(ex->host, "sts") ||
	       has(http_head_get(head, "authorization"), "/sts/aws4_request") ||
	       has(query, "%2Fsts%2Faws4_request") || has(query, "Action=AssumeRole") ||
	       has(query, "Action=GetSessionToken") || has(query, "Action=GetFederationToken") ||
	       (is_named(c->renews->scope, ex->host) && scheme_is_form(head));
}

/* Blanks, control characters and non-ASCII bytes: some servers trim, strip or ignore them.  In many
 * regular expressions "$" also matches before a final newline. */
static bool
is_overlooked(char c)
{
	return c <= ' ' || c == 0x7f || c == '+' || (c & 0x80) != 0;
}

/* Write PATH as the most lenient server reads it: in lower case, without escapes, parameters
 * (";x"), repeated slashes and anything after its end.  STRIP also removes the bytes that some
 * servers overlook.  0: it is too long. */
static size_t
write_plain(struct http_text path, bool strip, char ret_path[PLAIN_PATH_MAX])
{
	size_t n = 0;
	bool in_param = false;

	for (size_t i = 0; i < path.len && path.at[i] != '?'; i++) {
		char c = path.at[i];

		if (codec_percent_byte(path.at + i, path.len - i) >= 0) {
			c = (char)codec_percent_byte(path.at + i, path.len - i);
			i += 2;
		}
		if (c == '#')
			break;
		in_param = c == ';' || (in_param && c != '/');
		if (in_param || (strip && is_overlooked(c)) || (c == '/' && n > 0 && ret_path[n - 1] == '/'))
			continue;
		if (n == PLAIN_PATH_MAX)
			return 0;
		ret_path[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	while (n > 1 && strchr("/. ", ret_path[n - 1]) != NULL)
		n--;
	return n;
}

/* Some servers treat "/oauth/token.json" as the same path. */
static size_t
without_format(const char *path, size_t len)
{
	const char *dot = memrchr(path, '.', len), *slash = memrchr(path, '/', len);

	return dot != NULL && slash != NULL && dot > slash + 1 ? (size_t)(dot - path) : len;
}

static bool
fits_plain(struct exchange *ex, const struct secret *s, struct http_text path, bool strip)
{
	struct http_head *head = exchange_head(ex);
	const struct policy_request req = { .protocol = POLICY_HTTP, .head = head, .host = ex->host,
	                                    .port = ex->t.port };
	char plain[PLAIN_PATH_MAX];
	size_t len = write_plain(path, strip, plain);
	struct http_text as_it_is = head->path;
	bool is;

	if (len == 0)
		return false;
	head->path = (struct http_text){ plain, len };
	is = secret_in_scope_nocase(s, &req);
	head->path.len = without_format(plain, len);
	is = is || secret_in_scope_nocase(s, &req);
	head->path = as_it_is;
	return is;
}

/* Whether PATH is one of S's, in any spelling. */
static bool
is_path_of(struct exchange *ex, const struct secret *s, struct http_text path)
{
	return fits_plain(ex, s, path, false) || fits_plain(ex, s, path, true);
}

/* Whether EX's destination issues tokens.  The agent chooses the spelling of the path and the
 * fields that override it, and servers interpret these differently.  A scope does not fit in such a
 * case.  Here it is the reverse: holding one response too many is better than passing a token. */
static bool
is_endpoint(struct exchange *ex, const struct secret *s)
{
	static const char *const overrides[] = { "x-original-url", "x-rewrite-url" };
	struct http_head *head = exchange_head(ex);
	size_t n_fields = head->n_fields;
	struct http_text method = head->method;
	bool is = exchange_fits_scope(ex, s);

	if (is || !policy_mentions_host(s->scope, ex->host))
		return is;
	head->n_fields = 0;
	is = exchange_fits_scope(ex, s) || is_path_of(ex, s, head->path);
	for (size_t i = 0; !is && i < n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		for (size_t k = 0; k < ARRAY_LEN(overrides); k++)
			is = is || (http_text_is(field->name, overrides[k]) && is_path_of(ex, s, field->value));
		if (scheme_begins(field->name, "x-") && has(field->name, "method"))
			head->method = field->value;
		is = is || (head->method.at != method.at && is_path_of(ex, s, head->path));
		head->method = method;
	}
	head->n_fields = n_fields;
	return is;
}

static bool
is_captured(struct exchange *ex, const struct secret_capture *c)
{
	return is_of_kind(ex, c, exchange_head(ex)) && is_endpoint(ex, c->renews);
}

/* Prefer a capture whose secret is in the request; otherwise the first.  A client that logs in with
 * a device code sends no secret. */
const struct secret_capture *
exchange_find_capture(struct exchange *ex, size_t *ret_of)
{
	const struct secret_capture *found = NULL;
	const struct bound *bound = &ex->courier->secrets.bound;

	for (size_t i = 0; ex->courier->secrets.n_captures > 0 && i < bound->n; i++) {
		const struct secret *s = bound->at[i].secret;

		for (size_t k = 0; k < s->n_captures; k++) {
			const struct secret_capture *c = &s->captures[k];

			if ((found != NULL && ex->secrets->carried[i] == 0) || !is_captured(ex, c))
				continue;
			found = c;
			*ret_of = i;
			if (ex->secrets->carried[i] != 0)
				return found;
		}
	}
	return found;
}

/* ---- holding ---- */

bool
exchange_is_held(const struct exchange *ex)
{
	return ex->secrets != NULL && ex->secrets->answer_held != NULL;
}

void
exchange_free_held(struct exchange_secrets *x)
{
	struct exchange_held *held = TAKE(x->answer_held);

	if (held == NULL)
		return;
	buf_free(&held->head);
	buf_free(&held->body);
	free(held);
}

void
exchange_drop_held(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	if (x == NULL)
		return;
	/* The gate has not received this response. */
	if (x->answer_held != NULL)
		ex->t.answered = false;
	exchange_free_held(x);
	if (!ex->t.answered)
		exchange_drop_unpack(ex->courier, x);
}

bool
exchange_hold(struct exchange *ex, const struct http_head *head, const char **ret_why)
{
	struct exchange_secrets *x = ex->secrets;
	struct exchange_held *held = calloc(1, sizeof(*held));
	struct err err = {0};

	*ret_why = "there is no memory to take tokens out of it";
	if (held == NULL)
		return false;
	x->answer_held = held;
	held->capture = exchange_find_capture(ex, &held->of);
	buf_init_secret(&held->head, MUX_FRAME_MAX);
	buf_init_secret(&held->body, CAPTURE_BODY_MAX);
	if (held->capture == NULL || buf_add(&held->head, MUX_FRAME_MAX) == NULL ||
	    buf_add(&held->body, CAPTURE_BODY_MAX) == NULL)
		return false;
	buf_reset(&held->head);
	buf_reset(&held->body);
	if (http_head_check(head, &err) < 0) {
		snprintf(x->reason, sizeof(x->reason), "its head is malformed: %.180s", err.text);
		*ret_why = x->reason;
		return false;
	}
	http_head_encode(&held->head, head);
	*ret_why = "its head is too large";
	return !buf_failed(&held->head);
}

bool
exchange_hold_body(struct exchange *ex, const void *data, size_t len)
{
	struct exchange_secrets *x = ex->secrets;

	if (len > CAPTURE_BODY_MAX - x->answer_held->body.len) {
		snprintf(x->reason, sizeof(x->reason), "tokens of the secret '%s' may be in it, and it is "
		         "over %d KiB", ex->courier->secrets.bound.at[x->answer_held->of].secret->name,
		         CAPTURE_BODY_MAX / 1024);
		return false;
	}
	buf_put(&x->answer_held->body, data, len);
	transfer_touch(&ex->t, COURIER_IDLE_S);
	return true;
}

/* ---- tokens ---- */

struct capturing {
	struct exchange *ex;
	const struct exchange_held *held;
	const struct secret_capture *capture;
	struct token *fresh[TOKENS_AT_ONCE];
	size_t n;
};

static uint64_t
end_of(const struct capture_member *member)
{
	uint64_t now = (uint64_t)time(NULL);
	int64_t in = member->expires_in;

	if (in >= 0)
		return now + ((uint64_t)in > TOKEN_LIFE_MAX_S ? TOKEN_LIFE_MAX_S : (uint64_t)in);
	/* 0 means never. */
	return member->expires_at < 0 ? 0 : member->expires_at == 0 ? 1 : (uint64_t)member->expires_at;
}

static enum secret_field
field_of(enum capture_role role)
{
	return role == CAPTURE_KEY_ID ? SECRET_ID : role == CAPTURE_SESSION_TOKEN ? SECRET_TOKEN :
	       SECRET_SECRET;
}

/* A value that was captured before, for the same use, keeps its placeholder. */
static struct token *
find_token(const struct capturing *c, const struct secret *as, enum secret_field field,
           struct http_text value)
{
	const struct secrets *s = &c->ex->courier->secrets;

	for (size_t i = 0; i < s->n_tokens + c->n; i++) {
		struct token *t = i < s->n_tokens ? s->tokens[i] : c->fresh[i - s->n_tokens];

		if (t->known.secret == as && scheme_same(t->known.real[field], value))
			return t;
	}
	return NULL;
}

static int
keep_values(struct token *t, const struct capture_set *set, size_t first, size_t n,
            struct err *err)
{
	size_t size = 0;
	int r;

	for (size_t i = first; i < first + n; i++)
		size += set->members[i].value.len + 1;
	r = guard_alloc(&t->memory, size, err);
	for (size_t i = first; r == 0 && i < first + n; i++) {
		const struct capture_member *m = &set->members[i];
		char *at = t->memory.at + t->memory.len;

		memcpy(at, m->value.at, m->value.len);
		at[m->value.len] = '\0';
		t->known.real[field_of(m->role)] = (struct http_text){ at, m->value.len };
		t->memory.len += m->value.len + 1;
	}
	return r;
}

/* Make a token of N members from FIRST on.  Each member's WITH is then its placeholder. */
static int
add_token(struct capturing *c, const struct secret *as, struct capture_set *set, size_t first,
          size_t n, struct err *err)
{
	struct token *t = calloc(1, sizeof(*t));
	int r;

	if (t == NULL)
		return err_set(err, ENOMEM, "there is no memory");
	c->fresh[c->n++] = t;
	t->users = 1;
	t->of = c->held->of;
	t->known.secret = (struct secret *)(uintptr_t)as;
	r = keep_values(t, set, first, n, err);
	for (size_t i = first; r == 0 && i < first + n; i++) {
		enum secret_field field = field_of(set->members[i].role);
		struct http_text real = t->known.real[field];
		const struct guard value = { (char *)(uintptr_t)real.at, real.len, real.len };

		/* Later it would be unclear which of the two is meant. */
		if (t->fake[field] != NULL)
			return err_set(err, EBADMSG, "it gives one part of a key twice");
		t->known.expires = end_of(&set->members[i]);
		r = placeholder_mint_token(&as->shapes[field], &value, t->known.expires, &t->fake[field],
		                           err);
		if (r == 0)
			t->known.placeholder[field] = set->members[i].with = scheme_text(t->fake[field]);
	}
	return r;
}

/* Whether the members are parts of one credential.  Otherwise each token stands alone. */
static bool
is_key(const struct capture_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->members[i].role == CAPTURE_SECRET_KEY)
			return true;
	return false;
}

static int
replace(void *arg, struct capture_set *set, struct err *err)
{
	struct capturing *c = arg;
	size_t n = is_key(set) ? set->n : 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->n; i += n) {
		const struct secret *as = set->members[i].role == CAPTURE_REFRESH
		                          ? c->capture->renews : c->capture->gives;
		enum secret_field field = field_of(set->members[i].role);
		struct token *known = find_token(c, as, field, set->members[i].value);

		for (size_t k = i; known != NULL && k < i + n; k++)
			if (!scheme_same(known->known.real[field_of(set->members[k].role)],
			                 set->members[k].value))
				known = NULL;
		if (known == NULL) {
			r = add_token(c, as, set, i, n, err);
			continue;
		}
		known->known.expires = end_of(&set->members[i]);
		for (size_t k = i; k < i + n; k++)
			set->members[k].with = known->known.placeholder[field_of(set->members[k].role)];
	}
	return r;
}

/* ---- sending on ---- */

/* Replace the tokens that CAPTURE describes in *BODY. */
static int
take_tokens_of(struct exchange *ex, const struct secret_capture *capture, struct http_text type,
               struct buf *body, struct err *err)
{
	struct capturing c = { .ex = ex, .held = ex->secrets->answer_held, .capture = capture };
	OWN(buf_free) struct buf other = BUF_SECRET(CAPTURED_MAX);
	struct buf swap;
	size_t found = 0;
	int r;

	r = capture_rewrite(capture_kind_find(capture->kind), type, body->data, body->len, replace, &c,
	                    &other, &found, err);
	if (r == 0 && c.n > 0)
		r = secrets_add_tokens(ex->courier, c.fresh, c.n, err);
	for (size_t i = 0; r < 0 && i < c.n; i++)
		token_release(c.fresh[i]);
	if (r == 0 && found > 0)
		swap = *body, *body = other, other = swap;
	return r;
}

/* Make the body to send instead of the held one.  The agent can make a request look like one for
 * another kind of token, so the body is read as every kind that it may be. */
static int
take_tokens(struct exchange *ex, struct http_text type, struct buf *ret_body, struct err *err)
{
	struct exchange_held *held = ex->secrets->answer_held;
	const struct secret *s = ex->courier->secrets.bound.at[held->of].secret;
	int r = 0;

	buf_put(ret_body, held->body.data, held->body.len);
	if (buf_failed(ret_body))
		return err_set(err, ENOMEM, "there is no memory");
	for (size_t i = 0; r == 0 && i < s->n_captures; i++)
		if (held->capture == &s->captures[i] || is_captured(ex, &s->captures[i]))
			r = take_tokens_of(ex, &s->captures[i], type, ret_body, err);
	return r;
}

bool
exchange_let_go(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;
	struct exchange_held *held = x->answer_held;
	OWN(buf_free) struct buf body = BUF_SECRET(CAPTURED_MAX);
	struct http_head head;
	struct buf encoded;
	struct err err = {0};
	const char *why = "its head is malformed";
	bool ok;

	buf_init_borrowed(&encoded, held->head.data, held->head.len);
	if (!http_head_decode_checked(&encoded, &head))
		abort();                /* we encoded it ourselves */
	if (take_tokens(ex, http_head_get(&head, "content-type"), &body, &err) < 0) {
		snprintf(x->reason, sizeof(x->reason), "tokens of the secret '%s' may be in it, and %.150s",
		         held->capture->gives->name, err.text);
		return false;
	}
	head.length = body.len;
	(void)exchange_scratch(ex);
	ok = exchange_scrub_fields(ex, &head, &why);
	if (!ok)
		snprintf(x->reason, sizeof(x->reason), "%s", why);
	/* From here on the response has begun. */
	ok = ok && exchange_send_head(ex, &head, true);
	exchange_free_held(x);
	return ok && exchange_scrub_plain(ex, body.data, body.len);
}
