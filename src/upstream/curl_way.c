/* curl_way.c - see curl_way.h. */
#include "upstream/curl_way.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "upstream/resolve.h"

void
curl_way_free(struct curl_way_lists *lists)
{
	curl_slist_free_all(lists->addresses);
	curl_slist_free_all(lists->proxy_head);
	*lists = (struct curl_way_lists){0};
}

/* ---- names ---- */

/* The unspecified address leads to this machine too. */
static bool
is_here(const struct address *a)
{
	static const unsigned char any[16], own[16] = { [15] = 1 };
	struct address inner[ADDRESS_EMBEDDED_MAX];
	size_t n = address_embedded(a, inner);

	for (size_t i = 0; i < n; i++)
		if (is_here(&inner[i]))
			return true;
	if (a->family == AF_INET)
		return a->bytes[0] == 127 || memcmp(a->bytes, any, 4) == 0;
	return memcmp(a->bytes, any, sizeof(any)) == 0 || memcmp(a->bytes, own, sizeof(own)) == 0;
}

bool
curl_way_is_here(const char *host)
{
	struct address a = { .family = AF_INET };
	const char *dot = strrchr(host, '.');
	struct in_addr four;

	if (strcasecmp(host, "localhost") == 0 || (dot != NULL && strcasecmp(dot, ".localhost") == 0))
		return true;
	if (address_parse(host, &a))
		return is_here(&a);
	/* libcurl takes "127.1" and "2130706433" for addresses, too. */
	if (inet_aton(host, &four) == 0)
		return false;
	memcpy(a.bytes, &four, sizeof(four));
	return is_here(&a);
}

/* libcurl gets the addresses of HOST, so that it asks nobody itself. */
static int
resolve(const struct curl_way *way, const char *host, unsigned port, struct curl_way_lists *lists, bool *ret_here,
        struct err *err)
{
	OWN(buf_free) struct buf line = BUF(4096);
	struct address literal;
	struct curl_slist *longer;
	bool here;
	int r;

	*ret_here = curl_way_is_here(host);
	if (*ret_here || address_parse(host, &literal))
		return 0;
	r = resolver_line(way->resolver, way->loop, host, port, &line, is_here, &here, err);
	if (r < 0)
		return r;
	longer = curl_slist_append(lists->addresses, (char *)line.data);
	if (longer == NULL)
		return err_set(err, ENOMEM, "out of memory");
	lists->addresses = longer;
	*ret_here = here;
	return 0;
}

/* ---- the operator's proxy ---- */

static int
use_proxy(const struct proxy *proxy, CURL *easy, struct curl_way_lists *lists, struct err *err)
{
	char url[HTTP_HOST_MAX + 32];
	struct curl_slist *login = NULL;
	OWN(freep) char *line = NULL;
	bool is_six = strchr(proxy->host, ':') != NULL;

	if (proxy->problem != NULL)
		return err_set(err, EINVAL, "the proxy of this machine cannot be used: %s", proxy->problem);
	snprintf(url, sizeof(url), "http://%s%s%s:%u", is_six ? "[" : "", proxy->host, is_six ? "]" : "", proxy->port);
	curl_easy_setopt(easy, CURLOPT_PROXY, url);
	curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	if (proxy->authorization[0] == '\0')
		return 0;
	line = str_format("Proxy-Authorization: %s", proxy->authorization);
	login = line != NULL ? curl_slist_append(NULL, line) : NULL;
	if (login == NULL)
		return err_set(err, ENOMEM, "out of memory");
	curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
	curl_easy_setopt(easy, CURLOPT_PROXYHEADER, login);
	curl_slist_free_all(lists->proxy_head);
	lists->proxy_head = login;
	return 0;
}

int
curl_way_set(const struct curl_way *way, CURL *easy, bool is_tls, const char *host, unsigned port,
             struct curl_way_lists *lists, bool *ret_here, struct err *err)
{
	const struct proxy *proxy = way->proxies == NULL ? NULL :
		proxies_for(way->proxies, is_tls ? HTTP_TLS : HTTP_PLAIN, host, (uint16_t)port);
	bool here;
	int r;

	*ret_here = false;
	/* What a proxy says to CONNECT is not the server's. */
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	if (proxy == NULL) {
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
		r = resolve(way, host, port, lists, ret_here, err);
	} else {
		r = use_proxy(proxy, easy, lists, err);
		r = r == 0 ? resolve(way, proxy->host, proxy->port, lists, &here, err) : r;
	}
	if (r == 0)
		curl_easy_setopt(easy, CURLOPT_RESOLVE, lists->addresses);
	return r;
}

/* ---- the rest ---- */

void
curl_way_secure(CURL *easy, bool is_tls, const char *pem, size_t len)
{
	struct curl_blob blob = { (void *)(uintptr_t)pem, len, CURL_BLOB_NOCOPY };

	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
}

bool
curl_way_is_done(CURLM *multi, const CURL *easy, CURLcode *ret_code, curl_way_ended *other, void *arg)
{
	CURLMsg *message;
	bool is_done = false;
	int left;

	while ((message = curl_multi_info_read(multi, &left)) != NULL) {
		if (message->easy_handle == easy) {
			*ret_code = message->data.result;
			is_done = true;
		} else if (other != NULL && message->msg == CURLMSG_DONE) {
			other(arg, message->easy_handle, message->data.result);
		}
	}
	return is_done;
}

CURLcode
curl_way_perform(CURLM *multi, CURL *easy, curl_way_ended *other, void *arg)
{
	CURLcode code = CURLE_FAILED_INIT;
	int running = 1;

	if (curl_multi_add_handle(multi, easy) != CURLM_OK)
		return code;
	while (curl_multi_perform(multi, &running) == CURLM_OK && !curl_way_is_done(multi, easy, &code, other, arg) && running > 0)
		if (curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)
			break;
	(void)curl_multi_remove_handle(multi, easy);
	return code;
}

bool
curl_way_may_retry(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT: case CURLE_PARTIAL_FILE: case CURLE_OPERATION_TIMEDOUT: case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR: case CURLE_RECV_ERROR: case CURLE_COULDNT_RESOLVE_HOST: case CURLE_HTTP2_STREAM:
		return true;
	default:
		return false;
	}
}

bool
curl_way_field(const char *line, size_t len, const char *name, char *value, size_t size)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
		return false;
	line += n + 1;
	len -= n + 1;
	for (; len > 0 && strchr(" \t", *line) != NULL && *line != '\0'; line++)
		len--;
	while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL && line[len - 1] != '\0')
		len--;
	/* One that is too long, or has a NUL in it, is of no use to us. */
	if (len >= size || memchr(line, '\0', len) != NULL)
		len = 0;
	memcpy(value, line, len);
	value[len] = '\0';
	return true;
}
