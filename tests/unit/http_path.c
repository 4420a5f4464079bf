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
	{ "/%25", "/%25" }, { "/%0a%7f%ff", "/%0A%7F%FF" },
	{ "/@scope%2fname", "/@scope%2Fname" }, { "/%2f", "/%2F" }, { "/a%2F%2fb/..", "/" },
	{ "/a%2fb/../c", "/c" }, { "/a%2f...", "/a%2F..." }, { "/a%2f.b", "/a%2F.b" },
	{ "/;a", "/;a" }, { "/a;b=c;d", "/a;b=c;d" }, { "/a;..", "/a;.." }, { "/a%3b..", "/a%3B.." },
	{ "/...;", "/...;" },
	{ "/!$&'()*+,:=@", "/!$&'()*+,:=@" }, { "/\"<>[]^`{|}", "/\"<>[]^`{|}" },
	{ "/?", "/?" }, { "/a?b", "/a?b" }, { "/?a=/../b", "/?a=/../b" }, { "/a/..?b", "/?b" },
	{ "/.?..", "/?.." }, { "/a?b?c", "/a?b?c" }, { "/?%61%2f%5c%00%2E%c3", "/?a%2F%5C%00.%C3" },
	{ "/?a\\b", "/?a\\b" }, { "/?a;b+c", "/?a;b+c" }, { "/?\"<>[]^`{|}", "/?\"<>[]^`{|}" },
	{ "/?..%2f", "/?..%2F" }, { "/?..;", "/?..;" },
	/* What servers read in one way only is passed on in its escaped form. */
	{ "/\xc3\xa4", "/%C3%A4" }, { "/\xff", "/%FF" }, { "/?\x80", "/?%80" }, { "/%", "/%25" },
	{ "/100%", "/100%25" }, { "/%1", "/%251" }, { "/%g0", "/%25g0" }, { "/%%30", "/%250" },
	{ "/%zz/%u0041", "/%25zz/%25u0041" }, { "/?q=50%&r", "/?q=50%25&r" }, { "/?%zz", "/?%25zz" },
	/* Dots that are no segment, whoever reads them. */
	{ "/a%252Fb", "/a%252Fb" }, { "/v1%252e2", "/v1%252e2" }, { "/a%20..b", "/a%20..b" },
	{ "/%20", "/%20" }, { "/%09/a", "/%09/a" }, { "/.%20a", "/.%20a" }, { "/a..%09", "/a..%09" },
	{ "/.\xc3\xa9", "/.%C3%A9" }, { "/\xd0\x90.\xd0\xa1.", "/%D0%90.%D0%A1." },
	{ "/%25d0%25b6", "/%25d0%25b6" }, { "/%252F%25d0%25b6", "/%252F%25d0%25b6" },
	{ "/50%25\xc3\xa9", "/50%25%C3%A9" }, { "/c++", "/c++" }, { "/+.a", "/+.a" },
	{ "/%c0%ed%c0%cf", "/%C0%ED%C0%CF" }, { "/caf%e9", "/caf%E9" },
};

static const char *const bad[] = {
	"", "a", "*", "?a", "http://a/", "\\a", "%2f",
	"/ ", "/a b", "/\t", "/\n", "/\r", "/\x01", "/\x7f", "/#", "/a#b", "/\\", "/a\\..\\b",
	"/%00", "/a%00b", "/%5c", "/%5C", "/..%5ca",
	"/..%2f", "/..%2fa", "/.%2f", "/a%2f..", "/a%2f../b", "/a%2f.", "/%2f..", "/%2e%2e%2fa", "/a%2f%2e%2e",
	"/a%2f..%2fb", "/a%2f..?b", "/a/..%2F..%2Fb", "/..;", "/..;/a", "/a/..;x=y/b", "/.;", "/%2e%2e;", "/..%3b",
	"/..%3B/a", "/a%2f..;",
	"/? ", "/?\t", "/?#", "/?a#b", "/?\x7f", "/?\r\n",
};

/* Segments that a server takes for "." or ".." if it decodes twice, drops controls and blanks,
 * knows overlong or wide characters, or cuts off parameters.  Each is put behind "/allowed/". */
