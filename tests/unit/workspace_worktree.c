/* workspace_worktree.c - tests of workspace/worktree. */
#include "workspace/worktree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/io.h"
#include "test.h"

static void
put(const char *path, const char *text)
{
	CHECK_OK(create_file_at(AT_FDCWD, path, 0600, text, NULL));
}

/* main/.git with a worktree `wt`, as git lays them out. */
static void
make_worktree(const char *back)
{
	CHECK_OK(chdir(test_dir()));
	CHECK_OK(mkdir("main", 0700));
	CHECK_OK(mkdir("main/.git", 0700));
	CHECK_OK(mkdir("main/.git/objects", 0700));
	CHECK_OK(mkdir("main/.git/refs", 0700));
	CHECK_OK(mkdir("main/.git/worktrees", 0700));
	CHECK_OK(mkdir("main/.git/worktrees/wt", 0700));
	put("main/.git/HEAD", "ref: refs/heads/main\n");
	CHECK_OK(mkdir("wt", 0700));
	put("main/.git/worktrees/wt/gitdir", back);
	put("wt/.git", "gitdir: ../main/.git/worktrees/wt\n");
}

static char *
find(const char *name)
{
	OWN(freep) char *here = realpath(".", NULL);
	OWN(freep) char *workspace = str_format("%s/%s", here, name);
	char *common = NULL;

	CHECK_OK(worktree_find_common(workspace, &common, NULL));
	return common;
}

TEST(worktree_is_found)
{
	OWN(freep) char *here = NULL, *want = NULL, *common = NULL, *back = NULL;

	CHECK_OK(chdir(test_dir()));
	here = realpath(".", NULL);
	back = str_format("%s/wt/.git\n", here);
	make_worktree(back);
	want = str_format("%s/main/.git", here);
	common = find("wt");
	CHECK(common != NULL);
	CHECK_STR(common, want);
}

/* An agent may write a .git file, but not into the folder that it names. */
TEST(worktree_must_point_back)
{
	make_worktree("/somewhere/else/.git\n");
	CHECK(find("wt") == NULL);
}

TEST(worktree_must_have_the_form)
{
	OWN(freep) char *here = NULL, *back = NULL, *link = NULL;

	CHECK_OK(chdir(test_dir()));
	here = realpath(".", NULL);
	back = str_format("%s/wt/.git\n", here);
	link = str_format("gitdir: %s/keys\n", here);
	make_worktree("x");
	CHECK_OK(mkdir("keys", 0700));
	put("keys/gitdir", back);
	put("wt/.git", link);
	CHECK(find("wt") == NULL);
	CHECK(find("main") == NULL);
}

TEST(worktree_link_text)
{
	static const struct { const char *text, *want; } cases[] = {
		{ "gitdir: /a/b\n", "/a/b" }, { "gitdir: ../c", "../c" }, { "gitdir: \n", NULL },
		{ "gitdir:/a\n", NULL }, { "", NULL }, { "gitdi", NULL }, { "gitdir: a\nb\n", "a" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *text = strdup(cases[i].text);
		const char *got = worktree_parse_link(text);

		CHECK((got == NULL) == (cases[i].want == NULL));
		if (got != NULL)
			CHECK_STR(got, cases[i].want);
	}
}
