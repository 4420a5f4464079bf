/* login.c - logs in to a remote server: speaks with it and with its authorization server, which are hostile.
 *
 * It is locked down before its first byte goes out: it can dial, and accept the browser on one socket. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "proc/lock/lock_proc.h"
#include "proc/lock/login_http.h"

#define LISTENER_FD (LOCK_CHANNEL_FD + 1)
#define PEM_MAX (16u << 20)
#define SPARE_S 360                     /* a token with less life than this is renewed */
#define JSON "application/json"
#define FORM "application/x-www-form-urlencoded"

struct login {
	struct login_http *http;
	struct oauth oauth;
	struct ipc_message begin;       /* owns the strings */
	uint32_t is_new;
	const char *first, *client_id, *redirect;
};

static int
send_text(enum lock_message type, const char *text, bool is_str, struct err *err)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, type);
	if (is_str)
		buf_put_str(&b, text);
	else
		buf_put_text(&b, text);
	return ipc_send(LOCK_CHANNEL_FD, &b, NULL, 0, err);
}

static int
hear_begin(struct login *l, struct err *err)
{
	static char *pem;
	OWN(closep) int fd = -1;
	size_t len;
	int r = ipc_receive(LOCK_CHANNEL_FD, &l->begin, err);

	if (r < 0)
		return r;
	if (l->begin.type != LOCK_LOGIN || buf_get_u32(&l->begin.body, &l->is_new) < 0 ||
	    buf_get_str(&l->begin.body, &l->first) < 0 || buf_get_str(&l->begin.body, &l->client_id) < 0 ||
	    buf_get_str(&l->begin.body, &l->redirect) < 0)
		return err_set(err, EBADMSG, "the two processes of cloister-lock have different versions");
	fd = ipc_take_fd(&l->begin, 0);
	r = read_open(fd, "the certificates", PEM_MAX, &pem, &len, err);
	return r < 0 ? r : login_http_new(pem, len, &l->http, err);
}

/* ---- a new login ---- */

static int
discover_resource(struct login *l, struct err *err)
{
	char url[OAUTH_URL_MAX + 1];
	OWN(login_answer_free) struct login_answer first = {0};
	int r = login_http_ask(l->http, &l->oauth, l->oauth.resource, NULL, NULL, &first, err);

	if (r < 0)
		return r;
	oauth_take_challenge(&l->oauth, first.challenge);
	for (unsigned n = 0; oauth_resource_place(&l->oauth, n, url); n++) {
		OWN(login_answer_free) struct login_answer answer = {0};

		if (url[0] != '\0' && login_http_ask(l->http, &l->oauth, url, NULL, NULL, &answer, NULL) == 0 &&
		    answer.status == 200 && json_is_object(answer.document))
			return oauth_take_resource(&l->oauth, answer.document, err);
	}
	return err_set(err, ENOENT, "the server does not say how to log in (it has no metadata of a protected resource)");
}

static int
discover_issuer(struct login *l, struct err *err)
{
	char url[OAUTH_URL_MAX + 1];

	for (unsigned n = 0; oauth_issuer_place(&l->oauth, n, url); n++) {
		OWN(login_answer_free) struct login_answer answer = {0};

		if (url[0] != '\0' && login_http_ask(l->http, &l->oauth, url, NULL, NULL, &answer, NULL) == 0 &&
		    answer.status == 200 && json_is_object(answer.document))
			return oauth_take_issuer(&l->oauth, answer.document, err);
	}
	return err_set(err, ENOENT, "the authorization server has no metadata");
}

static int
register_client(struct login *l, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(8192);
	OWN(login_answer_free) struct login_answer answer = {0};
	int r;

	snprintf(l->oauth.redirect, sizeof(l->oauth.redirect), "%s", l->redirect);
	if (l->client_id[0] != '\0') {
		snprintf(l->oauth.client_id, sizeof(l->oauth.client_id), "%s", l->client_id);
		return 0;
	}
	if (l->oauth.registration[0] == '\0')
		return err_set(err, ENOTSUP, "the authorization server registers no clients: register one there, and give its id with "
		               "--client-id");
	r = oauth_put_registration(&b, &l->oauth, err);
	buf_put(&b, "", 1);
	r = r == 0 ? login_http_ask(l->http, &l->oauth, l->oauth.registration, JSON, (const char *)b.data, &answer, err) : r;
	if (r == 0 && answer.status != 200 && answer.status != 201)
		r = err_set(err, EPROTO, "the authorization server refused to register a client (status %ld)", answer.status);
	return r < 0 ? r : oauth_take_registration(&l->oauth, answer.document, err);
}

