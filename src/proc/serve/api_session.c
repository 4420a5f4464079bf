/* api_session.c - the dashboard's pages, and logging in with a browser.
 *
 * Requests over TCP without a token are judged here: by the cookie of a session, if the browser's
 * headers show that the requesting page is the dashboard's own.  Everything but reading also
 * requires the session's own word (x-cloister-csrf), which no other page can know.  Only logging in
 * tells it: a cookie goes to every port of its host, so a page that an agent publishes may get it.
 * Sessions are used by the loop only. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/own.h"
#include "loop/loop.h"
#include "proc/serve/api.h"
#include "proc/serve/web.h"

#define COOKIE_MAX 64                   /* its name */
#define FIELD_MAX 256
#define EXPIRE_MS 60000

/* ---- cookies ---- */

/* Browsers send cookies to every port of a host, so the port is in the name.  With "__Host-",
 * browsers ensure that the cookie is encrypted and set by this host alone. */
static void
cookie_name(const struct serve_request *q, char ret_name[COOKIE_MAX])
{
	snprintf(ret_name, COOKIE_MAX, "%scloister-%u", q->is_tls ? "__Host-" : "",
	         q->door->port);
}

static struct http_text
find_cookie(const struct serve_request *q)
{
	struct http_text all = http_head_get(&q->head, "cookie");
	char name[COOKIE_MAX];
	size_t len;

	cookie_name(q, name);
	len = strlen(name);
	for (const char *at = all.at, *end = at + all.len; at < end;) {
		const char *semi = memchr(at, ';', (size_t)(end - at));
		size_t n = (size_t)((semi != NULL ? semi : end) - at);

		if (n > len && memcmp(at, name, len) == 0 && at[len] == '=')
			return (struct http_text){ at + len + 1, n - len - 1 };
		at += n + 1;
		while (at < end && *at == ' ')
			at++;
	}
	return (struct http_text){0};
}

static void
set_cookie(struct serve_request *q, const char *secret)
{
	char name[COOKIE_MAX], field[FIELD_MAX];

	cookie_name(q, name);
	snprintf(field, sizeof(field), "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s", name, secret,
	         q->is_tls ? "; Secure" : "", secret[0] == '\0' ? "; Max-Age=0" : "");
	serve_field(q, "set-cookie", field);
}

/* ---- judging ---- */

static bool
is_safe(const struct serve_request *q)
{
	return http_text_is(q->head.method, "GET") || http_text_is(q->head.method, "HEAD");
}

/* A request from another page, even one at another port of this machine, is anonymous. */
static bool
is_asked_by_others(const struct serve_request *q)
{
	struct http_text site = http_head_get(&q->head, "sec-fetch-site");

	return site.len > 0 && !http_text_is(site, "same-origin") && !http_text_is(site, "none");
}

static bool
check_csrf(struct serve_request *q, const struct session *session)
{
	struct http_text shown = http_head_get(&q->head, "x-cloister-csrf");

	if (is_safe(q))
		return true;
	if (http_head_get(&q->head, "origin").len == 0) {
		serve_refuse(q, 403, "origin", NULL, "a session changes things only for this server's own "
		             "pages, and the browser sent no 'Origin' header");
		return false;
	}
	if (!session_is_csrf(session, shown.at, shown.len)) {
		serve_refuse(q, 403, "csrf", NULL, "the CSRF token is missing or wrong: send "
		             "'X-Cloister-Csrf' with the 'csrf' that POST /login gave");
		return false;
	}
	return true;
}

bool
api_judge(void *arg, struct serve_request *q)
{
	struct api *api = arg;
	struct http_text cookie = find_cookie(q);
	const struct session *session = cookie.len == 0 || is_asked_by_others(q) ? NULL :
		session_find(&api->sessions, cookie.at, cookie.len, loop_now_ms());

	q->role = SERVE_GUEST;
	snprintf(q->who, sizeof(q->who), "guest");
	/* Logging in again works without a valid session, too. */
	if (session == NULL || strcmp(q->path, "/login") == 0)
		return true;
	if (!check_csrf(q, session))
		return false;
	q->role = SERVE_OPERATOR;
	q->session = session->number;
	memcpy(q->who, session->who, sizeof(q->who));
	return true;
}

