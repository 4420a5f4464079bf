/* proxy.h - the operator's own proxy: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and the
 * exceptions in NO_PROXY.
 *
 * A proxy that resolves a name may reach another address than the vetted one.  So the courier asks
 * it to CONNECT to that address, for plain HTTP too, unless the operator changes this. */
#ifndef CLOISTER_UPSTREAM_PROXY_H
#define CLOISTER_UPSTREAM_PROXY_H
#include <stdbool.h>
#include <stdint.h>

#include "http/proxy_url.h"

#define PROXY_NO_MAX 8192               /* bytes of NO_PROXY; the rest is not read */

struct proxy {
	bool used;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	char authorization[PROXY_LOGIN_MAX * 2];        /* "Basic ..." or "" */
	const char *problem;            /* why it cannot be used, or NULL; static text */
};

struct proxies {
	struct proxy for_plain, for_tls;        /* FOR_TLS is for raw TCP too */
	char *no_proxy;                         /* NULL: none */
	bool resolves;                          /* CLOISTER_PROXY_RESOLVES: the proxy resolves names;
	                                         * otherwise it gets addresses */
};

/* Load from "NAME=value" strings; lower-case names take precedence, as usual.  A proxy that cannot
 * be parsed is kept with its problem: bypassing it silently would be worse. */
void proxies_load(struct proxies *ret_proxies, char *const *environment);
void proxies_free(struct proxies *p);

/* NULL: connect directly.  This machine itself is always reached directly. */
const struct proxy *proxies_for(const struct proxies *p, enum http_scheme scheme,
                                const char *host, uint16_t port);

/* Whether LIST (NO_PROXY) contains HOST.  Its entries are names (with their subdomains), addresses,
 * ranges, each with or without a port, or "*". */
bool proxy_list_has(const char *list, const char *host, uint16_t port);
/* Parse a proxy's address as in the variables: [http://][user[:password]@]host[:port][/]. */
void proxy_parse(const char *text, struct proxy *ret_proxy);
#endif
