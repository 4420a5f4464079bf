/* workspace_named.c - tests of what git's configuration names in a workspace. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "workspace_lab.h"

#define CONFIG ".git/config"

/* Everything that is looked for, as the agent's; FILE with CONFIG is the host's. */
static const struct {
	const char *name, *real, *file, *config, *changes, *want;
} named_cases[] = {
	{ "hooks", "d s/hooks 755\nd .git 755\n", CONFIG, "[core]\nhooksPath = s/hooks\n",
	  "f s/hooks/pre-commit 755\nf s/other 644\nf s/hooksx 644\n",
	  "A s/hooks/pre-commit held\nA s/hooksx\nA s/other\n" },
	{ "not there yet, another case", "d .git 755\n", CONFIG, "[core]\nhooksPath = ./s//hooks/\n",
	  "f S/Hooks/x 755\n", "A S/\nA S/Hooks/ held\nA S/Hooks/x held\n" },
	{ "the folder above taken away", "d .git 755\nd s/hooks 755\n", CONFIG,
	  "[core]\nhooksPath = s/hooks\n", "w s\n", "D s/ held\n" },
	{ "a link above", "d .git 755\n", CONFIG, "[core]\nhooksPath = s/hooks\n", "l s elsewhere\n",
	  "A s held\n" },
	{ "by way of links", "d .git 755\nl hooks one\nl one t/two\nd t/two 755\n", CONFIG,
	  "[core]\nhooksPath = hooks\n", "l hooks x\nl one x\nf t/two/pre-commit 755\nf t/x 644\n",
	  "M hooks held\nM one held\nA t/two/pre-commit held\nA t/x\n" },
	{ "from elsewhere", "d .git 755\n", CONFIG, "[core]\nhooksPath = /nowhere/hooks\n",
	  "f hooks/x 755\nf nowhere/hooks/x 755\n",
	  "A hooks/\nA hooks/x\nA nowhere/\nA nowhere/hooks/\nA nowhere/hooks/x\n" },
	{ "words of commands", "d .git 755\n", CONFIG,
	  "[filter \"x\"]\nclean = python3 -u tools/clean.py %f\n"
	  "[diff \"y\"]\ntextconv = \"FOO=1 sh -c 'tools/conv | cat'\"\n"
	  "[alias]\nst = status\nx = !cd a && ./b.sh .\n",
	  "f tools/clean.py 644\nf tools/conv 755\nf tools/x 644\nf b.sh 755\nf status 644\n"
	  "f src 644\n",
	  "A b.sh held\nA src\nA status\nA tools/\nA tools/clean.py held\n"
	  "A tools/conv held\nA tools/x\n" },
	{ "targets of an alias", "d .git 755\nd test 755\nd lib 755\n", CONFIG,
	  "[alias]\nt = !make -s\nu = !make test && cd lib && make check\nv = \"!f() { git add docs; }; f\"\n"
	  "w = !npm run \\\"build\\\" | ./ci\n",
	  "f build/x 644\nf check/x 644\nf ci/x 644\nf docs/x 644\nf git/x 644\nf lib/x 644\nf make 755\n"
	  "f run/x 644\nf test/x 644\n",
	  "A build/ held\nA build/x held\nA check/\nA check/x\nA ci/\nA ci/x\nA docs/\nA docs/x\nA git/\n"
	  "A git/x\nA lib/x held\nA make held\nA run/\nA run/x\nA test/x\n" },
	{ "which are no folders any more", "d .git 755\nd test 755\nd ci 755\n", CONFIG,
	  "[alias]\nt = !make test && ./ci\n", "f test 755\nl ci x\n", "M ci held\nM test held\n" },
	{ "which may be folders to run from", "d .git 755\n", CONFIG,
	  "[alias]\na = !make -C a1\nb = !make b1/x\nc = !sh -c 'make c1'\nd = !V=1 make d1\ne = !make V=1 e1\n"
	  "f = !cd f1 && make f1\ng = !python3 g1\n[filter \"x\"]\nclean = make h1\n",
	  "f a1/x 644\nf b1/x/y 644\nf c1/x 644\nf d1/x 644\nf e1/x 644\nf f1/x 644\nf g1/x 644\nf h1/x 644\n",
	  "A a1/ held\nA a1/x held\nA b1/\nA b1/x/ held\nA b1/x/y held\nA c1/ held\nA c1/x held\nA d1/ held\n"
	  "A d1/x held\nA e1/ held\nA e1/x held\nA f1/ held\nA f1/x held\nA g1/ held\nA g1/x held\nA h1/ held\n"
	  "A h1/x held\n" },
	{ "other keys", "d .git 755\n", CONFIG,
	  "[user]\nname = src\n[remote \"o\"]\nurl = ../x\nurl = lib\n[branch \"m\"]\nremote = .\n",
	  "f src 644\nf lib 644\n", "A lib\nA src\n" },
	{ "what is included", "d .git 755\nf conf/extra 644 [core]hooksPath=h\n", CONFIG,
	  "[include]\npath = ../conf/extra\n", "f conf/extra 644 x\nf h/x 755\nf conf/y 644\n",
	  "M conf/extra held\nA conf/y\nA h/ held\nA h/x held\n" },
	{ "includes without end", "d .git 755\n", CONFIG, "[include]path=config\n[core]hooksPath=h\n",
	  "f h 644\n", "A h held\n" },
	{ "of a worktree", "d .git 755\n", ".git/config.worktree", "[core]\nhooksPath = h\n",
	  "f h/x 755\n", "A h/ held\nA h/x held\n" },
	{ "of a repository within", "d sub/.git 755\n", "sub/.git/config", "[core]\nhooksPath = h\n",
	  "f sub/h/x 755\nf h/x 755\n", "A h/\nA h/x\nA sub/h/ held\nA sub/h/x held\n" },
	{ "of a repository elsewhere", "f .git 644 gitdir: meta\nd meta 755\n", "meta/config",
	  "[core]\nhooksPath = h\n", "f h 755\n", "A h held\n" },
	{ "which shares another's", "f .git 644 gitdir: meta/w\nf meta/w/commondir 644 ..\n",
	  "meta/config", "[core]\nhooksPath = h\n", "f h 755\n", "A h held\n" },
	{ "after an error", "d .git 755\n", CONFIG, "]\n[core]\nhooksPath = h\n", "f h 755\n", "A h held\n" },
	{ "all of it", "d .git 755\n", CONFIG, "[core]\nhooksPath = .\n", "f pre-commit 755\n",
	  "A pre-commit held\n" },
};

