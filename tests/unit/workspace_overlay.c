/* workspace_overlay.c - changes that the kernel's overlay really makes.
 *
 * A workspace is filled at random, laid under an overlay, and worked on at random.
 * What the worker saw at the end is what the workspace must be once the changes
 * are collected and applied: whatever the work was, whoever applies, at once or path
 * by path. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "workspace/workspace_tree.h"
#include "workspace_lab.h"

/* ---- work at random ------------------------------------------------------------- */

struct dice {
	uint64_t state;
};

static unsigned
roll(struct dice *dice, unsigned sides)
{
	dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(dice->state >> 33) % sides;
}

/* A path of one to four short names: collisions are what is wanted. */
static void
any_path(struct dice *dice, char path[16])
{
	unsigned n = 1 + roll(dice, 4);

	for (unsigned i = 0; i < n; i++) {
		path[2 * i] = (char)('a' + roll(dice, 4));
		path[2 * i + 1] = i + 1 < n ? '/' : '\0';
	}
}

static void
write_any(struct dice *dice, int dir, const char *path)
{
	static char text[100000];
	size_t len = roll(dice, 3) > 0 ? roll(dice, 40) : roll(dice, sizeof(text));
	OWN(closep) int fd = openat(dir, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK |
	                            O_CLOEXEC | (roll(dice, 2) ? O_TRUNC : 0), 0644);

	if (fd < 0)
		return;
	memset(text, 'a' + (char)roll(dice, 20), len);
	(void)!pwrite(fd, text, len, roll(dice, 8) == 0 ? 1 << 20 : 0);
}

static void
do_anything(struct dice *dice, int dir)
{
	static const mode_t modes[] = { 0644, 0755, 0600, 0000, 0500, 0700, 01777, 0444, 0111 };
	char path[16], other[16];

	any_path(dice, path);
	any_path(dice, other);
	switch (roll(dice, 12)) {
	case 0: case 1: case 2:
		write_any(dice, dir, path);
		break;
	case 3: case 4:
		(void)mkdirat(dir, path, 0755);
		break;
	case 5:
		(void)unlinkat(dir, path, roll(dice, 2) ? AT_REMOVEDIR : 0);
		break;
	case 6:
		(void)!wtree_remove(dir, path, NULL, NULL);
		break;
	case 7:
		(void)!symlinkat(roll(dice, 2) ? other : "/etc/passwd", dir, path);
		break;
	case 8:
		(void)renameat(dir, path, dir, other);
		break;
	case 9:
		(void)!linkat(dir, path, dir, other, 0);
		break;
	case 10:
		if (fchmodat(dir, path, modes[roll(dice, ARRAY_LEN(modes))], AT_SYMLINK_NOFOLLOW) < 0)
			break;
		/* Where nothing else can be: it is left out, not taken for a deletion. */
		snprintf(other, sizeof(other), "%.8s/p", path);
		(void)mkfifoat(dir, other, 0600);
		break;
	case 11:                        /* what build tools and package managers do */
		if (wtree_remove(dir, path, NULL, NULL) == 0 && mkdirat(dir, path, 0755) == 0)
			for (unsigned n = roll(dice, 4); n > 0; n--) {
				snprintf(other, sizeof(other), "%.8s/%c", path, 'a' + (int)roll(dice, 4));
				write_any(dice, dir, other);
			}
		break;
	}
}

/* ---- one round ------------------------------------------------------------------ */

struct round {
	struct dice dice;
	unsigned works;
	char dir[32];                   /* with real/, changes/, merged/, scratch/, seen */
};

static int
round_open(const struct round *round, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", round->dir, name);
	return lab_open(path);
}

static bool
has_user_xattrs(int dir)
{
	return fsetxattr(dir, "user.test", "y", 1, 0) == 0;
}

