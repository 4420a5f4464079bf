/* oauth.c - what an MCP client needs of OAuth 2.1. */
#include "tools/oauth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/hash.h"

/* ---- addresses ---- */

/* scheme://host[:port], without a login.  The length of that part, or 0. */
static size_t
origin_len(const char *url)
{
	const char *at = strncmp(url, "https://", 8) == 0 ? url + 8 : strncmp(url, "http://", 7) == 0 ? url + 7 : NULL;
	const size_t len = at != NULL ? strcspn(at, "/?#") : 0;

	if (len == 0 || memchr(at, '@', len) != NULL || strlen(url) > OAUTH_URL_MAX)
		return 0;
	for (const char *c = url; *c != '\0'; c++)
		if (*c <= ' ' || *c >= 0x7f || *c == '"' || *c == '\\' || *c == '<' || *c == '>')
			return 0;
	return (size_t)(at - url) + len;
}

static bool
is_loopback(const char *url)
{
	static const char *const here[] = { "http://127.0.0.1:", "http://localhost:", "http://[::1]:" };

	for (size_t i = 0; i < ARRAY_LEN(here); i++)
		if (strncmp(url, here[i], strlen(here[i])) == 0)
			return true;
	return false;
}

bool
oauth_is_usable(const struct oauth *o, const char *url)
{
	return origin_len(url) > 0 && strchr(url, '#') == NULL &&
	       (strncmp(url, "https://", 8) == 0 || (o->is_here && is_loopback(url)));
}

int
oauth_begin(struct oauth *o, const char *url, struct err *err)
{
	*o = (struct oauth){ .is_here = is_loopback(url) };
	if (!oauth_is_usable(o, url))
		return err_set(err, EINVAL, "a login needs a server with https");
	snprintf(o->resource, sizeof(o->resource), "%s", url);
	return 0;
}

static int
take_url(const struct oauth *o, const json_t *document, const char *name, char ret_url[OAUTH_URL_MAX + 1], struct err *err)
{
	const char *url = json_string_value(json_object_get(document, name));

	if (url == NULL || !oauth_is_usable(o, url))
		return err_set(err, EBADMSG, "the authorization server's metadata has no valid '%s'", name);
	snprintf(ret_url, OAUTH_URL_MAX + 1, "%s", url);
	return 0;
}

/* ---- discovery ---- */

void
oauth_take_challenge(struct oauth *o, const char *field)
{
	static const char name[] = "resource_metadata=";
	const char *at = strcasestr(field, name);
	size_t len;

	if (at == NULL)
		return;
	at += sizeof(name) - 1;
	at += *at == '"';
	len = strcspn(at, "\", ");
	if (len > OAUTH_URL_MAX)
		return;
	snprintf(o->metadata, sizeof(o->metadata), "%.*s", (int)len, at);
	if (!oauth_is_usable(o, o->metadata))
		o->metadata[0] = '\0';
}

/* WORD between the origin and the path of URL, or without the path. */
static bool
well_known(const char *url, const char *word, bool with_path, char ret_url[OAUTH_URL_MAX + 1])
{
	const size_t origin = origin_len(url);
	size_t path = strcspn(url + origin, "?#");
	int n;

	while (path > 0 && url[origin + path - 1] == '/')
		path--;
	if (with_path && path == 0)
		return false;
	n = snprintf(ret_url, OAUTH_URL_MAX + 1, "%.*s/.well-known/%s%.*s", (int)origin, url, word, with_path ? (int)path : 0,
	             url + origin);
	return n > 0 && n <= OAUTH_URL_MAX;
}

bool
oauth_resource_place(const struct oauth *o, unsigned n, char ret_url[OAUTH_URL_MAX + 1])
{
	ret_url[0] = '\0';
	if (n == 0) {
		snprintf(ret_url, OAUTH_URL_MAX + 1, "%s", o->metadata);
		return true;
	}
	if (n < 3 && !well_known(o->resource, "oauth-protected-resource", n == 1, ret_url))
		ret_url[0] = '\0';
	return n < 3;
}

bool
oauth_issuer_place(const struct oauth *o, unsigned n, char ret_url[OAUTH_URL_MAX + 1])
{
	static const char *const words[] = { "oauth-authorization-server", "openid-configuration" };
	const size_t len = strlen(o->issuer);

	ret_url[0] = '\0';
	if (n < 4 && !well_known(o->issuer, words[n / 2], n % 2 == 0, ret_url))
		ret_url[0] = '\0';
	if (n == 4)
		snprintf(ret_url, OAUTH_URL_MAX + 1, "%.*s/.well-known/openid-configuration",
		         (int)(len > 0 && o->issuer[len - 1] == '/' ? len - 1 : len), o->issuer);
	return n < 5;
}

