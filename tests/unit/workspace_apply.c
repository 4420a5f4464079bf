/* workspace_apply.c - tests of writing changes to the workspace. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/tree.h"
#include "test.h"
#include "workspace_lab.h"

static const struct {
	const char *name, *real, *changes;
	const char *paths;
	const char *want, *left;                /* the workspace, and the changes, after */
} apply_cases[] = {
	{ "added", "", "f a 640 x\nd d 700\nf d/b 755\nl l /etc/passwd\n", NULL,
	  "a 640 x\nd 700/\nd/b 755\nl -> /etc/passwd\n", "" },
	{ "modified", "f a 644 x\nf b 644 x\n", "f a 600 y\n", NULL, "a 600 y\nb 644 x\n", "" },
	{ "deleted", "f a 644\nd d 755\nf d/b 644\nf c 644\n", "w a\nw d\n", NULL, "c 644\n", "" },
	{ "types", "f a 644\nd b 755\nf b/x 644\nl c /etc\nd e 755\n",
	  "d a 755\nf a/y 644\nf b 644 now\nd c 755\nf c/z 644\nl e /etc\n", NULL,
	  "a 755/\na/y 644\nb 644 now\nc 755/\nc/z 644\ne -> /etc\n", "" },
	{ "opaque", "f d/keep 644 x\nf d/gone 644\nf d/sub/gone 644\nf d/sub/on 644\n",
	  "d d 755\no d\nf d/keep 644 x\nd d/sub 755\nf d/sub/new 644\n", NULL,
	  "d 755/\nd/keep 644 x\nd/sub 755/\nd/sub/new 644\n", "" },
	{ "modes that lock", "d e 755\n", "d d 000\nf d/a 000 x\nd d/s 111\nf d/s/b 644\nd e 055\n",
	  NULL, "d 000/\nd/a 000 x\nd/s 111/\nd/s/b 644\ne 055/\n", "" },
	{ "locked before", "d d 755\nd d/in 755\nf d/in/a 644 x\nd d/in 000\nd d 500\n",
	  "d d 500\nd d/in 000\nf d/in/a 644 y\n", NULL, "d 500/\nd/in 000/\nd/in/a 644 y\n", "" },
	{ "locked before, and named", "d d 755\nf d/a 644 x\nf d/b 644 x\nd d 000\n",
	  "d d 700\nf d/a 644 y\nf d/b 644 y\n", "d/a", "d 000/\nd/a 644 y\nd/b 644 x\n",
	  "d 700/\nd/b 644 y\n" },
	{ "locked, then removed", "d d 755\nf d/e/a 644 x\nd d/e 500\nd d 000\nf f 644\n", "w d\n",
	  NULL, "f 644\n", "" },

	{ "one path", "f a 644 x\nf b 644 x\n", "f a 644 y\nf b 644 y\n", "./a",
	  "a 644 y\nb 644 x\n", "b 644 y\n" },
	{ "a folder", "d d 755\n", "d d 700\nf d/a 644\nf d/e/b 644\nf c 644\n", "d//e/ c",
	  "c 644\nd 755/\nd/e 755/\nd/e/b 644\n", "d 700/\nd/a 644\n" },
	{ "in a new folder", "", "d d 750\nf d/e/a 644\nf d/b 644\n", "d/e/a",
	  "d 750/\nd/e 755/\nd/e/a 644\n", "d 750/\nd/b 644\n" },
	{ "everything", "f .envrc 644\n", "f a 644\nf .envrc 644 x\n", ".",
	  ".envrc 644\na 644\n", ".envrc 644 x\n" },
	{ "in a removed folder", "f d/a 644\nf d/b 644\n", "w d\n", "d/a",
	  "d 755/\nd/b 644\n", "d whiteout\n" },
	{ "some of an opaque folder", "f d/a 644\nf d/b 644\nf d/c 644 x\nf d/e/f 644\nf d/g 644\n",
	  "d d 755\no d\nf d/c 644 y\nd d/e 755\nf d/g 644\n", "d/c d/a d/g",
	  "d 755/\nd/b 644\nd/c 644 y\nd/e 755/\nd/e/f 644\nd/g 644\n",
	  "d 755/\nd/b whiteout\nd/e 755/ opaque\n" },
	{ "on the way, a link", "l d /nowhere\n", "d d 755\nf d/a 644\nf d/b 644\n", "d/a",
	  "d 755/\nd/a 644\n", "d 755/\nd/b 644\n" },

	{ "held", "f .git/config 644 x\n", "f a 644\nf .git/config 644 y\nf .git/hooks/x 755\n", NULL,
	  ".git 755/\n.git/config 644 x\na 644\n",
	  ".git 755/\n.git/config 644 y\n.git/hooks 755/\n.git/hooks/x 755\n" },
	{ "held, above named", "f .git/config 644 x\n", "f .git/config 644 y\nf .git/HEAD 644\n",
	  ".git", ".git 755/\n.git/HEAD 644\n.git/config 644 x\n",
	  ".git 755/\n.git/config 644 y\n" },
	{ "held, named", "f .git/config 644 x\n",
	  "f .git/config 644 y\nf .git/hooks/a 755\nf .git/hooks/b 755\n",
	  ".git/config .git/hooks/a",
	  ".git 755/\n.git/config 644 y\n.git/hooks 755/\n.git/hooks/a 755\n",
	  ".git 755/\n.git/hooks 755/\n.git/hooks/b 755\n" },
	{ "held, their folder named", "", "d .git/hooks 700\nf .git/hooks/a 755\nf .git/hooks/b/c 755\n",
	  ".git/hooks",
	  ".git 755/\n.git/hooks 700/\n.git/hooks/a 755\n.git/hooks/b 755/\n.git/hooks/b/c 755\n", "" },
	{ "a deletion held", "f .git/hooks/a 755\nf .git/hooks/b 755\n",
	  "d .git/hooks 755\nw .git/hooks/a\nw .git/hooks/b\n", ".git/hooks/a",
	  ".git 755/\n.git/hooks 755/\n.git/hooks/b 755\n",
	  ".git 755/\n.git/hooks 755/\n.git/hooks/b whiteout\n" },
	{ "a git directory's deletion held", "f .git/HEAD 644\n", "w .git\n", ".",
	  ".git 755/\n.git/HEAD 644\n", ".git whiteout\n" },
	{ "a git directory's deletion named", "f .git/HEAD 644\n", "w .git\n", ".git", "", "" },
	{ "held by opaque", "f d/.envrc 644 x\nf d/a 644\n", "d d 755\no d\nf d/b 644\n", NULL,
	  "d 755/\nd/.envrc 644 x\nd/b 644\n", "d 755/\nd/.envrc whiteout\n" },
	{ "a git file held", "f .git 644 x\n", "d .git 755\nf .git/HEAD 644\n", ".git/HEAD",
	  ".git 644 x\n", ".git 755/\n.git/HEAD 644\n" },
	{ "a git file named", "f .git 644 x\n", "d .git 755\nf .git/HEAD 644\nf .git/config 644\n",
	  ".git", ".git 755/\n.git/HEAD 644\n", ".git 755/\n.git/config 644\n" },
	{ "a bare repository, in two parts", "f r/config 644\nf r/HEAD 644\n", "f r/objects/o 644\n",
	  "r/objects/o", "r 755/\nr/HEAD 644\nr/config 644\n",
	  "r 755/\nr/objects 755/\nr/objects/o 644\n" },
	{ "a bare repository's second part named", "f r/config 644\nf r/HEAD 644\n", "f r/objects/o 644\n",
	  "r/objects", "r 755/\nr/HEAD 644\nr/config 644\nr/objects 755/\nr/objects/o 644\n", "" },
	{ "a bare repository's hooks named", "",
	  "f r/HEAD 644\nd r/objects 755\nf r/hooks/a 755\nf r/config 644\n", "r/hooks r/HEAD",
	  "r 755/\nr/HEAD 644\nr/hooks 755/\nr/hooks/a 755\n",
	  "r 755/\nr/config 644\nr/objects 755/\n" },
};

