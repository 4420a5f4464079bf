/* policy_state.c - tests of policy/policy_state. */
#include "policy/policy_state.h"

#include <errno.h>

#include "base/err.h"
#include "policy/policy_yaml.h"
#include "test.h"

static const struct {
	const char *yaml, *name, *path, *guards;        /* NAME NULL: refused */
	enum policy_state_busy busy;
	uint64_t every_ms;
	size_t n;
} read_cases[] = {
	{ "brain", "brain", "", "", 0, 0, 1 },
	{ "'brain:~/memory'", "brain", "~/memory", "", 0, 0, 1 },
	{ "'brain:~'", "brain", "~", "", 0, 0, 1 },
	{ "[a, 'b:/srv/b']", "a", "", "", 0, 0, 2 },
	{ "{brain: }", "brain", "", "", 0, 0, 1 },
	{ "{brain: {path: /m, on_busy: branch, every: 10m}}", "brain", "/m", "", POLICY_STATE_BRANCH, 600000, 1 },
	{ "{b: {protect: [CLAUDE.md, id/], ask: skills, max_size: 1M, max_files: 10, max_growth: 4K, binary: refuse}}", "b", "",
	  "protect CLAUDE.md\nprotect id\nask skills\nsize 1048576\nfiles 10\ngrowth 4096\nbinary refuse\n", 0, 0, 1 },
	{ "{b: {binary: allow, on_busy: read-only}}", "b", "", "", POLICY_STATE_READ_ONLY, 0, 1 },
	{ "{b: {secrets: refuse, injection: flag}}", "b", "", "", 0, 0, 1 },
	{ "{b: {secrets: flag, injection: ask, binary: flag}}", "b", "", "secrets flag\ninjection ask\nbinary flag\n", 0, 0, 1 },
	{ .yaml = "[]" }, { .yaml = "{}" }, { .yaml = "''" }, { .yaml = "-a" }, { .yaml = "'../a'" }, { .yaml = "'a/b'" },
	{ .yaml = "a.lock" }, { .yaml = "a..b" }, { .yaml = "'a:'" }, { .yaml = "'a:b'" }, { .yaml = "'a:/'" },
	{ .yaml = "'a:/x/../y'" }, { .yaml = "'a:~b'" }, { .yaml = "'a:/x//y'" }, { .yaml = "[a, a]" },
	{ .yaml = "[a, b, c, d, e]" }, { .yaml = "{a: x}" }, { .yaml = "{'a:/b': {}}" }, { .yaml = "{a: {other: 1}}" },
	{ .yaml = "{a: {on_busy: wait}}" }, { .yaml = "{a: {every: 1s}}" }, { .yaml = "{a: {every: []}}" },
	{ .yaml = "{a: {protect: /x}}" }, { .yaml = "{a: {protect: []}}" }, { .yaml = "{a: {protect: .git/x}}" },
	{ .yaml = "{a: {protect: x/.GIT}}" }, { .yaml = "{a: {ask: \"x\\ny\"}}" }, { .yaml = "{a: {max_size: x}}" },
	{ .yaml = "{a: {max_files: 0}}" }, { .yaml = "{a: {binary: x}}" }, { .yaml = "{a: {binary: ask}}" },
	{ .yaml = "{a: {secrets: ask}}" }, { .yaml = "{a: {injection: []}}" }, { .yaml = "{a: {path: x}}" },
};

TEST(policy_states_read)
{
	for (size_t i = 0; i < ARRAY_LEN(read_cases); i++) {
		OWN(node_freep) struct node *root = NULL;
		struct policy_states states = {0};
		struct err err = {0};
		int r;

		CHECK_OK(node_parse("x", read_cases[i].yaml, strlen(read_cases[i].yaml), &root, &err));
		r = policy_states_read(root, &states, &err);
		CHECK((r == 0) == (read_cases[i].name != NULL));
		if (r < 0) {
			CHECK(strncmp(err.text, "x:1:", 4) == 0 && states.n == 0);
			continue;
		}
		CHECK(states.n == read_cases[i].n);
		CHECK_STR(states.at[0].name, read_cases[i].name);
		CHECK_STR(states.at[0].path, read_cases[i].path);
		CHECK_STR(states.at[0].guards, read_cases[i].guards);
		CHECK(policy_state_guards_ok(states.at[0].guards));
		CHECK(states.at[0].on_busy == read_cases[i].busy && states.at[0].every_ms == read_cases[i].every_ms);
	}
}

TEST(policy_state_guards)
{
	CHECK(policy_state_guards_ok("") && policy_state_guards_ok("size 1\n"));
	CHECK(!policy_state_guards_ok("size 1") && !policy_state_guards_ok("size x\n") && !policy_state_guards_ok("protect /a\n"));
	CHECK(!policy_state_guards_ok("\n") && !policy_state_guards_ok("other\n"));
}
