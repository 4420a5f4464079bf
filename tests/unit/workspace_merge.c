/* workspace_merge.c - tests of files that changed on both sides, and of parts of changes. */
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "test.h"
#include "workspace/compare_merge.h"
#include "workspace_lab.h"

static int
write_piece(void *arg, const char *data, size_t len)
{
	return write_all(*(int *)arg, data, len, NULL);
}

static struct compare_text
load(int fd)
{
	static char memory[3][4096];
	static unsigned next;
	char *at = memory[next++ % 3];

	return (struct compare_text){ at, (size_t)pread(fd, at, sizeof(memory[0]), 0) };
}

/* As cloister-compare answers. */
static int
merge(void *arg, const struct workspace_merge *files, struct err *err)
{
	const struct compare_merge m = { .base = load(files->base), .ours = load(files->ours),
	                                 .theirs = load(files->theirs) };
	int out = files->out >= 0 ? files->out : open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint64_t conflicts;

	(void)arg, (void)err;
	CHECK_OK(compare_merge(&m, write_piece, &out, &conflicts));
	return conflicts > 0 ? WORKSPACE_MERGE_CONFLICT : WORKSPACE_MERGED;
}

static void
put(int dir, const char *name, const char *text)
{
	OWN(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && write_all(fd, text, strlen(text), NULL) == 0);
}

static void
check_text(int dir, const char *name, const char *want)
{
	char text[256] = "";
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
	CHECK_STR(text, want);
}

static const char before[] = "1\n2\n3\n4\n5\n";

/* A workspace whose files "both", "clash" and "gone" the cell changed, with their base. */
static struct workspace
set_up(void)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes"), .base = lab_dir("base") };
	static const char *const names[] = { "both", "clash", "gone", "late" };
	uint64_t kept;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		put(ws.real, names[i], before);
		put(ws.changes, names[i], "one\n2\n3\n4\n5\n");
	}
	lab_make(ws.real, "f .git/HEAD 644 a\nd .git/objects 755\n");
	lab_make_kept(ws.changes, "f .git/HEAD 644 b\n");
	lab_tick();
	ws.since_ns = lab_now_ns();
	lab_tick();
	put(ws.real, "late", "1\n2\n3\n4\nfive\n");
	CHECK_OK(workspace_keep_base(&ws, ws.base, &kept, NULL));
	CHECK(kept == 3);
	check_text(ws.base, "both", before);
	CHECK(faccessat(ws.base, "late", F_OK, 0) < 0);
	put(ws.real, "both", "1\n2\n3\n4\nfive\n");
	put(ws.real, "clash", "ONE\n2\n3\n4\n5\n");
	CHECK(unlinkat(ws.real, "gone", 0) == 0);
	return ws;
}

struct told {
	char text[256];
};

static void
note(void *arg, const struct workspace_change *change, bool applied)
{
	struct told *told = arg;
	size_t len = strlen(told->text);

	snprintf(told->text + len, sizeof(told->text) - len, "%s %s\n", change->path,
	         !applied ? workspace_left_text(change->left) : change->part ? "part" : change->merged ? "merged" : "");
}

TEST(workspace_merges_both_sides)
{
	struct workspace ws = set_up();
	struct told told = {0};
	size_t applied, held;

	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .merge = merge, .told = note, .arg = &told }, &applied,
	                   &held, NULL));
	CHECK_STR(told.text, ".git/HEAD \nboth merged\nclash conflict: the same lines changed here\n"
	          "gone one side removed it, the other changed it\n"
	          "late it changed here while the cell ran, so it cannot be merged\n");
	CHECK(applied == 2 && held == 3);
	check_text(ws.real, "both", "one\n2\n3\n4\nfive\n");
	check_text(ws.real, "clash", "ONE\n2\n3\n4\n5\n");
	CHECK(faccessat(ws.real, "gone", F_OK, 0) < 0);
	check_text(ws.real, "late", "1\n2\n3\n4\nfive\n");
	LAB_CHECK_LIST(&ws, "M clash\nA gone\nM late\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .force = true, .merge = merge }, &applied, &held, NULL));
	check_text(ws.real, "clash", "one\n2\n3\n4\n5\n");
	LAB_CHECK_TREE(ws.changes, "");
}

