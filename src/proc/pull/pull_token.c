/* pull_token.c - authorizes requests to a registry: with a token of its token server, or with the login
 * itself.
 *
 * A login goes to the registry that it is for, and to the token server that this registry names if that is one
 * of the same domain, or one that the operator named.  To any other, we come without a login. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/pull/pull.h"

#define CLIENT "cloister"
#define FORM_MAX (2 * AUTH_TOKEN_MAX)

static bool
has_login(const struct auth *a)
{
	return a->user != NULL && a->password != NULL;
}

/* "Basic ..." */
static char *
make_basic(const struct auth *a)
{
	OWN(buf_free) struct buf plain = BUF_SECRET(2 * AUTH_WORD_MAX + 2);
	char *line;

	buf_put_text(&plain, a->user);
	buf_put_text(&plain, ":");
	buf_put_text(&plain, a->password);
	line = buf_failed(&plain) ? NULL : malloc(sizeof("Basic ") + CODEC_BASE64_LEN(plain.len));
	if (line != NULL) {
		memcpy(line, "Basic ", 6);
		codec_base64(CODEC_BASE64, plain.data, plain.len, line + 6);
	}
	return line;
}

static void
put_escaped(struct buf *b, const char *text)
{
	char three[3];

	for (; *text != '\0'; text++)
		buf_put(b, three, codec_percent((unsigned char)*text, three));
}

static void
put_pair(struct buf *b, const char *separator, const char *name, const char *value)
{
	buf_put_text(b, separator);
	buf_put_text(b, name);
	buf_put_text(b, "=");
	put_escaped(b, value);
}

/* We ask for no more than to pull, whatever the registry asks for.  A few services have words of their own. */
static void
put_scopes(struct buf *b, const struct pull_source *s, const char *separator)
{
	char own[sizeof(s->repository) + 32];
	const char *asked = s->challenge.scope;

	snprintf(own, sizeof(own), "repository:%s:pull", s->repository);
	put_pair(b, separator, "scope", own);
	if (asked[0] != '\0' && strncmp(asked, "repository:", 11) != 0)
		put_pair(b, "&", "scope", asked);
}

/* https://realm?service=...&scope=... */
static int
make_url(const struct pull_source *s, char ret_url[PULL_URL_MAX + 1], struct err *err)
{
	OWN(buf_free) struct buf b = BUF(PULL_URL_MAX);
	const char *separator = strchr(s->challenge.realm, '?') != NULL ? "&" : "?";

	buf_put_text(&b, s->challenge.realm);
	if (s->challenge.service[0] != '\0') {
		put_pair(&b, separator, "service", s->challenge.service);
		separator = "&";
	}
	put_scopes(&b, s, separator);
	if (buf_failed(&b))
		return err_set(err, ENAMETOOLONG, "the address for tokens is too long");
	memcpy(ret_url, b.data, b.len);
	ret_url[b.len] = '\0';
	return 0;
}

/* OAuth2 (RFC 6749, section 6). */
static int
make_form(const struct pull_source *s, struct buf *b, struct err *err)
{
	put_pair(b, "", "grant_type", "refresh_token");
	put_pair(b, "&", "client_id", CLIENT);
	put_pair(b, "&", "service", s->challenge.service);
	put_scopes(b, s, "&");
	put_pair(b, "&", "refresh_token", s->auth.identity);
	buf_put(b, "", 1);
	return buf_failed(b) ? err_set(err, ENAMETOOLONG, "the identity token is too long") : 0;
}

struct answer {
	struct buf body;
};

static int
take_answer(void *arg, const void *data, size_t len, struct err *err)
{
	struct answer *a = arg;

	buf_put(&a->body, data, len);
	return buf_failed(&a->body) ? err_set(err, EFBIG, "the token server's answer is too long") : 0;
}

static int
begin_answer(void *arg, struct err *err)
{
	struct answer *a = arg;

	(void)err;
	buf_reset(&a->body);
	return 0;
}

static void
free_answer(struct answer *a)
{
	buf_free(&a->body);
}

