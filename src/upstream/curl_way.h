/* curl_way.h - the way of a libcurl request to its server: names that our resolver looks up, the operator's proxy, and
 * TLS with the authorities that the caller has read.
 *
 * libcurl itself looks up no name and opens no file, so it works in a process that is locked down. */
#ifndef CLOISTER_UPSTREAM_CURL_WAY_H
#define CLOISTER_UPSTREAM_CURL_WAY_H
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "upstream/proxy.h"

struct err;
struct loop;
struct resolver;

struct curl_way {
	struct resolver *resolver;
	struct loop *loop;
	const struct proxies *proxies;  /* NULL: none is used */
};
/* What a request borrows until it is over; {0} at first. */
struct curl_way_lists {
	struct curl_slist *addresses, *proxy_head;
};
void curl_way_free(struct curl_way_lists *lists);

/* Whether HOST is a name or an address of this machine, without asking anybody. */
bool curl_way_is_here(const char *host);
/* Lead EASY to HOST:PORT.  *RET_HERE: without a proxy, one of its addresses is this machine's. */
int curl_way_set(const struct curl_way *way, CURL *easy, bool is_tls, const char *host, unsigned port,
                 struct curl_way_lists *lists, bool *ret_here, struct err *err);
/* Permit one protocol and no redirect, and trust the authorities PEM alone, which is borrowed until EASY is cleaned up. */
void curl_way_secure(CURL *easy, bool is_tls, const char *pem, size_t len);
/* Others in MULTI may end meanwhile. */
typedef void curl_way_ended(void *arg, CURL *easy, CURLcode code);
/* Do what EASY describes, and wait for its end.  OTHER, which may be NULL, is called for others. */
CURLcode curl_way_perform(CURLM *multi, CURL *easy, curl_way_ended *other, void *arg);
/* Whether EASY is done, with *RET_CODE; NULL: it is nobody. */
bool curl_way_is_done(CURLM *multi, const CURL *easy, CURLcode *ret_code, curl_way_ended *other, void *arg);
/* Whether a request that ended with CODE may succeed if it is sent again. */
bool curl_way_may_retry(CURLcode code);
/* The value of the header field NAME if LINE is one, without blanks around it; "" if it does not fit. */
bool curl_way_field(const char *line, size_t len, const char *name, char *value, size_t size);
#endif
