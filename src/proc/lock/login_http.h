/* login_http.h - one request to an authorization server, and the browser's way back. */
#ifndef CLOISTER_LOCK_LOGIN_HTTP_H
#define CLOISTER_LOCK_LOGIN_HTTP_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/oauth.h"

struct err;
struct login_http;

#define LOGIN_ANSWER_MAX (256u << 10)
#define LOGIN_REQUEST_S 30
#define LOGIN_BROWSER_MS (10 * 60 * 1000)
#define LOGIN_FIELD_MAX 4096

/* Before the lockdown.  PEM must outlive it. */
int login_http_new(const char *pem, size_t len, struct login_http **ret_http, struct err *err);

struct login_answer {
	long status;
	char challenge[LOGIN_FIELD_MAX + 1];    /* WWW-Authenticate */
	json_t *document;                       /* owned; NULL: it is no JSON */
};
void login_answer_free(struct login_answer *a); /* for OWN() too */
/* GET, or with a BODY of TYPE a POST.  Redirects are not followed. */
int login_http_ask(struct login_http *h, const struct oauth *o, const char *url, const char *type, const char *body,
                   struct login_answer *ret_answer, struct err *err);

/* Waits on LISTENER for the redirect to /callback, and answers it.  The query is in B, with a NUL. */
int login_await_browser(int listener, struct buf *b, struct err *err);
#endif
