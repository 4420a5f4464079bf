/* proxy_url.h - parses HTTPS_PROXY and similar variables, and chooses the one that counts.  Pure. */
#ifndef CLOISTER_PROXY_URL_H
#define CLOISTER_PROXY_URL_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

#define PROXY_LOGIN_MAX 512             /* bytes of name and password */

struct proxy_url {
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	char login[PROXY_LOGIN_MAX];    /* "name:password", unescaped; may hold NUL */
	size_t login_len;               /* 0: no login */
};

/* Parse [http://][user[:password]@]host[:port][/].  Returns NULL, or the reason why it cannot be
 * used: static text to follow the variable's name.  *ret_url is then meaningless.  It may hold a
 * password. */
const char *proxy_url_parse(const char *text, struct proxy_url *ret_url);

/* Find NAME (lower case), or else its upper case form, in "NAME=value" strings (NULL: none).
 * Returns NULL if it is not set or empty. */
const char *proxy_url_find(char *const *environment, const char *name);
#endif
