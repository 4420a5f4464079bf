/* jwt.c - JSON Web Tokens that a client signs itself (RFC 7515, 7518, 8037): as Bearer, and
 * as an assertion in a form (RFC 7523). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "http/json_walk.h"
#include "sign/scheme_pkey.h"
#include "sign/sign_schemes.h"
#include "sign/sigv4.h"

#define JWT_MAX (16 * 1024)             /* one token */
#define JWT_ID_MAX 512
#define GOOGLE_TOKENS "https://oauth2.googleapis.com/token"

static const struct scheme_algorithm algorithms[] = {
	{ "HS256", SCHEME_HMAC, "SHA256", NULL, 0 },
	{ "HS384", SCHEME_HMAC, "SHA384", NULL, 0 },
	{ "HS512", SCHEME_HMAC, "SHA512", NULL, 0 },
	{ "RS256", SCHEME_RSA, "SHA256", NULL, 0 },
	{ "RS384", SCHEME_RSA, "SHA384", NULL, 0 },
	{ "RS512", SCHEME_RSA, "SHA512", NULL, 0 },
	{ "PS256", SCHEME_PSS, "SHA256", NULL, 0 },
	{ "PS384", SCHEME_PSS, "SHA384", NULL, 0 },
	{ "PS512", SCHEME_PSS, "SHA512", NULL, 0 },
	{ "ES256", SCHEME_EC, "SHA256", "prime256v1", 32 },
	{ "ES384", SCHEME_EC, "SHA384", "secp384r1", 48 },
	{ "ES512", SCHEME_EC, "SHA512", "secp521r1", 66 },
	{ "EdDSA", SCHEME_ED, NULL, "ED25519", 0 },
};

/* The three parts of a token as written, and the first two together. */
struct jwt {
	struct http_text header, claims, signature, message;
};

/* The first two parts, decoded. */
struct jwt_json {
	struct http_text header, claims;
	unsigned char at[JWT_MAX];
};

static bool
jwt_split(struct http_text text, struct jwt *ret)
{
	const char *one = text.len > 0 ? memchr(text.at, '.', text.len) : NULL;
	const char *end = text.at + text.len, *two;

	two = one != NULL ? memchr(one + 1, '.', (size_t)(end - one - 1)) : NULL;
	if (two == NULL || memchr(two + 1, '.', (size_t)(end - two - 1)) != NULL)
		return false;
	ret->header = (struct http_text){ text.at, (size_t)(one - text.at) };
	ret->claims = (struct http_text){ one + 1, (size_t)(two - one - 1) };
	ret->signature = (struct http_text){ two + 1, (size_t)(end - two - 1) };
	ret->message = (struct http_text){ text.at, (size_t)(two - text.at) };
	/* "{" and its possible next characters, in base64. */
	return scheme_begins(text, "ey") && ret->claims.len > 0;
}

/* The token of `authorization: Bearer`, if it looks like a JWT. */
static bool
find_bearer(const struct http_head *head, struct http_text *ret_token)
{
	struct http_text text = http_head_get(head, "authorization");
	struct http_text word = { text.at, text.len < 6 ? text.len : 6 };
	struct jwt jwt;

	if (text.len < 8 || !http_text_is_nocase(word, "bearer") || text.at[6] != ' ')
		return false;
	*ret_token = (struct http_text){ text.at + 7, text.len - 7 };
	return jwt_split(*ret_token, &jwt);
}

/* An assertion in a form is visible only in the body. */
static bool
may_be_in_form(const struct http_head *head)
{
	return scheme_is_form(head) && head->length != 0 &&
	       (head->length <= SCHEME_FORM_MAX || head->length == HTTP_LENGTH_UNKNOWN);
}

static bool
jwt_find(const struct http_head *head, struct http_text *ret_id)
{
	struct http_text token;

	if (goog4_rsa_scheme.find(head, ret_id))
		return true;
	*ret_id = (struct http_text){ NULL, 0 };
	return find_bearer(head, &token) || may_be_in_form(head);
}

