/* policy_doh.c - knows requests that ask somebody else for names: resolvers over HTTPS and TLS. */
#include <arpa/inet.h>
#include <string.h>

#include "base/own.h"
#include "policy/policy_parts.h"

#define HTTPS_PORT 443
#define DOT_PORT 853                    /* DNS over TLS */

static const char *const hosts[] = {
	"1dot1dot1dot1.cloudflare-dns.com", "chrome.cloudflare-dns.com", "cloudflare-dns.com",
	"dns.adguard-dns.com", "dns.adguard.com", "dns.alidns.com", "dns.cloudflare.com",
	"dns.google", "dns.google.com", "dns.mullvad.net", "dns.nextdns.io", "dns.quad9.net",
	"dns.sb", "dns.switch.ch", "dns10.quad9.net", "dns11.quad9.net", "dns64.dns.google",
	"dns9.quad9.net", "dnsforge.de", "doh.applied-privacy.net", "doh.cleanbrowsing.org",
	"doh.dns.sb", "doh.familyshield.opendns.com", "doh.libredns.gr", "doh.mullvad.net",
	"doh.opendns.com", "doh.pub", "doh.sandbox.opendns.com", "doh.tiar.app",
	"doh.umbrella.com", "doh.xfinity.com", "family.cloudflare-dns.com", "freedns.controld.com",
	"mozilla.cloudflare-dns.com", "one.one.one.one", "ordns.he.net",
	"private.canadianshield.cira.ca", "security.cloudflare-dns.com", "unfiltered.adguard-dns.com",
	"8.8.8.8", "8.8.4.4", "[2001:4860:4860::8888]", "[2001:4860:4860::8844]",
	"1.1.1.1", "1.0.0.1", "[2606:4700:4700::1111]", "[2606:4700:4700::1001]",
	"9.9.9.9", "149.112.112.112", "[2620:fe::fe]", "[2620:fe::9]",
};
static const char *const types[] = {
	"application/dns-message", "application/dns-json", "application/dns-udpwireformat",
	"application/oblivious-dns-message",
};

/* HOST as it stands in a request; an IPv4 address may be written as an IPv6 one. */
static bool
is_resolver(const char *host)
{
	struct policy_host net = { .kind = POLICY_HOST_NET, .bits = 128 };
	char text[INET_ADDRSTRLEN];

	if (*host == '[' && policy_address(host, net.address) && policy_net_is_ipv4(&net))
		host = inet_ntop(AF_INET, net.address + 12, text, sizeof(text));
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		if (strcmp(host, hosts[i]) == 0)
			return true;
	return false;
}

static bool
head_asks(const struct http_head *head)
{
	static const char path[] = "/dns-query";
	const size_t len = sizeof(path) - 1;

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (http_text_has_nocase(http_head_get(head, "content-type"), types[i]) ||
		    http_text_has_nocase(http_head_get(head, "accept"), types[i]))
			return true;
	/* Wherever it is: /dns-query?dns=AAAB... */
	for (size_t i = 0; i + len < head->path.len; i++)
		if (memcmp(head->path.at + i, path, len) == 0 && head->path.at[i + len] == '?' &&
		    http_text_has_nocase((struct http_text){ head->path.at + i + len,
		                                             head->path.len - i - len }, "dns="))
			return true;
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
	if (port_asks(req->protocol, req->port) && is_resolver(req->host))
		return true;
	return req->protocol == POLICY_HTTP && head_asks(req->head);
}

/* ---- of rules ---- */

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
		return is_resolver(host->name);
	if (host->kind != POLICY_HOST_NET || host->bits != 128)
		return false;
	if (policy_net_is_ipv4(host)) {
		inet_ntop(AF_INET, host->address + 12, text, sizeof(text));
	} else {
		inet_ntop(AF_INET6, host->address, text + 1, INET6_ADDRSTRLEN);
		memcpy(text + strlen(text), "]", 2);
	}
	return is_resolver(text);
}
