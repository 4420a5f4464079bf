/* image_challenge.c - tests of image/challenge. */
#include "image/challenge.h"

#include <errno.h>

#include "test.h"

static const struct {
	const char *text;
	int kind;                       /* -1: malformed */
	const char *realm, *service, *scope;
} parse_cases[] = {
	{ "Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull\"", CHALLENGE_BEARER, "https://a/t", "s",
	  "repository:x:pull" },
	{ "bearer Realm = \"https://a/t\" , service=s", CHALLENGE_BEARER, "https://a/t", "s", "" },
	{ "Basic realm=\"x\"", CHALLENGE_BASIC, "", "", "" },
	{ "basic", CHALLENGE_BASIC, "", "", "" },
	{ "Basic realm=\"x\", Bearer realm=\"https://a\"", CHALLENGE_BEARER, "https://a", "", "" },
	{ "Bearer realm=\"https://a\", Basic realm=\"x\"", CHALLENGE_BEARER, "https://a", "", "" },
	{ "Negotiate, Digest realm=\"d\", Bearer realm=\"a\\\"b\"", CHALLENGE_BEARER, "a\"b", "", "" },
	{ "Negotiate", CHALLENGE_NONE, "", "", "" },
	{ "", CHALLENGE_NONE, "", "", "" },
	{ "Bearer", -1, "", "", "" }, { "Bearer realm=\"\"", -1, "", "", "" }, { "Bearer realm=\"x", -1, "", "", "" },
	{ "Bearer realm=", -1, "", "", "" }, { "Bearer realm=\"a\nb\"", -1, "", "", "" }, { "=x", -1, "", "", "" },
	{ "Bearer realm=\"x\\", -1, "", "", "" }, { "(x)", -1, "", "", "" },
};

TEST(challenge_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(parse_cases); i++) {
		struct challenge c = {0};
		int r = challenge_parse(parse_cases[i].text, strlen(parse_cases[i].text), &c, NULL);

		if (parse_cases[i].kind < 0) {
			CHECK_ERR(r, EBADMSG);
			continue;
		}
		CHECK_OK(r);
		CHECK((int)c.kind == parse_cases[i].kind);
		CHECK_STR(c.realm, parse_cases[i].realm);
		CHECK_STR(c.service, parse_cases[i].service);
		CHECK_STR(c.scope, parse_cases[i].scope);
	}
}

TEST(challenge_parse_has_limits)
{
	char text[2 * CHALLENGE_FIELD_MAX] = "Bearer realm=\"", *at = text + strlen(text);
	struct challenge c;

	memset(at, 'x', CHALLENGE_REALM_MAX);
	memcpy(at + CHALLENGE_REALM_MAX, "\"", 2);
	CHECK_OK(challenge_parse(text, strlen(text), &c, NULL));
	memset(at, 'x', CHALLENGE_REALM_MAX + 1);
	memcpy(at + CHALLENGE_REALM_MAX + 1, "\"", 2);
	CHECK_ERR(challenge_parse(text, strlen(text), &c, NULL), EBADMSG);
	memset(text, ' ', sizeof(text));
	CHECK_ERR(challenge_parse(text, CHALLENGE_FIELD_MAX + 1, &c, NULL), EBADMSG);
}

static const struct {
	const char *url, *host;         /* NULL: none */
	unsigned port;
	bool is_tls;
} url_cases[] = {
	{ "https://A.Example/x?y", "a.example", 443, true }, { "http://a", "a", 80, false },
	{ "https://a:5000", "a", 5000, true }, { "https://[::1]:5000/", "::1", 5000, true },
	{ "https://[::1]", "::1", 443, true }, { "HTTPS://a?x", "a", 443, true },
	{ "ftp://a", NULL, 0, false }, { "https://", NULL, 0, false }, { "https:///x", NULL, 0, false },
	{ "https://u@a", NULL, 0, false }, { "https://u:p@a/", NULL, 0, false }, { "https://a#x", NULL, 0, false },
	{ "https://a b", NULL, 0, false }, { "https://a\\b", NULL, 0, false }, { "https://a:0", NULL, 0, false },
	{ "https://a:65536", NULL, 0, false }, { "https://a:x", NULL, 0, false }, { "https://a:", NULL, 0, false },
	{ "https://[a]/", NULL, 0, false }, { "https://\xc3\xa4", NULL, 0, false }, { "//a", NULL, 0, false },
};

