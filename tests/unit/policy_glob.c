/* policy_glob.c - tests of policy/policy_match: globs. */
#include "policy/policy_parts.h"
#include "test.h"

static const struct {
	const char *glob, *text;
	bool fits;
} path_cases[] = {
	{ "/a",            "/a",            true },
	{ "/a",            "/b",            false },
	{ "/a",            "/a/",           false },
	{ "/a",            "/aa",           false },
	{ "",              "",              true },
	{ "",              "a",             false },
	{ "/*",            "/a",            true },
	{ "/*",            "/",             false },
	{ "/*",            "/a/b",          false },
	{ "/*/b",          "/a/b",          true },
	{ "/*/b",          "//b",           false },
	{ "/a*",           "/a",            true },
	{ "/a*",           "/abc",          true },
	{ "/a*",           "/abc/d",        false },
	{ "/*a",           "/a",            true },
	{ "/a*c*e",        "/abcde",        true },
	{ "/a*c*e",        "/ace",          true },
	{ "/a*c*e",        "/abcd/e",       false },
	{ "/a*b*b",        "/abab",         true },
	{ "/**",           "/",             true },
	{ "/**",           "/a/b/c",        true },
	{ "/a/**",         "/a/",           true },
	{ "/a/**",         "/a/b/c",        true },
	{ "/a/**",         "/a",            false },
	{ "/a/**",         "/ab/c",         false },
	{ "/a**",          "/a/b",          true },
	{ "/a**",          "/ab/c",         true },
	{ "/**/x",         "/x",            true },
	{ "/**/x",         "/a/x",          true },
	{ "/**/x",         "/a/b/x",        true },
	{ "/**/x",         "/ax",           false },
	{ "/**/x",         "/a/bx",         false },
	{ "/a/**/z",       "/a/z",          true },
	{ "/a/**/z",       "/a/b/c/z",      true },
	{ "/a/**/z",       "/az",           false },
	{ "/a/**/z",       "/a//z",         true },
	{ "/a/**/b/**/c",  "/a/b/c",        true },
	{ "/a/**/b/**/c",  "/a/x/b/y/c",    true },
	{ "/a/**/b/**/c",  "/a/x/y/c",      false },
	{ "/**/*.js",      "/a/b.js",       true },
	{ "/**/*.js",      "/b.js",         true },
	{ "/**/*.js",      "/b.jsx",        false },
	{ "/**/a*/b",      "/x/a1/c/a2/b",  true },
	{ "/**a*b/c",      "/xab/dab/c",    true },
	{ "**",            "",              true },
	{ "**",            "a/b",           true },
	{ "***",           "a/b",           true },
	{ "refs/heads/agent/*", "refs/heads/agent/x",   true },
	{ "refs/heads/agent/*", "refs/heads/agent/x/y", false },
	{ "refs/heads/agent/*", "refs/heads/agent/",    false },
	{ "owner/*",       "owner/repo",    true },
	{ "owner/*",       "owner//repo",   false },
	{ "*/*",           "a/b",           true },
	{ "*",             "",              true },
	{ "a?c",           "abc",           false },
	{ "[a]",           "a",             false },
	{ "\\*",           "*",             false },
}, text_cases[] = {
	{ "*",             "",              true },
	{ "*",             "a/b",           true },
	{ "a*",            "a/b",           true },
	{ "claude-*",      "claude-3/x",    true },
	{ "claude-*",      "gpt",           false },
	{ "*x",            "aXx",           true },
	{ "a/*/b",         "a//b",          true },
};

TEST(policy_glob)
{
	for (size_t i = 0; i < ARRAY_LEN(path_cases); i++)
		if (policy_glob_path(path_cases[i].glob, path_cases[i].text,
		                     strlen(path_cases[i].text)) != path_cases[i].fits)
			test_fail(__FILE__, __LINE__, "path glob '%s' on '%s'", path_cases[i].glob,
			          path_cases[i].text);
	for (size_t i = 0; i < ARRAY_LEN(text_cases); i++)
		if (policy_glob_text(text_cases[i].glob, text_cases[i].text,
		                     strlen(text_cases[i].text)) != text_cases[i].fits)
			test_fail(__FILE__, __LINE__, "glob '%s' on '%s'", text_cases[i].glob,
			          text_cases[i].text);
}