/* Google's services accept the same key for URLs (GOOG4-RSA-SHA256), which are signed as a whole. */
static bool
jwt_covers(const struct http_head *head)
{
	struct http_text id;

	return goog4_rsa_scheme.find(head, &id);
}

/* There is no padding (RFC 7515, 2), but Google's client had it for years. */
static int
decode_part(struct http_text part, unsigned char *out, size_t size, size_t *ret_len)
{
	bool padded = part.len > 0 && part.len % 4 == 0;

	for (int i = 0; i < 2 && padded && part.at[part.len - 1] == '='; i++)
		part.len--;
	return scheme_decode(SIGN_BASE64URL, part, out, size, ret_len);
}

static int
read_json(struct jwt_json *json, const struct jwt *jwt, struct err *err)
{
	size_t n_header, n_claims;

	if (decode_part(jwt->header, json->at, sizeof(json->at), &n_header) < 0)
		return err_set(err, EBADMSG, "the JWT's header is not base64url");
	if (decode_part(jwt->claims, json->at + n_header, sizeof(json->at) - n_header, &n_claims) < 0)
		return err_set(err, EBADMSG, "the JWT's claims are not base64url");
	json->header = (struct http_text){ (char *)json->at, n_header };
	json->claims = (struct http_text){ (char *)json->at + n_header, n_claims };
	return 0;
}

/* 1: PART, which errors call WHAT, has a member NAME.  0: it has none. */
static int
get_member(struct http_text part, const char *what, const char *name,
           struct json_walk_item *ret_item, struct err *err)
{
	int r = json_walk_member(part, name, ret_item);

	if (r == -EEXIST)
		return err_set(err, EBADMSG, "the JWT has '%s' twice", name);
	return r >= 0 ? r : err_set(err, EBADMSG, "the JWT's %s no JSON object", what);
}

static int
find_algorithm(struct http_text header, const struct scheme_algorithm **ret, struct err *err)
{
	struct json_walk_item item = {0};
	int r = get_member(header, "header is", "crit", &item, err);

	if (r == 1)
		return err_set(err, ENOTSUP, "the JWT's header has 'crit', and its extensions are "
		               "not known here");
	r = r == 0 ? get_member(header, "header is", "alg", &item, err) : r;
	if (r < 0)
		return r;
	for (size_t i = 0; r == 1 && i < ARRAY_LEN(algorithms); i++) {
		if (item.kind == JSON_WALK_STRING && json_walk_is(item.raw, algorithms[i].name)) {
			*ret = &algorithms[i];
			return 0;
		}
	}
	return err_set(err, ENOTSUP, "the JWT's algorithm is none of HS256 to HS512, RS256 to "
	               "RS512, PS256 to PS512, ES256 to ES512 and EdDSA");
}

/* Each of several audiences could accept the token. */
static bool
is_only(struct http_text array, const char *want)
{
	struct json_walk_item item;
	struct json_walk w;
	size_t n = 0;
	bool same = false;

	json_walk_begin(&w, array);
	while (json_walk_next(&w, &item) == 1)
		if (item.depth == 1 && n++ == 0)
			same = item.kind == JSON_WALK_STRING && json_walk_is(item.raw, want);
	return same && n == 1;
}

static int
check_audience(struct http_text claims, const char *want, struct err *err)
{
	struct json_walk_item aud = {0};
	int r = get_member(claims, "claims are", "aud", &aud, err);

	if (r < 0 || want == NULL)
		return r < 0 ? r : 0;
	if (r == 1 && (aud.kind == JSON_WALK_ARRAY ? is_only(aud.raw, want) :
	               aud.kind == JSON_WALK_STRING && json_walk_is(aud.raw, want)))
		return 0;
	return err_set(err, EPERM, "the JWT is not for the audience '%s', which is the only one "
	               "that the secret is for", want);
}

