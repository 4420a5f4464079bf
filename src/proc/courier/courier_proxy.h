/* courier_proxy.h - the operator's own proxy: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and
 * what NO_PROXY says is reached without it.
 *
 * A proxy that resolves a name may be led to another address than the one that was vetted.  So
 * it is asked to CONNECT to that address, for plain HTTP too, unless the operator says otherwise. */
#ifndef CLOISTER_COURIER_PROXY_H
#define CLOISTER_COURIER_PROXY_H
#include <stdbool.h>
#include <stdint.h>

#include "http/proxy_url.h"

struct err;

#define PROXY_NO_MAX 8192               /* of NO_PROXY; what is beyond it is not read */

struct proxy {
	bool used;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	char authorization[PROXY_LOGIN_MAX * 2];        /* "Basic ..." or "" */
	const char *problem;            /* why it cannot be used, or NULL; static text */
};

struct proxies {
	struct proxy for_plain, for_tls;        /* the second for raw TCP too */
	char *no_proxy;                         /* NULL: none */
	bool resolves;                          /* CLOISTER_PROXY_RESOLVES: names are the proxy's
	                                         * to resolve; else it is given addresses */
};

/* From "NAME=value" strings; in lower case they count more, as everywhere.  A proxy that
 * cannot be understood is kept with its problem: to go around it unasked would be worse. */
void proxies_load(struct proxies *ret_proxies, char *const *environment);
void proxies_free(struct proxies *p);

/* NULL: straight.  This machine itself is always reached straight. */
const struct proxy *proxies_for(const struct proxies *p, enum http_scheme scheme,
                                const char *host, uint16_t port);

/* Whether LIST (NO_PROXY) has HOST: names with what is beneath them, addresses, ranges,
 * each with or without a port, or "*". */
bool proxy_list_has(const char *list, const char *host, uint16_t port);
/* A proxy's address as in the variables: [http://][user[:password]@]host[:port][/]. */
void proxy_parse(const char *text, struct proxy *ret_proxy);
#endif
