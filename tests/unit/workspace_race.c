/* workspace_race.c - somebody swaps folders for links while changes are applied. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/tree.h"
#include "test.h"
#include "workspace_lab.h"

#define RACES 60

struct swapper {
	int real;
	pthread_t thread;
	atomic_bool done;
	atomic_ulong swaps;
};

/* Each of these is now a folder, now a link to what is outside.  The swapper itself
 * must not go through a link: it would carry the outside in. */
static void *
swap(void *arg)
{
	struct swapper *s = arg;
	OWN(closep) int d = openat(s->real, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct { int dir; const char *name, *link; } swapped[] = {
		{ s->real, "d", "d-link" }, { d, "sub", "sub-link" }, { s->real, "gone", "gone-link" },
	};

	while (!s->done)
		for (size_t i = 0; i < ARRAY_LEN(swapped); i++)
			if (renameat2(swapped[i].dir, swapped[i].name, s->real, swapped[i].link,
			              RENAME_EXCHANGE) == 0)
				s->swaps++;
	return NULL;
}

static const char outside[] =
	"f a 600 canary\nf sub/b 600 canary\nf sub/x 600 canary\nf x 600 canary\nd locked 700\n";
static const char workspace[] =
	"f d/a 644 x\nf d/x 644 x\nf d/sub/b 644 x\nf d/sub/x 644 x\nd d/locked 755\n"
	"f gone/a 644 x\nf gone/x 644 x\nf gone/sub/b 644 x\nf gone/sub/x 644 x\n"
	"l d-link ../outside\nl sub-link ../outside/sub\nl gone-link ../outside\n";
static const char changes[] =
	"f d/a 644 evil\nw d/x\nf d/new 644 evil\nd d/sub 777\nf d/sub/b 644 evil\nw d/sub/x\n"
	"f d/sub/new/n 644 evil\nd d/locked 777\nd gone 755\no gone\nf gone/new 644 evil\n"
	"l d-link ../outside\n";

static void
race(void *arg)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct swapper s = { .real = ws.real };
	int out = lab_dir("outside");
	OWN(freep) char *before = NULL;
	unsigned failed = 0;

	(void)arg;
	lab_make(out, outside);
	before = lab_show(out);
	for (int i = 0; i < RACES; i++) {
		CHECK_OK(tree_empty(ws.changes, NULL));
		CHECK_OK(tree_empty(ws.real, NULL));
		lab_make_kept(ws.changes, changes);
		lab_make(ws.real, workspace);
		s.done = false;
		CHECK(pthread_create(&s.thread, NULL, swap, &s) == 0);
		failed += lab_apply(&ws, (struct workspace_apply){ .force = true }, NULL, NULL,
		                    NULL) < 0;
		s.done = true;
		CHECK(pthread_join(s.thread, NULL) == 0);
		LAB_CHECK_TREE(out, before);
	}
	/* It did meet links. */
	CHECK(s.swaps > RACES && failed > 0);
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .force = true }, NULL, NULL, NULL));
	LAB_CHECK_TREE(ws.changes, "");
	lab_clean();
}

TEST(workspace_race_links)
{
	race(NULL);
}

TEST(workspace_race_links_as_user)
{
	lab_as_user(race, NULL);
}

/* ---- what is root's stays root's, in a folder of somebody else ---- */

#define OWNER 12345
#define MADE 300

struct thief {
	int real;
	pthread_t thread;
	atomic_bool done;
	atomic_uint swaps;
};

/* Puts what is root's where apply is about to go on with what it just made. */
static void *
steal(void *arg)
{
	struct thief *t = arg;
	char name[16];

	for (unsigned i = 0; !t->done && i < MADE; ) {
		snprintf(name, sizeof(name), "%s%u", i % 2 == 0 ? "file" : "dir", i);
		if (renameat2(t->real, name, t->real, ".cloister-lab.tmp", RENAME_EXCHANGE) == 0) {
			t->swaps++;
			i++;
		}
	}
	return NULL;
}

TEST(workspace_race_gives_nothing_away)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };
	struct thief t = { .real = ws.real };
	char line[64];
	int kept[MADE];
	struct stat st;

	if (geteuid() != 0)
		_exit(77);
	for (unsigned i = 0; i < MADE; i++) {
		snprintf(line, sizeof(line), i % 2 == 0 ? "f file%u 600 canary\n" : "f dir%u/x 600 canary\n",
		         i);
		lab_make(ws.real, line);
		snprintf(line, sizeof(line), i % 2 == 0 ? "file%u" : "dir%u", i);
		kept[i] = openat(ws.real, line, O_RDONLY | O_CLOEXEC);
		CHECK_OK(kept[i]);
	}
	CHECK_OK(fchown(ws.real, OWNER, OWNER));
	for (int i = 0; i < 20; i++) {
		unsigned at = t.swaps;

		/* What was put in the place of a change is to be overwritten, if it is asked for again. */
		CHECK_OK(tree_empty(ws.changes, NULL));
		for (int k = 0; k < 200; k++) {
			snprintf(line, sizeof(line), k % 2 == 0 ? "l l%d.%d x\n" : "d d%d.%d 755\n", i, k);
			lab_make_kept(ws.changes, line);
		}
		t.done = false;
		CHECK(pthread_create(&t.thread, NULL, steal, &t) == 0);
		(void)lab_apply(&ws, (struct workspace_apply){ .force = true }, NULL, NULL, NULL);
		t.done = true;
		CHECK(pthread_join(t.thread, NULL) == 0);
		if (t.swaps == at)
			continue;
		for (unsigned k = 0; k < MADE; k++) {
			CHECK_OK(fstat(kept[k], &st));
			CHECK(st.st_uid == 0 && st.st_gid == 0);
			CHECK(!S_ISDIR(st.st_mode) || faccessat(kept[k], "x", F_OK, 0) == 0);
		}
	}
	CHECK(t.swaps > 0);
	lab_clean();
}