/* A token for another resource must not be asked for: the server could be somebody else's. */
int
oauth_take_resource(struct oauth *o, const json_t *document, struct err *err)
{
	const char *resource = json_string_value(json_object_get(document, "resource"));
	const char *issuer = json_string_value(json_array_get(json_object_get(document, "authorization_servers"), 0));
	const json_t *scopes = json_object_get(document, "scopes_supported");
	size_t n = resource != NULL ? strlen(resource) : 0, used = 0, i;
	json_t *scope;

	while (n > 0 && resource[n - 1] == '/')
		n--;
	if (n < origin_len(o->resource) || strncmp(o->resource, resource, n) != 0 ||
	    (o->resource[n] != '\0' && strchr("/?", o->resource[n]) == NULL))
		return err_set(err, EBADMSG, "the server's metadata is for another resource");
	if (issuer == NULL || !oauth_is_usable(o, issuer))
		return err_set(err, EBADMSG, "the server's metadata names no valid authorization server");
	snprintf(o->issuer, sizeof(o->issuer), "%s", issuer);
	json_array_foreach((json_t *)(uintptr_t)scopes, i, scope) {
		const char *word = json_string_value(scope);

		if (word != NULL && used + strlen(word) + 1 < sizeof(o->scope))
			used += (size_t)snprintf(o->scope + used, sizeof(o->scope) - used, "%s%s", used > 0 ? " " : "", word);
	}
	return 0;
}

static bool
has_word(const json_t *list, const char *word)
{
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, item)
		if (json_is_string(item) && strcmp(json_string_value(item), word) == 0)
			return true;
	return false;
}

int
oauth_take_issuer(struct oauth *o, const json_t *document, struct err *err)
{
	const char *issuer = json_string_value(json_object_get(document, "issuer"));
	int r;

	if (issuer == NULL || strcmp(issuer, o->issuer) != 0)
		return err_set(err, EBADMSG, "the authorization server's metadata is for another issuer");
	if (!has_word(json_object_get(document, "code_challenge_methods_supported"), "S256"))
		return err_set(err, EBADMSG, "the authorization server does not support PKCE with S256, so that a login would not be "
		               "safe");
	r = take_url(o, document, "authorization_endpoint", o->authorize, err);
	r = r == 0 ? take_url(o, document, "token_endpoint", o->token, err) : r;
	if (r == 0 && take_url(o, document, "registration_endpoint", o->registration, NULL) < 0)
		o->registration[0] = '\0';
	return r;
}

/* ---- registration ---- */