static void
run_apply_cases(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(apply_cases); i++) {
		OWN(freep) char *real = NULL, *left = NULL;
		struct workspace ws = {0};
		struct err err = {0};

		lab_case(&ws, i);
		lab_make(ws.real, apply_cases[i].real);
		lab_make_kept(ws.changes, apply_cases[i].changes);
		/* A second time there is nothing to do, and nothing is said to be wrong. */
		for (int twice = 0; twice < 2; twice++)
			if (lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths(apply_cases[i].paths) },
			              NULL, NULL, &err) < 0 && (twice == 0 || err.code != ENOENT))
				test_fail(__FILE__, __LINE__, "%s: %s", apply_cases[i].name, err.text);
		real = lab_show(ws.real);
		left = lab_show(ws.changes);
		if (strcmp(real, apply_cases[i].want) != 0 && strstr(real, "?") == NULL)
			test_fail(__FILE__, __LINE__, "%s:\n%snot\n%s", apply_cases[i].name, real,
			          apply_cases[i].want);
		if (strcmp(left, apply_cases[i].left) != 0)
			test_fail(__FILE__, __LINE__, "%s leaves\n%snot\n%s", apply_cases[i].name, left,
			          apply_cases[i].left);
	}
	lab_clean();
}

TEST(workspace_apply_cases)
{
	run_apply_cases(NULL);
}