struct resigner {
	const struct sign_jwt_options *options;
	const struct sign_key *from, *to;
	struct err *err;
};

static int
jwt_verify(const struct resigner *s, const struct jwt *jwt,
           const struct scheme_algorithm *algorithm, bool *ret_right)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	size_t len;
	int r = scheme_pkey_read(algorithm, s->from->secret, s->options->secret,
	                         "the placeholder's", &key, s->err);

	if (r < 0)
		return r;
	if (decode_part(jwt->signature, signature, sizeof(signature), &len) < 0) {
		*ret_right = false;
		return 0;
	}
	return scheme_pkey_verify(algorithm, &key, jwt->message, signature, len, ret_right, s->err);
}

/* 1: NAME is the placeholder's id, and *ret_cut replaces it by the real one. */
static int
replace_id(const struct resigner *s, struct http_text part, const char *what, const char *name,
           struct http_text with, struct scheme_cut *ret_cut)
{
	struct json_walk_item item;
	char id[JWT_ID_MAX];
	size_t len;
	int r = get_member(part, what, name, &item, s->err);

	if (r < 1 || item.kind != JSON_WALK_STRING ||
	    json_walk_decode(item.raw, id, sizeof(id), &len) < 0 ||
	    !scheme_same((struct http_text){ id, len }, s->from->id))
		return r < 0 ? r : 0;
	*ret_cut = (struct scheme_cut){ item.raw, with };
	return 1;
}

/* Write PART with the ids under NAMES replaced.  Unchanged members keep their exact bytes; if
 * nothing changes, CODED is written as it is. */
static int
put_part(struct buf *b, const struct resigner *s, struct http_text coded, struct http_text part,
         const char *what, const char *const names[2])
{
	OWN(buf_free) struct buf with = BUF(6 * JWT_ID_MAX), json = BUF(2 * JWT_MAX);
	struct scheme_cut cuts[2], swap;
	size_t n = 0;
	int r = 0;

	if (s->from->id.len > 0 && s->to->id.len > 0 && !scheme_same(s->from->id, s->to->id)) {
		canon_text_put(&with, s->to->id.at, s->to->id.len, false);
		for (size_t i = 0; r >= 0 && i < 2 && names[i] != NULL; i++) {
			r = replace_id(s, part, what, names[i], scheme_text_of(&with), &cuts[n]);
			n += r == 1;
		}
	}
	if (r < 0)
		return r;
	if (n == 0) {
		scheme_put(b, coded);
		return 0;
	}
	if (n == 2 && cuts[0].at.at > cuts[1].at.at)
		swap = cuts[0], cuts[0] = cuts[1], cuts[1] = swap;
	scheme_splice(&json, part, cuts, n);
	if (buf_failed(&json) || buf_failed(&with))
		return err_set(s->err, EFBIG, "the JWT is too long with its real id");
	scheme_put_coded(b, SIGN_BASE64URL, json.data, json.len);
	return 0;
}

static int
put_message(struct buf *b, const struct resigner *s, const struct jwt *jwt,
            const struct jwt_json *json)
{
	/* In a client assertion, the issuer and the subject are both the client (RFC 7523, 3). */
	static const char *const in_header[2] = { "kid", NULL }, *const in_claims[2] = { "iss", "sub" };
	int r = put_part(b, s, jwt->header, json->header, "header is", in_header);

	buf_put_text(b, ".");
	return r < 0 ? r : put_part(b, s, jwt->claims, json->claims, "claims are", in_claims);
}

static int
put_token(struct buf *b, const struct resigner *s, const struct jwt *jwt,
          const struct jwt_json *json, const struct scheme_algorithm *algorithm)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	size_t len;
	int r = scheme_pkey_read(algorithm, s->to->secret, s->options->secret, "the real", &key,
	                         s->err);

	if (r == 0)
		r = put_message(b, s, jwt, json);
	if (r == 0 && buf_failed(b))
		r = scheme_failed(s->err, "write a JWT");
	if (r == 0)
		r = scheme_pkey_sign(algorithm, &key, scheme_text_of(b), signature, &len, s->err);
	if (r < 0)
		return r;
	buf_put_text(b, ".");
	scheme_put_coded(b, SIGN_BASE64URL, signature, len);
	return buf_failed(b) ? scheme_failed(s->err, "write a JWT") : 0;
}