static void
expire(void *arg)
{
	struct api *api = arg;
	uint64_t ended;

	while ((ended = session_expire(&api->sessions, loop_now_ms())) != 0)
		serve_end_session(api->server, ended);
	loop_set_timer(api->loop, &api->expire, EXPIRE_MS);
}

void
api_sessions_start(struct api *api)
{
	loop_prepare_timer(&api->expire, expire, api);
	loop_set_timer(api->loop, &api->expire, EXPIRE_MS);
}

/* ---- logging in and out ---- */

/* In the loop: begins the session, and adds the cookie to the response. */
static const struct session *
begin_session(struct api_call *c, const char *who)
{
	char secret[SESSION_SECRET_LEN + 1];
	const struct session *session;
	uint64_t ended = 0;

	if (session_begin(&c->api->sessions, who, loop_now_ms(), secret, &session, &ended) < 0)
		return NULL;
	if (ended != 0)
		serve_end_session(c->api->server, ended);
	set_cookie(c->q, secret);
	return session;
}

static void
answer_session(struct api_call *c, const struct session *session, const char *csrf)
{
	json_int_t left_s = (json_int_t)((session->began_ms + SESSION_LIFE_MS - loop_now_ms()) / 1000);

	c->answer = json_pack("{s:s, s:s?, s:I}", "who", session->who, "csrf", csrf, "ends",
	                      (json_int_t)time(NULL) + left_s);
	api_answer(c);
}

static int
only_tcp(struct api_call *c)
{
	return c->q->door->is_tcp ? 0 : api_fail_with(c, 404, "not_found", "the dashboard is for browsers, "
	        "over TCP: see `cloister dashboard`");
}

int
api_login(struct api_call *c)
{
	static const struct api_member members[] = { { "token", API_TEXT, false },
	                                             { "code", API_TEXT, false }, {0} };
	if (only_tcp(c) < 0 || api_body_check(c, members) < 0)
		return -EINVAL;
	if (json_is_null(api_body_get(c, "token")) == json_is_null(api_body_get(c, "code")))
		return api_fail_with(c, 400, "invalid", "log in with a 'token' or with a 'code'");
	if (c->q->door->tls != NULL && !c->q->is_tls && !json_is_null(api_body_get(c, "token")))
		return api_fail_with(c, 400, "tls", "a token is sent with TLS only: log in at https://127.0.0.1:%u, or "
		                     "with the link of `cloister dashboard`", c->q->door->port);
	return 0;
}

void
api_login_begin(struct api_call *c)
{
	const char *text = json_string_value(api_body_get(c, "token"));
	const char *code = json_string_value(api_body_get(c, "code"));
	const struct serve_token *token = text == NULL ? NULL :
		serve_token_find(c->q->door, text, strlen(text));
	const struct session *session;
	char who[SERVE_NAME_MAX];

	if (token != NULL && token->role != SERVE_OPERATOR) {
		api_fail_with(c, 403, "forbidden", "this token is an agent's, and the dashboard is for operators");
		return;
	}
	if (token != NULL)
		snprintf(who, sizeof(who), "token %.*s", (int)sizeof(who) - 7, token->name);
	if (token == NULL && (code == NULL || !session_redeem(&c->api->sessions, code, loop_now_ms(), who))) {
		api_fail_with(c, 401, "unauthorized", code == NULL ? "the token is wrong: use the one in "
		              "the server's token file, serve/token in the data folder" : "the code was used or is too old: run `cloister dashboard` "
		              "again");
		return;
	}
	session = begin_session(c, who);
	if (session == NULL)
		api_fail_with(c, 503, "unavailable", "no random numbers are available for a session");
	else
		answer_session(c, session, session->csrf);
}

