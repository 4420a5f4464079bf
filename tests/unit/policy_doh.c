/* policy_doh.c - tests of policy/policy_doh. */
#include "policy/policy.h"

#include "http/http_head.h"
#include "test.h"

TEST(policy_knows_dns_over_https)
{
	static const struct {
		const char *host, *path, *type, *accept;
		bool want;
	} cases[] = {
		{ "api.example",   "/v1",                     "application/json",        "",    false },
		{ "dns.google",    "/",                       "",                        "",    true },
		{ "xdns.google",   "/",                       "",                        "",    false },
		{ "1.1.1.1",       "/x",                      "",                        "",    true },
		{ "149.112.112.112", "/x",                    "",                        "",    true },
		{ "[2606:4700:4700::1111]", "/x",             "",                        "",    true },
		{ "[::ffff:8.8.8.8]", "/x",                   "",                        "",    true },
		{ "[2606:4700:4700::1112]", "/x",             "",                        "",    true },
		{ "[2606:4700:4700::1114]", "/x",             "",                        "",    false },
		{ "1.1.1.2",       "/x",                      "",                        "",    true },
		{ "1.1.1.4",       "/x",                      "",                        "",    false },
		{ "208.67.222.222", "/x",                     "",                        "",    true },
		{ "94.140.14.14",  "/x",                      "",                        "",    true },
		{ "[2a07:e340::2]", "/x",                     "",                        "",    true },
		{ "x1.dns.nextdns.io", "/x",                  "",                        "",    true },
		{ "api.example",   "/x",                      "application/dns-message", "",    true },
		{ "api.example",   "/x",                      "Application/DNS-Message; a=b", "", true },
		{ "api.example",   "/x",    "", "text/html, application/dns-json",              true },
		{ "api.example",   "/dns-query?dns=AAAB",     "",                        "",    true },
		{ "api.example",   "/p/dns-query?ct=x&dns=A", "",                        "",    true },
		{ "api.example",   "/DNS-Query?dns=AAAB",     "",                        "",    true },
		{ "api.example",   "/dns-query/?dns=AAAB",    "",                        "",    true },
		{ "api.example",   "/dns-query//me?dns=AAAB", "",                        "",    true },
		{ "api.example",   "/dns-query;x?DNS=AAAB",   "",                        "",    true },
		{ "api.example",   "/dns-query",              "",                        "",    false },
		{ "api.example",   "/a?b=/dns-query?dns=a",   "",                        "",    false },
		{ "api.example",   "/dns-query?name=a",       "",                        "",    false },
		{ "api.example",   "/dns-queryx?dns=a",       "",                        "",    false },
	};
	static struct http_head head;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct policy_request req = { .protocol = POLICY_HTTP, .head = &head,
		                                    .host = cases[i].host, .port = 443 };

		head = (struct http_head){
			.path = { cases[i].path, strlen(cases[i].path) }, .n_fields = 2,
			.fields = { { { "content-type", 12 }, { cases[i].type, strlen(cases[i].type) } },
			            { { "accept", 6 }, { cases[i].accept, strlen(cases[i].accept) } } },
		};
		if (policy_is_doh(&req) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s%s is %s", cases[i].host, cases[i].path,
			          cases[i].want ? "let through" : "refused");
	}
}

TEST(policy_knows_dns_in_bodies)
{
	static const struct {
		const char *method, *path;
		bool want;
	} cases[] = {
		{ "POST", "/dns-query",                  true },
		{ "POST", "/p/DNS-query/",               true },
		{ "POST", "/dns-query?x",                true },
		{ "POST", "/me/dns-query/git-upload-pack", false },
		{ "POST", "/dns-queryx",                 false },
		{ "HEAD", "/dns-query",                  false },
	};
	static struct http_head head;
	const struct policy_request req = { .protocol = POLICY_HTTP, .head = &head,
	                                    .host = "api.example", .port = 443 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		head = (struct http_head){ .method = { cases[i].method, strlen(cases[i].method) },
		                           .path = { cases[i].path, strlen(cases[i].path) }, .n_fields = 1,
		                           .fields = { { { "content-type", 12 },
		                                         { "application/octet-stream", 24 } } } };
		if (policy_is_doh(&req) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s %s is %s", cases[i].method, cases[i].path,
			          cases[i].want ? "let through" : "refused");
	}
}

TEST(policy_knows_dns_by_any_field)
{
	static struct http_head head = {
		.path = { "/x", 2 }, .n_fields = 3,
		.fields = { { { "accept", 6 }, { "*/*", 3 } }, { { "accept", 6 }, { "a/b", 3 } },
		            { { "accept", 6 }, { "application/dns-message", 23 } } },
	};
	const struct policy_request req = { .protocol = POLICY_HTTP, .head = &head,
	                                    .host = "api.example", .port = 443 };

	CHECK(policy_is_doh(&req));
	head.n_fields = 2;
	CHECK(!policy_is_doh(&req));
}

TEST(policy_knows_resolvers_without_http)
{
	static const struct {
		const char *host;
		uint16_t port;
		enum policy_protocol protocol;
		bool want;
	} cases[] = {
		{ "dns.google",    443, POLICY_TLS, true },
		{ "dns.google",   8443, POLICY_TLS, true },
		{ "dns.quad9.net", 853, POLICY_TCP, true },
		{ "9.9.9.9",       443, POLICY_TCP, true },
		{ "[2620:fe::9]",  853, POLICY_TCP, true },
		{ "dns.google",     22, POLICY_TCP, false },
		{ "api.example",   853, POLICY_TCP, false },
		{ "api.example",   443, POLICY_TLS, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct policy_request req = { .protocol = cases[i].protocol, .host = cases[i].host,
		                                    .port = cases[i].port };

		if (policy_is_doh(&req) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s:%u is %s", cases[i].host, cases[i].port,
			          cases[i].want ? "let through" : "refused");
	}
}
