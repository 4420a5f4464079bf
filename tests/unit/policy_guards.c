/* policy_guards.c - tests of policy/policy_guards. */
#include "policy/policy_guards.h"

#include "base/err.h"
#include "test.h"

static const struct {
	const char *name, *folded;
} fold_cases[] = {
	{ "", "" }, { "CLAUDE.md", "claude.md" }, { "A/B\\C", "a/b/c" }, { "a. ./b. ", "a/b" }, { "a::$DATA/b", "a/b" }, { ":a", ":a" },
	{ "a\xe2\x80\x8d" "b", "ab" }, { "\xc5\xbf\xe2\x84\xaa", "sk" }, { "pro\xef\xac\x81le", "profile" }, { "stra\xc3\x9f" "e", "strasse" },
	{ "m\xc3\xa9moire", "m\1moire" }, { "me\xcc\x81moire", "m\1moire" }, { "M\xc3\x89MOIRE", "m\1moire" }, { "\xff\xfe", "\1" },
	{ "a\xcc\x81\xcc\x81" "b", "\1b" }, { "/\xcc\x81", "/\1" },
};

TEST(policy_guards_fold)
{
	for (size_t i = 0; i < ARRAY_LEN(fold_cases); i++) {
		char folded[64];

		policy_guards_fold(fold_cases[i].name, folded);
		CHECK_STR(folded, fold_cases[i].folded);
	}
}

static const struct {
	const char *guards, *path;
	enum policy_guard want;
} path_cases[] = {
	{ "", "a", POLICY_GUARD_ALLOW },
	{ "protect a\n", "a", POLICY_GUARD_REFUSE }, { "protect a\n", "a/b/c", POLICY_GUARD_REFUSE },
	{ "protect a/b\n", "a", POLICY_GUARD_ALLOW }, { "protect a/b\n", "a/bc", POLICY_GUARD_ALLOW },
	{ "protect a/b\n", "x/a/b", POLICY_GUARD_ALLOW },
	{ "ask a\nprotect a/b\n", "a/c", POLICY_GUARD_ASK }, { "ask a\nprotect a/b\n", "a/b", POLICY_GUARD_REFUSE },
	{ "protect a/b\nask a\n", "a/b", POLICY_GUARD_REFUSE },
	{ "ask *.md\n", "a.md", POLICY_GUARD_ASK }, { "ask *.md\n", "b/a.md", POLICY_GUARD_ALLOW },
	{ "ask **/*.md\n", "b/a.md", POLICY_GUARD_ASK }, { "ask *\n", "b/a.md", POLICY_GUARD_ASK },
};

TEST(policy_guards_path)
{
	for (size_t i = 0; i < ARRAY_LEN(path_cases); i++) {
		OWN(policy_guards_free) struct policy_guards g = {0};

		CHECK_OK(policy_guards_read(path_cases[i].guards, &g, NULL));
		CHECK(policy_guards_path(&g, path_cases[i].path) == path_cases[i].want);
	}
}

static const struct {
	const char *guards, *path;
	enum policy_guard want;
} link_cases[] = {
	{ "protect a/b\n", "a", POLICY_GUARD_REFUSE }, { "protect a/b\n", "A.", POLICY_GUARD_REFUSE },
	{ "protect a/b\n", "b", POLICY_GUARD_ALLOW }, { "protect a/b\n", "x/a", POLICY_GUARD_ALLOW },
	{ "protect a/b\n", "ab", POLICY_GUARD_ALLOW }, { "protect a/b/c\n", "a/b", POLICY_GUARD_REFUSE },
	{ "protect a/b/c\n", "a/c", POLICY_GUARD_ALLOW }, { "ask a/*/c\n", "a/x", POLICY_GUARD_ASK },
	{ "ask a/**/c.md\n", "a", POLICY_GUARD_ASK }, { "ask a/**/c.md\n", "a/x/y", POLICY_GUARD_ASK },
	{ "ask a/**/c.md\n", "b/x", POLICY_GUARD_ALLOW }, { "ask **/*.md\n", "b/x", POLICY_GUARD_ALLOW },
	{ "ask **/a/b\n", "x/a", POLICY_GUARD_ASK }, { "ask **/a/b\n", "x", POLICY_GUARD_ALLOW },
	{ "ask a**b/c\n", "a/x", POLICY_GUARD_ASK }, { "ask *\n", "x", POLICY_GUARD_ASK }, { "protect a\n", "a/b", POLICY_GUARD_REFUSE },
};

TEST(policy_guards_link)
{
	for (size_t i = 0; i < ARRAY_LEN(link_cases); i++) {
		OWN(policy_guards_free) struct policy_guards g = {0};

		CHECK_OK(policy_guards_read(link_cases[i].guards, &g, NULL));
		CHECK(policy_guards_link(&g, link_cases[i].path) == link_cases[i].want);
	}
}

TEST(policy_guards_read)
{
	OWN(policy_guards_free) struct policy_guards g = {0};
	struct err err;

	CHECK_OK(policy_guards_read("size 1\nfiles 2\ngrowth 3\nbinary ask\n", &g, NULL));
	CHECK(g.bytes == 1 && g.files == 2 && g.growth == 3 && g.checks[POLICY_CHECK_BINARY] == POLICY_GUARD_ASK);
	CHECK(g.checks[POLICY_CHECK_SECRETS] == POLICY_GUARD_REFUSE && g.checks[POLICY_CHECK_INJECTION] == POLICY_GUARD_FLAG);
	CHECK(policy_guards_read("secrets\n", &g, &err) < 0 && policy_guards_read("secrets x\n", &g, &err) < 0);
	CHECK(policy_guards_read("protect ../x\n", &g, &err) < 0 && policy_guards_read("size 0\n", &g, &err) < 0);
}