int
api_nothing(struct api_call *c)
{
	(void)c;
	return 0;
}

void
api_logout_begin(struct api_call *c)
{
	uint64_t number = c->q->session;

	if (c->q->door->is_tcp)
		set_cookie(c->q, "");
	serve_answer(c->q, 204, NULL, NULL, 0);
	c->q = NULL;
	session_end(&c->api->sessions, number);
	if (number != 0)
		serve_end_session(c->api->server, number);
}

void
api_session_begin(struct api_call *c)
{
	const struct session *session = session_get(&c->api->sessions, c->q->session);

	if (session != NULL) {
		answer_session(c, session, NULL);
		return;
	}
	c->answer = json_pack("{s:s, s:n, s:n}", "who", c->q->who, "csrf", "ends");
	api_answer(c);
}

/* Anyone who can reach the unix socket is the operator; a session cannot create another one. */
void
api_login_code_begin(struct api_call *c)
{
	char code[SESSION_SECRET_LEN + 1], url[FIELD_MAX];
	const struct api *api = c->api;

	if (c->q->door->is_tcp) {
		api_fail_with(c, 403, "forbidden", "login codes are available on the unix socket only");
		return;
	}
	if (api->page_port == 0) {
		api_fail_with(c, 409, "no_tcp", "the service does not listen on TCP, which browsers need: "
		              "start it with `cloister serve --listen 127.0.0.1:7878`");
		return;
	}
	if (session_mint(&c->api->sessions, c->q->who, loop_now_ms(), code) < 0) {
		api_fail_with(c, 503, "unavailable", "no random numbers are available for a code");
		return;
	}
	/* The part after the "#" is for the page, which uses it once; browsers do not send it. */
	snprintf(url, sizeof(url), "%s:%u/#code=%s", api->page_tls ? "https://127.0.0.1" :
	         "http://" API_PAGE_HOST, api->page_port, code);
	c->answer = json_pack("{s:s, s:s, s:I}", "url", url, "code", code, "ends",
	                      (json_int_t)time(NULL) + (json_int_t)(SESSION_CODE_MS / 1000));
	api_answer(c);
}

/* ---- pages ---- */

/* Nothing from elsewhere, nothing inline, in nobody's frame. */
static const char *const page_fields[][2] = {
	{ "content-security-policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
	  "data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'" },
	{ "x-frame-options", "DENY" },
	{ "referrer-policy", "no-referrer" },
	{ "cross-origin-opener-policy", "same-origin" },
	{ "permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()" },
	{ "cache-control", "no-cache" },
};

void
api_common_fields(struct serve_request *q)
{
	serve_field(q, "x-content-type-options", "nosniff");
	serve_field(q, "cross-origin-resource-policy", "same-origin");
}

int
api_page(struct api_call *c)
{
	const char *name = c->params.at[0] != NULL ? c->params.at[0] : WEB_INDEX;

	if (only_tcp(c) < 0)
		return -EINVAL;
	return web_find(name) != NULL ? 0 : api_fail_with(c, 404, "not_found", "there is no such file");
}

void
api_page_begin(struct api_call *c)
{
	const struct web_file *file = web_find(c->params.at[0] != NULL ? c->params.at[0] : WEB_INDEX);
	struct http_text known = http_head_get(&c->q->head, "if-none-match");
	char etag[WEB_ETAG_MAX];

	web_etag(file, etag);
	for (size_t i = 0; i < ARRAY_LEN(page_fields); i++)
		serve_field(c->q, page_fields[i][0], page_fields[i][1]);
	serve_field(c->q, "etag", etag);
	if (known.len > 0 && memmem(known.at, known.len, etag, strlen(etag)) != NULL)
		serve_answer(c->q, 304, NULL, NULL, 0);
	else
		serve_answer(c->q, 200, web_type(file->name), file->data, (size_t)(file->end - file->data));
	c->q = NULL;
}