static enum workspace_choice
choose(void *arg, const struct workspace_change *change)
{
	(void)arg;
	return strcmp(change->path, "part") == 0 ? WORKSPACE_TAKE_PART :
	       strcmp(change->path, "no") == 0 ? WORKSPACE_TAKE_NONE : WORKSPACE_TAKE_ALL;
}

static int
write_part(void *arg, const struct workspace_merge *files, struct err *err)
{
	(void)arg, (void)err;
	CHECK(files->base < 0);
	return files->out < 0 ? 0 : write_all(files->out, "part\n", 5, NULL);
}

TEST(workspace_applies_a_part)
{
	struct workspace ws = { .real = lab_dir("real"), .changes = lab_dir("changes") };

	lab_make(ws.real, "f part 644 x\nf no 644 x\nd d 755\n");
	lab_make_kept(ws.changes, "f part 755 y\nf no 644 y\nf yes 644\nf d/e 644\n");
	CHECK_OK(lab_apply(&ws, (struct workspace_apply){ .choose = choose, .merge = write_part }, NULL, NULL, NULL));
	check_text(ws.real, "part", "part\n");
	LAB_CHECK_TREE(ws.real, "d 755/\nd/e 644\nno 644 x\npart 644 part\n\nyes 644\n");
	LAB_CHECK_TREE(ws.changes, "no 644 y\npart 755 y\n");
}

/* ---- texts ---- */

static int
gather(void *arg, const char *data, size_t len)
{
	buf_put(arg, data, len);
	return 0;
}

static struct compare_text
text_of(const char *s)
{
	return (struct compare_text){ s, strlen(s) };
}

static const struct {
	const char *base, *ours, *theirs, *want;
	uint64_t conflicts;
} merge_cases[] = {
	{ "", "", "", "", 0 },
	{ "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", 0 },
	{ "a\nb\n", "A\nb\n", "a\nB\n", "<<<<<<< here\nA\nb\n=======\na\nB\n>>>>>>> cell\n", 1 },
	{ "a\n", "b\n", "b\n", "b\n", 0 },
	{ "a\nb", "a\nb", "x\nb", "x\nb", 0 },
	{ "a", "b", "c", "<<<<<<< here\nb\n=======\nc\n>>>>>>> cell\n", 1 },
};

TEST(compare_merges)
{
	for (size_t i = 0; i < ARRAY_LEN(merge_cases); i++) {
		const struct compare_merge m = {
			.base = text_of(merge_cases[i].base), .ours = text_of(merge_cases[i].ours),
			.theirs = text_of(merge_cases[i].theirs), .ours_label = "here", .theirs_label = "cell",
		};
		OWN(buf_free) struct buf out;
		uint64_t conflicts;

		buf_init(&out, 4096);
		CHECK_OK(compare_merge(&m, gather, &out, &conflicts));
		buf_put(&out, "", 1);
		CHECK_STR((char *)out.data, merge_cases[i].want);
		CHECK(conflicts == merge_cases[i].conflicts);
	}
}

TEST(compare_picks_hunks)
{
	static const char old[] = "a\n1\n2\n3\n4\n5\n6\n7\nb\n", new[] = "A\n1\n2\n3\n4\n5\n6\n7\nB\n";
	static const struct {
		bool wanted[2];
		const char *want;
	} picks[] = {
		{ { false, false }, old }, { { true, true }, new },
		{ { true, false }, "A\n1\n2\n3\n4\n5\n6\n7\nb\n" }, { { false, true }, "a\n1\n2\n3\n4\n5\n6\n7\nB\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(picks); i++) {
		OWN(buf_free) struct buf out;

		buf_init(&out, 4096);
		CHECK_OK(compare_pick(text_of(old), text_of(new), picks[i].wanted, 2, gather, &out));
		buf_put(&out, "", 1);
		CHECK_STR((char *)out.data, picks[i].want);
	}
}

TEST(compare_likeness_counts_lines)
{
	uint64_t common;

	CHECK_OK(compare_likeness(text_of("a\nbb\nbb\nc\n"), text_of("c\nbb\nx\n"), &common));
	CHECK(common == 5);
	CHECK_OK(compare_likeness(text_of(""), text_of("a"), &common));
	CHECK(common == 0);
}
