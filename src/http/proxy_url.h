/* proxy_url.h - what HTTPS_PROXY and its like say: which of them counts, and where it leads.
 * Pure. */
#ifndef CLOISTER_PROXY_URL_H
#define CLOISTER_PROXY_URL_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

#define PROXY_LOGIN_MAX 512             /* of name and password */

struct proxy_url {
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	char login[PROXY_LOGIN_MAX];    /* "name:password", its escapes undone; may hold NUL */
	size_t login_len;               /* 0: there is none */
};

/* [http://][user[:password]@]host[:port][/].  NULL, or why it cannot be used (static text, to stand
 * behind the variable's name); *ret_url is then of no use.  It may hold a password. */
const char *proxy_url_parse(const char *text, struct proxy_url *ret_url);

/* Of "NAME=value" strings (NULL: none), the one of NAME, which is in lower case, or else in upper
 * case; NULL if it is not set, or empty. */
const char *proxy_url_find(char *const *environment, const char *name);
#endif
