/* proxy.c - see proxy.h. */
#include "upstream/proxy.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/codec.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "upstream/address.h"

void
proxy_parse(const char *text, struct proxy *ret_proxy)
{
	struct proxy_url url;

	*ret_proxy = (struct proxy){ .used = true };
	ret_proxy->problem = proxy_url_parse(text, &url);
	if (ret_proxy->problem == NULL) {
		memcpy(ret_proxy->host, url.host, sizeof(url.host));
		ret_proxy->port = url.port;
	}
	if (ret_proxy->problem == NULL && url.login_len > 0) {
		memcpy(ret_proxy->authorization, "Basic ", 6);
		codec_base64(CODEC_BASE64, url.login, url.login_len, ret_proxy->authorization + 6);
	}
	OPENSSL_cleanse(&url, sizeof(url));
}

/* The value of NAME; NULL if it is unset or empty. */
static const char *
look_up(char *const *environment, const char *name)
{
	const char *entry = proxy_url_find(environment, name);

	return entry == NULL ? NULL : entry + strlen(name) + 1;
}

void
proxies_load(struct proxies *ret_proxies, char *const *environment)
{
	const char *all = look_up(environment, "all_proxy");
	const char *plain = look_up(environment, "http_proxy");
	const char *tls = look_up(environment, "https_proxy");
	const char *none = look_up(environment, "no_proxy");
	const char *resolves = look_up(environment, "cloister_proxy_resolves");

	*ret_proxies = (struct proxies){0};
	if (plain != NULL || all != NULL)
		proxy_parse(plain != NULL ? plain : all, &ret_proxies->for_plain);
	if (tls != NULL || all != NULL)
		proxy_parse(tls != NULL ? tls : all, &ret_proxies->for_tls);
	if (none != NULL)
		ret_proxies->no_proxy = strndup(none, PROXY_NO_MAX);
	ret_proxies->resolves = resolves != NULL && strcmp(resolves, "1") == 0;
}

void
proxies_free(struct proxies *p)
{
	free(TAKE(p->no_proxy));
}

/* Whether A is in the range, or is the single address. */
static bool
net_has(const char *text, const char *bits_text, const struct address *a)
{
	struct address net;
	unsigned bits, most;

	if (!address_parse(text, &net) || net.family != a->family)
		return false;
	most = net.family == AF_INET ? 32 : 128;
	bits = bits_text != NULL ? (unsigned)strtoul(bits_text, NULL, 10) : most;
	if (bits > most)
		return false;
	for (unsigned i = 0; i < bits; i++)
		if (((net.bytes[i / 8] ^ a->bytes[i / 8]) >> (7 - i % 8) & 1) != 0)
			return false;
	return true;
}

/* Whether HOST is NAME or a subdomain of it. */
static bool
name_has(const char *name, const char *host)
{
	size_t n = strlen(name), h = strlen(host);

	if (n == 0 || n > h || strcasecmp(host + h - n, name) != 0)
		return false;
	return n == h || host[h - n - 1] == '.';
}

static bool
item_has(char *item, const char *host, uint16_t port)
{
	struct address a;
	bool is_address = address_parse(host, &a);
	char *slash = strchr(item, '/'), *colon = strrchr(item, ':');
	struct address ignored;

	if (strcmp(item, "*") == 0)
		return true;
	/* A bare IPv6 address has colons of its own. */
	if (colon != NULL && !address_parse(item, &ignored) &&
	    (item[0] == '[' || strchr(item, ':') == colon)) {
		*colon = '\0';
		if (strtoul(colon + 1, NULL, 10) != port)
			return false;
	}
	if (slash != NULL)
		*slash++ = '\0';
	if (is_address)
		return net_has(item, slash, &a);
	if (item[0] == '*' && item[1] == '.')
		item++;
	while (*item == '.')
		item++;
	return slash == NULL && name_has(item, host);
}

bool
proxy_list_has(const char *list, const char *host, uint16_t port)
{
	static const char separators[] = ", \t\n";
	char item[HTTP_HOST_MAX + 64];

	while (*(list += strspn(list, separators)) != '\0') {
		size_t n = strcspn(list, separators);

		if (n < sizeof(item)) {
			memcpy(item, list, n);
			item[n] = '\0';
			if (item_has(item, host, port))
				return true;
		}
		list += n;
	}
	return false;
}

const struct proxy *
proxies_for(const struct proxies *p, enum http_scheme scheme, const char *host, uint16_t port)
{
	const struct proxy *proxy = scheme == HTTP_PLAIN ? &p->for_plain : &p->for_tls;
	const char *what;
	struct address a;

	if (!proxy->used || strcmp(host, CELL_NET_HOST_NAME) == 0 || strcmp(host, CELL_NET_TOOLS_NAME) == 0 ||
	    strcmp(host, "localhost") == 0)
		return NULL;
	if (address_parse(host, &a) && address_judge(&a, &what) != ADDRESS_PUBLIC &&
	    strcmp(what, "loopback") == 0)
		return NULL;
	return p->no_proxy != NULL && proxy_list_has(p->no_proxy, host, port) ? NULL : proxy;
}