static const char *const ambiguous[] = {
	"..%09", "..%20", "..%0d%0a", ".%09.", "%09..", "%20.", "..%7f", ".%1f.%01", "..+", "..%a0", "..%ff",
	".%c2%a0.", "..%e2%80%8b", "..%c2%85", "..%ef%bb%bf", "..%e3%80%80", ".%c2%ad.",
	"%c0%ae%c0%ae", "%c0%ae", ".%c0%ae", "%e0%80%ae%e0%80%ae", "%f0%80%80%ae.", "%f8%80%80%80%ae.",
	"%fc%80%80%80%80%ae.", "..%c0%af", "..%c1%9c", "..%e0%80%af", "%c0%2e%c0%2e", "%c0.", "%c0%6e%c0%6e",
	"%e0%40%ae%e0%40%ae", "%c1.", "a%c0%af..", "a%c1%9c..", "..%c0%80", "..%c0%bb", "%c0%ae%c0%afb",
	"%252e%252e", "%252e", ".%252e", "%25252e.", "%25%32%65.", "%%32%65%%32%65", "..%252f", "..%255c",
	"..%25252F", "a%252f..", "..%2500", ".%2509.", "%2%09e.", "%2%2565.", "..%2509", "%25c0%25ae.",
	"%c0%25ae.", "%25c0%ae.", "..%253b", "..%25", "..%", "..%3f", "..%23", "..%253fx",
	"%u002e%u002e", "%u002e.", "..%u2215", "..%u2216", "%uff0e%uff0e", "..%25u002f", "%25u00%32e.",
	"\xef\xbc\x8e\xef\xbc\x8e", "%ef%bc%8e.", "..%ef%bc%8f", "a%ef%bc%8f..", "..%ef%bc%bc",
	"%e2%80%a4%e2%80%a4", "%e2%80%a5", ".%e2%80%a4", "%ef%b8%b0", "%ef%b9%92.", "%e3%80%82%e3%80%82",
	"..%e2%88%95", "..%e2%81%84", "..%ef%bc%9b", "..%cd%be", "..%ef%bc%9f", "%ef%bc%852e.",
	"%25%ef%bc%92%ef%bd%85.", "%25%ef%bc%92e%25%32%ef%bd%85", "%25%c2%b2%e1%b5%89.", "..%25%c2%b2%e1%b6%a0abc",
	"%250%e2%92%88", "%25e2%2580%25a4.", "%e2%2580%25a4%e2%2580%25a4", "..%e2%09%80%95", "%25252525252525252e.",
	"..;", "..;a=b", ".;", "..%3b", ".%20;", "..;/../..;", "a%2f..%09", "..%09%2fa", "a%2f%2e%09%2e%2fb",
};

static int
normalise(const char *text, char *out, size_t *len)
{
	OWN(freep) char *copy = malloc(strlen(text));

	memcpy(copy, text, strlen(text));
	return http_path_normalise((struct http_text){ copy, strlen(text) }, out, 256, len, NULL);
}

TEST(http_path_ambiguous)
{
	for (size_t i = 0; i < ARRAY_LEN(ambiguous); i++) {
		static const char *const forms[] = { "/allowed/%s/forbidden", "/%s", "/allowed/%s?a", "/x/%s/../y" };

		for (size_t j = 0; j < ARRAY_LEN(forms); j++) {
			char text[256], out[256];
			struct err err = {0};
			size_t len;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof(text), forms[j], ambiguous[i]);
#pragma GCC diagnostic pop
			if (http_path_normalise((struct http_text){ text, strlen(text) }, out, sizeof(out), &len,
			                        &err) != -EBADMSG)
				test_fail(__FILE__, __LINE__, "'%s' is not refused", text);
			CHECK(strstr(err.text, "some servers read a part of it as '.' or '..'") != NULL);
			CHECK(!http_path_is_canonical((struct http_text){ text, strlen(text) }));
		}
	}
}

/* The deepest nest of escapes costs a bounded time and is refused. */
TEST(http_path_nests)
{
	OWN(freep) char *text = malloc(40000), *out = malloc(40000);
	size_t len;

	text[0] = '/';
	for (size_t i = 1; i + 3 <= 40000; i += 3)
		memcpy(text + i, "%25", 3);
	CHECK_ERR(http_path_normalise((struct http_text){ text, 39997 }, out, 40000, &len, NULL), EBADMSG);
	memset(text + 1, '2', 39999);
	memcpy(text + 1, "%25", 3);
	CHECK_OK(http_path_normalise((struct http_text){ text, 40000 }, out, 40000, &len, NULL));
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
		if (http_path_room((struct http_text){ text, strlen(text) }) > strlen(text))
			continue;
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
	CHECK_ERR(http_path_normalise((struct http_text){ "/%", 2 }, out, 3, &len, NULL), EMSGSIZE);
	CHECK_OK(http_path_normalise((struct http_text){ "/%", 2 }, out, 4, &len, NULL));
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
