/* http_path.c - tests of paths and queries. */
#include <errno.h>

#include "base/err.h"
#include "http/http_parts.h"
#include "test.h"

static const struct {
	const char *text, *want;
} good[] = {
	{ "/", "/" }, { "/a", "/a" }, { "/a/", "/a/" }, { "//", "//" }, { "/a//b", "/a//b" },
	{ "/.", "/" }, { "/..", "/" }, { "/./", "/" }, { "/../", "/" }, { "/../..", "/" },
	{ "/../../a", "/a" }, { "/a/.", "/a/" }, { "/a/..", "/" }, { "/a/../", "/" },
	{ "/a/./b", "/a/b" }, { "/a/../b", "/b" }, { "/a/b/..", "/a/" }, { "/a/b/../c", "/a/c" },
	{ "/a/b/../../c", "/c" }, { "/a/b/../../../c", "/c" }, { "/./././a", "/a" },
	{ "//..", "/" }, { "/a//..", "/a/" }, { "/a//../b", "/a/b" }, { "//../a", "/a" },
	{ "/...", "/..." }, { "/..a", "/..a" }, { "/a..", "/a.." }, { "/.a", "/.a" }, { "/a.", "/a." },
	{ "/.../..", "/" }, { "/a/..b/../c", "/a/c" },
	{ "/%2e", "/" }, { "/%2E%2e/a", "/a" }, { "/.%2e/a", "/a" }, { "/a/%2e%2E/b", "/b" },
	{ "/a/%2e./b", "/b" }, { "/%2e%2e%2e", "/..." },
	{ "/%41%7a%30%2D%2e%5F%7e", "/Az0-._~" }, { "/%c3%a4", "/%C3%A4" }, { "/%3f%23%20", "/%3F%23%20" },
	{ "/%25", "/%25" }, { "/%252e%252e", "/%252e%252e" }, { "/%0a%7f%ff", "/%0A%7F%FF" },
	{ "/@scope%2fname", "/@scope%2Fname" }, { "/%2f", "/%2F" }, { "/a%2F%2fb/..", "/" },
	{ "/a%2fb/../c", "/c" }, { "/a%2f...", "/a%2F..." }, { "/a%2f.b", "/a%2F.b" },
	{ "/;a", "/;a" }, { "/a;b=c;d", "/a;b=c;d" }, { "/a;..", "/a;.." }, { "/a%3b..", "/a%3B.." },
	{ "/...;", "/...;" },
	{ "/!$&'()*+,:=@", "/!$&'()*+,:=@" }, { "/\"<>[]^`{|}", "/\"<>[]^`{|}" },
	{ "/?", "/?" }, { "/a?b", "/a?b" }, { "/?a=/../b", "/?a=/../b" }, { "/a/..?b", "/?b" },
	{ "/.?..", "/?.." }, { "/a?b?c", "/a?b?c" }, { "/?%61%2f%5c%00%2E%c3", "/?a%2F%5C%00.%C3" },
	{ "/?a\\b", "/?a\\b" }, { "/?a;b+c", "/?a;b+c" }, { "/?\"<>[]^`{|}", "/?\"<>[]^`{|}" },
	{ "/?..%2f", "/?..%2F" }, { "/?..;", "/?..;" },
};

static const char *const bad[] = {
	"", "a", "*", "?a", "http://a/", "\\a", "%2f",
	"/ ", "/a b", "/\t", "/\n", "/\r", "/\x01", "/\x7f", "/\x80", "/\xff", "/#", "/a#b", "/\\", "/a\\..\\b",
	"/%", "/%1", "/a%", "/%g0", "/%0g", "/%%30", "/% 1", "/%+1", "/%u0041", "/%-1",
	"/%00", "/a%00b", "/%5c", "/%5C", "/..%5ca",
	"/..%2f", "/..%2fa", "/.%2f", "/a%2f..", "/a%2f../b", "/a%2f.", "/%2f..", "/%2e%2e%2fa", "/a%2f%2e%2e",
	"/a%2f..%2fb", "/a%2f..?b", "/a/..%2F..%2Fb", "/..;", "/..;/a", "/a/..;x=y/b", "/.;", "/%2e%2e;", "/..%3b",
	"/..%3B/a", "/a%2f..;",
	"/? ", "/?\t", "/?#", "/?a#b", "/?%", "/?%1", "/?%zz", "/?\x80", "/?\x7f", "/?\r\n",
};