static void
mount_overlay(int top, int *ret_upper)
{
	static const char options[] = "lowerdir=real,upperdir=scratch/upper,"
	                              "workdir=scratch/work,userxattr";

	CHECK(fchdir(top) == 0);
	if (mount("tmpfs", "scratch", "tmpfs", 0, "size=256m") < 0)
		test_skip("no tmpfs in a user namespace here");
	/* tmpfs has them since Linux 6.6. */
	if (!has_user_xattrs(open("scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC)))
		CHECK(umount2("scratch", MNT_DETACH) == 0);
	CHECK(mkdir("scratch/upper", 0755) == 0 && mkdir("scratch/work", 0755) == 0);
	*ret_upper = open("scratch/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(*ret_upper >= 0);
	if (mount("overlay", "merged", "overlay", 0, options) < 0)
		test_skip("no overlay in a user namespace here");
}

static char *
show_without_special(int dir)
{
	char *text = lab_show(dir), *line, *end, *out = text;

	for (line = text; *line != '\0'; line = end) {
		end = strchr(line, '\n') + 1;
		if (memmem(line, (size_t)(end - line), " special\n", 9) != NULL)
			continue;
		memmove(out, line, (size_t)(end - line));
		out += end - line;
	}
	*out = '\0';
	return text;
}

static void
work_on_overlay(void *arg)
{
	struct round *round = arg;
	int top = round_open(round, "."), upper, merged;
	OWN(freep) char *seen = NULL;
	struct err err = {0};
	uint64_t skipped;

	mount_overlay(top, &upper);
	merged = round_open(round, "merged");
	for (unsigned i = 0; i < round->works; i++)
		do_anything(&round->dice, merged);
	seen = show_without_special(merged);
	CHECK_OK(create_file_at(top, "seen", 0600, seen, &err));
	if (workspace_collect(upper, round_open(round, "changes"), &skipped, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
}

static void
compare_with_seen(void *arg)
{
	struct round *round = arg;
	OWN(freep) char *seen = NULL, *real = NULL;
	struct err err = {0};

	CHECK_OK(read_file_at(round_open(round, "."), "seen", 1 << 24, &seen, NULL, &err));
	real = show_without_special(round_open(round, "real"));
	if (strcmp(real, seen) != 0)
		test_fail(__FILE__, __LINE__, "%s: the workspace is\n%sand was seen as\n%s", round->dir,
		          real, seen);
}

static void
set_up_round(struct round *round, uint64_t seed, unsigned works)
{
	static const char *const names[] = { "real", "changes", "merged", "scratch" };
	char path[64];
	int real;

	*round = (struct round){ .dice = { seed * 7919 + 1 }, .works = works };
	snprintf(round->dir, sizeof(round->dir), "round%llu", (unsigned long long)seed);
	lab_dir(round->dir);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", round->dir, names[i]);
		lab_dir(path);
	}
	real = round_open(round, "real");
	for (int i = 0; i < 80; i++)
		do_anything(&round->dice, real);
	if (!lab_in_userns(work_on_overlay, round)) {
		lab_clean();            /* nobody else can: some of it has no permissions */
		test_skip("no user namespaces here");
	}
}

static void
check_round(struct round *round)
{
	const struct workspace ws = { .changes = round_open(round, "changes"),
	                              .real = round_open(round, "real") };

	lab_in_userns(compare_with_seen, round);
	LAB_CHECK_TREE(ws.changes, "");
}

/* ---- whatever the work was -------------------------------------------------------- */

static void
apply_rounds(void *arg)
{
	(void)arg;
	for (uint64_t seed = 0; seed < 30; seed++) {
		struct round round;
		struct workspace ws;
		struct err err = {0};

		set_up_round(&round, seed, 10 + (unsigned)seed * 7);
		ws = (struct workspace){ .changes = round_open(&round, "changes"),
		                         .real = round_open(&round, "real") };
		if (lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", round.dir, err.text);
		check_round(&round);
		CHECK(close(ws.changes) == 0 && close(ws.real) == 0);
	}
	lab_clean();
}

TEST(workspace_overlay_apply_matches_the_cells_view)
{
	apply_rounds(NULL);
}

TEST(workspace_overlay_apply_matches_the_cells_view_as_user)
{
	lab_as_user(apply_rounds, NULL);
}

/* Path by path, in any order, it comes to the same. */
static void
apply_in_parts(void *arg)
{
	(void)arg;
	for (uint64_t seed = 100; seed < 115; seed++) {
		struct round round;
		struct workspace ws;
		struct err err = {0};

		set_up_round(&round, seed, 100);
		ws = (struct workspace){ .changes = round_open(&round, "changes"),
		                         .real = round_open(&round, "real") };
		for (int i = 0; i < 20; i++) {
			char path[16];
			char *const paths[] = { path, NULL };
			int r;

			any_path(&round.dice, path);
			r = lab_apply(&ws, (struct workspace_apply){ .paths = paths }, NULL, NULL, &err);
			if (r < 0 && r != -ENOENT)
				test_fail(__FILE__, __LINE__, "%s: %s", round.dir, err.text);
		}
		CHECK_OK(lab_apply(&ws, (struct workspace_apply){0}, NULL, NULL, &err));
		check_round(&round);
	}
	lab_clean();
}

TEST(workspace_overlay_apply_in_parts)
{
	apply_in_parts(NULL);
}

TEST(workspace_overlay_apply_in_parts_as_user)
{
	lab_as_user(apply_in_parts, NULL);
}