TEST(challenge_parse_url)
{
	for (size_t i = 0; i < ARRAY_LEN(url_cases); i++) {
		struct challenge_url url;
		int r = challenge_parse_url(url_cases[i].url, &url);

		CHECK((r == 0) == (url_cases[i].host != NULL));
		if (r < 0)
			continue;
		CHECK_STR(url.host, url_cases[i].host);
		CHECK(url.port == url_cases[i].port && url.is_tls == url_cases[i].is_tls);
	}
}

TEST(challenge_is_loopback)
{
	static const char *const here[] = { "localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.9.9.9", "::1" };
	static const char *const not_here[] = { "nolocalhost", "localhost.a", "128.0.0.1", "::2", "127.0.0.1.a", "" };

	for (size_t i = 0; i < ARRAY_LEN(here); i++)
		CHECK(challenge_is_loopback(here[i]));
	for (size_t i = 0; i < ARRAY_LEN(not_here); i++)
		CHECK(!challenge_is_loopback(not_here[i]));
}

/* What may be done at a realm. */
enum { NO, ASK, LOGIN };

static const struct {
	const char *registry, *realm, *granted;
	bool plain;
	int may;
} realm_cases[] = {
	{ "https://r.example", "https://r.example/t", NULL, false, LOGIN },
	{ "https://r.example:5000", "https://r.example/t", NULL, false, LOGIN },
	{ "https://registry-1.docker.io", "https://auth.docker.io/token", NULL, false, LOGIN },
	{ "https://registry.gitlab.com", "https://gitlab.com/jwt/auth", NULL, false, LOGIN },
	{ "https://ghcr.io", "https://evil.io/t", NULL, false, ASK },
	{ "https://a.b.example", "https://evil.example/t", NULL, false, ASK },
	{ "https://r.example.com", "https://evilexample.com/t", NULL, false, ASK },
	{ "https://r.example.com", "https://example.com.evil.net/t", NULL, false, ASK },
	{ "https://r.example.com", "https://login.net/t", "login.net", false, LOGIN },
	{ "https://r.example.com", "https://login.net/t", "login.org", false, ASK },
	{ "https://1.2.3.4", "https://9.2.3.4/t", NULL, false, ASK },
	{ "https://r.example", "http://r.example/t", NULL, false, NO },
	{ "https://r.example.com", "http://login.net/t", "login.net", false, NO },
	{ "http://r.example", "http://r.example/t", NULL, true, LOGIN },
	{ "http://r.example", "http://other.example/t", NULL, true, NO },
	{ "http://localhost:5000", "http://localhost:5001/t", NULL, false, LOGIN },
	{ "http://localhost:5000", "http://127.0.0.1:5001/t", NULL, false, ASK },
	{ "https://r.example", "http://localhost/t", NULL, false, NO },
	{ "https://r.example", "file:///etc/passwd", NULL, false, NO },
	{ "https://r.example", "", NULL, false, NO },
};

TEST(challenge_check_realm)
{
	for (size_t i = 0; i < ARRAY_LEN(realm_cases); i++) {
		struct challenge_url registry;
		bool trusted = false;
		int r;

		CHECK_OK(challenge_parse_url(realm_cases[i].registry, &registry));
		r = challenge_check_realm(realm_cases[i].realm, &registry, realm_cases[i].plain, realm_cases[i].granted, &trusted,
		                          NULL);
		if ((r < 0 ? NO : trusted ? LOGIN : ASK) != realm_cases[i].may)
			test_fail(__FILE__, __LINE__, "%s for %s", realm_cases[i].realm, realm_cases[i].registry);
	}
}