/* What a glob means, said as plainly as can be. */
static bool
plainly(const char *start, const char *glob, const char *text)
{
	const char *behind = glob + strspn(glob, "*");
	bool first = glob > start && glob[-1] == '/', deep = behind - glob > 1;

	if (*glob == '\0')
		return *text == '\0';
	if (*glob != '*')
		return *glob == *text && plainly(start, glob + 1, text + 1);
	if (deep && first && *behind == '/' && plainly(start, behind + 1, text))
		return true;
	if (!deep && first && (*behind == '/' || *behind == '\0')) {
		if (*text == '\0' || *text == '/')
			return false;
		text++;
	}
	for (;; text++) {
		if (plainly(start, behind, text))
			return true;
		if (*text == '\0' || (!deep && *text == '/'))
			return false;
	}
}

/* All short globs on all short texts. */
TEST(policy_glob_matches)
{
	static const char glob_letters[] = "/*a", text_letters[] = "/a";
	char glob[8], text[8], long_text[20000];

	for (unsigned g = 0; g < 3 * 3 * 3 * 3 * 3 * 3; g++) {
		for (unsigned i = 0, rest = g; i < 6; i++, rest /= 3)
			glob[i] = glob_letters[rest % 3];
		for (size_t len = 0; len <= 6; len++) {
			const char *start = glob + 6 - len;

			glob[6] = '\0';
			for (unsigned t = 0; t < 64; t++) {
				for (unsigned i = 0; i < 6; i++)
					text[i] = text_letters[t >> i & 1];
				text[6] = '\0';
				if (policy_glob_path(start, text, 6) != plainly(start, start, text))
					test_fail(__FILE__, __LINE__, "'%s' on '%s'", start, text);
			}
		}
	}
	/* Long ones are told in another way. */
	memset(long_text, 'a', sizeof(long_text));
	for (size_t i = 50; i < sizeof(long_text); i += 50)
		long_text[i] = '/';
	CHECK(!policy_glob_path("**a*a*b", long_text, sizeof(long_text)));
	CHECK(!policy_glob_path("a*/**/b/*/**", long_text, sizeof(long_text)));
	CHECK(policy_glob_path("**/*a/*a/**/*a", long_text, sizeof(long_text)));
	CHECK(policy_glob_path("a**aa*a/**/a*a/*", long_text, sizeof(long_text)));
	long_text[sizeof(long_text) - 1] = 'b';
	CHECK(policy_glob_path("**a*a*b", long_text, sizeof(long_text)));
	CHECK(!policy_glob_path("**a*a*a", long_text, sizeof(long_text)));
}

TEST(policy_host)
{
	static const struct {
		struct policy_host host;
		const char *name;
		bool fits;
	} cases[] = {
		{ { .kind = POLICY_HOST_NAME, .name = "a.x" }, "a.x", true },
		{ { .kind = POLICY_HOST_NAME, .name = "a.x" }, "b.a.x", false },
		{ { .kind = POLICY_HOST_LABEL, .name = "x" }, "a.x", true },
		{ { .kind = POLICY_HOST_LABEL, .name = "x" }, "b.a.x", false },
		{ { .kind = POLICY_HOST_LABEL, .name = "x" }, "x", false },
		{ { .kind = POLICY_HOST_LABEL, .name = "x" }, "ax", false },
		{ { .kind = POLICY_HOST_LABEL, .name = "x" }, ".x", false },
		{ { .kind = POLICY_HOST_UNDER, .name = "x" }, "b.a.x", true },
		{ { .kind = POLICY_HOST_UNDER, .name = "x" }, "x", false },
		{ { .kind = POLICY_HOST_UNDER, .name = "x" }, "a.x.y", false },
		{ { .kind = POLICY_HOST_ANY, .name = "" }, "a.x", true },
		{ { .kind = POLICY_HOST_ANY, .name = "" }, "10.0.0.1", false },
		{ { .kind = POLICY_HOST_ANY, .name = "" }, "[::1]", false },
		{ { .kind = POLICY_HOST_ANY, .name = "" }, "host.cloister.internal", false },
		{ { .kind = POLICY_HOST_UNDER, .name = "internal" }, "host.cloister.internal", false },
		{ { .kind = POLICY_HOST_NAME, .name = "host.cloister.internal" },
		  "host.cloister.internal", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (policy_host_fits(&cases[i].host, cases[i].name) != cases[i].fits)
			test_fail(__FILE__, __LINE__, "case %zu: '%s'", i, cases[i].name);
}
