/* workspace_list.c - tests of what counts as a change. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/tree.h"
#include "test.h"
#include "workspace_lab.h"

static const struct {
	const char *name, *real, *changes, *want;
} list_cases[] = {
	{ "nothing", "f a 644 x\n", "", "" },
	{ "copied up but equal", "f a 644 x\n", "f a 644 x\n", "" },
	{ "added", "", "f a 644 x\nd d 755\nf d/b 600\nl l /etc/passwd\n",
	  "A a\nA d/\nA d/b\nA l\n" },
	{ "modified", "f a 644 x\nf b 644 xx\n", "f a 644 y\nf b 644 x\n", "M a\nM b\n" },
	{ "mode", "f a 644 x\nd d 755\n", "f a 755 x\nd d 700\n", "m a\nm d/\n" },
	{ "contents and mode", "f a 644 x\n", "f a 755 y\n", "M a\n" },
	{ "modes that lock", "f a 644 x\nd d 755\nf d/b 644\n", "f a 000 x\nd d 000\nf d/b 644 x\n",
	  "m a\nm d/\nM d/b\n" },
	{ "deleted", "f a 644\nd d 755\nf d/b 644\nl l x\n", "w a\nw d\nw l\n", "D a\nD d/\nD l\n" },
	{ "deletes what is not there", "", "w a\nd d 755\nw d/x\n", "A d/\n" },
	{ "links", "l same x\nl other x\n", "l same x\nl other y\n", "M other\n" },
	{ "file to folder", "f a 644 x\n", "d a 755\nf a/b 644\n", "M a/\nA a/b\n" },
	{ "folder to file", "d a 755\nf a/b 644\n", "f a 644 x\n", "M a\n" },
	{ "link to folder", "l a elsewhere\n", "d a 755\nf a/b 644\n", "M a/\nA a/b\n" },
	{ "folder to link", "d a 755\nf a/b 644\n", "l a /\n", "M a\n" },
	{ "opaque", "f d/keep 644 x\nf d/gone 644\nf d/sub/gone 644\nd d/old 755\n",
	  "d d 755\no d\nf d/keep 644 x\nf d/new 644\nd d/sub 755\n",
	  "D d/gone\nA d/new\nD d/old/\nD d/sub/gone\n" },
	{ "opaque beneath opaque", "f d/e/f/gone 644\n", "d d 755\no d\nd d/e 755\no d/e\nd d/e/f 755\n",
	  "D d/e/f/gone\n" },
	{ "whiteout beneath opaque", "f d/a 644\nf d/b 644\n", "d d 755\no d\nw d/a\nf d/b 644\n",
	  "D d/a\n" },
	{ "made again, equal", "f d/a 644 x\nl d/l t\nf d/e/b 644\n",
	  "d d 755\no d\nf d/a 644 x\nl d/l t\nf d/e/b 644\n", "" },
	{ "opaque over a file", "f d 644\n", "d d 755\no d\nf d/a 644\n", "M d/\nA d/a\n" },
	{ "order", "", "f a-b 644\nd a 755\nf a/z 644\nf a.b 644\nf B 644\n",
	  "A B\nA a/\nA a/z\nA a-b\nA a.b\n" },
	{ "ours", "f .cloister-x.tmp 644\n", "f .cloister-y.tmp 644\nw .cloister-x.tmp\n", "" },

	{ "held", "d .git/hooks 755\nf .git/config 644 x\n",
	  "d .git 755\nf .git/config 644 y\nf .git/hooks/pre-commit 755\nf .git/index 644\n",
	  "M .git/config held\nA .git/hooks/pre-commit held\nA .git/index\n" },
	{ "held deletions", "f .git/hooks/x 755\nf .envrc 644\nf a/.npmrc 644\nd .cargo 755\n",
	  "d .git/hooks 755\nw .git/hooks/x\nw .envrc\nw a/.npmrc\nw .cargo\n",
	  "D .cargo/ held\nD .envrc held\nD .git/hooks/x held\nD a/.npmrc held\n" },
	{ "a whole git directory deleted", "f .git/config 644\n", "w .git\n", "D .git/ held\n" },
	{ "a whole folder deleted", "f lib/.git/config 644\n", "w lib\n", "D lib/\n" },
	{ "held by opaque", "f a/.envrc 644\nf a/b 644\n", "d a 755\no a\n", "D a/.envrc held\nD a/b\n" },
	{ "git as file or link", "d b/.git 755\n",
	  "f a/.git 644 gitdir:\nl b/.git ../c\nl .vscode c\nf .cargo 644\n",
	  "A .cargo held\nA .vscode held\nA a/\nA a/.git held\nM b/.git held\n" },
	{ "git file to folder", "f .git 644 gitdir:\n", "d .git 755\nf .git/HEAD 644\n",
	  "M .git/ held\nA .git/HEAD held\n" },
	{ "new git directory", "", "d .git 755\nf .git/HEAD 644\nd .git/objects 755\nf .git/config 644\n",
	  "A .git/\nA .git/HEAD\nA .git/config held\nA .git/objects/\n" },
	{ "link in git directory", "d .git 755\n", "l .git/refs /x\n", "A .git/refs held\n" },
	{ "bare repository", "d r 755\n",
	  "f r/HEAD 644\nd r/objects 755\nf r/config 644\nf r/hooks/update 755\nf r/x 644\nl r/refs x\n",
	  "A r/HEAD\nA r/config held\nA r/hooks/ held\nA r/hooks/update held\nA r/objects/\n"
	  "A r/refs held\nA r/x\n" },
	{ "bare repository, in two parts", "f r/config 644\nf r/hooks/update 755\n",
	  "f r/HEAD 644\nf r/objects/o 644\nf r/x 644\n",
	  "A r/HEAD held\nA r/objects/ held\nA r/objects/o held\nA r/x\n" },
	{ "bare repository, by commondir", "d r 755\n", "f r/HEAD 644\nf r/commondir 644 ../evil\n",
	  "A r/HEAD\nA r/commondir held\n" },
	{ "bare repository, by commondir, in two parts", "f r/commondir 644 ../evil\n", "f r/HEAD 644\n",
	  "A r/HEAD held\n" },
	{ "no bare repository any more", "f r/HEAD 644\nd r/objects 755\n", "w r/HEAD\nf r/config 644\n",
	  "D r/HEAD\nA r/config\n" },
	{ "half a bare repository hides no other", "d hooks 755\nf .husky/HEAD 644\n",
	  "f .husky/a 644\nd .husky/objects 755\n", "A .husky/a held\nA .husky/objects/ held\n" },
};

TEST(workspace_list_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(list_cases); i++) {
		struct workspace ws = {0};
		OWN(freep) char *got = NULL;

		lab_case(&ws, i);
		lab_make(ws.real, list_cases[i].real);
		lab_make_kept(ws.changes, list_cases[i].changes);
		got = lab_list(&ws);
		if (strcmp(got, list_cases[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s:\n%snot\n%s", list_cases[i].name, got,
			          list_cases[i].want);
	}
	lab_clean();
}

TEST(workspace_list_git_dir)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes"),
	                        .git_dir = true };

	lab_make_kept(ws.changes, "f hooks/HEAD 644\nd hooks/objects 755\nf hooks/pre-commit 755\n"
	         "f config 644\nf HEAD 644\nf info/attributes 644\n");
	LAB_CHECK_LIST(&ws, "A HEAD\nA config held\nA hooks/ held\nA hooks/HEAD held\n"
	               "A hooks/objects/ held\nA hooks/pre-commit held\nA info/\n"
	               "A info/attributes held\n");
}

TEST(workspace_list_reports_modes_and_sizes)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct err err = {0};
	size_t n;

	lab_make(ws.real, "f a 640 old\nd d 755\n");
	lab_make_kept(ws.changes, "f a 000 newer\nl d x\n");
	CHECK_OK(workspace_list(&ws, &list, &n, &err));
	CHECK_U64(n, 2);
	CHECK(list[0].mode == S_IFREG && list[0].old_mode == (S_IFREG | 0640));
	CHECK_U64(list[0].size, 5);
	CHECK(list[1].type == S_IFLNK && S_ISLNK(list[1].mode) && S_ISDIR(list[1].old_mode));
}

/* Names are bytes: nothing is cut, split or lost. */
TEST(workspace_list_hostile_names)
{
	static const char *const names[] = { "\033[2Jx", "a\nD b", "\xff\xfe", " ", "*", "-rf", "..." };
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct err err = {0};
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int fd = openat(ws.changes, names[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		CHECK(fd >= 0);
		close(fd);
	}
	CHECK_OK(workspace_list(&ws, &list, &n, &err));
	CHECK_U64(n, ARRAY_LEN(names));
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, &n, NULL, &err));
	CHECK_U64(n, ARRAY_LEN(names));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK(faccessat(ws.real, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

static void
nest(int dir, int depth)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;

	for (int i = 0; i < depth; i++) {
		CHECK(mkdirat(fd, "d", 0755) == 0);
		sub = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(sub >= 0);
		close(fd);
		fd = sub;
	}
	close(fd);
}

TEST(workspace_list_depth)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	int deep = lab_dir("deep"), target = lab_dir("target");
	struct workspace_change *list = NULL;
	struct err err = {0};
	uint64_t skipped;
	size_t n;

	nest(ws.changes, WORKSPACE_DEPTH_MAX);
	CHECK_OK(workspace_collect(ws.changes, target, &skipped, &err));
	CHECK_OK(workspace_list(&ws, &list, &n, &err));
	CHECK_U64(n, WORKSPACE_DEPTH_MAX);
	workspace_changes_free(list);
	list = NULL;
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, &n, NULL, &err));
	CHECK_U64(n, WORKSPACE_DEPTH_MAX);
	LAB_CHECK_TREE(ws.changes, "");

	nest(deep, WORKSPACE_DEPTH_MAX + 1);
	ws.changes = deep;
	CHECK_ERR(workspace_list(&ws, &list, &n, &err), ENAMETOOLONG);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err), ENAMETOOLONG);
	CHECK_OK(tree_empty(target, &err));
	CHECK_ERR(workspace_collect(deep, target, &skipped, &err), ENAMETOOLONG);
	CHECK(list == NULL);
	lab_clean();
}

