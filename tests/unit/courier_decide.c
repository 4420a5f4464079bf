/* courier_decide.c - tests of proc/courier/courier_decide. */
#include "proc/courier/courier.h"

#include "test.h"

TEST(courier_knows_dns_over_https)
{
	static const struct {
		const char *host, *path, *type, *accept;
		bool want;
	} cases[] = {
		{ "api.example",   "/v1",                     "application/json",        "",    false },
		{ "dns.google",    "/",                       "",                        "",    true },
		{ "xdns.google",   "/",                       "",                        "",    false },
		{ "1.1.1.1",       "/x",                      "",                        "",    true },
		{ "api.example",   "/x",                      "application/dns-message", "",    true },
		{ "api.example",   "/x",                      "Application/DNS-Message; a=b", "", true },
		{ "api.example",   "/x",    "", "text/html, application/dns-json",              true },
		{ "api.example",   "/dns-query?dns=AAAB",     "",                        "",    true },
		{ "api.example",   "/p/dns-query?ct=x&dns=A", "",                        "",    true },
		{ "api.example",   "/dns-query",              "",                        "",    false },
		{ "api.example",   "/dns-query?name=a",       "",                        "",    false },
		{ "api.example",   "/dns-queryx?dns=a",       "",                        "",    false },
	};
	static struct http_head head;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		head = (struct http_head){
			.path = { cases[i].path, strlen(cases[i].path) }, .n_fields = 2,
			.fields = { { { "content-type", 12 }, { cases[i].type, strlen(cases[i].type) } },
			            { { "accept", 6 }, { cases[i].accept, strlen(cases[i].accept) } } },
		};
		if (courier_is_doh(cases[i].host, &head) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s%s is %s", cases[i].host, cases[i].path,
			          cases[i].want ? "let through" : "refused");
	}
}
