/* base_tree.c - tests of base/tree. */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "test.h"

static bool
is_empty(int dir)
{
	OWN(closedirp) DIR *stream = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t n = 0;

	while (readdir(stream) != NULL)
		n++;
	return n == 2;
}

TEST(tree_empty_removes_strangers_files)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closep) int out = -1, in = -1;

	CHECK_OK(mkdirat(dir, "out", 0700));
	CHECK_OK(mkdirat(dir, "in", 0700));
	out = openat(dir, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	in = openat(dir, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(create_file_at(out, "canary", 0600, "x", NULL));
	CHECK_OK(symlinkat("../out", in, "link"));
	CHECK_OK(mkdirat(in, "closed", 0700));
	CHECK_OK(mkdirat(in, "closed/inner", 0700));
	CHECK_OK(create_file_at(in, "closed/inner/file", 0000, "", NULL));
	CHECK_OK(mkfifoat(in, "fifo", 0600));
	CHECK_OK(fchmodat(in, "closed/inner", 0000, 0));
	CHECK_OK(fchmodat(in, "closed", 0000, 0));
	CHECK_OK(tree_empty(in, NULL));
	CHECK(is_empty(in));
	CHECK_OK(faccessat(out, "canary", F_OK, 0));
}

/* Deeper than descriptors or a path could go. */
TEST(tree_empty_any_depth)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int at = dup(dir);

	for (int i = 0; i < 3000; i++) {
		int next;

		CHECK_OK(mkdirat(at, "d", 0700));
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_OK(next);
		close(at);
		at = next;
	}
	close(at);
	CHECK_OK(tree_empty(dir, NULL));
	CHECK(is_empty(dir));
}

struct way {
	char text[512];
	int end_after;
};

static int
note_step(void *arg, const char *at, int found)
{
	struct way *way = arg;
	size_t len = strlen(way->text), top = strlen(test_dir());

	if (strncmp(at, test_dir(), top) == 0 && at[top] == '/')
		snprintf(way->text + len, sizeof(way->text) - len, "%s%s ", at + top + 1,
		         found == 1 ? "@" : found == 0 ? "" : "?");
	return --way->end_after == 0 ? -EPERM : 0;
}

static const struct {
	const char *path, *want, *end;
} follow_cases[] = {
	{ "a/file", "a a/file ", "a/file" },
	{ "./a//../a/./file", "a a a/file ", "a/file" },
	{ "one/file", "one@ two@ a a/file ", "a/file" },
	{ "a/up/missing/x", "a a/up@ missing? missing/x? ", "missing/x" },
	{ "a/file/x", "a a/file a/file/x? ", "a/file/x" },
};

TEST(tree_follow_reports_each_step)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t top = strlen(test_dir());
	char end[PATH_MAX];
	struct way way;

	CHECK_OK(mkdirat(dir, "a", 0700));
	CHECK_OK(create_file_at(dir, "a/file", 0600, "", NULL));
	CHECK_OK(symlinkat("two", dir, "one"));
	CHECK_OK(symlinkat("./a/", dir, "two"));
	CHECK_OK(symlinkat("..", dir, "a/up"));
	CHECK_OK(symlinkat("round", dir, "round"));
	CHECK_OK(chdir(test_dir()));
	for (size_t i = 0; i < ARRAY_LEN(follow_cases); i++) {
		way = (struct way){0};
		CHECK_OK(tree_follow(follow_cases[i].path, note_step, &way, end));
		CHECK(strncmp(end, test_dir(), top) == 0);
		CHECK_STR(end + top + 1, follow_cases[i].end);
		CHECK(strstr(way.text, follow_cases[i].want) != NULL);
	}
	way = (struct way){0};
	CHECK_OK(tree_follow("/../..", note_step, &way, end));
	CHECK_STR(end, "");
	CHECK(tree_follow("round", note_step, &way, end) == -ELOOP);
	way.end_after = 1;
	CHECK(tree_follow("/", note_step, &way, end) == 0);
	CHECK(tree_follow("a", note_step, &way, end) == -EPERM);
}

TEST(tree_has_entries_if_something_is_in_it)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(tree_has_entries(dir) == 0);
	CHECK_OK(create_file_at(dir, ".hidden", 0600, "", NULL));
	CHECK(tree_has_entries(dir) == 1);
	CHECK(tree_has_entries(-1) == -EBADF);
}
