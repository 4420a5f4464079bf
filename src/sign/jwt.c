/* jwt.c - JSON Web Tokens that a client signs itself (RFC 7515, 7518, 8037): as Bearer, and
 * as an assertion in a form (RFC 7523). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/scheme_pkey.h"
#include "sign/sign_schemes.h"

#define JWT_MAX (16 * 1024)             /* one token */

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

/* A token's three parts as they are written, and the first two together. */
struct jwt {
	struct http_text header, claims, signature, message;
};

static void
json_freep(json_t **json)
{
	json_decref(*json);
}

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
	/* "{" and what may follow it, in base64. */
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

/* What is in a form shows only in the body. */
static bool
jwt_find(const struct http_head *head, struct http_text *ret_id)
{
	struct http_text token;

	*ret_id = (struct http_text){ NULL, 0 };
	return find_bearer(head, &token) || (scheme_is_form(head) && head->length != 0);
}

static int
read_json(struct http_text text, const char *what, json_t **ret_json, struct err *err)
{
	OWN(freep) unsigned char *data = malloc(text.len + 1);
	size_t len;

	if (data == NULL)
		return scheme_failed(err, "read a JWT");
	if (scheme_decode(SIGN_BASE64URL, text, data, text.len, &len) < 0)
		return err_set(err, EBADMSG, "the JWT's %s is not base64url", what);
	*ret_json = json_loadb((char *)data, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*ret_json))
		return err_set(err, EBADMSG, "the JWT's %s is no JSON object", what);
	return 0;
}

static int
find_algorithm(const json_t *header, const struct scheme_algorithm **ret, struct err *err)
{
	const char *name = json_string_value(json_object_get(header, "alg"));

	if (json_object_get(header, "crit") != NULL)
		return err_set(err, ENOTSUP, "the JWT's header has 'crit', and its extensions are "
		               "not known here");
	for (size_t i = 0; name != NULL && i < ARRAY_LEN(algorithms); i++) {
		if (strcmp(name, algorithms[i].name) == 0) {
			*ret = &algorithms[i];
			return 0;
		}
	}
	return err_set(err, ENOTSUP, "the JWT's algorithm is none of HS256 to HS512, RS256 to "
	               "RS512, PS256 to PS512, ES256 to ES512 and EdDSA");
}

static int
check_audience(const json_t *claims, const char *want, struct err *err)
{
	const json_t *aud = json_object_get(claims, "aud"), *one;
	size_t i;

	if (want == NULL)
		return 0;
	if (json_is_string(aud) && strcmp(json_string_value(aud), want) == 0)
		return 0;
	/* Of several audiences each could take the token for its own. */
	json_array_foreach(aud, i, one)
		if (json_array_size(aud) == 1 && json_is_string(one) &&
		    strcmp(json_string_value(one), want) == 0)
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
	if (scheme_decode(SIGN_BASE64URL, jwt->signature, signature, sizeof(signature), &len) < 0) {
		*ret_right = false;
		return 0;
	}
	return scheme_pkey_verify(algorithm, &key, jwt->message, signature, len, ret_right, s->err);
}

/* Where NAME is the placeholder's id, it becomes the real one. */
static bool
replace_id(const struct resigner *s, json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	struct http_text text = { json_string_value(value), json_string_length(value) };

	if (value == NULL || text.at == NULL || s->from->id.len == 0 || s->to->id.len == 0 ||
	    scheme_same(s->from->id, s->to->id) || !scheme_same(text, s->from->id))
		return false;
	/* In its place: setting a member that is there keeps the order. */
	return json_object_set_new(object, name, json_stringn(s->to->id.at, s->to->id.len)) == 0;
}

static int
put_json(struct buf *b, const json_t *json, struct err *err)
{
	OWN(freep) char *text = json_dumps(json, JSON_COMPACT);

	if (text == NULL)
		return scheme_failed(err, "write a JWT");
	scheme_put_coded(b, SIGN_BASE64URL, text, strlen(text));
	return 0;
}

/* What does not change keeps its very bytes. */
static int
put_message(struct buf *b, const struct resigner *s, const struct jwt *jwt, json_t *header,
            json_t *claims)
{
	bool subject;
	int r = 0;

	if (replace_id(s, header, "kid"))
		r = put_json(b, header, s->err);
	else
		scheme_put(b, jwt->header);
	scheme_put_str(b, ".");
	/* A client that asserts itself is its own subject (RFC 7523, 3). */
	subject = replace_id(s, claims, "sub");
	if (r == 0 && (replace_id(s, claims, "iss") || subject))
		r = put_json(b, claims, s->err);
	else
		scheme_put(b, jwt->claims);
	return r;
}