static int
await_code(struct login *l, struct buf *code, struct err *err)
{
	OWN(buf_free) struct buf visit = BUF(4 * OAUTH_URL_MAX);
	unsigned char noise[64];
	int r;

	if (getrandom(noise, sizeof(noise), 0) != sizeof(noise))
		return err_errno(err, "cannot get random numbers");
	oauth_make_verifier(&l->oauth, noise);
	r = oauth_put_visit(&visit, &l->oauth, err);
	buf_put(&visit, "", 1);
	r = r == 0 ? send_text(LOCK_VISIT, (const char *)visit.data, true, err) : r;
	for (;;) {
		OWN(buf_free) struct buf query = BUF(16384);

		r = r == 0 ? login_await_browser(LISTENER_FD, &query, err) : r;
		if (r < 0)
			return r;
		r = oauth_take_redirect(&l->oauth, (const char *)query.data, code, err);
		/* Other programs of this machine could send requests there, too. */
		if (r != -EPERM)
			return r;
		r = 0;
	}
}

/* ---- tokens ---- */

static int
fetch_tokens(struct login *l, const char *code, const char *refresh, json_t **ret_login, struct err *err)
{
	OWN(buf_free) struct buf form = BUF_SECRET(4 * OAUTH_TOKEN_MAX);
	OWN(login_answer_free) struct login_answer answer = {0};
	int r = oauth_put_token_form(&form, &l->oauth, code, refresh, err);

	buf_put(&form, "", 1);
	r = r == 0 ? login_http_ask(l->http, &l->oauth, l->oauth.token, FORM, (const char *)form.data, &answer, err) : r;
	if (r == 0 && answer.status != 200)
		r = err_set(err, EACCES, "the authorization server gave no token (status %ld)%s", answer.status,
		            refresh != NULL ? ": log in again with `cloister tools login`" : "");
	if (r < 0)
		return r;
	*ret_login = oauth_login(&l->oauth, answer.document, refresh, (uint64_t)time(NULL), err);
	return *ret_login != NULL ? 0 : -EBADMSG;
}

static int
log_in(struct login *l, json_t **ret_login, struct err *err)
{
	OWN(buf_free) struct buf code = BUF_SECRET(16384);
	int r = oauth_begin(&l->oauth, l->first, err);

	r = r == 0 ? discover_resource(l, err) : r;
	r = r == 0 ? discover_issuer(l, err) : r;
	r = r == 0 ? register_client(l, err) : r;
	r = r == 0 ? await_code(l, &code, err) : r;
	return r == 0 ? fetch_tokens(l, (const char *)code.data, NULL, ret_login, err) : r;
}

static int
renew(struct login *l, json_t **ret_login, struct err *err)
{
	OWN(json_decrefp) json_t *old = canon_value(l->first, strlen(l->first));
	const char *refresh = json_string_value(json_object_get(old, "refresh_token"));
	const json_int_t expires = json_integer_value(json_object_get(old, "expires"));
	int r = oauth_take_login(&l->oauth, old, err);

	if (r < 0)
		return r;
	if (expires > (json_int_t)time(NULL) + SPARE_S) {
		*ret_login = json_incref(old);
		return 0;
	}
	if (refresh == NULL)
		return err_set(err, EACCES, "the login has expired, and cannot be renewed: log in again with `cloister tools login`");
	return fetch_tokens(l, NULL, refresh, ret_login, err);
}

/* ---- the process ---- */

static int
lock_down(struct err *err)
{
	static const char *const readable[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", NULL };

	return lockdown_enter(&(struct lockdown){ .filter = FILTER_LOGIN, .network = true, .readable = readable }, INT_MAX, err);
}

static int
finish(json_t *login, struct err *err)
{
	OWN(freep) char *text = json_dumps(login, JSON_COMPACT);
	OWN(buf_free) struct buf b = {0};
	int r = text != NULL ? send_text(LOCK_CHUNK, text, false, err) : err_set(err, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	ipc_begin(&b, LOCK_DONE);
	buf_put_u64(&b, 0);
	return ipc_send(LOCK_CHANNEL_FD, &b, NULL, 0, err);
}

int
lock_login_main(void)
{
	OWN(json_decrefp) json_t *result = NULL;
	static struct login l;
	struct err err = {0};
	int r;

	json_object_seed(0);
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	r = hear_begin(&l, &err);
	r = r == 0 ? lock_down(&err) : r;
	if (r == 0)
		r = l.is_new ? log_in(&l, &result, &err) : renew(&l, &result, &err);
	r = r == 0 ? finish(result, &err) : r;
	if (r < 0)
		(void)send_text(LOCK_FAILED, err.text, true, NULL);
	return r < 0;
}