/* Explains why a login that is there was not used. */
static int
refused(const struct pull_source *s, bool withheld, struct err *err)
{
	struct challenge_url realm = { .host = "" };

	(void)challenge_parse_url(s->challenge.realm, &realm);
	if (withheld)
		return err_wrap(err, "the login for '%s' was not sent to '%s', which is of another domain (`realm: %s` in "
		                "registries.yaml allows it)", s->name, realm.host, realm.host);
	return err_wrap(err, "no token for '%s'", s->name);
}

static int
send_for_token(struct pull *p, struct pull_source *s, bool is_trusted, struct answer *answer, struct err *err)
{
	OWN(buf_free) struct buf form = BUF_SECRET(FORM_MAX);
	OWN(freep) char *login = NULL;
	struct pull_exchange x = { .source = s, .is_token = true, .body_max = AUTH_TOKEN_MAX, .take = take_answer,
	                           .begin = begin_answer, .arg = answer };
	bool knows = has_login(&s->auth) || s->auth.identity != NULL;
	int r = make_url(s, x.url, err);

	if (r == 0 && is_trusted && s->auth.identity != NULL) {
		r = make_form(s, &form, err);
		x.form = (char *)form.data;
		snprintf(x.url, sizeof(x.url), "%s", s->challenge.realm);
	} else if (r == 0 && is_trusted && has_login(&s->auth)) {
		x.login = login = make_basic(&s->auth);
		r = login == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (r == 0 && pull_exchange(p, &x, err) != PULL_DONE)
		r = refused(s, knows && !is_trusted, err);
	if (login != NULL)
		explicit_bzero(login, strlen(login));
	return r;
}

static int
get_token(struct pull *p, struct pull_source *s, struct err *err)
{
	OWN(free_answer) struct answer answer = { BUF_SECRET(AUTH_TOKEN_MAX) };
	bool is_trusted;
	uint64_t seconds;
	int r = challenge_check_realm(s->challenge.realm, &s->origin, s->insecure, s->realm, &is_trusted, err);

	r = r == 0 ? send_for_token(p, s, is_trusted, &answer, err) : r;
	if (r < 0)
		return r;
	wipe_text(&s->token);
	r = auth_read_token((char *)answer.body.data, answer.body.len, &s->token, &seconds, err);
	if (r == 0)
		s->n_tokens++;
	/* A little before its time. */
	if (r == 0)
		s->token_until = io_now_ms() + (int64_t)(seconds < 86400 ? seconds : 86400) * 900;
	return r;
}

int
pull_authorize(struct pull *p, struct pull_exchange *x, struct err *err)
{
	struct pull_source *s = x->source;
	struct challenge asked;
	int r = challenge_parse(x->asks, strlen(x->asks), &asked, err);

	if (r < 0)
		return r;
	/* Another request has got a newer token meanwhile. */
	if (x->sent_with != s->n_tokens)
		return 0;
	if (asked.kind == CHALLENGE_NONE)
		return err_set(err, EACCES, "'%s' answers with 401, and does not say how to log in", s->name);
	if (s->auth.bearer != NULL && x->logins <= 1) {
		s->challenge = asked;
		s->token = strdup(s->auth.bearer);
		s->token_until = INT64_MAX;
		return s->token != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (asked.kind == CHALLENGE_BASIC && (!has_login(&s->auth) || s->challenge.kind == CHALLENGE_BASIC))
		return err_set(err, EACCES, "'%s' %s", s->name, has_login(&s->auth) ? "does not accept the login" :
		               "wants a login, and there is none: skopeo login, podman login or docker login makes one");
	s->challenge = asked;
	return asked.kind == CHALLENGE_BASIC ? 0 : get_token(p, s, err);
}

int
pull_authorization(struct pull *p, struct pull_source *source, char **ret_line, struct err *err)
{
	int r = 0;

	*ret_line = NULL;
	if (source->challenge.kind == CHALLENGE_NONE)
		return 0;
	if (source->challenge.kind == CHALLENGE_BASIC && has_login(&source->auth)) {
		*ret_line = make_basic(&source->auth);
		return *ret_line != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (source->token == NULL || io_now_ms() >= source->token_until)
		r = get_token(p, source, err);
	if (r < 0)
		return r;
	*ret_line = str_format("Bearer %s", source->token);
	return *ret_line != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}