int
oauth_put_registration(struct buf *b, const struct oauth *o, struct err *err)
{
	OWN(json_decrefp) json_t *document = json_pack("{s:s, s:[s], s:[s, s], s:[s], s:s}", "client_name", "cloister",
		"redirect_uris", o->redirect, "grant_types", "authorization_code", "refresh_token", "response_types", "code",
		"token_endpoint_auth_method", "none");
	OWN(freep) char *text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;

	if (text != NULL)
		buf_put_text(b, text);
	return text == NULL || buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
oauth_take_registration(struct oauth *o, const json_t *document, struct err *err)
{
	const char *id = json_string_value(json_object_get(document, "client_id"));

	if (id == NULL || *id == '\0' || strlen(id) > OAUTH_WORD_MAX)
		return err_set(err, EBADMSG, "the authorization server registered no client");
	snprintf(o->client_id, sizeof(o->client_id), "%s", id);
	return 0;
}

/* ---- PKCE ---- */

void
oauth_make_verifier(struct oauth *o, const unsigned char noise[64])
{
	o->verifier[codec_base64_digits(CODEC_BASE64URL, noise, 32, o->verifier)] = '\0';
	o->state[codec_base64_digits(CODEC_BASE64URL, noise + 32, 32, o->state)] = '\0';
}

static void
put_parameter(struct buf *b, const char *separator, const char *name, const char *value)
{
	char digits[3];

	buf_put_text(b, separator);
	buf_put_text(b, name);
	buf_put_text(b, "=");
	for (; *value != '\0'; value++)
		if (codec_is_unreserved((unsigned char)*value))
			buf_put(b, value, 1);
		else
			buf_put(b, digits, codec_percent((unsigned char)*value, digits));
}

int
oauth_put_visit(struct buf *b, const struct oauth *o, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char challenge[OAUTH_VERIFIER_LEN + 1];

	hash_of(o->verifier, strlen(o->verifier), hash);
	challenge[codec_base64_digits(CODEC_BASE64URL, hash, sizeof(hash), challenge)] = '\0';
	buf_put_text(b, o->authorize);
	put_parameter(b, strchr(o->authorize, '?') != NULL ? "&" : "?", "response_type", "code");
	put_parameter(b, "&", "client_id", o->client_id);
	put_parameter(b, "&", "redirect_uri", o->redirect);
	put_parameter(b, "&", "code_challenge", challenge);
	put_parameter(b, "&", "code_challenge_method", "S256");
	put_parameter(b, "&", "state", o->state);
	put_parameter(b, "&", "resource", o->resource);
	if (o->scope[0] != '\0')
		put_parameter(b, "&", "scope", o->scope);
	return buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* The value of NAME in QUERY, decoded, at the end of B, with a NUL.  False: it is not there, or there twice. */
static bool
put_value(struct buf *b, const char *query, const char *name)
{
	const size_t len = strlen(name);
	const char *found = NULL;

	for (const char *at = query; *at != '\0'; at += strcspn(at, "&"), at += *at == '&')
		if (strncmp(at, name, len) == 0 && at[len] == '=') {
			if (found != NULL)
				return false;
			found = at + len + 1;
		}
	if (found == NULL)
		return false;
	for (size_t left = strcspn(found, "&"); left > 0;) {
		const int byte = *found == '%' ? codec_percent_byte(found, left) : *found == '+' ? ' ' : (unsigned char)*found;
		const size_t used = *found == '%' ? 3 : 1;

		if (byte <= 0)
			return false;
		buf_put(b, &(unsigned char){ (unsigned char)byte }, 1);
		found += used;
		left -= used;
	}
	buf_put(b, "", 1);
	return !buf_failed(b);
}

int
oauth_take_redirect(const struct oauth *o, const char *query, struct buf *b, struct err *err)
{
	OWN(buf_free) struct buf state = BUF(OAUTH_URL_MAX), issuer = BUF(OAUTH_URL_MAX), error = BUF(OAUTH_URL_MAX);

	/* Somebody else's request must not end this login. */
	if (!put_value(&state, query, "state") || strcmp((const char *)state.data, o->state) != 0)
		return err_set(err, EPERM, "the browser came back with another login's state");
	if (put_value(&issuer, query, "iss") && strcmp((const char *)issuer.data, o->issuer) != 0)
		return err_set(err, EPERM, "another authorization server answered (RFC 9207)");
	if (put_value(&error, query, "error"))
		return err_set(err, EACCES, "the authorization server refused the login");
	return put_value(b, query, "code") ? 0 : err_set(err, EBADMSG, "the authorization server sent no code");
}

/* ---- tokens ---- */

int
oauth_put_token_form(struct buf *b, const struct oauth *o, const char *code, const char *refresh, struct err *err)
{
	put_parameter(b, "", "grant_type", code != NULL ? "authorization_code" : "refresh_token");
	put_parameter(b, "&", "client_id", o->client_id);
	put_parameter(b, "&", "resource", o->resource);
	if (code != NULL) {
		put_parameter(b, "&", "code", code);
		put_parameter(b, "&", "redirect_uri", o->redirect);
		put_parameter(b, "&", "code_verifier", o->verifier);
	} else {
		put_parameter(b, "&", "refresh_token", refresh);
	}
	return buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* Tokens are printable, and go into a header field. */
static bool
is_token(const char *token)
{
	const size_t len = token != NULL ? strlen(token) : 0;

	for (size_t i = 0; i < len; i++)
		if (token[i] <= ' ' || token[i] >= 0x7f)
			return false;
	return len > 0 && len <= OAUTH_TOKEN_MAX;
}

json_t *
oauth_login(const struct oauth *o, const json_t *document, const char *old_refresh, uint64_t now, struct err *err)
{
	const char *access = json_string_value(json_object_get(document, "access_token"));
	const char *type = json_string_value(json_object_get(document, "token_type"));
	const char *refresh = json_string_value(json_object_get(document, "refresh_token"));
	const json_int_t life = json_integer_value(json_object_get(document, "expires_in"));
	json_t *login;

	if (!is_token(access) || type == NULL || strcasecmp(type, "bearer") != 0) {
		(void)err_set(err, EBADMSG, "the authorization server sent no bearer token");
		return NULL;
	}
	refresh = is_token(refresh) ? refresh : old_refresh;
	login = json_pack("{s:s, s:s, s:s, s:s, s:s}", "access_token", access, "client_id", o->client_id, "issuer", o->issuer,
	                  "resource", o->resource, "token_endpoint", o->token);
	if (login != NULL && refresh != NULL)
		(void)json_object_set_new(login, "refresh_token", json_string(refresh));
	if (login != NULL && life > 0)
		(void)json_object_set_new(login, "expires", json_integer((json_int_t)now + life));
	if (login == NULL)
		(void)err_set(err, ENOMEM, "out of memory");
	return login;
}

int
oauth_take_login(struct oauth *o, const json_t *login, struct err *err)
{
	const char *resource = json_string_value(json_object_get(login, "resource"));
	int r = oauth_begin(o, resource != NULL ? resource : "", err);

	r = r == 0 ? oauth_take_registration(o, login, err) : r;
	r = r == 0 ? take_url(o, login, "token_endpoint", o->token, err) : r;
	return r == 0 ? take_url(o, login, "issuer", o->issuer, err) : r;
}
