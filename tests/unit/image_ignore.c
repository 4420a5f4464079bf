/* image_ignore.c - tests of image/ignore. */
#include <errno.h>

#include "image/ignore.h"
#include "test.h"

static const struct {
	const char *pattern, *path;
	bool fits;
} match_cases[] = {
	{ "a",          "a",       true },
	{ "a",          "b",       false },
	{ "a",          "a/b",     false },
	{ "*",          "a",       true },
	{ "*",          "a/b",     false },
	{ "*/b",        "a/b",     true },
	{ "*.c",        "x.c",     true },
	{ "*.c",        "x.cc",    false },
	{ "a?c",        "abc",     true },
	{ "a?c",        "a/c",     false },
	{ "[a-c]x",     "bx",      true },
	{ "[a-c]x",     "dx",      false },
	{ "[^a-c]x",    "dx",      true },
	{ "[]x]",       "]",       true },
	{ "[a",         "a",       false },
	{ "[a/]",       "/",       false },
	{ "\\*",        "*",       true },
	{ "\\*",        "a",       false },
	{ "**",         "a/b/c",   true },
	{ "**/c",       "c",       true },
	{ "**/c",       "a/b/c",   true },
	{ "**/c",       "a/bc",    false },
	{ "a/**",       "a/b/c",   true },
	{ "a/**/c",     "a/c",     true },
	{ "a/**/c",     "a/b/c",   true },
	{ "a/**/c",     "ac",      false },
	{ "a**c",       "a/b/c",   true },
	{ "",           "",        true },
	{ "",           "a",       false },
	/* Bounded. */
	{ "*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
};

TEST(ignore_match)
{
	for (size_t i = 0; i < ARRAY_LEN(match_cases); i++)
		if (ignore_match(match_cases[i].pattern, match_cases[i].path) != match_cases[i].fits)
			test_fail(__FILE__, __LINE__, "%s %s", match_cases[i].pattern, match_cases[i].path);
}

static const struct {
	const char *text, *path;
	bool out;
} ignore_cases[] = {
	{ "",                        "a",         false },
	{ "# a\na",                  "a",         true },
	{ " a \r\n",                 "a",         true },
	{ "a/",                      "a",         true },
	{ "/a",                      "a",         true },
	{ "./a//b/",                 "a/b",       true },
	{ "x/../a",                  "a",         true },
	{ "../../a",                 "a",         true },
	{ "a",                       "a/b/c",     true },
	{ "*.md\n!README.md",        "x.md",      true },
	{ "*.md\n!README.md",        "README.md", false },
	{ "!README.md\n*.md",        "README.md", true },
	{ "*\n!src",                 "src/a",     false },
	{ "*\n!src\nsrc/*.o",        "src/a.o",   true },
	{ "**/.git",                 "a/.git/x",  true },
	{ ".git",                    "a/.git",    false },
};

TEST(ignore_is_out)
{
	for (size_t i = 0; i < ARRAY_LEN(ignore_cases); i++) {
		OWN(ignore_free) struct ignore ignore = {0};

		CHECK_OK(ignore_parse(ignore_cases[i].text, strlen(ignore_cases[i].text), &ignore, NULL));
		if (ignore_is_out(&ignore, ignore_cases[i].path) != ignore_cases[i].out)
			test_fail(__FILE__, __LINE__, "%s: %s", ignore_cases[i].text, ignore_cases[i].path);
	}
}

TEST(ignore_may_return)
{
	static const char text[] = "a\n!a/b/c\nd";
	OWN(ignore_free) struct ignore ignore = {0};

	CHECK_OK(ignore_parse(text, strlen(text), &ignore, NULL));
	CHECK(ignore_may_return(&ignore, "a") && ignore_may_return(&ignore, "a/b"));
	CHECK(!ignore_may_return(&ignore, "a/b/c") && !ignore_may_return(&ignore, "d"));
	CHECK_ERR(ignore_parse("a\0b", 3, &ignore, NULL), EINVAL);
}
