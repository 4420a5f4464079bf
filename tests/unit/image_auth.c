/* image_auth.c - tests of image/auth. */
#include "image/auth.h"

#include <errno.h>

#include "test.h"

/* bWU6c2VzYW1l is me:sesame, eW91Om9wZW4= is you:open. */
#define ME "{\"auth\":\"bWU6c2VzYW1l\"}"
#define YOU "{\"auth\":\"eW91Om9wZW4=\"}"

static const struct {
	const char *text, *registry, *repository;
	int want;
	const char *user, *password;    /* or the helper's name and server */
} find_cases[] = {
	{ "{}", "a", "x", 0, NULL, NULL },
	{ "{\"auths\":{\"a\":" ME "}}", "a", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"a\":" ME "}}", "b", "x", 0, NULL, NULL },
	{ "{\"auths\":{\"https://a/v1/\":" ME "}}", "a", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"http://A/v2\":" ME "}}", "a", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"https://index.docker.io/v1/\":" ME "}}", "docker.io", "library/x", 1, "me", "sesame" },
	{ "{\"auths\":{\"docker.io\":" ME "}}", "docker.io", "library/x", 1, "me", "sesame" },
	{ "{\"auths\":{\"a\":" ME ",\"a/b\":" YOU "}}", "a", "b/c", 1, "you", "open" },
	{ "{\"auths\":{\"a\":" ME ",\"a/b/c\":" YOU "}}", "a", "b/c", 1, "you", "open" },
	{ "{\"auths\":{\"a\":" ME ",\"a/b/c\":" YOU "}}", "a", "b/cd", 1, "me", "sesame" },
	{ "{\"auths\":{\"a/b\":" YOU "}}", "a", "c", 0, NULL, NULL },
	{ "{\"auths\":{\"a\":{}}}", "a", "x", 0, NULL, NULL },
	{ "{\"auths\":{\"a:5000\":" ME "}}", "a:5000", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"a:5000\":" ME "}}", "a", "x", 0, NULL, NULL },
	{ "{\"auths\":{\"a\":{\"username\":\"u\",\"password\":\"p:q\"}}}", "a", "x", 1, "u", "p:q" },
	{ "{\"auths\":{\"a\":" ME "},\"credHelpers\":{\"a\":\"h\"}}", "a", "x", 2, "h", "a" },
	{ "{\"auths\":{\"a\":" ME "},\"credHelpers\":{\"b\":\"h\"}}", "a", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"a\":" ME "},\"credsStore\":\"s\"}", "a", "x", 1, "me", "sesame" },
	{ "{\"auths\":{\"a\":{}},\"credsStore\":\"s\"}", "a", "x", 2, "s", "a" },
	{ "{\"credsStore\":\"s\"}", "docker.io", "x", 2, "s", "https://index.docker.io/v1/" },
	{ "[]", "a", "x", -EBADMSG, NULL, NULL }, { "", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"auths\":{\"a\":1}}", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"auths\":{\"a\":{\"auth\":\"!\"}}}", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"auths\":{\"a\":{\"auth\":\"bWU=\"}}}", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"auths\":{\"a\":{\"registrytoken\":\"a b\"}}}", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"credsStore\":\"../s\"}", "a", "x", -EBADMSG, NULL, NULL },
	{ "{\"credsStore\":7}", "a", "x", -EBADMSG, NULL, NULL },
};

TEST(auth_find)
{
	for (size_t i = 0; i < ARRAY_LEN(find_cases); i++) {
		OWN(auth_free) struct auth auth = {0};
		struct auth_helper helper = {0};
		int r = auth_find(find_cases[i].text, strlen(find_cases[i].text), find_cases[i].registry, find_cases[i].repository,
		                  &auth, &helper, NULL);

		if (r != find_cases[i].want)
			test_fail(__FILE__, __LINE__, "%s: %d", find_cases[i].text, r);
		if (r == 1) {
			CHECK_STR(auth.user, find_cases[i].user);
			CHECK_STR(auth.password, find_cases[i].password);
		} else if (r == 2) {
			CHECK_STR(helper.name, find_cases[i].user);
			CHECK_STR(helper.server, find_cases[i].password);
		} else {
			CHECK(auth.user == NULL && auth.password == NULL);
		}
	}
}

TEST(auth_find_tokens)
{
	static const char text[] = "{\"auths\":{\"a\":{\"identitytoken\":\"i\"},\"b\":{\"registrytoken\":\"r\"}}}";
	OWN(auth_free) struct auth a = {0}, b = {0};
	struct auth_helper helper;

	CHECK(auth_find(text, strlen(text), "a", "x", &a, &helper, NULL) == 1);
	CHECK_STR(a.identity, "i");
	CHECK(auth_find(text, strlen(text), "b", "x", &b, &helper, NULL) == 1);
	CHECK_STR(b.bearer, "r");
}

TEST(auth_read_answer)
{
	static const char login[] = "{\"ServerURL\":\"x\",\"Username\":\"u\",\"Secret\":\"s\"}\n";
	static const char token[] = "{\"Username\":\"<token>\",\"Secret\":\"s\"}";
	static const char *const bad[] = { "", "x", "{}", "[]", "{\"Username\":\"u\"}", "{\"Username\":1,\"Secret\":\"s\"}" };
	OWN(auth_free) struct auth a = {0}, b = {0}, c = {0};

	CHECK_OK(auth_read_answer(login, strlen(login), &a, NULL));
	CHECK(a.identity == NULL);
	CHECK_STR(a.user, "u");
	CHECK_STR(a.password, "s");
	CHECK_OK(auth_read_answer(token, strlen(token), &b, NULL));
	CHECK(b.user == NULL && b.password == NULL);
	CHECK_STR(b.identity, "s");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_ERR(auth_read_answer(bad[i], strlen(bad[i]), &c, NULL), EBADMSG);
}

static const struct {
	const char *text, *token;       /* NULL: refused */
	uint64_t seconds;
} token_cases[] = {
	{ "{\"token\":\"t\"}", "t", AUTH_TOKEN_S }, { "{\"access_token\":\"t\",\"expires_in\":300}", "t", 300 },
	{ "{\"token\":\"t\",\"access_token\":\"u\",\"expires_in\":-1}", "t", AUTH_TOKEN_S },
	{ "{\"token\":\"\",\"access_token\":\"u\"}", "u", AUTH_TOKEN_S },
	{ "{}", NULL, 0 }, { "{\"token\":\"a b\"}", NULL, 0 }, { "{\"token\":\"a\\r\\nb\"}", NULL, 0 },
	{ "{\"token\":\"a\\u0000b\"}", NULL, 0 }, { "{\"token\":1}", NULL, 0 }, { "\"t\"", NULL, 0 },
};

TEST(auth_read_token)
{
	for (size_t i = 0; i < ARRAY_LEN(token_cases); i++) {
		OWN(freep) char *token = NULL;
		uint64_t seconds = 0;
		int r = auth_read_token(token_cases[i].text, strlen(token_cases[i].text), &token, &seconds, NULL);

		CHECK((r == 0) == (token_cases[i].token != NULL));
		if (r < 0)
			continue;
		CHECK_STR(token, token_cases[i].token);
		CHECK_U64(seconds, token_cases[i].seconds);
	}
}
