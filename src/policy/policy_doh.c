/* policy_doh.c - recognises DNS queries to other resolvers, over HTTPS and TLS. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "policy/policy_parts.h"

#define HTTPS_PORT 443
#define DOT_PORT 853                    /* DNS over TLS */

/* These names and all names below them.  Every request is compared with all of them, so their
 * lengths are precomputed. */
#define N(text) { text, sizeof(text) - 1 }
static const struct {
	const char *text;
	size_t len;
} names[] = {
	N("adult-filter-dns.cleanbrowsing.org"), N("canadianshield.cira.ca"),
	N("child-noads.joindns4.eu"), N("child.joindns4.eu"), N("cloudflare-dns.com"),
	N("cloudflare-gateway.com"), N("d.adguard-dns.com"), N("dns-family.adguard.com"),
	N("dns-unfiltered.adguard.com"), N("dns.adguard-dns.com"), N("dns.adguard.com"),
	N("dns.alidns.com"), N("dns.cloudflare.com"), N("dns.controld.com"), N("dns.google"),
	N("dns.google.com"), N("dns.mullvad.net"), N("dns.nextdns.io"), N("dns.opendns.com"),
	N("dns.quad9.net"), N("dns.sb"), N("dns.switch.ch"), N("dns.umbrella.com"),
	N("dns.yandex.net"), N("dns10.quad9.net"), N("dns11.quad9.net"), N("dns12.quad9.net"),
	N("dns9.quad9.net"), N("dnsforge.de"), N("doh.applied-privacy.net"),
	N("doh.cleanbrowsing.org"), N("doh.familyshield.opendns.com"), N("doh.libredns.gr"),
	N("doh.mullvad.net"), N("doh.opendns.com"), N("doh.pub"), N("doh.sandbox.opendns.com"),
	N("doh.tiar.app"), N("doh.umbrella.com"), N("doh.xfinity.com"), N("dot.pub"),
	N("dot.sb"), N("family-filter-dns.cleanbrowsing.org"), N("family.adguard-dns.com"),
	N("freedns.controld.com"), N("noads.joindns4.eu"), N("one.one.one.one"),
	N("ordns.he.net"), N("protective.joindns4.eu"),
	N("security-filter-dns.cleanbrowsing.org"), N("unfiltered.adguard-dns.com"),
	N("unfiltered.joindns4.eu"),
};
#undef N
/* In the form that inet_ntop() writes. */
static const char *const addresses[] = {
	/* Google */
	"8.8.8.8", "8.8.4.4", "[2001:4860:4860::8888]", "[2001:4860:4860::8844]",
	"[2001:4860:4860::6464]", "[2001:4860:4860::64]",
	/* Cloudflare */
	"1.1.1.1", "1.0.0.1", "1.1.1.2", "1.0.0.2", "1.1.1.3", "1.0.0.3",
	"[2606:4700:4700::1111]", "[2606:4700:4700::1001]", "[2606:4700:4700::1112]",
	"[2606:4700:4700::1002]", "[2606:4700:4700::1113]", "[2606:4700:4700::1003]",
	"[2606:4700:4700::64]", "[2606:4700:4700::6400]",
	/* Quad9 */
	"9.9.9.9", "149.112.112.112", "9.9.9.10", "149.112.112.10", "9.9.9.11", "149.112.112.11",
	"9.9.9.12", "149.112.112.12", "[2620:fe::fe]", "[2620:fe::9]", "[2620:fe::10]",
	"[2620:fe::fe:10]", "[2620:fe::11]", "[2620:fe::fe:11]", "[2620:fe::12]", "[2620:fe::fe:12]",
	/* OpenDNS */
	"208.67.222.222", "208.67.220.220", "208.67.222.220", "208.67.220.222", "208.67.222.123",
	"208.67.220.123", "208.67.222.2", "208.67.220.2", "146.112.41.2", "146.112.41.3",
	"146.112.41.4", "[2620:119:35::35]", "[2620:119:53::53]", "[2620:119:35::123]",
	"[2620:119:53::123]", "[2620:0:ccc::2]", "[2620:0:ccd::2]", "[2620:119:fc::2]",
	"[2620:119:fc::3]", "[2620:119:fc::4]",
	/* AdGuard */
	"94.140.14.14", "94.140.15.15", "94.140.14.15", "94.140.15.16", "94.140.14.140",
	"94.140.14.141", "[2a10:50c0::ad1:ff]", "[2a10:50c0::ad2:ff]", "[2a10:50c0::bad1:ff]",
	"[2a10:50c0::bad2:ff]", "[2a10:50c0::1:ff]", "[2a10:50c0::2:ff]",
	/* Mullvad */
	"194.242.2.2", "194.242.2.3", "194.242.2.4", "194.242.2.5", "194.242.2.6", "194.242.2.9",
	"[2a07:e340::2]", "[2a07:e340::3]", "[2a07:e340::4]", "[2a07:e340::5]", "[2a07:e340::6]",
	"[2a07:e340::9]",
	/* CleanBrowsing */
	"185.228.168.9", "185.228.169.9", "185.228.168.10", "185.228.169.11", "185.228.168.168",
	"185.228.169.168", "[2a0d:2a00:1::]", "[2a0d:2a00:2::]", "[2a0d:2a00:1::1]",
	"[2a0d:2a00:2::1]", "[2a0d:2a00:1::2]", "[2a0d:2a00:2::2]",
	/* Control D */
	"76.76.2.0", "76.76.10.0", "76.76.2.1", "76.76.10.1", "76.76.2.2", "76.76.10.2", "76.76.2.3",
	"76.76.10.3", "76.76.2.4", "76.76.10.4", "76.76.2.5", "76.76.10.5", "76.76.2.11",
	"76.76.10.11", "76.76.2.22", "[2606:1a40::]", "[2606:1a40:1::]", "[2606:1a40::1]",
	"[2606:1a40:1::1]", "[2606:1a40::2]", "[2606:1a40:1::2]", "[2606:1a40::3]", "[2606:1a40:1::3]",
	"[2606:1a40::11]", "[2606:1a40:1::11]", "[2606:1a40::22]",
	/* DNS.SB, AliDNS, DNSPod, Yandex, Hurricane Electric */
	"185.222.222.222", "45.11.45.11", "[2a09::]", "[2a11::]", "223.5.5.5", "223.6.6.6",
	"[2400:3200::1]", "[2400:3200:baba::1]", "119.29.29.29", "1.12.12.12", "120.53.53.53",
	"77.88.8.8", "77.88.8.1", "77.88.8.88", "77.88.8.2", "77.88.8.7", "77.88.8.3",
	"[2a02:6b8::feed:ff]", "[2a02:6b8:0:1::feed:ff]", "74.82.42.42", "[2001:470:20::2]",
};
static const char *const types[] = {
	"application/dns-message", "application/dns-json", "application/dns-udpwireformat",
	"application/oblivious-dns-message",
};