/* Report the signature of JWT, and the new one at the end of B. */
static int
tell_made(const struct resigner *s, const struct jwt *jwt, const struct buf *b,
          struct sign_memory *m)
{
	struct sign_made made;
	struct jwt new_jwt;
	int r;

	if (!jwt_split(scheme_text_of(b), &new_jwt))
		abort();                /* we wrote it ourselves */
	assert(m->n_made < SIGN_MADE_MAX);
	r = scheme_keep(m, new_jwt.signature, &made.real, s->err);
	if (r == 0)
		r = scheme_keep(m, jwt->signature, &made.agents, s->err);
	if (r == 0)
		m->made[m->n_made++] = made;
	return r;
}

/* Sign TOKEN anew into B.  If the placeholder did not sign it, *ret_ours is false and B is
 * untouched. */
static int
jwt_resign(const struct resigner *s, struct http_text token, struct buf *b,
           struct sign_memory *m, bool *ret_ours)
{
	OWN(freep) struct jwt_json *json = NULL;
	const struct scheme_algorithm *algorithm = NULL;
	struct jwt jwt;
	int r;

	*ret_ours = false;
	if (token.len > JWT_MAX)
		return err_set(s->err, EFBIG, "the JWT is over %d KiB", JWT_MAX / 1024);
	if (!jwt_split(token, &jwt))
		return 0;
	json = malloc(sizeof(*json));
	if (json == NULL)
		return scheme_failed(s->err, "read a JWT");
	r = read_json(json, &jwt, s->err);
	if (r == 0)
		r = find_algorithm(json->header, &algorithm, s->err);
	if (r == 0)
		r = jwt_verify(s, &jwt, algorithm, ret_ours);
	if (r < 0 || !*ret_ours)
		return r;
	if (s->options->algorithm != NULL && strcmp(s->options->algorithm, algorithm->name) != 0)
		return err_set(s->err, EPERM, "the JWT is signed with %s, and the secret is for %s only",
		               algorithm->name, s->options->algorithm);
	r = check_audience(json->claims, s->options->audience, s->err);
	if (r == 0)
		r = put_token(b, s, &jwt, json, algorithm);
	return r == 0 ? tell_made(s, &jwt, b, m) : r;
}

static int
sign_bearer(const struct resigner *s, struct http_head *head, struct http_text token,
            struct sign_memory *m)
{
	struct http_text kept;
	OWN(buf_free) struct buf b = BUF(2 * JWT_MAX), value = BUF(2 * JWT_MAX + 8);
	bool ours;
	int r;

	r = jwt_resign(s, token, &b, m, &ours);
	if (r < 0)
		return r;
	if (!ours)
		return scheme_wrong(s->err, "JWT", "its header and claims");
	buf_put_text(&value, "Bearer ");
	scheme_put(&value, scheme_text_of(&b));
	if (buf_failed(&value))
		return scheme_failed(s->err, "write a JWT");
	r = scheme_keep(m, scheme_text_of(&value), &kept, s->err);
	if (r == 0)
		head->fields[scheme_field_at(head, "authorization")].value = kept;
	return r;
}

/* Sign the parameter NAME of *FORM anew, if the placeholder signed it. */
static int
sign_param(const struct resigner *s, struct http_text *form, const char *name,
           struct sign_memory *m, bool *is_there, bool *is_ours)
{
	OWN(buf_free) struct buf token = {0}, b = {0}, new_form = {0};
	struct scheme_param param;
	struct scheme_cut cut;
	bool ours;
	int r;

