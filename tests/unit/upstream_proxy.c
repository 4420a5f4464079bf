/* upstream_proxy.c - tests of upstream/proxy. */
#include "upstream/proxy.h"

#include "test.h"

TEST(proxy_lists)
{
	static const struct {
		const char *list, *host;
		uint16_t port;
		bool want;
	} cases[] = {
		{ "",                        "a.example",     443, false },
		{ " , ,",                    "a.example",     443, false },
		{ "*",                       "a.example",     443, true },
		{ "b.example,*",             "a.example",     443, true },
		{ "a.example",               "a.example",     443, true },
		{ "A.Example",               "a.example",     443, true },
		{ "a.example",               "x.a.example",   443, true },
		{ ".a.example",              "x.a.example",   443, true },
		{ "*.a.example",             "x.y.a.example", 443, true },
		{ "a.example",               "xa.example",    443, false },
		{ "a.example",               "example",       443, false },
		{ "b.example a.example",     "a.example",     443, true },
		{ "a.example:443",           "a.example",     443, true },
		{ "a.example:8443",          "a.example",     443, false },
		{ ".",                       "a.example",     443, false },
		{ "10.0.0.1",                "10.0.0.1",      443, true },
		{ "10.0.0.1:80",             "10.0.0.1",      443, false },
		{ "10.0.0.1:443",            "10.0.0.1",      443, true },
		{ "10.0.0.0/8",              "10.9.8.7",      443, true },
		{ "10.0.0.0/8",              "11.0.0.1",      443, false },
		{ "10.0.0.0/99",             "10.0.0.0",      443, false },
		{ "0.0.0.0/0",               "11.0.0.1",      443, true },
		{ "0.0.0.0/0",               "[::1]",         443, false },
		{ "10.0.0.0/8",              "10.example",    443, false },
		{ "fd00::/8",                "[fd12::1]",     443, true },
		{ "fd00::/8",                "[fe12::1]",     443, false },
		{ "[fd12::1]:443",           "[fd12::1]",     443, true },
		{ "[fd12::1]:80",            "[fd12::1]",     443, false },
		{ "fd12::1",                 "[fd12::1]",     443, true },
		{ "0.1",                     "10.0.0.1",      443, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (proxy_list_has(cases[i].list, cases[i].host, cases[i].port) != cases[i].want)
			test_fail(__FILE__, __LINE__, "\"%s\": %s:%d is %s", cases[i].list,
			          cases[i].host, cases[i].port, cases[i].want ? "missing" : "there");
}

TEST(proxy_parses)
{
	static const struct {
		const char *text, *host, *authorization;
		uint16_t port;
		bool problem;
	} cases[] = {
		{ "http://proxy.corp:3128",   "proxy.corp", "", 3128, false },
		{ "http://proxy.corp:3128/",  "proxy.corp", "", 3128, false },
		{ "proxy.corp:8080",          "proxy.corp", "", 8080, false },
		{ "HTTP://Proxy.Corp",        "proxy.corp", "", 80, false },
		{ "http://10.0.0.1:3128",     "10.0.0.1",   "", 3128, false },
		{ "http://[fd00::1]:3128",    "[fd00::1]",  "", 3128, false },
		{ "http://me:pass@p.corp:1",  "p.corp", "Basic bWU6cGFzcw==", 1, false },
		{ "http://me:p%40ss@p.corp:1", "p.corp", "Basic bWU6cEBzcw==", 1, false },
		{ "http://me@p.corp:1",       "p.corp", "Basic bWU6", 1, false },
		{ "https://proxy.corp",       "", "", 0, true },
		{ "socks5://proxy.corp",      "", "", 0, true },
		{ "http://",                  "", "", 0, true },
		{ "http://a b/",              "", "", 0, true },
	};
	struct proxy p;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		proxy_parse(cases[i].text, &p);
		CHECK(p.used && (p.problem != NULL) == cases[i].problem);
		if (p.problem == NULL) {
			CHECK_STR(p.host, cases[i].host);
			CHECK_STR(p.authorization, cases[i].authorization);
			CHECK_U64(p.port, cases[i].port);
		}
	}
}

TEST(proxy_is_chosen)
{
	char *const environment[] = {
		(char[]){ "HTTPS_PROXY=http://upper:1" }, (char[]){ "https_proxy=http://lower:2" },
		(char[]){ "ALL_PROXY=http://all:3" }, (char[]){ "NO_PROXY=corp" }, NULL,
	};
	struct proxies p;

	proxies_load(&p, environment);
	CHECK_STR(proxies_for(&p, HTTP_TLS, "a.example", 443)->host, "lower");
	CHECK_STR(proxies_for(&p, HTTP_PLAIN, "a.example", 80)->host, "all");
	CHECK(proxies_for(&p, HTTP_TLS, "git.corp", 443) == NULL);
	CHECK(proxies_for(&p, HTTP_TLS, "127.0.0.1", 443) == NULL);
	CHECK(proxies_for(&p, HTTP_TLS, "[::1]", 443) == NULL);
	CHECK(proxies_for(&p, HTTP_TLS, "host.cloister.internal", 443) == NULL);
	proxies_free(&p);
	proxies_load(&p, NULL);
	CHECK(proxies_for(&p, HTTP_TLS, "a.example", 443) == NULL);
}