static int
put_token(struct buf *b, const struct resigner *s, const struct jwt *jwt, json_t *header,
          json_t *claims, const struct scheme_algorithm *algorithm)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	size_t len;
	int r = scheme_pkey_read(algorithm, s->to->secret, s->options->secret, "the real", &key,
	                         s->err);

	if (r == 0)
		r = put_message(b, s, jwt, header, claims);
	if (r == 0 && buf_failed(b))
		r = scheme_failed(s->err, "write a JWT");
	if (r == 0)
		r = scheme_pkey_sign(algorithm, &key, scheme_text_of(b), signature, &len, s->err);
	if (r < 0)
		return r;
	scheme_put_str(b, ".");
	scheme_put_coded(b, SIGN_BASE64URL, signature, len);
	return buf_failed(b) ? scheme_failed(s->err, "write a JWT") : 0;
}

/* TOKEN signed anew into B; *ret_ours is false, and B untouched, if it is none that the
 * placeholder signed. */
static int
jwt_resign(const struct resigner *s, struct http_text token, struct buf *b, bool *ret_ours)
{
	OWN(json_freep) json_t *header = NULL, *claims = NULL;
	const struct scheme_algorithm *algorithm = NULL;
	struct jwt jwt;
	int r;

	*ret_ours = false;
	if (token.len > JWT_MAX)
		return err_set(s->err, EFBIG, "the JWT is over %d KiB", JWT_MAX / 1024);
	if (!jwt_split(token, &jwt))
		return 0;
	r = read_json(jwt.header, "header", &header, s->err);
	if (r == 0)
		r = read_json(jwt.claims, "claims", &claims, s->err);
	if (r == 0)
		r = find_algorithm(header, &algorithm, s->err);
	if (r == 0)
		r = jwt_verify(s, &jwt, algorithm, ret_ours);
	if (r < 0 || !*ret_ours)
		return r;
	r = check_audience(claims, s->options->audience, s->err);
	return r == 0 ? put_token(b, s, &jwt, header, claims, algorithm) : r;
}

static int
sign_bearer(const struct resigner *s, struct http_head *head, struct http_text token,
            struct sign_memory *m)
{
	struct http_text kept;
	OWN(buf_free) struct buf b, value;
	bool ours;
	int r;

	buf_init(&b, 2 * JWT_MAX);
	buf_init(&value, 2 * JWT_MAX + 8);
	r = jwt_resign(s, token, &b, &ours);
	if (r < 0)
		return r;
	if (!ours)
		return scheme_wrong(s->err, "JWT", "its header and claims");
	scheme_put_str(&value, "Bearer ");
	scheme_put(&value, scheme_text_of(&b));
	if (buf_failed(&value))
		return scheme_failed(s->err, "write a JWT");
	r = scheme_keep(m, scheme_text_of(&value), &kept, s->err);
	if (r == 0)
		head->fields[scheme_field_at(head, "authorization")].value = kept;
	return r;
}

/* Signs the parameter NAME of *FORM anew, if the placeholder signed it. */
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
	r = jwt_resign(s, scheme_text_of(&token), &b, &ours);
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
          struct sign_memory *m)
{
	struct http_text form = { body->at, body->len };
	bool is_there = false, is_ours = false;
	int r;

	if (body->len > SCHEME_FORM_MAX)
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
	return 0;
}

static int
jwt_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
         struct http_head *head, const struct sign_body *body, struct sign_memory *m,
         enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err)
{
	static const struct sign_jwt_options defaults = { NULL, SIGN_RAW };
	struct resigner s = { with != NULL ? with : &defaults, from, to, err };
	struct http_text token;
	int r;

	(void)ret_chunks;
	if (find_bearer(head, &token)) {
		r = sign_bearer(&s, head, token, m);
	} else if (!scheme_is_form(head) || head->length == 0) {
		r = err_set(err, EINVAL, "there is no JWT in the request, neither as Bearer nor in a "
		            "form");
	} else if (body == NULL) {
		*ret_next = SIGN_WANTS_BODY;
		return 0;
	} else {
		r = sign_form(&s, head, body, m);
	}
	if (r == 0)
		*ret_next = SIGN_DONE;
	return r;
}

const struct sign_scheme sign_jwt = { "jwt", jwt_find, jwt_sign };