static bool
is_below(const char *host, size_t n, const char *name, size_t len)
{
	return n >= len && (n == len || host[n - len - 1] == '.') && memcmp(host + n - len, name, len) == 0;
}

bool
policy_is_resolver(const char *host)
{
	struct policy_host net = { .kind = POLICY_HOST_NET, .bits = 128 };
	char text[INET_ADDRSTRLEN];
	size_t n;

	if (*host == '[' && policy_address(host, net.address) && policy_net_is_ipv4(&net))
		host = inet_ntop(AF_INET, net.address + 12, text, sizeof(text));
	for (size_t i = 0; (*host == '[' || isdigit((unsigned char)*host)) && i < ARRAY_LEN(addresses); i++)
		if (strcmp(host, addresses[i]) == 0)
			return true;
	n = strlen(host);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (is_below(host, n, names[i].text, names[i].len))
			return true;
	return false;
}

/* Checks every field: there may be several of one name. */
static bool
fields_ask(const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		if (!http_text_is(head->fields[i].name, "content-type") &&
		    !http_text_is(head->fields[i].name, "accept"))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(types); k++)
			if (http_text_has_nocase(head->fields[i].value, types[k]))
				return true;
	}
	return false;
}

/* At any host, /dns-query is a DNS query if it has ?dns=AAAB... or a body, whatever type the body
 * claims. */
static bool
path_asks(const struct http_head *head)
{
	static const char segment[] = "/dns-query";
	const size_t len = sizeof(segment) - 1;
	const char *at = head->path.at, *all = at + head->path.len;
	const char *query = memchr(at, '?', head->path.len);
	const char *end = query != NULL ? query : all;
	bool asks = query != NULL &&
	            http_text_has_nocase((struct http_text){ query, (size_t)(all - query) }, "dns=");

	for (; (size_t)(end - at) >= len; at++) {
		const char *rest = at + len;

		if (strncasecmp(at, segment, len) != 0 || (rest < end && *rest != '/' && *rest != ';'))
			continue;
		while (rest < end && *rest == '/')
			rest++;
		if (asks || (http_text_is(head->method, "POST") && (rest == end || *rest == ';')))
			return true;
	}
	return false;
}

static bool
port_asks(enum policy_protocol protocol, uint16_t port)
{
	return protocol != POLICY_TCP || port == HTTPS_PORT || port == DOT_PORT;
}

bool
policy_is_doh(const struct policy_request *req)
{
	return (port_asks(req->protocol, req->port) && policy_is_resolver(req->host)) ||
	       policy_asks_for_name(req);
}

bool
policy_asks_for_name(const struct policy_request *req)
{
	if (req->protocol != POLICY_HTTP)
		return req->port == DOT_PORT && policy_is_resolver(req->host);
	return fields_ask(req->head) || path_asks(req->head);
}

/* ---- rules ---- */

static bool
ports_ask(const struct policy_rule *rule, const struct policy_host *host)
{
	if (rule->protocols != 1u << POLICY_TCP)
		return true;
	if (host->port != 0)
		return port_asks(POLICY_TCP, host->port);
	for (size_t i = 0; i < rule->n_ports; i++)
		if (rule->ports[i].first != rule->ports[i].last ||
		    !port_asks(POLICY_TCP, rule->ports[i].first))
			return false;
	return true;
}

bool
policy_rule_is_doh(const struct policy_rule *rule, const struct policy_host *host)
{
	char text[INET6_ADDRSTRLEN + 2] = "[";

	if (!ports_ask(rule, host))
		return false;
	if (host->kind == POLICY_HOST_NAME)
		return policy_is_resolver(host->name);
	if (host->kind != POLICY_HOST_NET || host->bits != 128)
		return false;
	if (policy_net_is_ipv4(host)) {
		inet_ntop(AF_INET, host->address + 12, text, sizeof(text));
	} else {
		inet_ntop(AF_INET6, host->address, text + 1, INET6_ADDRSTRLEN);
		memcpy(text + strlen(text), "]", 2);
	}
	return policy_is_resolver(text);
}