TEST(workspace_named_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(named_cases); i++) {
		OWN(workspace_named_free) struct workspace_named named = {0};
		struct workspace ws = { .named = &named };
		OWN(freep) char *got = NULL;

		lab_case(&ws, i);
		lab_make(ws.real, named_cases[i].real);
		CHECK_OK(create_file_at(ws.real, named_cases[i].file, 0644, named_cases[i].config, NULL));
		lab_make_kept(ws.changes, named_cases[i].changes);
		got = lab_list(&ws);
		if (strcmp(got, named_cases[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s:\n%snot\n%s", named_cases[i].name, got,
			          named_cases[i].want);
		CHECK((named.why.code != 0) == (strcmp(named_cases[i].name, "after an error") == 0));
	}
	lab_clean();
}

TEST(workspace_named_by_a_repository_above)
{
	OWN(workspace_named_free) struct workspace_named named = {0};
	struct workspace ws = { .changes = lab_dir("changes"), .named = &named };
	int top = lab_dir("top");

	lab_make(top, "d .git 755\nd a/w/hooks 755\n");
	CHECK_OK(create_file_at(top, CONFIG, 0644, "[core]\nhooksPath = a/w/hooks\n", NULL));
	ws.real = openat(top, "a/w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lab_make_kept(ws.changes, "f hooks/x 755\nf a/w/hooks/x 755\n");
	LAB_CHECK_LIST(&ws, "A a/\nA a/w/\nA a/w/hooks/\nA a/w/hooks/x\nA hooks/x held\n");
	workspace_named_free(&named);
	CHECK_OK(create_file_at(top, CONFIG, 0644, "[core]\nhooksPath = a\neditor = a\n", NULL));
	LAB_CHECK_LIST(&ws, "A a/ held\nA a/w/ held\nA a/w/hooks/ held\nA a/w/hooks/x held\n"
	               "A hooks/x held\n");
	close(ws.real);
}

/* What is named releases what is in it, as with any other held folder. */
TEST(workspace_named_applied)
{
	OWN(workspace_named_free) struct workspace_named named = {0};
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes"),
	                        .named = &named };
	size_t applied, held;

	lab_make(ws.real, "d .git 755\nd s/h 755\n");
	CHECK_OK(create_file_at(ws.real, CONFIG, 0644, "[core]\nhooksPath = s/h\n", NULL));
	lab_make_kept(ws.changes, "f s/h/pre-commit 755\nf s/x 644\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, &applied, &held, NULL));
	CHECK(applied == 1 && held == 1 && faccessat(ws.real, "s/h/pre-commit", F_OK, 0) < 0);
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("s") }, &applied, &held,
	                   NULL));
	CHECK(applied == 0 && held == 1);
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("s/h") }, &applied, &held,
	                   NULL));
	CHECK(applied == 1 && held == 0 && faccessat(ws.real, "s/h/pre-commit", F_OK, 0) == 0);
}

TEST(workspace_named_add_takes_paths_within)
{
	OWN(workspace_named_free) struct workspace_named named = {0};
	int real = lab_dir("real");
	OWN(freep) char *in = str_format("%s/real/p/../base.yaml", test_dir());
	OWN(freep) char *out = str_format("%s/other", test_dir());
	char name[64];

	CHECK_OK(workspace_named_add(&named, real, in, NULL));
	CHECK_OK(workspace_named_add(&named, real, in, NULL));
	CHECK_OK(workspace_named_add(&named, real, out, NULL));
	CHECK_OK(workspace_named_add(&named, real, "/", NULL));
	CHECK(named.n == 1 && strcmp(named.list[0].path, "base.yaml") == 0 && named.why.code == 0);
	for (int i = 0; i < WORKSPACE_NAMED_MAX; i++) {
		OWN(freep) char *path = NULL;

		snprintf(name, sizeof(name), "%d", i);
		path = str_format("%s/real/%s", test_dir(), name);
		CHECK_OK(workspace_named_add(&named, real, path, NULL));
	}
	CHECK(named.n == WORKSPACE_NAMED_MAX && named.why.code == E2BIG);
}
