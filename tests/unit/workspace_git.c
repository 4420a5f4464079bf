/* workspace_git.c - tests of what changes to a git directory come to. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "workspace_lab.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define REST "11111111111111111111111111111111111111"

/* What the lab's scripts cannot say: files whose lines end. */
struct file {
	const char *path, *text;
};

static void
make_files(int dir, const struct file *files)
{
	for (size_t i = 0; i < 4 && files[i].path != NULL; i++)
		CHECK_OK(create_file_at(dir, files[i].path, 0644, files[i].text, NULL));
}

#define GIT "f .git/HEAD 644\nd .git/objects 755\nd .git/refs/heads 755\n"

/* SHOWN: what no sum stands for.  SUMS: "PATH: REF OLD>NEW*STEPS ... o ADDED,CHANGED,DELETED". */
static const struct {
	const char *name, *real;
	struct file old[4];
	const char *changes;
	struct file new[4];
	const char *shown, *sums;
} git_cases[] = {
	{ "a commit", GIT, { { ".git/refs/heads/main", ONE "\n" } },
	  "f .git/index 644 x\nf .git/objects/ab/" REST " 444\nf .git/logs/refs/heads/x 644\nd .git/refs/heads 755\n"
	  "f a 644\nf .git/config 644\n",
	  { { ".git/refs/heads/main", TWO "\n" }, { ".git/logs/refs/heads/main", ONE " " TWO " A <a> 1 +0000\tx\n" } },
	  ".git/config a ", ".git/: refs/heads/main 111>222*1 o 1,0,0 p 0,0,0 + 3i\n" },
	{ "a ref that is new, one that is packed", GIT,
	  { { ".git/packed-refs", ONE " refs/heads/b\n" }, { ".git/refs/heads/c", TWO "\n" } },
	  "d .git/refs/heads 755\nw .git/refs/heads/c\n",
	  { { ".git/refs/heads/a", ONE "\n" }, { ".git/refs/heads/b", TWO "\n" },
	    { ".git/packed-refs", ONE " refs/heads/b\n" TWO " refs/heads/c\n" } },
	  "", ".git/: refs/heads/a ->111*0 refs/heads/b 111>222*0 o 0,0,0 p 0,0,0 + 0\n" },
	{ "in packed-refs only", GIT,
	  { { ".git/packed-refs", ONE " refs/heads/a\n" ONE " refs/heads/b\n" ONE " refs/heads/c\n" },
	    { ".git/refs/heads/b", ONE "\n" } },
	  "d .git 755\n", { { ".git/packed-refs", TWO " refs/heads/a\n" TWO " refs/heads/b\n" TWO " refs/heads/d\n" } },
	  "", ".git/: refs/heads/a 111>222*0 refs/heads/c 111>-*0 refs/heads/d ->222*0 o 0,0,0 p 0,0,0 + 0\n" },
	{ "a folder of refs", GIT "d .git/refs/heads/t 755\n",
	  { { ".git/refs/heads/t/a", ONE "\n" }, { ".git/refs/heads/t/b", TWO "\n" } },
	  "d .git/refs/heads 755\n", { { ".git/refs/heads/t", ONE "\n" } },
	  "", ".git/: refs/heads/t ->111*0 refs/heads/t/a 111>-*0 refs/heads/t/b 222>-*0 o 0,0,0 p 0,0,0 + 0\n" },
	{ "objects", GIT "f .git/objects/ab/" REST " 444\nf .git/objects/cd/" REST " 444\n", { { NULL, NULL } },
	  "f .git/objects/ab/" REST " 444 x\nw .git/objects/cd\nf .git/objects/pack/pack-" ONE ".pack 444\n"
	  "f .git/objects/pack/pack-" ONE ".idx 444\n", { { NULL, NULL } },
	  "", ".git/: o 0,1,1 p 1,0,0 + 1\n" },
	{ "what is none of git's", GIT, { { NULL, NULL } },
	  "f .git/x 644\nf .git/refs/heads/a 644 x\nf .git/refs/heads/b.lock 644\nf .git/objects/ab/c 644\n"
	  "f .git/objects/ab/" REST " 755\nf .git/logs/a/b 644\nf .git/hooks/x 755\nl .git/index a\n"
	  "f .git/info/exclude 644\nf .git/packed-refs 644 x\n", { { NULL, NULL } },
	  ".git/hooks .git/hooks/x .git/index .git/info .git/info/exclude .git/logs/a/b .git/objects/ab/" REST
	  " .git/objects/ab/c .git/packed-refs .git/refs/heads/a .git/refs/heads/b.lock .git/x ",
	  ".git/: o 0,0,0 p 0,0,0 + 0\n" },
	{ "a ref that was in what cannot be read", GIT "f .git/packed-refs 644 x\n", { { NULL, NULL } },
	  "d .git/refs/heads 755\n", { { ".git/refs/heads/a", ONE "\n" } },
	  ".git/refs/heads/a ", ".git/: o 0,0,0 p 0,0,0 + 0\n" },
	{ "no git directory, though it looks like one", "", { { NULL, NULL } },
	  "f s/HEAD 644\nd s/objects 755\nf s/index 644\nf HEAD 644\nd objects 755\nf index 644\nf s/.git/index 644\n"
	  "f .git/y/HEAD 644\nd .git/y/objects 755\nf .git/y/index 644\n", { { NULL, NULL } },
	  ".git .git/y .git/y/HEAD .git/y/index .git/y/objects HEAD index objects s s/.git s/.git/index s/HEAD "
	  "s/index s/objects ", "" },
	{ "of a submodule and a worktree", GIT "f .git/modules/m/HEAD 644\nd .git/modules/m/objects 755\n"
	  "f .git/worktrees/w/HEAD 644\nf .git/worktrees/w/commondir 644\n", { { NULL, NULL } },
	  "f .git/modules/m/index 644\nf .git/worktrees/w/index 644\nf sub/.git/HEAD 644\nd sub/.git/objects 755\n"
	  "f sub/.git/index 644\n", { { NULL, NULL } },
	  "sub sub/.git sub/.git/HEAD ",
	  ".git/modules/m/: o 0,0,0 p 0,0,0 + 1i\n.git/worktrees/w/: o 0,0,0 p 0,0,0 + 1i\n"
	  "sub/.git/: o 0,0,0 p 0,0,0 + 1i\n" },
};