	if (!scheme_param_find(*form, name, &param))
		return 0;
	*is_there = true;
	buf_init(&token, SCHEME_FORM_MAX);
	buf_init(&b, 2 * JWT_MAX);
	buf_init(&new_form, SIGN_MEMORY_MAX);
	scheme_put_decoded(&token, param.value, true);
	r = jwt_resign(s, scheme_text_of(&token), &b, m, &ours);
	if (r < 0 || !ours)
		return r;
	cut = (struct scheme_cut){ param.value, scheme_text_of(&b) };
	scheme_splice(&new_form, *form, &cut, 1);
	if (buf_failed(&new_form) || buf_failed(&token))
		return scheme_failed(s->err, "write a form");
	*is_ours = true;
	return scheme_keep(m, scheme_text_of(&new_form), form, s->err);
}

static int
sign_form(const struct resigner *s, struct http_head *head, const struct sign_body *body,
          struct sign_memory *m, enum sign_next *ret_next)
{
	struct http_text form = { body->at, body->len };
	bool is_there = false, is_ours = false;
	struct scheme_param param;
	int r;

	if (body->len > SCHEME_FORM_MAX && (scheme_param_find(form, "assertion", &param) ||
	                                    scheme_param_find(form, "client_assertion", &param)))
		return err_set(s->err, EFBIG, "the form is over %d KiB: a JWT is looked for in "
		               "smaller ones only", SCHEME_FORM_MAX / 1024);
	r = sign_param(s, &form, "assertion", m, &is_there, &is_ours);
	if (r == 0)
		r = sign_param(s, &form, "client_assertion", m, &is_there, &is_ours);
	if (r < 0)
		return r;
	if (is_there && !is_ours)
		return scheme_wrong(s->err, "JWT", "its header and claims");
	if (is_ours) {
		m->body = (struct sign_body){ form.at, form.len };
		head->length = form.len;
	}
	*ret_next = is_ours ? SIGN_DONE : SIGN_NOTHING;
	return 0;
}

static int
jwt_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
         const struct sign_was *was, struct http_head *head, const struct sign_body *body,
         struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
         struct err *err)
{
	static const struct sign_jwt_options defaults = { NULL, SIGN_RAW, NULL };
	struct resigner s = { with != NULL ? with : &defaults, from, to, err };
	struct http_text token;
	int r;

	m->n_made = 0;
	*ret_next = SIGN_DONE;
	if (jwt_covers(was != NULL ? was->head : head)) {
		/* Google's tokens give at least the access of such a URL; those for other audiences
		 * do not. */
		if (s.options->audience != NULL && strcmp(s.options->audience, GOOGLE_TOKENS) != 0)
			return err_set(err, EPERM, "the URL is for Google's storage, and the secret is for the "
			               "audience '%s' only", s.options->audience);
		if (s.options->algorithm != NULL && strcmp(s.options->algorithm, "RS256") != 0)
			return err_set(err, EPERM, "the URL is signed with RSA and SHA-256, and the secret is "
			               "for %s only", s.options->algorithm);
		return goog4_rsa_scheme.sign(NULL, from, to, was, head, body, m, ret_next, ret_chunks, err);
	}
	if (find_bearer(head, &token)) {
		r = sign_bearer(&s, head, token, m);
	} else if (!may_be_in_form(head)) {
		r = err_set(err, EINVAL, "there is no JWT in the request, neither as Bearer nor in a "
		            "form");
	} else if (body == NULL) {
		*ret_next = SIGN_WANTS_BODY;
		return 0;
	} else {
		r = sign_form(&s, head, body, m, ret_next);
	}
	return r;
}

static int
jwt_check_key(struct http_text secret, struct err *err)
{
	return scheme_pkey_check(algorithms, ARRAY_LEN(algorithms), secret, err);
}

const struct sign_scheme sign_jwt = {
	.name = "jwt", .find = jwt_find, .sign = jwt_sign, .check_key = jwt_check_key, .alone = true,
	.covers = jwt_covers,
};