TEST(workspace_apply_cases_as_user)
{
	lab_as_user(run_apply_cases, NULL);
}

struct told {
	char text[512];
};

static void
note(void *arg, const struct workspace_change *change, bool applied)
{
	struct told *told = arg;
	size_t used = strlen(told->text);

	snprintf(told->text + used, sizeof(told->text) - used, "%s%s\n", applied ? "" : "held ",
	         change->path);
}

TEST(workspace_apply_reports_and_counts)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct told dry = {0}, wet = {0};
	struct err err = {0};
	size_t applied, held;

	lab_make(ws.real, "f b 644\n");
	lab_make_kept(ws.changes, "f a 644\nw b\nf .envrc 644\nd d 755\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .dry_run = true, .told = note,
	                   .arg = &dry }, &applied, &held, &err));
	CHECK(applied == 3 && held == 1);
	LAB_CHECK_TREE(ws.real, "b 644\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .told = note, .arg = &wet },
	                   &applied, &held, &err));
	CHECK(applied == 3 && held == 1);
	CHECK_STR(wet.text, "held .envrc\na\nb\nd\n");
	CHECK_STR(dry.text, wet.text);
}

TEST(workspace_apply_refuses_paths)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct err err = {0};

	lab_make_kept(ws.changes, "f a 644\nf d/b 644\n");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("a ../x") }, NULL,
	                    NULL, &err), EINVAL);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("/a") }, NULL, NULL,
	                    &err), EINVAL);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("a d/\033") }, NULL,
	                    NULL, &err), ENOENT);
	CHECK_STR(err.text, "the workspace has no changes at 'd/\\x1b'");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("a/x") }, NULL, NULL,
	                    &err), ENOENT);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .cell = "a/b" }, NULL, NULL, &err),
	          EINVAL);
	LAB_CHECK_TREE(ws.real, "");
}

/* ---- conflicts ------------------------------------------------------------------ */