static void
say_sum(const struct workspace_git *g, char *text, size_t size)
{
	size_t n = strlen(text);

	n += (size_t)snprintf(text + n, size - n, "%s: ", g->path);
	for (size_t i = 0; i < g->n_refs; i++)
		n += (size_t)snprintf(text + n, size - n, "%s %.3s>%.3s*%zu ", g->refs[i].name,
		                      g->refs[i].old != NULL ? g->refs[i].old : "-",
		                      g->refs[i].new != NULL ? g->refs[i].new : "-", g->refs[i].steps);
	snprintf(text + n, size - n, "o %zu,%zu,%zu p %zu,%zu,%zu + %zu%s\n", g->objects[0], g->objects[1],
	         g->objects[2], g->packs[0], g->packs[1], g->packs[2], g->others, g->index ? "i" : "");
}

static void
say_all(const struct workspace *ws, char shown[1024], char sums[1024])
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct workspace_git *git = NULL;
	size_t n, n_git = 0;

	CHECK_OK(workspace_list(ws, &list, &n, NULL));
	CHECK_OK(workspace_git_sum(ws, list, n, &git, &n_git, NULL));
	for (size_t i = 0; i < n; i++)
		if (list[i].summed == 0)
			snprintf(shown + strlen(shown), 1024 - strlen(shown), "%s ", list[i].path);
	for (size_t i = 0; i < n_git; i++)
		say_sum(&git[i], sums, 1024);
	workspace_git_free(git, n_git);
}