/* Far deeper than there are descriptors, and with names like those of the fold. */
TEST(workspace_remove_deep)
{
	int dir = lab_dir("deep");
	struct err err = {0};

	lab_make(dir, "f .cloister-0.tmp/a 644\nf .cloister-1.tmp 644\nd locked 000\n");
	nest(dir, 1500);
	CHECK_OK(tree_empty(dir, &err));
	LAB_CHECK_TREE(dir, "");
}

/* A hole of terabytes takes no time and no space. */
TEST(workspace_list_sparse)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	const off_t size = (off_t)1 << 40;
	struct err err = {0};
	struct stat st;
	int a, b;

	a = openat(ws.real, "f", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	b = openat(ws.changes, "f", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	CHECK(fchmod(a, 0644) == 0 && fchmod(b, 0644) == 0);
	if (ftruncate(a, size) < 0 || ftruncate(b, size) < 0)
		test_skip("no large files here");
	CHECK(pwrite(a, "x", 1, size / 2) == 1 && pwrite(b, "x", 1, size / 2) == 1);
	LAB_CHECK_LIST(&ws, "");
	CHECK(pwrite(b, "y", 1, size - 1) == 1);
	LAB_CHECK_LIST(&ws, "M f\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	CHECK(fstatat(ws.real, "f", &st, 0) == 0 && st.st_size == size && st.st_blocks < 1000);
	CHECK(pwrite(a, "", 1, 0) == 1);
	LAB_CHECK_TREE(ws.changes, "");
}