static const struct {
	const char *name, *before, *changes, *after, *left;  /* NULL: nothing is left alone */
} conflict_cases[] = {
	{ "changed there", "f a 644 x\n", "f a 644 y\n", "x a\nf a 644 z\n", "held a\n" },
	{ "changed alike", "f a 644 x\n", "f a 644 y\n", "x a\nf a 644 y\n", NULL },
	{ "mode only", "f a 644 x\n", "f a 755 x\n", "x a\nf a 600 x\n", NULL },
	{ "untouched", "f a 644 x\nf b 644\n", "f a 644 y\n", "x b\nf b 644 z\n", NULL },
	{ "appeared", "", "f a 644 y\n", "f a 644 z\n", "held a\n" },
	{ "removed there", "f a 644 x\n", "f a 644 y\n", "x a\n", NULL },
	{ "to be removed", "f a 644 x\n", "w a\n", "x a\nf a 644 z\n", "held a\n" },
	{ "in a folder to be removed", "f d/e/a 644 x\n", "w d\n", "f d/e/b 644 z\n", "held d\n" },
	{ "in a folder to be replaced", "f d/a 644 x\n", "f d 644\n", "f d/b 644 z\n", "held d\n" },
	{ "in an opaque folder", "d d 755\n", "d d 755\no d\n", "f d/b 644 z\n", "held d/b\n" },
	{ "in a folder", "f d/a 644 x\n", "d d 755\nf d/c 644\n", "f d/b 644 z\n", NULL },
	{ "a file where a folder comes", "", "f d/a 644\n", "f d 644 z\n", "held d\n" },
	{ "a link where a folder comes", "d d 755\n", "f d/a 644\n", "x d\nl d /\n", "held d\n" },
	{ "a link", "l a x\n", "l a y\n", "x a\nl a z\n", "held a\n" },
	{ "held anyway", "f .envrc 644 x\n", "f .envrc 644 y\n", "x .envrc\nf .envrc 644 z\n", NULL },
};