TEST(workspace_git_sum_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(git_cases); i++) {
		char shown[1024] = "", sums[1024] = "";
		struct workspace ws = {0};

		lab_case(&ws, i);
		lab_make(ws.real, git_cases[i].real);
		make_files(ws.real, git_cases[i].old);
		lab_make_kept(ws.changes, git_cases[i].changes);
		make_files(ws.changes, git_cases[i].new);
		say_all(&ws, shown, sums);
		if (strcmp(shown, git_cases[i].shown) != 0 || strcmp(sums, git_cases[i].sums) != 0)
			test_fail(__FILE__, __LINE__, "%s: shown %s; sums\n%s", git_cases[i].name, shown, sums);
	}
	lab_clean();
}

/* The one that worktrees share. */
TEST(workspace_git_sum_of_a_git_directory)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes"), .git_dir = true };
	char shown[1024] = "", sums[1024] = "";

	lab_make(ws.real, "f HEAD 644\nd refs 755\nd objects 755\nf worktrees/w/HEAD 644\nf worktrees/w/commondir 644\n");
	lab_make_kept(ws.changes, "d refs 755\nf worktrees/w/index 644\nf x 644\n");
	CHECK_OK(create_file_at(ws.changes, "refs/a", 0644, ONE "\n", NULL));
	CHECK_OK(create_file_at(ws.changes, "HEAD", 0644, "ref: refs/a\n", NULL));
	/* What HEAD was before cannot be read. */
	say_all(&ws, shown, sums);
	CHECK_STR(shown, "HEAD x ");
	CHECK_STR(sums, ": refs/a ->111*0 o 0,0,0 p 0,0,0 + 0\nworktrees/w/: o 0,0,0 p 0,0,0 + 1i\n");
}

static void
take(void *arg, const struct workspace_git *sum)
{
	say_sum(sum, arg, 1024);
}

/* It is told while the refs are what they were, and only of what is applied. */
TEST(workspace_git_applied)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct workspace_apply how = { .told_git = take, .force = true };
	size_t applied, held;
	char sums[1024] = "";

	lab_make(ws.real, GIT);
	CHECK_OK(create_file_at(ws.real, ".git/refs/heads/a", 0644, ONE "\n", NULL));
	lab_make_kept(ws.changes, "d .git/refs/heads 755\nf b 644\nf .git/hooks/x 755\n");
	CHECK_OK(create_file_at(ws.changes, ".git/refs/heads/a", 0644, TWO "\n", NULL));
	how.arg = sums;
	how.paths = lab_paths("b");
	CHECK_OK(lab_apply(&ws, how, &applied, &held, NULL));
	CHECK(applied == 1 && sums[0] == '\0');
	how.paths = NULL;
	CHECK_OK(lab_apply(&ws, how, &applied, &held, NULL));
	CHECK(applied == 1 && held == 2);
	CHECK_STR(sums, ".git/: refs/heads/a 111>222*0 o 0,0,0 p 0,0,0 + 0\n");
}

/* Beyond the most that are summed they are shown. */
TEST(workspace_git_many_directories)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct workspace_git *git = NULL;
	size_t n, n_git = 0, shown = 0;
	char script[128];

	for (int i = 0; i < WORKSPACE_GIT_DIRS_MAX + 3; i++) {
		snprintf(script, sizeof(script), "f d%03d/.git/HEAD 644\nd d%03d/.git/objects 755\n", i, i);
		lab_make(ws.real, script);
		snprintf(script, sizeof(script), "f d%03d/.git/index 644\n", i);
		lab_make_kept(ws.changes, script);
	}
	CHECK_OK(workspace_list(&ws, &list, &n, NULL));
	CHECK_OK(workspace_git_sum(&ws, list, n, &git, &n_git, NULL));
	for (size_t i = 0; i < n; i++)
		shown += list[i].summed == 0;
	CHECK(n == WORKSPACE_GIT_DIRS_MAX + 3 && n_git == WORKSPACE_GIT_DIRS_MAX && shown == 3);
	workspace_git_free(git, n_git);
}
