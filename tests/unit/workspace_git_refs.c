/* workspace_git_refs.c - tests of reading git's files of refs. */
#include "workspace/git_refs.h"

#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define THREE "3333333333333333333333333333333333333333"
#define NONE "0000000000000000000000000000000000000000"
#define LONG ONE "111111111111111111111111"

static const struct {
	const char *name;
	bool want;
} name_cases[] = {
	{ "HEAD", true }, { "refs/heads/main", true }, { "refs/heads/a/b.c", true }, { "refs/stash", true },
	{ "refs/heads/\xc3\xbc", true },
	{ "", false }, { "refs", false }, { "refs/", false }, { "main", false }, { "refs/heads/", false },
	{ "refs//a", false }, { "refs/heads/.a", false }, { "refs/heads/a.", false },
	{ "refs/heads/a.lock", false }, { "refs/heads/a..b", false }, { "refs/heads/a@{b", false },
	{ "refs/heads/a b", false }, { "refs/heads/a\nb", false }, { "refs/heads/a\x1b", false },
	{ "refs/../config", false }, { "refs/heads/a~1", false }, { "refs/heads/a\\b", false },
};

TEST(git_ref_is_name_cases)
{
	char longest[GIT_REF_MAX + 1] = "refs/";

	for (size_t i = 0; i < ARRAY_LEN(name_cases); i++)
		if (git_ref_is_name(name_cases[i].name) != name_cases[i].want)
			test_fail(__FILE__, __LINE__, "'%s'", name_cases[i].name);
	memset(longest + 5, 'x', GIT_REF_MAX - 5);
	CHECK(!git_ref_is_name(longest));
	longest[GIT_REF_MAX - 1] = '\0';
	CHECK(git_ref_is_name(longest));
}

static const struct {
	const char *text, *want;
} ref_cases[] = {
	{ ONE "\n", ONE }, { LONG "\n", LONG }, { "ref: refs/heads/main\n", "refs/heads/main" },
	{ "", NULL }, { "\n", NULL }, { ONE, NULL }, { ONE "\n\n", NULL }, { ONE " \n", NULL }, { ONE "1\n", NULL },
	{ "A111111111111111111111111111111111111111\n", NULL }, { "ref: \n", NULL }, { "ref: main\n", NULL },
	{ "ref:refs/heads/main\n", NULL }, { "ref: refs/heads/a b\n", NULL }, { "ref: " ONE "\n", NULL },
};

TEST(git_ref_parse_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(ref_cases); i++) {
		char value[GIT_REF_MAX] = "untouched";
		bool read = git_ref_parse(ref_cases[i].text, strlen(ref_cases[i].text), value);

		if (read != (ref_cases[i].want != NULL) ||
		    strcmp(value, read ? ref_cases[i].want : "untouched") != 0)
			test_fail(__FILE__, __LINE__, "'%s' gives '%s'", ref_cases[i].text, value);
	}
	CHECK(!git_ref_parse(ONE "\0\n", 42, (char[GIT_REF_MAX]){0}));
}

static int
parse(const char *text, struct git_packed *packed)
{
	return git_packed_parse(strdup(text), strlen(text), packed, NULL);
}

TEST(git_packed_parse_whole)
{
	OWN(git_packed_free) struct git_packed packed = {0};

	CHECK_OK(parse("# pack-refs with: peeled fully-peeled sorted \n" TWO " refs/tags/v1\n^" THREE "\n"
	               ONE " refs/heads/main\n", &packed));
	CHECK(packed.n == 2);
	CHECK_STR(packed.refs[0].name, "refs/heads/main");
	CHECK_STR(git_packed_find(&packed, "refs/heads/main"), ONE);
	CHECK_STR(git_packed_find(&packed, "refs/tags/v1"), TWO);
	CHECK(git_packed_find(&packed, "refs/tags/v2") == NULL);
	git_packed_free(&packed);
	CHECK_OK(parse("", &packed));
	CHECK(packed.n == 0 && git_packed_find(&packed, "HEAD") == NULL);
}

static const char *const not_packed[] = {
	ONE " refs/heads/main", ONE "  refs/heads/main\n", ONE " main\n", ONE "\n", "\n", "^" ONE "\n",
	"# a\n# b\n", ONE " refs/heads/a\n^" ONE "1\n", ONE " refs/heads/a\n^\n", "x\n", ONE " refs/../a\n",
};

TEST(git_packed_parse_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(not_packed); i++) {
		struct git_packed packed = {0};

		if (parse(not_packed[i], &packed) != -EINVAL || packed.text != NULL)
			test_fail(__FILE__, __LINE__, "'%s'", not_packed[i]);
	}
}

#define BY " A <a@example.com> 1 +0000\tcommit: x\n"

static const struct {
	const char *text, *old, *new;
	size_t want;
} log_cases[] = {
	{ NONE " " ONE BY ONE " " TWO BY TWO " " THREE BY, ONE, THREE, 2 },
	{ NONE " " ONE BY ONE " " TWO BY TWO " " THREE BY, NULL, THREE, 3 },
	{ NONE " " ONE BY ONE " " TWO BY TWO " " ONE BY ONE " " THREE BY, ONE, THREE, 1 },
	{ NONE " " ONE BY, ONE, ONE, 0 },
	{ NONE " " ONE BY TWO " " THREE BY, ONE, THREE, 0 },
	{ ONE " " TWO BY, ONE, THREE, 0 },
	{ ONE " " TWO BY THREE " " ONE BY, ONE, ONE, 0 },
	{ ONE " " TWO " x", ONE, TWO, 0 },
	{ "x\n" ONE " " TWO BY, ONE, TWO, 0 },
	{ ONE " " LONG BY, ONE, LONG, 0 },
	{ "", ONE, TWO, 0 },
};

TEST(git_log_steps_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(log_cases); i++) {
		size_t n = git_log_steps(log_cases[i].text, strlen(log_cases[i].text), log_cases[i].old,
		                         log_cases[i].new);

		if (n != log_cases[i].want)
			test_fail(__FILE__, __LINE__, "case %zu gives %zu", i, n);
	}
}