TEST(workspace_apply_leaves_conflicts)
{
	for (size_t i = 0; i < ARRAY_LEN(conflict_cases); i++) {
		OWN(freep) char *before = NULL, *after = NULL;
		struct told told = {0};
		struct workspace_apply how = { .told = note, .arg = &told };
		struct workspace ws = {0};
		struct err err = {0};

		lab_case(&ws, i);
		lab_make(ws.real, conflict_cases[i].before);
		lab_tick();
		ws.since_ns = lab_now_ns();
		lab_tick();
		lab_make(ws.real, conflict_cases[i].after);
		lab_make_kept(ws.changes, conflict_cases[i].changes);
		before = lab_show(ws.real);
		/* One more, which is applied in any case. */
		lab_make_kept(ws.changes, "f 0 644\n");
		if (lab_apply(&ws, how, NULL, NULL, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", conflict_cases[i].name, err.text);
		if (conflict_cases[i].left == NULL)
			continue;
		if (strstr(told.text, conflict_cases[i].left) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", conflict_cases[i].name, told.text);
		CHECK(unlinkat(ws.real, "0", 0) == 0);
		after = lab_show(ws.real);
		CHECK_STR(after, before);
		how.force = true;
		CHECK_OK(lab_apply(&ws, how, NULL, NULL, &err));
		LAB_CHECK_TREE(ws.changes, "");
		LAB_CHECK_LIST(&ws, "");
	}
}

/* ---- what must not happen ------------------------------------------------------- */

/* Links of every kind stand in the workspace where the changes have folders. */
TEST(workspace_apply_follows_no_link)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	int outside = lab_dir("outside");
	struct err err = {0};

	lab_make(outside, "f a 644 canary\nf sub/b 644 canary\n");
	lab_make(ws.real, "l up ../outside\nl loop loop\nl dot .\nl self/l ../../outside\n");
	CHECK(symlinkat(test_dir(), ws.real, "abs") == 0);
	lab_make_kept(ws.changes, "f up/a 644 evil\nw up/sub\nf loop/a 644\nd dot 755\no dot\n"
	              "f dot/x 644\nf self/l/a 600 evil\nw abs\nd out 755\nl out/l ../../outside\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	LAB_CHECK_TREE(outside, "a 644 canary\nsub 755/\nsub/b 644 canary\n");
	LAB_CHECK_TREE(ws.real, "dot 755/\ndot/x 644\nloop 755/\nloop/a 644\nout 755/\n"
	               "out/l -> ../../outside\nself 755/\nself/l 755/\nself/l/a 600 evil\n"
	               "up 755/\nup/a 644 evil\n");
	/* What was applied is now there to be followed. */
	lab_make_kept(ws.changes, "f out/l/a 644 evil\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	LAB_CHECK_TREE(outside, "a 644 canary\nsub 755/\nsub/b 644 canary\n");
}

/* Other names of a file, perhaps outside the workspace, keep what they have. */
TEST(workspace_apply_breaks_hard_links)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	int outside = lab_dir("outside");
	struct err err = {0};

	lab_make(outside, "f a 644 canary\nf b 644 canary\n");
	CHECK(linkat(outside, "a", ws.real, "a", 0) == 0);
	CHECK(linkat(outside, "b", ws.real, "b", 0) == 0);
	lab_make_kept(ws.changes, "f a 644 evil\nf b 777 canary\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	LAB_CHECK_TREE(outside, "a 644 canary\nb 644 canary\n");
	LAB_CHECK_TREE(ws.real, "a 644 evil\nb 777 canary\n");
}

TEST(workspace_apply_modes_and_owners)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct err err = {0};
	struct stat st;

	umask(077);
	lab_make(ws.real, "f old 644 x\nd d 755\n");
	CHECK(fchmodat(ws.real, "d", 02775, 0) == 0);
	lab_make_kept(ws.changes, "f old 666 y\nd d 777\nf d/new 777\nd d/sub 755\nl d/l x\n");
	CHECK(fchmodat(ws.changes, "d/new", 06777, 0) == 0);
	if (geteuid() == 0)
		CHECK(fchownat(ws.real, "d", 1234, 1235, 0) == 0 &&
		      fchmodat(ws.real, "d", 02775, 0) == 0 &&
		      fchownat(ws.real, "old", 1236, 1237, 0) == 0);
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	CHECK(fstatat(ws.real, "old", &st, 0) == 0 && (st.st_mode & 07777) == 0666);
	CHECK(geteuid() != 0 || (st.st_uid == 1236 && st.st_gid == 1237));
	CHECK(fstatat(ws.real, "d", &st, 0) == 0 && (st.st_mode & 07777) == 02777);
	CHECK(fstatat(ws.real, "d/new", &st, 0) == 0 && (st.st_mode & 07777) == 0777);
	CHECK(geteuid() != 0 || (st.st_uid == 1234 && st.st_gid == 1235));
	CHECK(fstatat(ws.real, "d/sub", &st, 0) == 0 && (st.st_mode & 0777) == 0755);
	CHECK(geteuid() != 0 || (st.st_uid == 1234 && st.st_gid == 1235));
	CHECK(fstatat(ws.real, "d/l", &st, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(geteuid() != 0 || (st.st_uid == 1234 && st.st_gid == 1235));
}

TEST(workspace_apply_one_at_a_time)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct workspace other = { .real = ws.real, .changes = lab_open("changes") };
	struct err err = {0};

	lab_make_kept(ws.changes, "f a 644\n");
	CHECK(flock(other.changes, LOCK_EX) == 0);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err), EBUSY);
	close(other.changes);
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
}

static volatile sig_atomic_t stop;

static void
stop_now(void *arg, const struct workspace_change *change, bool applied)
{
	(void)arg, (void)change, (void)applied;
	stop = 1;
}

TEST(workspace_apply_stops_on_request)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct err err = {0};

	lab_make_kept(ws.changes, "f a 644\nf b 644\n");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .stop = &stop, .told = stop_now }, NULL,
	                    NULL, &err), EINTR);
	LAB_CHECK_TREE(ws.real, "a 644\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
	LAB_CHECK_TREE(ws.real, "a 644\nb 644\n");
	LAB_CHECK_TREE(ws.changes, "");
}