static int
normalise(const char *text, char *out, size_t *len)
{
	OWN(freep) char *copy = malloc(strlen(text));

	memcpy(copy, text, strlen(text));
	return http_path_normalise((struct http_text){ copy, strlen(text) }, out, strlen(text), len,
	                           NULL);
}

TEST(http_path_good)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		const char *text = good[i].text;
		char out[256] = "", again[256] = "";
		size_t len, len_again;

		if (normalise(text, out, &len) < 0)
			test_fail(__FILE__, __LINE__, "'%s' is refused", text);
		out[len] = '\0';
		CHECK_STR(out, good[i].want);
		CHECK(http_path_is_canonical((struct http_text){ out, len }));
		CHECK(http_path_is_canonical((struct http_text){ text, strlen(text) }) ==
		      (strcmp(text, good[i].want) == 0));
		CHECK_OK(normalise(out, again, &len_again));
		CHECK(len_again == len && memcmp(again, out, len) == 0);

		/* In its own memory. */
		memcpy(again, text, strlen(text));
		CHECK_OK(http_path_normalise((struct http_text){ again, strlen(text) }, again,
		                             sizeof(again), &len_again, NULL));
		CHECK(len_again == len && memcmp(again, out, len) == 0);
	}
}

TEST(http_path_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char out[256];
		size_t len = 7;

		if (normalise(bad[i], out, &len) != -EBADMSG)
			test_fail(__FILE__, __LINE__, "'%s' is not refused", bad[i]);
		CHECK(len == 7);
		CHECK(!http_path_is_canonical((struct http_text){ bad[i], strlen(bad[i]) }));
	}
	CHECK_ERR(http_path_normalise((struct http_text){ "/\0", 2 }, (char[2]){0}, 2, &(size_t){0}, NULL),
	          EBADMSG);
}

TEST(http_path_needs_room)
{
	char out[4];
	size_t len;

	CHECK_ERR(http_path_normalise((struct http_text){ "/abcd", 5 }, out, 4, &len, NULL), EMSGSIZE);
}

static const struct {
	const char *text, *path;
	bool want;
} respelt_cases[] = {
	{ "/%7Eu", "/~u", true }, { "/%7eu?a=%2d", "/~u?a=-", true }, { "/%c3", "/%C3", true },
	{ "/a%2fb", "/a%2Fb", true },
	{ "/~u", "/~u", false }, { "/%C3", "/%C3", false },             /* nothing differs */
	{ "/a/../b", "/b", false }, { "/a/%2e%2e/b", "/b", false }, { "/./%61", "/a", false },
	{ "/%61", "/b", false }, { "/a%2Fb", "/a/b", false }, { "/%c3", "/\xc3", false },
	{ "/%3f", "/?", false }, { "/%61", "/a/", false }, { "/%61b", "/a", false },
	{ "/%6", "/%6", false }, { "/%c3%", "/%C3%", false }, { "", "", false }, { "/%61", "", false },
};

TEST(http_path_is_respelt)
{
	for (size_t i = 0; i < ARRAY_LEN(respelt_cases); i++) {
		struct http_text text = { respelt_cases[i].text, strlen(respelt_cases[i].text) };
		struct http_text path = { respelt_cases[i].path, strlen(respelt_cases[i].path) };

		if (http_path_is_respelt(text, path) != respelt_cases[i].want)
			test_fail(__FILE__, __LINE__, "%s %s", respelt_cases[i].text, respelt_cases[i].path);
	}
}