/* Left by an apply that was killed, and the changes are discarded after all. */
TEST(workspace_apply_undo_temporary)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct err err = {0};
	struct stat st;
	char text[32];

	lab_make_kept(ws.changes, "f d/a 644\nd e 755\n");
	lab_make(ws.real, "f .cloister-lab.tmp 644\nf d/.cloister-lab.tmp/x 644\n"
	         "l e/.cloister-lab.tmp x\nf d/.cloister-other.tmp 644\n");
	/* The name is known: what is there may be anybody's folder. */
	CHECK_ERR(workspace_apply_undo_temporary(&ws, "lab", &err), EBUSY);
	CHECK(faccessat(ws.real, "d/.cloister-lab.tmp/x", F_OK, 0) == 0);
	CHECK_OK(fstatat(ws.real, "d/.cloister-lab.tmp", &st, 0));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)st.st_ino);
	CHECK_OK(fsetxattr(ws.changes, "user.cloister.applying", text, strlen(text), 0));
	CHECK_OK(workspace_apply_undo_temporary(&ws, "lab", &err));
	CHECK(faccessat(ws.real, ".cloister-lab.tmp", F_OK, 0) < 0);
	CHECK(faccessat(ws.real, "d/.cloister-lab.tmp", F_OK, 0) < 0);
	CHECK(faccessat(ws.real, "e/.cloister-lab.tmp", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
	CHECK(faccessat(ws.real, "d/.cloister-other.tmp", F_OK, 0) == 0);
	LAB_CHECK_TREE(ws.changes, "d 755/\nd/a 644\ne 755/\n");
}

/* A folder under the name that is written to first is somebody's, unless it was being removed. */
TEST(workspace_apply_leaves_a_folder_in_the_way)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };

	lab_make_kept(ws.changes, "f d/a 644 new\n");
	lab_make(ws.real, "f d/.cloister-lab.tmp/x 644\n");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, NULL), EBUSY);
	CHECK(faccessat(ws.real, "d/.cloister-lab.tmp/x", F_OK, 0) == 0);
}

TEST(workspace_open_stays_inside)
{
	int dir = lab_dir("dir");
	struct err err = {0};
	OWN(closep) int fd = -1;

	lab_make(dir, "f d/a 644 x\nl l d\nl abs /etc\nd e 755\n");
	CHECK(mkfifoat(dir, "fifo", 0600) == 0);
	fd = workspace_open(dir, "d/a", &err);
	CHECK(fd >= 0);
	CHECK_ERR(workspace_open(dir, "l/a", &err), ELOOP);
	CHECK_ERR(workspace_open(dir, "l", &err), ELOOP);
	CHECK_ERR(workspace_open(dir, "abs/passwd", &err), ELOOP);
	CHECK_ERR(workspace_open(dir, "../dir/d/a", &err), EXDEV);
	CHECK_ERR(workspace_open(dir, "/etc/passwd", &err), EXDEV);
	CHECK_ERR(workspace_open(dir, "e", &err), EINVAL);
	CHECK_ERR(workspace_open(dir, "fifo", &err), EINVAL);
}

/* ---- mounts ---------------------------------------------------------------------- */

static void
apply_over_mount(void *arg)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct err err = {0};
	int mounted;

	(void)arg;
	lab_make(ws.real, "f m/under 644\nf gone/m/under 644\nf a 644 x\n");
	lab_make_kept(ws.changes, "f m/new 644\nw gone\nf a 644 y\n");
	CHECK(fchdir(ws.real) == 0);
	if (mount("tmpfs", "m", "tmpfs", 0, "mode=755") < 0 ||
	    mount("tmpfs", "gone/m", "tmpfs", 0, NULL) < 0)
		test_skip("no tmpfs in a user namespace here");
	mounted = openat(ws.real, "gone/m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lab_make(mounted, "f canary 644\n");

	LAB_CHECK_LIST(&ws, "M a\nD gone/\nA m/new\n");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err), EXDEV);
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("m/new"),
	                    .force = true }, NULL, NULL, &err), EXDEV);
	CHECK_STR(err.text, "'m' is a mount point in the workspace: name the paths to apply, "
	          "without it");
	CHECK_ERR(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("gone"),
	                    .force = true }, NULL, NULL, &err), EXDEV);
	CHECK(tree_empty(ws.real, &err) < 0);
	LAB_CHECK_TREE(mounted, "canary 644\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .paths = lab_paths("a") }, NULL, NULL,
	                   &err));
}

TEST(workspace_apply_crosses_no_mount)
{
	if (!lab_in_userns(apply_over_mount, NULL))
		test_skip("no user namespaces here");
	lab_clean();
}
